# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Suspects are tested again with partners that did well, and the second figures turn the verdict."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.fabric_ports import FilterModule
from ansible_collections.lossless.roce.plugins.module_utils.fabric.analysis import Measured, explain
from ansible_collections.lossless.roce.plugins.module_utils.fabric.blame import findings, suspects
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import FabricHost, Matrix
from hypothesis import given
from hypothesis import strategies as st
from sim_matrix import matrix

Pair = tuple[frozenset[str], int]


def pairs(tests: list[Measured], leaves: dict[str, str] | None = None) -> set[Pair]:
    return {(frozenset(pair["hosts"]), pair["rail"]) for pair in suspects(tests, leaves)}


def again(tests: list[Measured], bad: t.Callable[[str, str, int], bool]) -> list[Measured]:
    """What the retest measures, when ``bad`` says what fails in it."""
    return [
        Measured(one, other, rail, not bad(one, other, rail), 5.0 if bad(one, other, rail) else 96.0)
        for names, rail in pairs(tests)
        for one, other in (sorted(names), sorted(names, reverse=True))
    ]


def settled(tests: list[Measured], second: list[Measured] | None) -> tuple[str, str, str]:
    """Verdict, confidence and cause of the one finding."""
    (finding,) = findings(tests, again=second)
    return finding.verdict, finding.observed["confidence"], finding.cause


PORT = matrix(5, 2, lambda c, s, r: r == 1 and "n2" in (c, s))
PAIR = matrix(5, 1, lambda c, s, r: {c, s} == {"n1", "n3"})


def test_a_port_is_tested_with_one_good_partner_on_its_rail() -> None:
    assert pairs(PORT) == {(frozenset({"n2", "n0"}), 1)}


def test_a_port_that_fails_again_is_confirmed() -> None:
    verdict, confidence, cause = settled(PORT, again(PORT, lambda c, s, r: "n2" in (c, s)))
    assert (verdict, confidence) == ("fail", "confirmed") and "failed again with known-good n0" in cause


def test_a_port_that_does_well_the_second_time_is_not_blamed() -> None:
    verdict, confidence, cause = settled(PORT, again(PORT, lambda c, s, r: False))
    assert (verdict, confidence) == ("unknown", "not reproduced") and "passed in the retest with n0" in cause


def test_only_the_direction_in_question_counts() -> None:
    tests = matrix(5, 1, lambda c, s, r: s == "n2")
    assert settled(tests, again(tests, lambda c, s, r: c == "n2"))[1] == "not reproduced"
    assert settled(tests, again(tests, lambda c, s, r: s == "n2"))[1] == "confirmed"


def test_without_a_retest_the_finding_says_so() -> None:
    assert settled(PORT, None)[:2] == ("fail", "not retested")
    verdict, confidence, cause = settled(PORT, [])
    assert (verdict, confidence) == ("fail", "cannot be told") and "gave no result" in cause


def test_two_hosts_have_no_third_to_test_with() -> None:
    tests = matrix(2, 1, lambda c, s, r: s == "n1")
    assert pairs(tests) == set()
    assert settled(tests, None)[:2] == ("fail", "cannot be told")
    assert "no known-good partner" in settled(tests, None)[2]


def test_a_whole_rail_is_not_retested() -> None:
    assert pairs(matrix(4, 2, lambda c, s, r: r == 0)) == set()


def test_of_a_pair_both_ends_are_tested_too() -> None:
    chosen = pairs(PAIR)
    assert (frozenset({"n1", "n3"}), 0) in chosen and len(chosen) == 3
    others = [names for names, _rail in chosen if names != {"n1", "n3"}]
    assert {len(names & {"n1", "n3"}) for names in others} == {1}


def test_a_pair_is_confirmed_only_by_its_ends_doing_well() -> None:
    both = {"n1", "n3"}
    assert settled(PAIR, again(PAIR, lambda c, s, r: {c, s} == both))[:2] == ("fail", "confirmed")
    assert settled(PAIR, again(PAIR, lambda c, s, r: False))[:2] == ("unknown", "not reproduced")
    verdict, confidence, cause = settled(PAIR, again(PAIR, lambda c, s, r: "n1" in (c, s)))
    assert (verdict, confidence) == ("fail", "cannot be told") and "n1 now failed with a third host" in cause
    only_the_pair = [m for m in again(PAIR, lambda c, s, r: True) if {m.client, m.server} == both]
    assert settled(PAIR, only_the_pair)[1] == "cannot be told"


