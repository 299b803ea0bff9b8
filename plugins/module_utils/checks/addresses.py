# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a port has an IPv4 address of the fabric, and the RDMA MTU that follows from its MTU. Pure judgement."""

from __future__ import annotations

import typing as t

from ..findings import FAIL, PASS, UNKNOWN, Finding
from ..policy import RDMA_HEADERS, rdma_mtu

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

# Operational states (RFC 2863) in which nothing goes over the port.
_DOWN = ("DOWN", "LOWERLAYERDOWN", "DORMANT", "NOTPRESENT")
_LINK_LOCAL = "169.254."


def diagnose(host: Host, context: Context) -> list[Finding]:
    """An address and an MTU finding for each port, from the facts."""
    names = {port.netdev for port in context.ports}
    found = []
    for port in context.facts["ports"]:
        if port["netdev"] in names:
            addresses = sorted({gid["address"] for gid in port["gids"] if "." in (gid["address"] or "")})
            policy = context.policy_of(port["netdev"])
            wanted = policy.rdma_mtu if policy else None
            found += [check_address(port["netdev"], addresses), check_rdma_mtu(port["netdev"], port["mtu"], wanted)]
    return [finding for finding in found if finding is not None]


def check_address(netdev: str, addresses: t.Sequence[str]) -> Finding:
    """A port needs an IPv4 address that is none of autoconfiguration's."""
    usable = [address for address in addresses if not address.startswith(_LINK_LOCAL)]
    if usable:
        return Finding("address", PASS, observed=usable, port=netdev)
    given = f"has only {', '.join(addresses)} (autoconfiguration)" if addresses else "has no IPv4 address"
    return Finding(
        check="address",
        verdict=FAIL,
        observed=list(addresses),
        expected="an IPv4 address of the fabric",
        evidence=f"ip address show dev {netdev}",
        cause=f"{netdev} {given}: there is no RoCE v2 GID that peers could reach",
        remedy="give the port its address in the network's own files (and no DHCP or link-local on fabric ports)",
        port=netdev,
    )


def check_rdma_mtu(netdev: str, mtu: int | None, wanted: int | None) -> Finding | None:
    """The RDMA MTU that the netdev's MTU leaves room for, against the policy's; None without both."""
    if mtu is None or wanted is None:
        return None
    fits = rdma_mtu(mtu)
    return Finding(
        check="rdma_mtu",
        verdict=PASS if fits >= wanted else FAIL,
        observed={"mtu": mtu, "rdma_mtu": fits},
        expected={"rdma_mtu": wanted},
        evidence=f"/sys/class/net/{netdev}/mtu",
        cause=""
        if fits >= wanted
        else f"MTU {mtu} leaves room for an RDMA MTU of {fits} only, and {wanted} is declared",
        remedy=""
        if fits >= wanted
        else f"MTU {wanted + RDMA_HEADERS} or more on the port (the policy's mtu), 9216 on the switch",
        port=netdev,
    )


def check_brief(text: str, netdevs: t.Sequence[str]) -> list[Finding]:
    """Findings on fabric ports from what ``ip -br address`` printed.

    A port that is down is a failure as well, and one that is not listed is unknown.
    """
    found, listed = [], set()
    for line in text.splitlines():
        name, state, *rest = [*line.split(), "", ""]
        name = name.partition("@")[0]  # a VLAN is NAME@PARENT
        if name not in netdevs:
            continue
        listed.add(name)
        if state in _DOWN:
            found.append(_down(name, state))
        else:
            found.append(check_address(name, [word.partition("/")[0] for word in rest if "." in word]))
    missing = [name for name in netdevs if name not in listed]
    return found + [Finding("address", UNKNOWN, port=name, cause=f"{name} is not listed") for name in missing]


def _down(netdev: str, state: str) -> Finding:
    return Finding(
        check="link",
        verdict=FAIL,
        observed=state,
        expected="UP",
        evidence="ip -br address",
        cause=f"{netdev} is declared and down",
        remedy="check cable and switch port, or take the port out of roce_ports",
        port=netdev,
    )
