# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How a node with several rails finds others and is found: neighbour table, ARP, reverse path filter.

Source: linux Documentation/networking/ip-sysctl.rst. The effective value of arp_ignore, arp_announce and
rp_filter is the larger one of "all" and the interface; arp_filter is on where one of both is.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..errors import ParseError, PolicyError, RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.addresses import Interface, parse_networks
from ..parsers.json_output import read_json

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

_CONF = "/proc/sys/net/ipv4/conf"
_NEIGH = "/proc/sys/net/ipv4/neigh/default"
KEYS = ("arp_ignore", "arp_announce", "arp_filter", "rp_filter")
_THRESHOLDS = ("gc_thresh1", "gc_thresh2", "gc_thresh3")


@dataclass(frozen=True)
class Rail:
    """One address of one rail, the effective values there, and whether it has routes of its own."""

    netdev: str
    address: Interface
    values: dict[str, int] = field(default_factory=dict)
    own_routes: bool = False


def diagnose(host: Host, context: Context) -> list[Finding]:
    """neighbour_table (options: nodes, neighbour_thresholds) and arp. Raises PolicyError for a wrong option."""
    nodes = context.options.get("nodes", 1)
    if nodes < 1:
        raise PolicyError(f"nodes: {nodes} … 1 or more was expected")
    try:
        rails = read_rails(host, [port.netdev for port in context.ports])
        thresholds = [_number(host, f"{_NEIGH}/{name}") for name in _THRESHOLDS]
    except RoceError as exc:
        return [Finding(check, UNKNOWN, evidence=_CONF, cause=str(exc)) for check in ("neighbour_table", "arp")]
    entries = max(0, len((host.read_optional("/proc/net/arp") or "").splitlines()) - 1)
    needed = neighbours([rail.address for rail in rails], nodes)
    wanted = context.options.get("neighbour_thresholds") or None
    return [neighbour_table(thresholds, max(needed, entries), wanted), arp(rails)]


def read_rails(host: Host, netdevs: t.Iterable[str]) -> list[Rail]:
    """The IPv4 addresses of the rails. Raises RoceError."""
    networks = parse_networks(host.run("ip", "-j", "address", "show").out)
    found = [(netdev, address) for netdev in netdevs for address in networks.get(netdev, []) if address.version == 4]
    sources = parse_sources(host.run("ip", "-j", "rule", "show").out) if found else set()
    return [
        Rail(netdev, address, {key: _effective(host, netdev, key) for key in KEYS}, str(address.ip) in sources)
        for netdev, address in found
    ]


def _effective(host: Host, netdev: str, key: str) -> int:
    return max(_number(host, f"{_CONF}/{name}/{key}") for name in ("all", netdev))


def _number(host: Host, path: str) -> int:
    text = host.read(path).strip()
    if not re.fullmatch(r"[0-9]+", text):
        raise ParseError(f"{path}: {text[:40]!r} … a number was expected")
    return int(text)


def parse_sources(text: str) -> set[str]:
    """Single addresses that a rule sends to a table of their own, in ``ip -j rule show``. Raises ParseError."""
    rules = read_json(text or "[]", "ip rule")
    try:
        return {
            str(rule["src"])
            for rule in rules
            if rule.get("src", "all") != "all" and rule.get("srclen", 32) == 32 and "table" in rule
        }
    except (TypeError, AttributeError) as exc:
        raise ParseError(f"ip rule: output was not understood: {text.strip()[:80]!r}") from exc


def neighbours(addresses: t.Iterable[Interface], nodes: int) -> int:
    """How many neighbours a node gets when it talks to all others on every rail."""
    networks = [address.network for address in addresses]
    return sum(min(nodes - 1, max(1, network.num_addresses - 2)) for network in networks)


def neighbour_table(thresholds: list[int], needed: int, wanted: t.Sequence[int] | None) -> Finding:
    """thresholds: gc_thresh1, 2, 3. Beyond the third nothing gets in any more."""
    evidence = f"{_NEIGH}/gc_thresh1, 2, 3"
    expected = list(wanted) if wanted else f"gc_thresh3 above {needed}"
    if wanted and list(wanted) != thresholds:
        cause = "the thresholds are not those that were asked for"
        remedy = "apply the role baseline, and look for another file in /etc/sysctl.d that sets them"
        return Finding("neighbour_table", FAIL, thresholds, expected, evidence, cause, remedy)
    if needed < thresholds[2]:
        return Finding("neighbour_table", PASS, thresholds, expected, evidence)
    cause = f"{needed} neighbours are needed, and the table holds {thresholds[2]}: connections fail when it overflows"
    size = max(1024, 1 << needed.bit_length())
    remedy = f"baseline_neighbour_thresholds: [{size}, {2 * size}, {4 * size}]"
    return Finding("neighbour_table", FAIL, thresholds, expected, evidence, cause, remedy)


def arp(rails: t.Sequence[Rail]) -> Finding:
    """Only rails that share a network get in each other's way."""
    evidence = f"{_CONF}/{{all,RAIL}}/{{{','.join(KEYS)}}}, ip -j rule show"
    observed = {rail.netdev: rail.values for rail in rails}
    if not rails:
        return Finding("arp", SKIPPED, observed, None, evidence, "no declared rail has an IPv4 address")
    sharing = [rail for rail in rails if any(_share(rail, other) for other in rails)]
    expected = "arp_ignore 1, arp_announce 2 and rp_filter 0 or 2 on rails that share a network"
    wrong = {rail.netdev: told for rail in sharing for told in [problems(rail)] if told}
    if not wrong:
        return Finding("arp", PASS, observed, expected, evidence)
    cause = "; ".join(f"{netdev} shares its network with another rail, and {told}" for netdev, told in wrong.items())
    return Finding("arp", FAIL, observed, expected, evidence, cause, "baseline_rails_share_network: true")


def _share(one: Rail, other: Rail) -> bool:
    return one.netdev != other.netdev and one.address.network.overlaps(other.address.network)


def problems(rail: Rail) -> str:
    """What is wrong on a rail that shares its network; empty when nothing is."""
    values = rail.values
    told = []
    # With routes of its own, arp_filter answers on the right interface, and the reverse path is right.
    if values["arp_ignore"] not in (1, 2) and not (values["arp_filter"] and rail.own_routes):
        told.append(f"any rail answers for its address (arp_ignore {values['arp_ignore']})")
    if values["arp_announce"] != 2 and not (values["arp_filter"] and rail.own_routes):
        told.append(f"it asks in the name of any rail (arp_announce {values['arp_announce']})")
    if values["rp_filter"] == 1 and not rail.own_routes:
        told.append("packets of the other rail are dropped (rp_filter 1)")
    return " and ".join(told)
