# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``nft -j list ruleset`` -> rules. Pure. Shape: libnftables-json(5)."""

from __future__ import annotations

import ipaddress
import typing as t

from ..errors import ParseError
from .json_output import read_json
from .numbers import is_int
from .ruleset import ACCEPT, ANY, DROP, GOTO, JUMP, NEXT, RETURN, Chain, Rule, Ruleset, Test

Json = dict[str, t.Any]

_FAMILIES = ("ip", "inet", "netdev")  # the rails speak IPv4
_HOOKS = ("ingress", "prerouting", "input")
_ACTIONS = {"accept": ACCEPT, "drop": DROP, "reject": DROP, "return": RETURN, "continue": NEXT}
_HARMLESS = ("counter", "log", "comment", "mangle", "notrack", "ct helper", "ct timeout", "ct expectation", "secmark")
_OTHER_PROTOCOLS = ("ip6", "icmp", "icmpv6", "arp", "vlan")
_PROTOCOLS = {6: "tcp", 17: "udp"}
_MAYBE = Test("maybe")


def parse_nft(text: str) -> tuple[Ruleset, set[str]]:
    """The rules, and the tables ("ip filter") whose rules iptables wrote in a form that nft does not show.

    Raises ParseError.
    """
    try:
        return _compiled(_objects(text))
    except RecursionError as exc:  # an expression within an expression, hundreds of times
        raise ParseError(f"nft: output was not understood: {text.strip()[:80]!r}") from exc


def _compiled(objects: list[Json]) -> tuple[Ruleset, set[str]]:
    sets = {
        _name(item, "name"): item.get("elem", [])
        for entry in objects
        for kind, item in entry.items()
        if kind in ("set", "map")
    }
    ruleset, opaque = Ruleset(), set()
    for entry in objects:
        if isinstance(entry.get("chain"), dict):
            _add_chain(ruleset, entry["chain"])
    for entry in objects:
        rule = entry.get("rule")
        if isinstance(rule, dict) and rule.get("family") in _FAMILIES:
            chain = ruleset.chains.setdefault(_name(rule, "chain"), Chain())
            chain.rules += _Compiler(rule, sets).rules()
            if any("xt" in expr for expr in _expressions(rule)):
                opaque.add(f"{rule.get('family')} {rule.get('table')}")
    return ruleset, opaque


def _objects(text: str) -> list[Json]:
    data = read_json(text, "nft")
    objects = data.get("nftables") if isinstance(data, dict) else None
    if not isinstance(objects, list):
        raise ParseError(f"nft: a list of objects was expected: {text.strip()[:80]!r}")
    # Every object stands alone: {"rule": {...}}.
    return [entry for entry in objects if isinstance(entry, dict) and all(isinstance(v, dict) for v in entry.values())]


def _name(item: Json, key: str) -> str:
    return f"{item.get('family')} {item.get('table')} {item.get(key)}"


def _add_chain(ruleset: Ruleset, chain: Json) -> None:
    if chain.get("family") not in _FAMILIES:
        return
    hooked = chain.get("hook") in _HOOKS and chain.get("type") == "filter"
    devices = chain.get("dev", [])
    ruleset.chains[_name(chain, "name")] = Chain(
        hook=str(chain["hook"]) if hooked else "",
        policy=DROP if chain.get("policy") == "drop" else ACCEPT,
        devices=tuple(map(str, devices if isinstance(devices, list) else [devices])),
    )


def _expressions(rule: Json) -> list[Json]:
    expressions = rule.get("expr")
    return [expr for expr in expressions if isinstance(expr, dict)] if isinstance(expressions, list) else []


