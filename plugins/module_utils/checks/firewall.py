# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the host's packet filter lets other nodes reach the TCP ports that a job needs.

Hardware RoCE bypasses the filter: UDP 4791 matters on Soft-RoCE only. The rules themselves are judged,
whoever wrote them (firewalld, ufw, nftables, iptables).
"""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import dataclass

from ..errors import HostError, PolicyError, RoceError
from ..findings import FAIL, PASS, UNKNOWN, Finding
from ..parsers.addresses import parse_networks
from ..parsers.iptables import parse_iptables
from ..parsers.nft import parse_nft
from ..parsers.ruleset import BLOCKED, OPEN, Decision, Packet, Ruleset

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

ROCE_PORT = 4791
EVIDENCE = "nft -j list ruleset, iptables-save"
_TOOLS = "install nftables, and iptables where its rules are used, and see that both can list all rules"
_ITEM = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


@dataclass(frozen=True)
class Item:
    """Ports that must be reachable."""

    proto: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True)
class Filter:
    """The rules, and who manages them: firewalld, ufw, iptables, nftables, or nobody ("")."""

    ruleset: Ruleset
    manager: str = ""


@dataclass(frozen=True)
class Hit:
    """A rail on which an item is not surely reachable, with the port of it that showed that."""

    packet: Packet
    decision: Decision


def diagnose(host: Host, context: Context) -> list[Finding]:
    """One finding for each item of the option tcp_ports; one on UDP 4791 where there are Soft-RoCE ports."""
    items = [tcp_item(text) for text in context.options.get("tcp_ports", [])]
    soft = [port.netdev for port in context.ports if _is_soft_roce(host, port.ibdev)]
    try:
        filter_ = read_filter(host)
        rails = _rails(host, [port.netdev for port in context.ports]) if filter_.ruleset.filters() else []
    except RoceError as exc:
        return [Finding("firewall", UNKNOWN, evidence=EVIDENCE, cause=str(exc), remedy=_TOOLS)]
    found = [_judge(host, filter_, item, rails) for item in items]
    if soft:
        slow = [rail for rail in rails if rail.netdev in soft]
        found.append(_judge(host, filter_, Item("udp", ROCE_PORT, ROCE_PORT), slow))
    return found


def tcp_item(text: t.Any) -> Item:
    """``18515`` or ``18515-18530``. Raises PolicyError."""
    found = _ITEM.fullmatch(str(text))
    low, high = (int(found.group(1)), int(found.group(2) or found.group(1))) if found else (0, 0)
    if not 0 < low <= high <= 65535:
        raise PolicyError(f"tcp_ports: {text!r} … a port from 1 to 65535, or a range such as 18515-18530, was expected")
    return Item("tcp", low, high)


def read_filter(host: Host) -> Filter:
    """All rules that the kernel holds. Raises RoceError when they can't be known."""
    ruleset = Ruleset()
    if _has_nftables(host):
        ruleset, opaque = parse_nft(host.run("nft", "-j", "list", "ruleset").out)
        if opaque:
            _replace(ruleset, parse_iptables(host.run("iptables-save").out))
    # The older kernel interface of iptables, which nft does not show.
    tables = (host.read_optional("/proc/net/ip_tables_names") or "").split()
    if tables:
        ruleset.chains.update(_legacy(host, tables).chains)
    return Filter(ruleset, _manager(host, ruleset))


def _legacy(host: Host, tables: list[str]) -> Ruleset:
    """The rules of the older kernel interface; the tool of the newer one prints nothing of them, and no error."""
    tool = "iptables-legacy-save" if host.which("iptables-legacy-save") else "iptables-save"
    legible = parse_iptables(host.run(tool).out, "iptables-legacy")
    lacking = set(tables) - {name.split()[1] for name in legible.chains}
    if lacking:
        raise HostError(
            f"/proc/net/ip_tables_names: table {min(lacking)} … was expected in the output of {tool}, and is not there;"
            " iptables-legacy-save (package iptables) shows it"
        )
    return legible


def _has_nftables(host: Host) -> bool:
    """Whether there can be rules: nft would load the kernel's module just to find none."""
    if host.exists("/sys/module/nf_tables"):
        return True
    kernel = host.read("/proc/sys/kernel/osrelease").strip()
    return "/nf_tables.ko" in (host.read_optional(f"/lib/modules/{kernel}/modules.builtin") or "/nf_tables.ko")


def _replace(ruleset: Ruleset, legible: Ruleset) -> None:
    """Put the tables as iptables shows them in the place of the same tables as nft shows them."""
    tables = {name.split()[1] for name in legible.chains}
    for name in list(ruleset.chains):
        family, table, _chain = name.split(None, 2)
        if family == "ip" and table in tables:
            del ruleset.chains[name]
    ruleset.chains.update(legible.chains)


