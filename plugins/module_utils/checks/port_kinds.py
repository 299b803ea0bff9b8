# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Findings on what kind of port was declared: virtual functions, bonds, VLANs, devices without a GUID."""

from __future__ import annotations

import typing as t

from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..port_kinds import BONDED, PHYSICAL, SUBFUNCTION, UPLINK, VIRTUAL_FUNCTION, lacks

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port
    from .base import Context


def diagnose(host: Host, context: Context) -> list[Finding]:
    """One finding on each port's kind and GUID, and on its VLANs where there are any or PCP is trusted."""
    found = []
    for port in context.ports:
        path = f"/sys/class/infiniband/{port.ibdev}/node_guid"
        found += [check_kind(port), check_guid(port.netdev, (host.read_optional(path) or "").strip(), path)]
        policy = context.policy_of(port.netdev)
        vlan = check_vlan(port, policy.trust if policy else "")
        found += [vlan] if vlan else []
    return found


def check_kind(port: Port) -> Finding:
    """Whether the policy can be set on this port."""
    return Finding(
        check="port_kind",
        verdict=SKIPPED if port.kind in (VIRTUAL_FUNCTION, SUBFUNCTION) else PASS,
        observed=port.kind,
        expected=PHYSICAL,
        evidence=f"/sys/class/net/{port.netdev}/",
        cause="" if port.kind == PHYSICAL else _kind(port),
        port=port.netdev,
    )


def _kind(port: Port) -> str:
    names = ", ".join(port.related)
    if port.kind == BONDED:
        return f"in the bond {names}: its MTU is the bond's, the rest is set on the port"
    return lacks(port, UPLINK)


def check_guid(port: str, guid: str, evidence: str) -> Finding:
    """A node GUID of zero: plain verbs work, connections made by rdma_cm do not."""
    digits = guid.replace(":", "")
    zero = bool(digits) and not digits.strip("0")
    verdict = UNKNOWN if not digits else FAIL if zero else PASS
    return Finding(
        check="node_guid",
        verdict=verdict,
        observed=guid,
        expected="a GUID that is not zero",
        evidence=evidence,
        cause="rdma_cm (-R) fails or crashes on a device whose node GUID is zero; a virtual function starts like that"
        if zero
        else ("" if digits else "the device states no node GUID"),
        remedy="on the host: ip link set PF vf N mac ADDRESS (or node_guid, port_guid), then unbind and bind the VF"
        if zero
        else "",
        port=port,
    )


def check_vlan(port: Port, trust: str) -> Finding | None:
    """What the VLANs on a port mean for its priorities."""
    if trust != "pcp" and not port.vlans:
        return None
    return Finding(
        check="vlan",
        verdict=PASS if trust == "dscp" else UNKNOWN if port.vlans else FAIL,
        observed=list(port.vlans),
        expected="VLANs, since priorities are taken from their tags" if trust == "pcp" else None,
        evidence=f"/sys/class/net/{port.netdev}/upper_*, /proc/net/vlan/",
        cause=_vlan_cause(port, trust),
        remedy="trust dscp, or put the addresses on a VLAN" if trust == "pcp" and not port.vlans else "",
        port=port.netdev,
    )


def _vlan_cause(port: Port, trust: str) -> str:
    if trust == "dscp":
        return "the port goes by DSCP: it makes no difference whether a frame has a tag"
    if port.vlans:
        return (
            "the priority in the tag comes from each application: NCCL_IB_SL, perftest --sl; for rdma_cm from the"
            " VLAN's egress map (/proc/net/vlan/NAME)"
        )
    return "trust pcp, and no VLAN is on the port: frames without a tag have no priority, all RDMA goes to priority 0"