class _Compiler:
    """Turns one rule into tests and actions; a verdict map becomes one rule for each of its elements."""

    def __init__(self, rule: Json, sets: dict[str, t.Any]) -> None:
        self._rule = rule
        self._sets = sets
        self._table = f"{rule.get('family')} {rule.get('table')}"
        handle = rule.get("handle")
        self._handle: int = handle if is_int(handle) else 0

    def rules(self) -> list[Rule]:
        """The rule as one or more rules."""
        tests: list[Test] = []
        compiled: list[Rule] = []
        for expr in _expressions(self._rule):
            kind = next(iter(expr), "")
            if kind in (*_ACTIONS, JUMP, GOTO):
                return [*compiled, self._make(tests, expr)]
            if kind == "vmap":
                compiled += self._vmap(tests, expr["vmap"])
            elif kind == "match":
                tests += self._match(expr["match"])
            elif kind == "xt" and _log(expr["xt"]):
                continue
            elif kind not in _HARMLESS:
                tests.append(_MAYBE)
                if kind in ("xt", "queue", "tproxy", "redirect", "dnat", "synproxy", "fwd", "dup"):
                    compiled.append(self._make(tests, {ANY: None}))
        return compiled

    def _make(self, tests: t.Iterable[Test], verdict: Json) -> Rule:
        kind = next(iter(verdict), "")
        if kind in (JUMP, GOTO) and isinstance(verdict[kind], dict):
            target = f"{self._table} {verdict[kind].get('target')}"
            return Rule(tuple(tests), kind, target, handle=self._handle)
        return Rule(tuple(tests), _ACTIONS.get(kind, ANY), handle=self._handle)

    def _vmap(self, tests: list[Test], vmap: t.Any) -> list[Rule]:
        key, data = (vmap.get("key"), vmap.get("data")) if isinstance(vmap, dict) else (None, None)
        rules = []
        for element in self._elements(data):
            if not (isinstance(element, list) and len(element) == 2 and isinstance(element[1], dict)):
                rules.append(self._make([*tests, _MAYBE], {ANY: None}))
                continue
            rules.append(self._make([*tests, *self._compare(key, "==", element[0])], element[1]))
        return rules

    def _elements(self, right: t.Any) -> list[t.Any]:
        """The values on the right, those of named sets and maps included."""
        if isinstance(right, str) and right.startswith("@"):
            right = self._sets.get(f"{self._table} {right[1:]}", [None])
        if isinstance(right, dict) and isinstance(right.get("set"), (list, str)):
            return self._elements(right["set"]) if isinstance(right["set"], str) else right["set"]
        return right if isinstance(right, list) else [right]

    def _match(self, match: t.Any) -> list[Test]:
        if not isinstance(match, dict):
            return [_MAYBE]
        return self._compare(match.get("left"), str(match.get("op")), match.get("right"))

    def _compare(self, left: t.Any, operator: str, right: t.Any) -> list[Test]:
        if not isinstance(left, dict) or operator not in ("==", "!=", "in", "<", ">", "<=", ">="):
            return [_MAYBE]
        kind = next(iter(left), "")
        if kind == "concat":
            return self._concat(left["concat"], operator, right)
        if kind == "&":
            return [_flags(left["&"], operator, right)]
        inner = left.get(kind)
        if not isinstance(inner, dict):
            return [_MAYBE]
        values = [_plain(value) for value in self._elements(right)]
        if kind == "payload":
            return _payload(str(inner.get("protocol")), str(inner.get("field")), operator, values)
        if kind in ("meta", "ct"):
            return [_test(_KEYS.get((kind, str(inner.get("key"))), "maybe"), operator, values)]
        return [_fib(inner, operator, values)] if kind == "fib" else [_MAYBE]

    def _concat(self, parts: t.Any, operator: str, right: t.Any) -> list[Test]:
        """A set of tuples is understood where it has one element, as each element of a verdict map has."""
        elements = self._elements(right)
        values = elements[0].get("concat") if len(elements) == 1 and isinstance(elements[0], dict) else None
        if operator == "!=" or not (isinstance(parts, list) and isinstance(values, list) and len(parts) == len(values)):
            return [_MAYBE]
        return [test for part, value in zip(parts, values) for test in self._compare(part, operator, value)]


_KEYS = {
    ("meta", "l4proto"): "proto",
    ("meta", "iifname"): "netdev",
    ("meta", "iif"): "netdev",
    ("meta", "nfproto"): "family",
    ("meta", "protocol"): "family",
    ("ct", "state"): "state",
    ("ct", "status"): "status",
}


def _log(xt: t.Any) -> bool:
    return isinstance(xt, dict) and xt.get("type") == "target" and xt.get("name") in ("LOG", "NFLOG")


def _plain(value: t.Any) -> t.Any:
    """A set's element without its counter, comment or time limit."""
    return value["elem"].get("val") if isinstance(value, dict) and isinstance(value.get("elem"), dict) else value


def _payload(protocol: str, name: str, operator: str, values: list[t.Any]) -> list[Test]:
    if protocol in _OTHER_PROTOCOLS:
        return [Test("never")]
    if protocol == "ip":
        return [_test({"protocol": "proto", "saddr": "source", "daddr": "target"}.get(name, "maybe"), operator, values)]
    if protocol not in ("tcp", "udp", "th"):
        # Another transport protocol never has our packet; ether and the like may.
        return [Test("never")] if protocol in ("udplite", "sctp", "dccp", "esp", "ah", "comp") else [_MAYBE]
    mine = [] if protocol == "th" else [Test("proto", (protocol,))]
    if name == "flags" and protocol == "tcp":
        return [*mine, _syn(operator, values, None)]
    return [*mine, _test("dport" if name == "dport" else "maybe", operator, values)]


