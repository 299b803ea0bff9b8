# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packet filter rules, whatever tool printed them, and what they do to the first packet of a connection. Pure.

Rules that are not understood may match or not: then more than one outcome is possible, and the answer
is "unknown", never "open".
"""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass, field

ACCEPT, DROP, RETURN, NEXT, JUMP, GOTO, ANY = "accept", "drop", "return", "next", "jump", "goto", "any"
OPEN, BLOCKED, UNKNOWN = "open", "blocked", "unknown"
Network = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]
Tri = t.Optional[bool]


@dataclass(frozen=True)
class Packet:
    """The first packet (SYN for tcp) from a node of this rail to this one."""

    proto: str
    dport: int
    netdev: str
    source: Network | None = None  # the network of the peers
    target: Network | None = None  # our own address


@dataclass(frozen=True)
class Test:
    """One condition of a rule: what is compared, with which values. ``what`` may be a constant, too."""

    __test__ = False  # no test case for pytest

    what: str  # proto, dport, netdev, state, source, target, always, never, maybe
    values: tuple[t.Any, ...] = ()
    negated: bool = False

    def matches(self, packet: Packet) -> Tri:
        """True, False, or None when it can't be said."""
        found = _COMPARE[self.what](packet, self.values)
        return found if found is None or not self.negated else not found


def _any(results: t.Iterable[Tri]) -> Tri:
    seen = list(results)
    return True if True in seen else None if None in seen else False


def _all(results: t.Iterable[Tri]) -> Tri:
    seen = list(results)
    return False if False in seen else None if None in seen else True


def _name(netdev: str, pattern: str) -> bool:
    # nft writes ens*, iptables ens+.
    return netdev.startswith(pattern[:-1]) if pattern.endswith(("*", "+")) else netdev == pattern


def _within(mine: Network | None, wanted: Network) -> Tri:
    if mine is None:
        return None
    if mine.version != wanted.version:
        return False
    # Networks nest or are apart: the wider one starts at or before, and ends at or after.
    starts = int(wanted.network_address) <= int(mine.network_address)
    if starts and int(mine.broadcast_address) <= int(wanted.broadcast_address):
        return True
    return None if mine.overlaps(wanted) else False


_COMPARE: dict[str, t.Callable[[Packet, tuple[t.Any, ...]], Tri]] = {
    "proto": lambda packet, values: packet.proto in values,
    "dport": lambda packet, values: any(low <= packet.dport <= high for low, high in values),
    "netdev": lambda packet, values: any(_name(packet.netdev, value) for value in values) if packet.netdev else None,
    "state": lambda _packet, values: "new" in values,
    "source": lambda packet, values: _any(_within(packet.source, value) for value in values),
    "target": lambda packet, values: _any(_within(packet.target, value) for value in values),
    "always": lambda _packet, _values: True,
    "never": lambda _packet, _values: False,
    "maybe": lambda _packet, _values: None,
}


@dataclass(frozen=True)
class Rule:
    """What happens to a packet that passes all tests. handle is nft's, text the line of iptables."""

    tests: tuple[Test, ...]
    action: str
    target: str = ""
    handle: int = 0
    text: str = ""

    def matches(self, packet: Packet) -> Tri:
        """True, False, or None when it can't be said."""
        return _all(test.matches(packet) for test in self.tests)


@dataclass
class Chain:
    """Rules in order; a base chain has a hook, a policy, and at the ingress hook devices."""

    rules: list[Rule] = field(default_factory=list)
    hook: str = ""
    policy: str = ACCEPT
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reason:
    """Which rule, or which base chain's policy (no rule), decides."""

    chain: str
    rule: Rule | None = None


@dataclass(frozen=True)
class Decision:
    """open, blocked or unknown; the base chain and the rule that drops, or may."""

    state: str
    base: str = ""
    reason: Reason | None = None


Outcomes = dict[str, Reason]


@dataclass
class Ruleset:
    """Chains by name: "FAMILY TABLE CHAIN" as nft writes it, "iptables TABLE CHAIN" for iptables."""

    chains: dict[str, Chain] = field(default_factory=dict)

    def filters(self) -> bool:
        """Whether anything stands in the way of an arriving packet."""
        return any(chain.hook and (chain.rules or chain.policy != ACCEPT) for chain in self.chains.values())

    def boundaries(self) -> set[int]:
        """Ports at which some rule begins or ceases to match."""
        tests = [test for chain in self.chains.values() for rule in chain.rules for test in rule.tests]
        ranges = [pair for test in tests if test.what == "dport" for pair in test.values]
        return {low for low, _high in ranges} | {high + 1 for _low, high in ranges}

    def decide(self, packet: Packet) -> Decision:
        """What becomes of the packet: every base chain on its way must let it pass."""
        doubt: Decision | None = None
        for name, chain in self.chains.items():
            if not chain.hook or (chain.devices and packet.netdev not in chain.devices):
                continue
            outcomes = self._base(name, chain, packet)
            if DROP not in outcomes:
                continue
            if len(outcomes) == 1:
                return Decision(BLOCKED, name, outcomes[DROP])
            doubt = doubt or Decision(UNKNOWN, name, outcomes[DROP])
        return doubt or Decision(OPEN)

    def _base(self, name: str, chain: Chain, packet: Packet) -> Outcomes:
        outcomes = self._walk(name, packet, {})
        if RETURN in outcomes:
            del outcomes[RETURN]
            outcomes.setdefault(chain.policy, Reason(name))
        return outcomes

    def _walk(self, name: str, packet: Packet, known: dict[str, Outcomes]) -> Outcomes:
        """How a chain may end for the packet: accept, drop or return, each with its reason."""
        if name in known:
            return known[name]
        doubt = Reason(name)
        known[name] = {ACCEPT: doubt, DROP: doubt, RETURN: doubt}  # for a chain that calls itself
        outcomes: Outcomes = {}
        for rule in self.chains[name].rules if name in self.chains else ():
            matched = rule.matches(packet)
            if matched is False:
                continue
            results = self._act(name, rule, packet, known)
            goes_on = results.pop(NEXT, None) is not None or matched is None
            for outcome, reason in results.items():
                outcomes.setdefault(outcome, reason)
            if not goes_on:
                break
        else:
            outcomes.setdefault(RETURN, Reason(name))
        known[name] = outcomes
        return outcomes

    def _act(self, name: str, rule: Rule, packet: Packet, known: dict[str, Outcomes]) -> Outcomes:
        here = Reason(name, rule)
        if rule.action == ANY:
            return {ACCEPT: here, DROP: here, NEXT: here}
        if rule.action not in (JUMP, GOTO):
            return {rule.action: here}
        results = dict(self._walk(rule.target, packet, known))
        if rule.action == JUMP and RETURN in results:
            results[NEXT] = results.pop(RETURN)
        return results
