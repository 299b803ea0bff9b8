# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``iptables-save`` -> rules. Pure. Shape: iptables(8), iptables-extensions(8)."""

from __future__ import annotations

import ipaddress
import re
import shlex
import typing as t

from ..errors import ParseError
from .ruleset import ACCEPT, ANY, DROP, GOTO, JUMP, NEXT, RETURN, Chain, Rule, Ruleset, Test

_HOOKS = {"PREROUTING": "prerouting", "INPUT": "input"}
_POLICIES = {"ACCEPT": ACCEPT, "DROP": DROP, "-": ACCEPT}  # a chain of the user's own has none
_ACTIONS = {"ACCEPT": ACCEPT, "DROP": DROP, "REJECT": DROP, "RETURN": RETURN}
_GO_ON = ("LOG", "NFLOG", "MARK", "CONNMARK", "CT", "NOTRACK", "TCPMSS", "ULOG", "TRACE", "DSCP", "TOS", "CLASSIFY")
_MAYBE = Test("maybe")


def parse_iptables(text: str, name: str = "iptables") -> Ruleset:
    """The rules of all tables but nat, whose chains decide no packet's fate; none in an empty text: no table is loaded.

    Raises ParseError for what iptables-save does not print, and for a text that ends within a table: what is missing
    may be the rule that drops.
    """
    ruleset, table = Ruleset(), ""
    for line in map(str.strip, text.split("\n")):
        if not line or line.startswith("#"):
            continue
        if line.startswith("*") and line[1:] and not table:
            table = line[1:]
        elif line == "COMMIT" and table:
            table = ""
        elif not (table and _read(ruleset, f"{name} {table}", line)):
            raise ParseError(f"iptables-save: {line[:80]!r} … a table, chain or rule, or COMMIT, was expected")
    if table:
        raise ParseError(f"iptables-save: table {table[:40]}: ends without COMMIT … the whole text was expected")
    return ruleset


def _read(ruleset: Ruleset, table: str, line: str) -> bool:
    """Take a line of a table over. False when it is none."""
    if table.endswith(" nat"):
        return line.startswith((":", "-A "))
    return _add_chain(ruleset, table, line) if line.startswith(":") else _add_rule(ruleset, table, line)


def _add_chain(ruleset: Ruleset, table: str, line: str) -> bool:
    name, policy = [*line[1:].split(), "", ""][:2]
    ruleset.chains[f"{table} {name}"] = Chain(hook=_HOOKS.get(name, ""), policy=_POLICIES.get(policy, ""))
    return policy in _POLICIES


def _add_rule(ruleset: Ruleset, table: str, line: str) -> bool:
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    # iptables-save declares all chains of a table before the first rule.
    chain = ruleset.chains.get(f"{table} {words[1]}") if words[0] == "-A" and len(words) > 1 else None
    if chain is not None:
        chain.rules.append(_Rule(ruleset.chains, table, line, words[2:]).compile())
    return chain is not None


class _Rule:
    """One line, word by word. Each option takes as many words as ``_READERS`` says; others may match or not."""

    def __init__(self, chains: t.Container[str], table: str, line: str, words: list[str]) -> None:
        self._chains = chains
        self._table = table
        self._line = line
        self._words = words
        self._tests: list[Test] = []
        self._action, self._target = NEXT, ""

    def compile(self) -> Rule:
        """The rule."""
        negated = False
        while self._words:
            word = self._words.pop(0)
            if word == "!":
                negated = True
                continue
            self._option(word, negated)
            negated = False
        return Rule(tuple(self._tests), self._action, self._target, text=self._line)

    def _option(self, word: str, negated: bool) -> None:
        if word in ("-j", "-g"):
            self._verdict(self._take(), GOTO if word == "-g" else JUMP)
            self._words.clear()  # what follows belongs to the target
        elif word in ("-m", "--comment"):
            module = self._take()
            if word == "-m" and module not in _MODULES:
                self._tests.append(_MAYBE)
        elif word in _READERS:
            self._tests.append(_READERS[word](self._take(), negated))
        elif word == "--tcp-flags":
            self._tests.append(_tcp_flags(self._take(), self._take(), negated))
        elif word == "--syn":
            self._tests.append(Test("always", negated=negated))
        else:
            self._tests.append(_MAYBE)

    def _take(self) -> str:
        return self._words.pop(0) if self._words else ""

    def _verdict(self, target: str, kind: str) -> None:
        if f"{self._table} {target}" in self._chains:
            self._action, self._target = kind, f"{self._table} {target}"
        elif target in _ACTIONS:
            self._action = _ACTIONS[target]
        elif target not in _GO_ON:
            self._action = ANY


_MODULES = ("tcp", "udp", "comment", "conntrack", "state", "multiport", "addrtype")


_PORT = re.compile(r"[0-9]{1,5}")


def _ports(text: str, negated: bool) -> Test:
    ranges = []
    for part in text.split(","):
        low, colon, high = part.partition(":")
        pair = (low or "0", (high or "65535") if colon else low)
        if not all(_PORT.fullmatch(number) for number in pair):
            return _MAYBE
        ranges.append((int(pair[0]), int(pair[1])))
    return Test("dport", tuple(ranges), negated)


def _networks(what: str) -> t.Callable[[str, bool], Test]:
    def read(text: str, negated: bool) -> Test:
        try:
            return Test(what, tuple(ipaddress.ip_network(part, strict=False) for part in text.split(",")), negated)
        except ValueError:
            return _MAYBE

    return read


def _states(text: str, negated: bool) -> Test:
    return Test("state", tuple(text.lower().split(",")), negated)


def _address_type(text: str, negated: bool) -> Test:
    return Test("always" if "LOCAL" in text.split(",") else "never", negated=negated)


def _tcp_flags(mask: str, wanted: str, negated: bool) -> Test:
    names = {"FIN", "SYN", "RST", "PSH", "ACK", "URG"}
    looked_at = names if mask == "ALL" else set(mask.split(","))
    expected = names if wanted == "ALL" else set() if wanted == "NONE" else set(wanted.split(","))
    return Test("always" if {"SYN"} & looked_at == expected else "never", negated=negated)


_READERS: dict[str, t.Callable[[str, bool], Test]] = {
    "-p": lambda text, negated: Test("proto", (text,), negated) if text != "all" else Test("always"),
    "-i": lambda text, negated: Test("netdev", (text,), negated),
    "-s": _networks("source"),
    "-d": _networks("target"),
    "--dport": _ports,
    "--dports": _ports,
    "--ctstate": _states,
    "--state": _states,
    "--dst-type": _address_type,
}