NODE = matrix(5, 2, lambda c, s, r: "n2" in (c, s))
ONE_WAY = matrix(5, 1, lambda c, s, r: (c, s) == ("n1", "n3"))


def found(tests: list[Measured], second: list[Measured]) -> list[tuple[str, str, list[str], list[int], str]]:
    """Verdict, kind, hosts, rails and confidence of each finding."""
    return [
        (f.verdict, f.observed["kind"], f.observed["hosts"], f.observed["rails"], f.observed["confidence"])
        for f in findings(tests, again=second)
    ]


def test_a_pair_is_not_cleared_by_the_direction_that_had_passed() -> None:
    second = [m for m in again(ONE_WAY, lambda c, s, r: False) if (m.client, m.server) != ("n1", "n3")]
    ((verdict, kind, _hosts, _rails, confidence),) = found(ONE_WAY, second)
    assert (verdict, kind, confidence) == ("fail", "pair", "cannot be told")
    assert settled(ONE_WAY, again(ONE_WAY, lambda c, s, r: (c, s) == ("n1", "n3")))[:2] == ("fail", "confirmed")


def test_a_port_is_not_cleared_by_one_direction_when_both_had_failed() -> None:
    second = [m for m in again(PORT, lambda c, s, r: False) if m.client == "n2"]
    verdict, confidence, cause = settled(PORT, second)
    assert (verdict, confidence) == ("fail", "cannot be told") and "not all of it was tested again" in cause


def test_a_node_of_which_one_rail_was_not_tested_again_is_not_cleared() -> None:
    for rail in (0, 1):
        second = [m for m in again(NODE, lambda c, s, r: False) if m.rail == rail]
        assert found(NODE, second) == [("fail", "node", ["n2"], [0, 1], "cannot be told")]


def test_a_node_that_fails_on_one_rail_only_the_second_time_is_a_port() -> None:
    second = again(NODE, lambda c, s, r: r == 1 and "n2" in (c, s))
    failed, cleared = findings(NODE, again=second)
    assert (failed.verdict, failed.host) == ("fail", "n2")
    assert failed.cause.startswith("the port of n2 on rail 1: 8 of 8 tests fail")
    assert failed.observed["confidence"] == "confirmed" and {m["rail"] for m in failed.observed["retested"]} == {1}
    assert (cleared.verdict, cleared.observed["confidence"]) == ("unknown", "not reproduced")
    assert cleared.cause.startswith("the port of n2 on rail 0: 8 of 8 tests fail")
    assert found(NODE, again(NODE, lambda c, s, r: "n2" in (c, s))) == [("fail", "node", ["n2"], [0, 1], "confirmed")]


def test_of_a_leaf_only_the_hosts_that_fail_again_are_blamed() -> None:
    leaves = {f"n{number}": "leaf1" if number < 2 else "leaf2" for number in range(6)}
    tests = matrix(6, 2, lambda c, s, r: bool({"n0", "n1"} & {c, s}))
    second = [
        Measured(*way, rail, "n1" not in way, 50.0)
        for names, rail in pairs(tests, leaves)
        for way in (sorted(names), sorted(names, reverse=True))
    ]
    told = [
        (f.verdict, f.observed["kind"], f.observed["hosts"], f.observed["confidence"])
        for f in findings(tests, leaves, again=second)
    ]
    assert told == [("fail", "node", ["n1"], "confirmed"), ("unknown", "node", ["n0"], "not reproduced")]


@given(count=st.integers(3, 12), rails=st.integers(1, 3), data=st.data())
def test_no_suspect_is_another_ones_good_partner(count: int, rails: int, data: st.DataObject) -> None:
    numbers = data.draw(st.sets(st.integers(0, count - 1), max_size=count))
    bad = {f"n{number}" for number in numbers}
    tests = matrix(count, rails, lambda c, s, r: bool(bad & {c, s}))
    blamed = {(host, rail) for cause in explain(tests) for host in cause.hosts for rail in cause.rails}
    for names, rail in pairs(tests):
        assert len([name for name in names if (name, rail) in blamed]) == 1


