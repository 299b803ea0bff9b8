# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What recorded rules of nftables, firewalld and ufw do to a connection, and that garbage is never "open" by luck."""

from __future__ import annotations

import ipaddress
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.parsers.iptables import parse_iptables
from ansible_collections.lossless.roce.plugins.module_utils.parsers.nft import parse_nft
from ansible_collections.lossless.roce.plugins.module_utils.parsers.ruleset import OPEN, Decision, Packet, Ruleset
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parents[1] / "recorded"


def recorded(name: str) -> Ruleset:
    return parse_nft((RECORDED / "nft" / name).read_text())[0]


def ufw() -> Ruleset:
    return parse_iptables((RECORDED / "iptables" / "ufw.txt").read_text())


def decide(ruleset: Ruleset, port: int, netdev: str = "ens1np0", proto: str = "tcp") -> Decision:
    source, target = ipaddress.ip_network("10.100.0.0/24"), ipaddress.ip_network("10.100.0.1")
    return ruleset.decide(Packet(proto, port, netdev, source, target))


def rules(*expressions: t.Any, policy: str = "accept", hook: str = "input") -> str:
    """A chain with these rules as nft prints it."""
    where = {"family": "inet", "table": "filter"}
    chain = {"chain": {**where, "name": "input", "type": "filter", "hook": hook, "prio": 0, "policy": policy}}
    listed = [{"rule": {**where, "chain": "input", "handle": n, "expr": e}} for n, e in enumerate(expressions, 1)]
    return json.dumps({"nftables": [chain, *listed]})


def dport(right: t.Any, operator: str = "==") -> dict[str, t.Any]:
    return {"match": {"op": operator, "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": right}}


@pytest.mark.parametrize(
    ("port", "netdev", "state", "handle"),
    [
        (22, "ens1np0", "open", None),  # a named set
        (29510, "ens1np0", "open", None),  # a range in it
        (29511, "ens1np0", "blocked", 21),
        (18515, "ens1np0", "open", None),  # for the network of this rail
        (18516, "ens1np0", "blocked", 21),
        (18516, "ens2np0", "open", None),  # another chain, for this rail
        (18521, "ens2np0", "blocked", 22),
        (18516, "ib0", "open", None),  # ib*
        (80, "ens1np0", "open", None),  # a verdict map
        (443, "ens1np0", "blocked", 21),  # back from a jump
        (5000, "ens1np0", "open", None),  # a concatenation
        (5000, "ens2np0", "blocked", 21),
        (9999, "lo", "open", None),
    ],
)
def test_plain_nftables(port: int, netdev: str, state: str, handle: int | None) -> None:
    decision = decide(recorded("plain.json"), port, netdev)
    rule = decision.reason.rule if decision.reason else None
    assert (decision.state, rule.handle if rule else None) == (state, handle)


def test_earlier_hooks_count_too() -> None:
    ruleset = recorded("plain.json")
    ruleset.chains["inet filter input"].rules.clear()
    ruleset.chains["inet filter input"].policy = "accept"
    assert decide(ruleset, 111).base == "ip raw pre"
    assert decide(ruleset, 7).base == "netdev ing i"
    assert decide(ruleset, 7, "ens2np0").state == "open"


def test_firewalld() -> None:
    ruleset = recorded("firewalld.json")
    assert decide(ruleset, 22).state == "open"
    blocked = decide(ruleset, 18515)
    assert blocked.state == "blocked" and blocked.base == "inet firewalld filter_INPUT"


def test_ufw_by_iptables_save() -> None:
    ruleset = ufw()
    assert [decide(ruleset, port).state for port in (22, 18515, 18530, 18531, 29500)] == [
        "open",
        "open",
        "open",
        "blocked",
        "open",
    ]
    assert decide(ruleset, 2222).state == "unknown"  # limited by rate
    decision = decide(ruleset, 18531)
    assert decision.base == "iptables filter INPUT" and decision.reason and decision.reason.rule is None


def test_rules_that_nft_does_not_show_are_never_open_and_the_table_is_named() -> None:
    ruleset, opaque = parse_nft((RECORDED / "nft" / "ufw.json").read_text())
    assert opaque == {"ip filter"}
    assert {decide(ruleset, port).state for port in (22, 18515, 9999)} == {"unknown"}


