# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who meets whom: rounds, roles, steps and TCP ports, which every host works out for itself."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.rounds import (
    SCOPES,
    choose_rounds,
    pairs_of,
    partner,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import (
    FabricHost,
    Matrix,
    fit_budget,
    parse_hosts,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def hosts(count: int, rails: int = 1) -> tuple[FabricHost, ...]:
    """Hosts n0 … with a port on each rail."""
    return tuple(
        FabricHost(f"n{host}", {rail: (f"eth{rail}", f"10.{rail}.{host // 256}.{host % 256}") for rail in range(rails)})
        for host in range(count)
    )


@settings(max_examples=30, deadline=None)
@given(count=st.integers(0, 512))
def test_all_pairs_meet_once_and_nobody_twice_in_a_round(count: int) -> None:
    rounds = choose_rounds("all", count)
    assert len(rounds) == (0 if count < 2 else count - 1 + count % 2)
    met: set[tuple[int, int]] = set()
    for round_ in rounds:
        pairs = pairs_of(round_, count)
        present = [host for pair in pairs for host in pair]
        assert len(present) == len(set(present)) >= count - 1
        assert met.isdisjoint(pairs)
        met.update(pairs)
    assert len(met) == count * (count - 1) // 2


@given(count=st.integers(2, 60), scope=st.sampled_from(SCOPES), seed=st.integers(), data=st.data())
def test_both_ends_of_a_round_agree(count: int, scope: str, seed: int, data: st.DataObject) -> None:
    reference = data.draw(st.integers(0, count - 1))
    for round_ in choose_rounds(scope, count, samples=3, seed=seed, reference=reference):
        for rank in range(count):
            other = partner(round_, count, rank)
            assert other is None or (other != rank and partner(round_, count, other) == rank)


@given(count=st.integers(2, 40))
def test_a_ring_closes(count: int) -> None:
    edges = {frozenset(pair) for round_ in choose_rounds("ring", count) for pair in pairs_of(round_, count)}
    assert edges == {frozenset((host, (host + 1) % count)) for host in range(count)}


@given(count=st.integers(2, 40), data=st.data())
def test_a_reference_meets_everybody(count: int, data: st.DataObject) -> None:
    reference = data.draw(st.integers(0, count - 1))
    rounds = choose_rounds("reference", count, reference=reference)
    pairs = sorted(pair for round_ in rounds for pair in pairs_of(round_, count))
    assert pairs == sorted((min(reference, host), max(reference, host)) for host in range(count) if host != reference)


def test_a_sample_is_the_same_for_the_same_number_and_another_for_another() -> None:
    one = choose_rounds("sample", 100, samples=5, seed=1)
    assert one == choose_rounds("sample", 100, samples=5, seed=1) and len(one) == 5
    assert one != choose_rounds("sample", 100, samples=5, seed=2)
    assert choose_rounds("sample", 4, samples=99) == choose_rounds("all", 4)


@given(
    count=st.integers(2, 9),
    rails=st.integers(1, 3),
    at_once=st.booleans(),
    scope=st.sampled_from([scope for scope in SCOPES if scope != "pairs"]),
)
def test_hosts_that_work_out_their_parts_alone_fit_together(count: int, rails: int, at_once: bool, scope: str) -> None:
    matrix = Matrix(hosts(count, rails), scope=scope, samples=2, reference="n0", at_once=at_once)
    tests = {host.name: matrix.tests_of(host.name) for host in matrix.hosts}
    ends = {(name, test.peer, test.rail, test.step, test.tcp_port): test for name, own in tests.items() for test in own}
    assert len(ends) == sum(map(len, tests.values())) == 2 * matrix.measurements()
    for (name, peer, *rest), test in ends.items():
        other = ends[(peer, name, *rest)]
        assert {test.role, other.role} == {"server", "client"}
        assert test.peer_address == other.address
    for own in tests.values():
        steps = [test.step for test in own]
        assert steps == sorted(steps) and max(steps) < matrix.steps()
        together = [[test for test in own if test.step == step] for step in set(steps)]
        for group in together:
            assert len({test.peer for test in group}) == 1
            assert len({test.tcp_port for test in group}) == len(group) == (rails if at_once else 1)


@given(count=st.integers(2, 60), data=st.data())
def test_given_pairs_meet_once_and_nobody_stands_twice(count: int, data: st.DataObject) -> None:
    rank = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(rank, rank).filter(lambda pair: pair[0] != pair[1]), max_size=40))
    rounds = choose_rounds("pairs", count, pairs=pairs)
    assert rounds == choose_rounds("pairs", count, pairs=[(other, one) for one, other in reversed(pairs)])
    met = [pair for round_ in rounds for pair in pairs_of(round_, count)]
    assert sorted(met) == sorted({(min(pair), max(pair)) for pair in pairs})
    for round_ in rounds:
        present = [host for pair in pairs_of(round_, count) for host in pair]
        assert len(present) == len(set(present))
        for host in range(count):
            other = partner(round_, count, host)
            assert (other is None) == (host not in present)
            assert other is None or partner(round_, count, other) == host