def test_a_leaf_is_tested_with_hosts_of_another() -> None:
    leaves = {f"n{number}": "leaf1" if number < 2 else "leaf2" for number in range(6)}
    tests = matrix(6, 1, lambda c, s, r: bool({"n0", "n1"} & {c, s}))
    chosen = pairs(tests, leaves)
    assert len(chosen) == 2 and all(len(names & {"n0", "n1"}) == 1 for names, _rail in chosen)
    partners = [next(iter(names - {"n0", "n1"})) for names, _rail in chosen]
    assert len(set(partners)) == 2, "they are tested at the same time"


def test_uplinks_are_tested_again_from_leaf_to_leaf() -> None:
    leaves = {f"n{number}": "leaf1" if number < 3 else "leaf2" for number in range(6)}

    def across(client: str, server: str) -> bool:
        return leaves[client] != leaves[server]

    tests = matrix(6, 1, lambda c, s, r: across(c, s))
    chosen = pairs(tests, leaves)
    assert len(chosen) == 3 and all(across(*names) for names, _rail in chosen)
    assert set.union(*(set(names) for names, _rail in chosen)) == set(leaves), "all at the same time, each once"

    def second(bad: t.Callable[[str, str], bool]) -> list[Measured]:
        both = [(*way, rail) for names, rail in chosen for way in (sorted(names), sorted(names, reverse=True))]
        return [Measured(c, s, rail, not bad(c, s), 5.0 if bad(c, s) else 96.0) for c, s, rail in both]

    def confidence(measured: list[Measured]) -> tuple[str, str]:
        (finding,) = findings(tests, leaves, again=measured)
        return finding.verdict, finding.observed["confidence"]

    assert confidence(second(across)) == ("fail", "confirmed")
    assert confidence(second(lambda c, s: False)) == ("unknown", "not reproduced")
    assert confidence([]) == ("fail", "cannot be told")
    assert confidence(second(lambda c, s: False)[:-1]) == ("fail", "cannot be told"), "one way was not tested again"


LEAVES = {f"n{number:02}": f"leaf{number // 8}" for number in range(32)}


def of_scope(bad: t.Callable[[str, str], bool], **scope: t.Any) -> list[Measured]:
    """What 32 hosts on 4 leaves and 2 rails measure; ``bad`` says which client and server fail."""
    hosts = tuple(FabricHost(name, dict.fromkeys((0, 1), ("eth", "192.0.2.1"))) for name in LEAVES)
    ways = [(h, x.peer, x.rail) for h in LEAVES for x in Matrix(hosts, **scope).tests_of(h) if x.role == "client"]
    return [Measured(c, s, rail, not bad(c, s), 5.0 if bad(c, s) else 97.0) for c, s, rail in ways]


def of_leaf(client: str, server: str) -> bool:
    return "leaf1" in (LEAVES[client], LEAVES[server])


def of_uplinks(client: str, server: str) -> bool:
    return of_leaf(client, server) and LEAVES[client] != LEAVES[server]


@pytest.mark.parametrize(
    "scope", [{"scope": "ring"}, *({"scope": "sample", "samples": 2, "seed": n} for n in range(4))]
)
@pytest.mark.parametrize(("bad", "words"), [(of_leaf, "leaf leaf1 ("), (of_uplinks, "the uplinks of leaf leaf1 (")])
def test_few_pairs_are_enough_to_tell_a_leaf_and_its_uplinks_from_their_hosts(
    scope: dict[str, t.Any], bad: t.Callable[[str, str], bool], words: str
) -> None:
    tests = of_scope(bad, **scope)
    chosen = [(pair["hosts"], pair["rail"]) for pair in suspects(tests, LEAVES)]
    second = [Measured(*way, rail, not bad(*way), 5.0) for names, rail in chosen for way in (names, names[::-1])]
    (finding,) = findings(tests, LEAVES, again=second)
    assert finding.cause.startswith(words) and finding.observed["confidence"] == "confirmed", finding.cause


TWO_LEAVES = {f"n{number}": f"leaf{number // 3}" for number in range(6)}


