# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults put into a matrix are named, and nothing else is."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.fabric.analysis import (
    Absence,
    Measured,
    absences_from,
    explain,
    measured_from,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.blame import findings
from hypothesis import given
from hypothesis import strategies as st
from sim_matrix import matrix


def named(tests: list[Measured], leaves: dict[str, str] | None = None) -> list[tuple[t.Any, ...]]:
    """Kind, hosts and rails of each cause."""
    return [(cause.kind, cause.hosts, cause.rails) for cause in explain(tests, leaves)]


COUNTS = st.integers(3, 9)


@given(count=COUNTS, rails=st.integers(1, 3), data=st.data())
def test_one_port_both_ways(count: int, rails: int, data: st.DataObject) -> None:
    host, rail = f"n{data.draw(st.integers(0, count - 1))}", data.draw(st.integers(0, rails - 1))
    assert named(matrix(count, rails, lambda c, s, r: r == rail and host in (c, s))) == [("port", (host,), (rail,))]


@given(count=COUNTS, receives=st.booleans(), data=st.data())
def test_one_direction_of_a_port(count: int, receives: bool, data: st.DataObject) -> None:
    host = f"n{data.draw(st.integers(0, count - 1))}"
    tests = matrix(count, 2, lambda c, s, r: r == 1 and (s if receives else c) == host)
    (finding,) = findings(tests)
    assert finding.host == host and finding.observed["kind"] == "port" and finding.observed["rails"] == [1]
    assert f"{count - 1} of {count - 1} tests that it {'receives' if receives else 'sends'} fail" in finding.cause
    assert "at best 5 Gb/s" in finding.cause


@given(count=COUNTS, rails=st.integers(2, 4), data=st.data())
def test_a_whole_node(count: int, rails: int, data: st.DataObject) -> None:
    host = f"n{data.draw(st.integers(0, count - 1))}"
    assert named(matrix(count, rails, lambda c, s, r: host in (c, s))) == [("node", (host,), tuple(range(rails)))]


@given(count=COUNTS, data=st.data())
def test_a_whole_rail(count: int, data: st.DataObject) -> None:
    rail = data.draw(st.integers(0, 2))
    ((kind, _hosts, rails),) = named(matrix(count, 3, lambda c, s, r: r == rail))
    assert (kind, rails) == ("rail", (rail,))


@given(count=st.integers(4, 9), one_way=st.booleans(), data=st.data())
def test_a_single_pair(count: int, one_way: bool, data: st.DataObject) -> None:
    one, other = data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))
    pair = (f"n{one}", f"n{other}")
    tests = matrix(count, 2, lambda c, s, r: r == 0 and ((c, s) == pair or ((s, c) == pair and not one_way)))
    assert named(tests) == [("pair", tuple(sorted(pair)), (0,))]
    assert "both do well with other hosts" in findings(tests)[0].cause


def test_two_hosts_alone_cannot_be_told_apart() -> None:
    (finding,) = findings(matrix(2, 1, lambda c, s, r: s == "n1"))
    assert finding.observed["kind"] == "pair" and "either end" in finding.cause
    assert "third host" in finding.remedy and finding.host == ""


@given(count=st.integers(5, 10), data=st.data())
def test_two_bad_ports_are_two(count: int, data: st.DataObject) -> None:
    one, other = data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True))
    names = {f"n{one}", f"n{other}"}
    found = named(matrix(count, 1, lambda c, s, r: bool(names & {c, s})))
    assert sorted(found) == [("port", (name,), (0,)) for name in sorted(names)]


@given(count=st.integers(3, 9), rails=st.integers(1, 2), other_rails_too=st.booleans())
def test_a_star_tells_nothing_of_the_rail(count: int, rails: int, other_rails_too: bool) -> None:
    """With one reference host all tests go through it: what fails is its port, as far as can be told."""
    tests = matrix(count, rails, lambda c, s, r: r == 0 or other_rails_too)
    star = [test for test in tests if "n1" in (test.client, test.server)]
    (finding,) = findings(star)
    whole = rails > 1 and other_rails_too
    assert finding.host == "n1" and finding.observed["kind"] == ("node" if whole else "port")
    assert finding.observed["confidence"] == "cannot be told"
    assert "none of its partners has passed with another host" in finding.cause
    assert "do well with others" not in finding.cause
    assert "test its partners with each other" in finding.remedy