@pytest.mark.parametrize(
    ("expression", "state"),
    [
        ([dport(18515), {"drop": None}], "blocked"),
        ([dport({"range": [18000, 19000]}), {"reject": None}], "blocked"),
        ([dport({"set": [1, 18515]}), {"drop": None}], "blocked"),
        ([dport(18514, "!="), {"drop": None}], "blocked"),
        ([dport(18515, "!="), {"drop": None}], "open"),
        ([dport(18515, ">="), {"drop": None}], "blocked"),
        ([dport(18515, "<"), {"drop": None}], "open"),
        ([dport("@nowhere"), {"drop": None}], "unknown"),
        ([{"limit": {"rate": 1}}, {"drop": None}], "unknown"),
        ([{"limit": {"rate": 1}}, dport(22), {"drop": None}], "open"),
        ([{"counter": {"packets": 1}}, {"log": None}, {"drop": None}], "blocked"),
        ([{"never_heard_of": 1}, {"drop": None}], "unknown"),
        ([{"queue": None}], "unknown"),
        ([{"accept": None}, {"drop": None}], "open"),
        ([{"jump": {"target": "input"}}], "unknown"),  # no kernel takes it: a loop must end
        (
            [
                {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 18515}},
                {"drop": None},
            ],
            "open",
        ),
        ([{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}, {"drop": None}], "blocked"),
        ([{"match": {"op": "==", "left": {"meta": {"key": "nfproto"}}, "right": "ipv6"}}, {"drop": None}], "open"),
        ([{"match": {"op": "==", "left": {"meta": {"key": "mark"}}, "right": 1}}, {"drop": None}], "unknown"),
    ],
)
def test_one_rule(expression: list[t.Any], state: str) -> None:
    assert decide(parse_nft(rules(expression))[0], 18515).state == state


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("-A INPUT -p tcp -m tcp --dport 18515 -j DROP", "blocked"),
        ("-A INPUT -p udp -m udp --dport 18515 -j DROP", "open"),
        ("-A INPUT ! -i lo -j REJECT --reject-with icmp-port-unreachable", "blocked"),
        ("-A INPUT -i ens1+ -p tcp -m multiport --dports 22,18000:19000 -j DROP", "blocked"),
        ("-A INPUT -s 10.100.0.0/16 -j DROP", "blocked"),
        ("-A INPUT -s 10.101.0.0/16 -j DROP", "open"),
        ("-A INPUT -s 10.100.0.7/32 -j DROP", "unknown"),
        ("-A INPUT -m recent --update --seconds 30 -j DROP", "unknown"),
        ('-A INPUT -m comment --comment "-j ACCEPT" -j DROP', "blocked"),
        ("-A INPUT -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -m state --state NEW -j DROP", "open"),
        ("-A INPUT -j NFQUEUE --queue-num 1", "unknown"),
        ("-A INPUT -j LOG --log-prefix drop", "open"),
    ],
)
def test_one_line_of_iptables(line: str, state: str) -> None:
    text = f"*filter\n:INPUT ACCEPT [0:0]\n{line}\nCOMMIT\n"
    assert decide(parse_iptables(text), 18515).state == state


def test_nat_drops_nothing() -> None:
    text = "*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 18515 -j DNAT --to 1.2.3.4\nCOMMIT\n"
    assert decide(parse_iptables(text), 18515).state == "open"


@pytest.mark.parametrize("left", [{}, {"&": []}, {"payload": None}])
def test_a_match_on_nothing_is_not_open(left: t.Any) -> None:
    text = rules([{"match": {"op": "==", "left": left, "right": 1}}, {"drop": None}])
    assert decide(parse_nft(text)[0], 22).state != OPEN


@given(st.text())
def test_nft_garbage(text: str) -> None:
    try:
        ruleset, _opaque = parse_nft(text)
    except ParseError:
        return
    assert decide(ruleset, 18515).state in ("open", "blocked", "unknown")


WORDS = """match left right op payload protocol field set range concat & fib meta vmap key data jump target xt elem
prefix addr len ct flags result |"""
KEYS = sorted(set(WORDS.split()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["tcp", "@x", "dport", "==", "ip", "new", "10.0.0.0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4))
def test_nft_of_any_shape_before_a_drop_is_not_open(expressions: list[t.Any]) -> None:
    """Whatever the first rule says, the last one drops everything: the port is never surely open."""
    ruleset, _opaque = parse_nft(rules(expressions, [{"drop": None}]))
    assert decide(ruleset, 18515).state in ("blocked", "unknown")


FULL = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\n-A INPUT -j REJECT\nCOMMIT\n"


@pytest.mark.parametrize("length", range(1, len(FULL) - 1))
def test_a_cut_text_of_iptables_is_not_open(length: int) -> None:
    with pytest.raises(ParseError, match="iptables-save: .* was expected"):
        parse_iptables(FULL[:length])


@pytest.mark.parametrize(
    "text",
    ["garbage", "iptables: command not found", "COMMIT\n", "*filter\n:INPUT\nCOMMIT\n", "*filter\n:INPUT DR\nCOMMIT\n",
     "*filter\n[0:0] -A INPUT -j DROP\nCOMMIT\n", "*filter\n-A INPUT -j DROP\nCOMMIT\n",
     FULL.replace("COMMIT", "*raw")],
)  # fmt: skip
def test_what_iptables_save_never_prints_is_not_open(text: str) -> None:
    with pytest.raises(ParseError, match="iptables-save: .* was expected"):
        parse_iptables(text)


@pytest.mark.parametrize(
    "text",
    ["", "\n", "# Table `x' is incompatible, use 'nft' tool.\n", FULL.replace("REJECT", "ACCEPT") + "# Completed"],
)
def test_no_tables_and_comments_are_open(text: str) -> None:
    assert decide(parse_iptables(text), 18515).state == "open"


def test_a_port_of_thousands_of_digits_may_match_or_not() -> None:
    text = FULL.replace("22", "9" * 5000).replace("ACCEPT\n-A INPUT -j REJECT", "DROP")
    assert decide(parse_iptables(text), 18515).state == "unknown"


@given(st.text())
def test_iptables_garbage(text: str) -> None:
    try:
        ruleset = parse_iptables(f"*filter\n:INPUT DROP [0:0]\n-A INPUT {text}\nCOMMIT\n")
    except ParseError:
        return
    assert decide(ruleset, 18515).state in ("open", "blocked", "unknown")