def only_across(others: set[str]) -> list[Measured]:
    """n5 fails, and was tested with two hosts of the other leaf alone; ``others`` were tested with each other."""
    pairs = ({"n5", "n0"}, {"n5", "n1"})
    tests = matrix(6, 1, lambda c, s, r: "n5" in (c, s))
    return [m for m in tests if {m.client, m.server} <= others or {m.client, m.server} in pairs]


def test_a_partner_on_the_suspects_own_leaf_tells_it_from_the_uplinks() -> None:
    tests = only_across({"n0", "n1", "n2"}) + [m for m in only_across({"n3", "n4"}) if m.passed]
    (pair,) = suspects(tests, TWO_LEAVES)
    assert pair == {"hosts": ["n3", "n5"], "rail": 0}
    second = [Measured("n3", "n5", 0, True, 97.0), Measured("n5", "n3", 0, True, 97.0)]
    (finding,) = findings(tests, TWO_LEAVES, again=second)
    assert (finding.verdict, finding.observed["confidence"]) == ("unknown", "not reproduced")


def test_what_fails_across_uplinks_of_which_nothing_is_known_is_not_confirmed() -> None:
    tests = only_across({"n0", "n1", "n2"})

    def told(leaves: dict[str, str]) -> tuple[str, str]:
        chosen = [(pair["hosts"], pair["rail"]) for pair in suspects(tests, leaves)]
        second = [Measured(*way, rail, False, 5.0) for names, rail in chosen for way in (names, names[::-1])]
        (finding,) = findings(tests, leaves, again=second)
        assert finding.cause.startswith("the port of n5")
        return finding.observed["confidence"], finding.cause + finding.remedy

    confidence, text = told(TWO_LEAVES)
    assert confidence == "cannot be told" and "across uplinks over which nothing has passed" in text
    assert "test with a host on the same leaf" in text
    alone = {name: leaf for name, leaf in TWO_LEAVES.items() if name not in ("n3", "n4")}
    assert told(alone)[0] == told({})[0] == "confirmed", "one host on a leaf, or no leaf known: it is the port"


def test_hosts_beside_bad_uplinks_are_good_partners() -> None:
    """The uplinks between the leaves are bad, and so is n3: a partner on its own leaf tells more of it."""
    tests = matrix(6, 1, lambda c, s, r: TWO_LEAVES[c] != TWO_LEAVES[s] or "n3" in (c, s))
    assert sorted(f.observed["kind"] for f in findings(tests, TWO_LEAVES)) == ["leaf", "port"]
    assert {frozenset(p["hosts"]) for p in suspects(tests, TWO_LEAVES)} & {frozenset({"n3", n}) for n in ("n4", "n5")}


@pytest.mark.parametrize("rail", [float("inf"), float("nan"), 1.9, True, "x", "\u0663", -1])
@pytest.mark.parametrize("name", ["suspects", "analysed"])
def test_a_finding_with_a_rail_that_is_none_is_refused(name: str, rail: t.Any) -> None:
    seen = {"client": "a", "server": "b", "rail": rail, "gbps": 97.0}
    raw = [[{"check": "ib_write_bw", "verdict": "pass", "observed": seen}]]
    with pytest.raises(AnsibleFilterError, match="findings: rail .* is no whole number from 0 .* was expected"):
        FilterModule().filters()[name](raw)


def test_the_filters_take_the_findings_of_each_host() -> None:
    filters = FilterModule().filters()

    def found(tests: list[Measured]) -> list[list[dict[str, t.Any]]]:
        raw = [
            {
                "check": "ib_write_bw",
                "verdict": "pass" if m.passed else "fail",
                "observed": {"client": m.client, "server": m.server, "rail": m.rail, "gbps": m.gbps},
            }
            for m in tests
        ]
        return [raw[::2], [{"check": "pfc", "verdict": "fail", "observed": None}, *raw[1::2]]]

    assert filters["suspects"](found(PORT)) == [{"hosts": ["n0", "n2"], "rail": 1}]
    (finding,) = filters["analysed"](found(PORT), {}, found(again(PORT, lambda c, s, r: "n2" in (c, s))))
    assert finding["observed"]["confidence"] == "confirmed" and len(finding["observed"]["retested"]) == 2
    (finding,) = filters["analysed"](found(PORT), {}, None)
    assert finding["observed"]["confidence"] == "not retested"