def test_two_that_share_nobody_are_a_rail() -> None:
    pairs = ({"n0", "n1"}, {"n2", "n3"})
    tests = [test for test in matrix(4, 1, lambda c, s, r: True) if {test.client, test.server} in pairs]
    assert named(tests) == [("rail", ("n0", "n1", "n2", "n3"), (0,))]


def test_partners_do_well_with_others_only_where_they_did() -> None:
    (finding,) = findings(matrix(4, 1, lambda c, s, r: "n1" in (c, s)))
    assert "its partners do well with others" in finding.cause


def test_a_leaf_where_leaves_are_known() -> None:
    leaves = {f"n{number}": "leaf1" if number < 2 else "leaf2" for number in range(6)}
    bad = matrix(6, 2, lambda c, s, r: bool({"n0", "n1"} & {c, s}))
    (finding,) = findings(bad, leaves)
    assert finding.observed["kind"] == "leaf" and "leaf leaf1 (n0, n1; rail 0, 1)" in finding.cause
    assert sorted(named(bad)) == [("node", ("n0",), (0, 1)), ("node", ("n1",), (0, 1))], "unknown leaves: nodes"


def test_different_faults_of_its_hosts_are_no_bad_leaf() -> None:
    """One sends badly on one rail, the other receives badly on another: two ports, on whatever leaf."""
    leaves = leaves_of(4, 2)
    tests = matrix(4, 2, lambda c, s, r: (c, r) == ("n0", 0) or (s, r) == ("n1", 1))
    assert named(tests, leaves) == [("port", ("n0",), (0,)), ("port", ("n1",), (1,))]


def test_a_leaf_takes_what_its_hosts_share_and_leaves_them_the_rest() -> None:
    """Both fail on rail 0; one of them receives badly on rail 1 as well."""
    leaves = leaves_of(6, 2)
    tests = matrix(6, 2, lambda c, s, r: (r == 0 and bool({"n0", "n1"} & {c, s})) or (s, r) == ("n1", 1))
    assert named(tests, leaves) == [("leaf", ("n0", "n1"), (0,)), ("port", ("n1",), (1,))]


def test_ports_that_fail_in_different_ways_are_no_bad_node() -> None:
    tests = matrix(4, 2, lambda c, s, r: (c, r) == ("n0", 0) or (s, r) == ("n0", 1))
    assert named(tests) == [("port", ("n0",), (0,)), ("port", ("n0",), (1,))]
    shared = matrix(4, 2, lambda c, s, r: c == "n0" or (s, r) == ("n0", 1))
    assert named(shared) == [("node", ("n0",), (0, 1))]


def between(tests: list[Measured], *pairs: tuple[set[str], int]) -> list[Measured]:
    """Those of these pairs on a rail."""
    return [test for test in tests if ({test.client, test.server}, test.rail) in pairs]


def test_a_node_is_one_also_where_a_rail_has_one_partner_only() -> None:
    tests = matrix(4, 2, lambda c, s, r: "n0" in (c, s))
    for second in ("n1", "n2"):
        several = [test for test in tests if test.rail == 0] + between(tests, ({"n0", second}, 1))
        assert named(several) == [("node", ("n0",), (0, 1))]
    assert named(between(tests, ({"n0", "n1"}, 0), ({"n0", "n2"}, 1))) == [("node", ("n0",), (0, 1))]
    assert named(between(tests, ({"n0", "n1"}, 0), ({"n0", "n1"}, 1))) == [("pair", ("n0", "n1"), (0, 1))]


def leaves_of(count: int, hosts_a_leaf: int) -> dict[str, str]:
    """n0 … by turns of so many on leaf1, leaf2, …"""
    return {f"n{number}": f"leaf{number // hosts_a_leaf + 1}" for number in range(count)}


@given(hosts=st.integers(2, 5), rails=st.integers(1, 3), one_way=st.booleans())
def test_between_two_leaves_it_is_their_uplinks(hosts: int, rails: int, one_way: bool) -> None:
    """Nothing comes well from leaf to leaf, and inside each all does well: one cause, however many pairs."""
    leaves = leaves_of(2 * hosts, hosts)

    def bad(client: str, server: str, rail: int) -> bool:
        ways = (leaves[client], leaves[server])
        return rail == 0 and ways in (("leaf1", "leaf2"), *(() if one_way else (("leaf2", "leaf1"),)))

    (finding,) = findings(matrix(2 * hosts, rails, bad), leaves)
    seen = finding.observed
    assert (seen["kind"], seen["hosts"], seen["rails"]) == ("leaf", sorted(leaves), [0])
    assert "the uplinks between leaf leaf1 and leaf leaf2" in finding.cause and "uplinks" in finding.remedy
    assert f"{hosts * hosts * (1 if one_way else 2)} of " in finding.cause and finding.host == ""