def _manager(host: Host, ruleset: Ruleset) -> str:
    if "firewalld" in host.process_names():
        return "firewalld"
    if not ruleset.filters():
        return ""
    if any(" ufw-" in name for name in ruleset.chains):
        return "ufw"
    return "iptables" if any(name.startswith("iptables") for name in ruleset.chains) else "nftables"


def _is_soft_roce(host: Host, ibdev: str) -> bool:
    return "/devices/virtual/" in host.realpath(f"/sys/class/infiniband/{ibdev}")


def _rails(host: Host, netdevs: list[str]) -> list[Packet]:
    """A packet to each address of each rail, from its own network; of any device when none is declared."""
    networks = parse_networks(host.run("ip", "-j", "address", "show").out)
    rails = [
        Packet("", 0, netdev, address.network, ipaddress.ip_network(address.ip))
        for netdev in netdevs
        for address in networks.get(netdev, [])
        if address.version == 4
    ]
    return rails or [Packet("", 0, "")]


def check_item(ruleset: Ruleset, item: Item, rails: t.Iterable[Packet]) -> list[Hit]:
    """Where the item is not surely reachable: at most one hit a rail, blocked ones first."""
    ports = sorted({item.low, *(port for port in ruleset.boundaries() if item.low <= port <= item.high)})
    hits = []
    for rail in rails:
        packets = (Packet(item.proto, port, rail.netdev, rail.source, rail.target) for port in ports)
        found = [Hit(packet, ruleset.decide(packet)) for packet in packets]
        found = sorted((hit for hit in found if hit.decision.state != OPEN), key=_blocked_first)
        hits += found[:1]
    return sorted(hits, key=_blocked_first)


def _blocked_first(hit: Hit) -> bool:
    return hit.decision.state != BLOCKED


def _judge(host: Host, filter_: Filter, item: Item, rails: list[Packet]) -> Finding:
    hits = check_item(filter_.ruleset, item, rails)
    if not hits:
        return _finding(PASS, filter_, item, {})
    worst = hits[0]
    rule = _rule_text(host, filter_.ruleset, worst.decision)
    seen = {"rails": [hit.packet.netdev for hit in hits if hit.decision.state == worst.decision.state], **rule}
    where = f"chain {rule['chain']}: {rule['rule']}"
    if worst.decision.state == BLOCKED:
        cause = f"the host's packet filter drops {item.proto} port {worst.packet.dport} ({where})"
        return _finding(FAIL, filter_, item, seen, cause, remedy(filter_.manager, item, worst.decision.base))
    cause = f"whether {item.proto} port {worst.packet.dport} gets through depends on more than the port ({where})"
    return _finding(UNKNOWN, filter_, item, seen, cause, "try it from another node: nc -vz ADDRESS PORT")


def _finding(
    verdict: str, filter_: Filter, item: Item, seen: dict[str, t.Any], cause: str = "", remedy_: str = ""
) -> Finding:
    observed = {item.proto: str(item), "managed_by": filter_.manager, **seen}
    return Finding("firewall", verdict, observed, {item.proto: str(item), "reachable": True}, EVIDENCE, cause, remedy_)


def _rule_text(host: Host, ruleset: Ruleset, decision: Decision) -> dict[str, str]:
    """The chain, and the rule as its tool writes it."""
    reason = decision.reason
    if reason is None:  # an open decision
        return {}
    if reason.rule is None:
        return {"chain": reason.chain, "rule": f"policy {ruleset.chains[reason.chain].policy}"}
    text = reason.rule.text
    if not text:
        done = host.run("nft", "-s", "-a", "list", "chain", *reason.chain.split(" ", 2), check=False)
        pattern = rf"^\s*(.*?)\s*# handle {reason.rule.handle}$"
        line = re.search(pattern, done.out, re.MULTILINE)
        text = line.group(1) if line else f"handle {reason.rule.handle}"
    return {"chain": reason.chain, "rule": text}


def remedy(manager: str, item: Item, base: str) -> str:
    """The exact command that opens the item, by the tool that owns the rules."""
    if manager == "firewalld":
        opened = f"{item}/{item.proto}"
        command = f"firewall-cmd --permanent --add-port={opened} && firewall-cmd --add-port={opened}"
    elif manager == "ufw":
        command = f"ufw allow {str(item).replace('-', ':')}/{item.proto}"
    elif base.startswith("iptables"):
        table, chain = base.split()[1:3]
        ports = str(item).replace("-", ":")
        command = (
            f"iptables -t {table} -I {chain} -p {item.proto} --dport {ports} -j ACCEPT, and the same in its saved rules"
        )
    else:
        command = (
            f"nft insert rule {base} {item.proto} dport {item} accept, and the same in the file that is loaded at boot"
        )
    return f"baseline_firewall: open, or by hand: {command}"