def _test(what: str, operator: str, values: list[t.Any]) -> Test:
    """A test by the values' JSON; what has a form that we do not know may match or not."""
    if what == "dport" and operator in ("<", ">", "<=", ">="):
        return _half_line(operator, values)
    if operator not in ("==", "!=", "in"):
        return _MAYBE
    negated = operator == "!="
    if what == "status":  # a new connection to our own address was not translated
        unknown = not set(map(str, values)) <= {"dnat", "snat", "seen-reply", "assured", "expected", "confirmed"}
        return _MAYBE if unknown else Test("never", negated=negated)
    if what == "family":
        return Test("always" if {"ipv4", "ip"} & set(map(str, values)) else "never", negated=negated)
    convert = _CONVERT.get(what)
    if convert is None:
        return _MAYBE
    converted = [convert(value) for value in values]
    return _MAYBE if None in converted or not values else Test(what, tuple(converted), negated)


def _half_line(operator: str, values: list[t.Any]) -> Test:
    if len(values) != 1 or not is_int(values[0]):
        return _MAYBE
    port = values[0]
    below, above = (0, port - (operator == "<")), (port + (operator == ">"), 65535)
    return Test("dport", (below if operator.startswith("<") else above,))


def _port(value: t.Any) -> tuple[int, int] | None:
    if is_int(value):
        return value, value
    pair = value.get("range") if isinstance(value, dict) else None
    if isinstance(pair, list) and len(pair) == 2 and is_int(pair[0]) and is_int(pair[1]):
        return pair[0], pair[1]
    return None


def _network(value: t.Any) -> t.Any:
    prefix = value.get("prefix") if isinstance(value, dict) else None
    text = f"{prefix.get('addr')}/{prefix.get('len')}" if isinstance(prefix, dict) else value
    try:
        return ipaddress.ip_network(text, strict=False) if isinstance(text, str) else None
    except ValueError:
        return None


def _word(value: t.Any) -> str | None:
    return value if isinstance(value, str) else None


def _protocol(value: t.Any) -> str | None:
    return _PROTOCOLS.get(value, f"protocol {value}") if is_int(value) else _word(value)


_CONVERT: dict[str, t.Callable[[t.Any], t.Any]] = {
    "proto": _protocol,
    "dport": _port,
    "netdev": _word,
    "state": _word,
    "source": _network,
    "target": _network,
}


def _fib(fib: Json, operator: str, values: list[t.Any]) -> Test:
    """Our packet goes to an address of this node, and the way back to its sender exists."""
    flags = fib.get("flags") if isinstance(fib.get("flags"), list) else [fib.get("flags")]
    if fib.get("result") == "type" and flags and flags[0] == "daddr" and operator in ("==", "!="):
        return Test("always" if "local" in values else "never", negated=operator == "!=")
    if fib.get("result") == "oif" and values in ([True], [False]) and operator in ("==", "!="):
        return Test("always" if values[0] else "never", negated=operator == "!=")
    return _MAYBE


def _flags(operands: t.Any, operator: str, right: t.Any) -> Test:
    """``tcp flags & (fin | syn | rst | ack) == syn``."""
    if not (isinstance(operands, list) and len(operands) == 2 and isinstance(operands[0], dict)):
        return _MAYBE
    if operands[0].get("payload") != {"protocol": "tcp", "field": "flags"}:
        return _MAYBE
    return _syn(operator, _flag_names(right), _flag_names(operands[1]))


def _flag_names(value: t.Any) -> list[t.Any]:
    if isinstance(value, dict) and isinstance(value.get("|"), list):
        return [name for part in value["|"] for name in _flag_names(part)]
    return list(value) if isinstance(value, list) else [value]


def _syn(operator: str, values: list[t.Any], mask: list[t.Any] | None) -> Test:
    """The first packet of a TCP connection has the flag syn and no other."""
    if not all(isinstance(value, str) for value in (*values, *(mask or []))) or operator not in ("==", "!=", "in"):
        return _MAYBE
    seen = {"syn"} if mask is None else {"syn"} & set(mask)
    right = bool(seen & set(values)) if operator == "in" else seen == set(values)
    return Test("always" if right else "never", negated=operator == "!=")