def test_given_pairs_are_tested_on_their_rail_only() -> None:
    pairs = frozenset({(frozenset(("n0", "n3")), 1), (frozenset(("n1", "n2")), 0), (frozenset(("n0", "n1")), 0)})
    matrix = Matrix(hosts(4, rails=2), scope="pairs", pairs=pairs)
    tests = {host.name: [(test.peer, test.rail) for test in matrix.tests_of(host.name)] for host in matrix.hosts}
    assert tests == {
        "n0": [("n1", 0)] * 2 + [("n3", 1)] * 2,
        "n1": [("n0", 0)] * 2 + [("n2", 0)] * 2,
        "n2": [("n1", 0)] * 2,
        "n3": [("n0", 1)] * 2,
    }
    assert matrix.measurements() == 6 and len(matrix.rounds()) == 2


@pytest.mark.parametrize("pair", [({"n0", "n9"}, 0), ({"n0", "n1"}, 7), ({"n0"}, 0)], ids=str)
def test_given_pairs_that_cannot_be(pair: tuple[set[str], int]) -> None:
    matrix = Matrix(hosts(2), scope="pairs", pairs=frozenset({(frozenset(pair[0]), pair[1])}))
    with pytest.raises(PolicyError, match="pairs: n0.* two of the hosts that have this rail were expected"):
        matrix.steps()


@given(count=st.integers(0, 9), rails=st.integers(1, 3), data=st.data())
def test_measurements_are_what_the_hosts_do(count: int, rails: int, data: st.DataObject) -> None:
    names = [host.name for host in hosts(count)] + ["stranger"]
    name = st.sampled_from(names)
    left_out = data.draw(st.frozensets(st.tuples(st.frozensets(name, max_size=3), st.integers(0, 3)), max_size=5))
    matrix = Matrix(hosts(count, rails), left_out=left_out)
    assert sum(len(matrix.tests_of(host.name)) for host in matrix.hosts) == 2 * matrix.measurements()


def test_two_hosts_both_ways() -> None:
    first, second = Matrix(hosts(2)).tests_of("n0")
    assert (first.role, first.peer, first.peer_address, first.netdev) == ("server", "n1", "10.0.0.1", "eth0")
    assert (first.tcp_port, second.tcp_port, second.role) == (18515, 18516, "client")


def test_a_pair_that_is_left_out_changes_nobody_elses_steps() -> None:
    whole = Matrix(hosts(3, rails=2))
    part = Matrix(hosts(3, rails=2), left_out=frozenset({(frozenset(("n0", "n1")), 0)}))
    assert part.measurements() == whole.measurements() - 2
    assert part.tests_of("n2") == whole.tests_of("n2")
    assert [t_ for t_ in whole.tests_of("n0") if not (t_.peer == "n1" and t_.rail == 0)] == part.tests_of("n0")


def test_a_rail_that_one_end_lacks_is_left_out() -> None:
    one, two = hosts(2, rails=2)
    matrix = Matrix((one, FabricHost("n1", {0: two.rails[0]})))
    assert {test.rail for test in matrix.tests_of("n0")} == {0} and matrix.measurements() == 2


def test_a_budget_takes_as_many_rounds_as_fit() -> None:
    matrix = Matrix(hosts(16, rails=2))  # 15 rounds of 4 steps
    assert fit_budget(matrix, 10, 600) is matrix
    part = fit_budget(matrix, 10, 599)
    assert (part.scope, len(part.rounds())) == ("sample", 14)
    with pytest.raises(PolicyError, match="at least 40 s, which one round takes"):
        fit_budget(matrix, 10, 39)
    with pytest.raises(PolicyError, match="scope reference takes 600 s"):
        fit_budget(Matrix(hosts(16, rails=2), scope="reference", reference="n0"), 10, 100)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ([{"name": "a", "ports": []}, {"name": "a", "ports": []}], "a is listed twice"),
        ([{"name": "a", "ports": [{"name": "x", "rail": 0, "address": "10.0.0.1"}] * 2}], "a has two ports on rail 0"),
    ],
)
def test_hosts_that_cannot_be(raw: list[dict[str, t.Any]], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        parse_hosts(raw)


def test_a_host_that_is_not_in_the_list() -> None:
    with pytest.raises(PolicyError, match="host 'n9' … one of n0, n1 was expected"):
        Matrix(hosts(2)).tests_of("n9")