def test_a_leaf_that_reaches_no_other_is_one_cause_and_so_is_a_spine() -> None:
    leaves = leaves_of(6, 2)
    (finding,) = findings(
        matrix(6, 2, lambda c, s, r: leaves[c] != leaves[s] and "leaf2" in (leaves[c], leaves[s])), leaves
    )
    assert (finding.observed["kind"], finding.observed["hosts"]) == ("leaf", ["n2", "n3"])
    assert finding.cause.startswith("the uplinks of leaf leaf2 (n2, n3; rail 0, 1): 32 of 32 tests fail")
    (finding,) = findings(matrix(6, 1, lambda c, s, r: leaves[c] != leaves[s]), leaves)
    assert finding.cause.startswith("the uplinks between leaf leaf1, leaf leaf2 and leaf leaf3 (")


def test_one_of_several_paths_between_leaves_is_no_whole_uplink() -> None:
    leaves = leaves_of(4, 2)
    some = matrix(4, 1, lambda c, s, r: {c, s} in ({"n0", "n2"}, {"n1", "n3"}))
    assert [kind for kind, _hosts, _rails in named(some, leaves)] == ["pair", "pair"]


def test_a_bad_port_beside_bad_uplinks() -> None:
    leaves = leaves_of(6, 3)
    tests = matrix(6, 1, lambda c, s, r: leaves[c] != leaves[s] or "n1" in (c, s))
    assert named(tests, leaves) == [
        ("port", ("n1",), (0,)),
        ("leaf", ("n0", "n2", "n3", "n4", "n5"), (0,)),
    ]


def test_a_good_matrix_passes_once_and_no_matrix_says_nothing() -> None:
    (finding,) = findings(matrix(4, 2, lambda c, s, r: False))
    assert (finding.verdict, finding.observed) == ("pass", {"failed": 0, "tests": 24})
    assert findings([]) == []


@given(
    tests=st.lists(
        st.builds(
            Measured,
            client=st.sampled_from("abcd"),
            server=st.sampled_from("wxyz"),
            rail=st.integers(0, 1),
            passed=st.booleans(),
        ),
        unique_by=lambda test: (test.client, test.server, test.rail),
    ),
    leaves=st.dictionaries(st.sampled_from("abcdwxyz"), st.sampled_from(["leaf1", "leaf2", "leaf3"])),
)
def test_every_failure_is_explained_and_no_good_test_is_blamed(tests: list[Measured], leaves: dict[str, str]) -> None:
    causes = explain(tests, leaves)
    assert {test for cause in causes for test in cause.failures} == {test for test in tests if not test.passed}
    for cause in causes:
        assert cause.failures and cause.tests >= len(cause.failures)


def test_findings_become_tests() -> None:
    seen = {"client": "a", "server": "b", "rail": 0, "gbps": 96.0}
    raw = [
        {"check": "ib_write_bw", "verdict": "fail", "observed": seen},
        {"check": "ib_write_bw", "verdict": "pass", "observed": seen},
        {"check": "ib_write_bw", "verdict": "skipped", "observed": {**seen, "client": "c"}},
        {"check": "ib_write_bw", "verdict": "fail", "observed": {**seen, "server": ""}},
        {"check": "pfc", "verdict": "fail", "observed": {"enabled_prios": []}},
    ]
    assert measured_from(raw, {"ib_write_bw"}) == [Measured("a", "b", 0, True, 96.0)]


def absent(gone: str, reporter: str, line: str) -> dict[str, t.Any]:
    """The finding that ``reporter`` has on a test that its partner did not come to."""
    seen = {"client": reporter, "server": gone, "rail": 0, "gbps": None, "gone": gone, "line": line}
    return {"check": "ib_write_bw", "verdict": "fail", "observed": seen}


