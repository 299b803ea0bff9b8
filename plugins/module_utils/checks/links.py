# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Findings on the declared ports of a node, from the facts that roce_info gathers. Pure."""

from __future__ import annotations

import ipaddress
import typing as t

from ..errors import PolicyError, brief
from ..findings import FAIL, PASS, UNKNOWN, Finding
from ..ports import ABSENT

Facts = dict[str, t.Any]


def check_ports(
    declared: list[dict[str, t.Any]],
    facts: Facts,
    link_gbps: float | None,
    own_gbps: t.Mapping[str, float | None] | None = None,
) -> list[Finding]:
    """Findings on every declared port ({name, address?}): there, up, fast enough, with the right GID.

    link_gbps: the declared rate in Gb/s; own_gbps: that of ports that have one of their own, by netdev.
    Raises PolicyError for an address that is none.
    """
    for wanted in declared:
        _refuse_address(wanted["name"], wanted.get("address"))
    found: list[Finding] = []
    for wanted in declared:
        port = _by_name(facts, wanted["name"])
        if port is None:  # its own finding: see node.py
            continue
        found += [_link(port), _speed(port, (own_gbps or {}).get(port["netdev"], link_gbps))]
        if wanted.get("address"):
            found.append(_gid(port, wanted["address"]))
    found.append(_memlock(facts))
    return found


def rates_by_netdev(facts: Facts, rates: t.Iterable[tuple[t.Sequence[str], float | None]]) -> dict[str, float | None]:
    """Netdev -> declared Gb/s, from pairs of names (netdevs or RDMA devices) and rate; the first that fits counts."""
    found: dict[str, float | None] = {}
    for names, rate in rates:
        for port in facts["ports"]:
            if {port["netdev"], port["ibdev"]} & set(names):
                found.setdefault(port["netdev"], rate)
    return found


def _refuse_address(name: str, address: str | None) -> None:
    """GIDs are looked for by the address as it is written, so that one with a prefix length would be missed."""
    try:
        if address:
            ipaddress.IPv4Address(address)
    except ValueError as exc:
        raise PolicyError(
            f"ports: {name}: address {brief(address)} … an IPv4 address such as 10.0.0.1, without a prefix length,"
            " was expected"
        ) from exc


def missing_port(name: str, reason: str) -> Finding:
    """What was declared must be there, and of use to RoCE."""
    absent = ABSENT in reason
    return Finding(
        check="port",
        verdict=FAIL,
        observed="not there" if absent else "not of use to RoCE",
        expected=name,
        evidence="rdma -j link show",
        cause=reason,
        remedy="look for the card (lspci -d 15b3:), its driver (dmesg | grep mlx5) and the name in roce_ports"
        if absent
        else "put right what the cause names, or declare the port that it names",
        port=name,
    )


def _by_name(facts: Facts, name: str) -> Facts | None:
    return next((port for port in facts["ports"] if name in (port["netdev"], port["ibdev"])), None)


def _link(port: Facts) -> Finding:
    up = port["carrier"] and port["state"] == "ACTIVE"
    return Finding(
        check="link",
        verdict=PASS if up else FAIL,
        observed={"carrier": port["carrier"], "rdma_state": port["state"]},
        expected={"carrier": True, "rdma_state": "ACTIVE"},
        evidence=f"/sys/class/net/{port['netdev']}/carrier, rdma -j link show",
        cause="" if up else "the link is down, or the netdev is not up",
        remedy="" if up else f"check cable and switch port; ip link set {port['netdev']} up; ethtool {port['netdev']}",
        port=port["netdev"],
    )


def _speed(port: Facts, link_gbps: float | None) -> Finding:
    speed = port["speed_gbps"]
    if link_gbps is None or speed is None:
        verdict = UNKNOWN
        cause = "the policy declares no link_gbps" if link_gbps is None else "the driver states no speed"
    else:
        verdict = PASS if speed >= link_gbps else FAIL
        cause = "" if verdict == PASS else "the link trained at a lower rate than declared"
    return Finding(
        check="speed",
        verdict=verdict,
        observed=speed,
        expected=link_gbps,
        evidence=f"/sys/class/net/{port['netdev']}/speed",
        cause=cause,
        remedy="check cable, transceiver and the switch port's speed" if verdict == FAIL else "",
        port=port["netdev"],
    )


def _gid(port: Facts, address: str) -> Finding:
    index = next((gid["index"] for gid in port["gids"] if gid["address"] == address and gid["version"] == 2), None)
    return Finding(
        check="gid",
        verdict=FAIL if index is None else PASS,
        observed=index,
        expected=f"a RoCE v2 GID for {address}",
        evidence=f"/sys/class/infiniband/{port['ibdev']}/ports/{port['ibport']}/gids",
        cause=""
        if index is not None
        else f"no RoCE v2 GID stands for {address}: the address is not on {port['netdev']}",
        remedy=""
        if index is not None
        else f"ip address add {address}/… dev {port['netdev']}, in the network's own files",
        port=port["netdev"],
    )


def _memlock(facts: Facts) -> Finding:
    limit = facts["memlock"]
    right = limit == "unlimited"
    return Finding(
        check="memlock",
        verdict=PASS if right else FAIL,
        observed=limit,
        expected="unlimited",
        evidence="/proc/self/limits, Max locked memory (hard) in bytes",
        cause="" if right else "RDMA locks the memory that it registers, and the limit of this login is finite",
        remedy="" if right else "role lossless.roce.baseline sets it; then log in anew",
    )