def test_a_host_that_leaves_in_the_middle_is_named_with_the_earliest_time() -> None:
    """Its first tests passed, one was under way, and the others found it gone; nobody else is blamed."""
    tests = [
        Measured(m.client, m.server, m.rail, "n3" not in (m.client, m.server) or "n0" in (m.client, m.server), 97.0)
        for m in matrix(6, 2, lambda c, s, r: False)
    ]
    tests = [m if m.passed else Measured(m.client, m.server, m.rail, False) for m in tests]
    raw = [
        absent("n3", "n1", "has not answered since step 9 (12:00:31)"),
        absent("n3", "n2", "has not answered since step 5 (12:00:11)"),
        absent("n3", "n2", "has not answered since step 12 (12:00:51)"),
    ]
    (finding,) = findings(tests, absences=absences_from(raw, {"ib_write_bw"}))
    assert finding.host == "n3" and finding.verdict == "fail"
    assert (finding.observed["kind"], finding.observed["since_step"], finding.observed["time"]) == (
        "gone",
        5,
        "12:00:11",
    )
    assert finding.cause.startswith("n3 has not answered since step 5 (12:00:11): 16 of 20 tests")
    assert finding.evidence.startswith("n2")


def test_a_host_that_never_came() -> None:
    tests = matrix(4, 1, lambda c, s, r: "n3" in (c, s))
    tests = [m if m.passed else Measured(m.client, m.server, m.rail, False) for m in tests]
    raw = [absent("n3", "n0", "did not come to the start within 120 s")]
    (finding,) = findings(tests, absences=absences_from(raw, {"ib_write_bw"}))
    assert finding.observed["since_step"] == -1 and "n3 did not come to the start within 120 s" in finding.cause


def test_two_that_miss_each_other_are_a_pair_and_not_gone() -> None:
    tests = [
        m if m.passed else Measured(m.client, m.server, m.rail, False)
        for m in matrix(5, 1, lambda c, s, r: {c, s} == {"n1", "n2"})
    ]
    line = "has not answered since step 2 (12:00:00)"
    absences = absences_from([absent("n1", "n2", line), absent("n2", "n1", line)], {"ib_write_bw"})
    assert named(tests) == [("pair", ("n1", "n2"), (0,))]
    assert [finding.observed["kind"] for finding in findings(tests, absences=absences)] == ["pair"]


def without_result(tests: list[Measured]) -> list[Measured]:
    return [m if m.passed else Measured(m.client, m.server, m.rail, False) for m in tests]


@pytest.mark.parametrize("line", ["did not come to the start within 120 s", "has not answered since step 0 (12:00:00)"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_host_that_only_one_other_cannot_reach_lives(line: str, reverse: bool) -> None:
    """Its tests with all others came through, after the one gave it up: what is shut is the way between the two."""
    tests = without_result(matrix(4, 2, lambda c, s, r: {c, s} == {"n0", "n1"}))
    (finding,) = findings(tests[::-1] if reverse else tests, absences=[Absence("n1", "n0", line)])
    assert (finding.observed["kind"], finding.observed["hosts"]) == ("pair", ["n0", "n1"])
    assert f"n0 says that n1 {line}" in finding.cause and "TCP 18514" in finding.remedy and finding.host == ""


def test_a_host_that_measures_slowly_with_the_others_lives_as_well() -> None:
    tests = [
        Measured(m.client, m.server, m.rail, m.passed, None if {m.client, m.server} == {"n0", "n1"} else m.gbps)
        for m in matrix(5, 1, lambda c, s, r: "n1" in (c, s))
    ]
    causes = explain(tests, absences=[Absence("n1", "n0", "did not come to the start within 120 s")])
    assert [(cause.kind, cause.hosts) for cause in causes] == [("port", ("n1",))]


def test_what_a_lost_host_measured_slowly_is_still_explained() -> None:
    """A slow result is not for want of an answer: the port stays to blame for it."""
    tests = matrix(5, 1, lambda c, s, r: s == "n2")
    tests += [Measured("n4", "n5", 0, False)]
    absences = [Absence("n5", "n4", "has not answered since step 0 (12:00:00)")]
    kinds = [(cause.kind, cause.hosts) for cause in explain(tests, absences=absences)]
    assert kinds == [("gone", ("n5",)), ("port", ("n2",))]


def test_a_pair_on_several_rails_is_one_cause() -> None:
    assert named(matrix(4, 3, lambda c, s, r: {c, s} == {"n1", "n2"} and r > 0)) == [("pair", ("n1", "n2"), (1, 2))]
