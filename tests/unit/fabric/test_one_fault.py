# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One fault in any fabric, tested in any scope, is one cause: the smallest that explains what was measured.

What can't be told: on a rail on which nothing passes, and several pairs that share no host, it is the rail that is
named. Elsewhere several parts may explain the same, where too little was tested: the smallest is named, and it must
not be `confirmed` when it is well, that is when a test through it would pass.
"""

from __future__ import annotations

import itertools
import typing as t
from dataclasses import dataclass

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.fabric.analysis import Cause, Measured, explain, way_of
from ansible_collections.lossless.roce.plugins.module_utils.fabric.blame import findings, suspects
from ansible_collections.lossless.roce.plugins.module_utils.fabric.leaves import Leaves, leaf_of
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import FabricHost, Matrix
from hypothesis import assume, given
from hypothesis import strategies as st

Test = tuple[str, str, int]
SMALLEST_FIRST = ("pair", "port", "node", "uplinks", "leaf")
WAYS = ({"sends"}, {"receives"}, {"sends", "receives"})


@dataclass(frozen=True)
class Fabric:
    """Hosts with their rails, their leaves as they are and as they are known, and client, server and rail of tests."""

    rails: dict[str, set[int]]
    leaves: Leaves
    known: Leaves
    tests: list[Test]

    def possible(self) -> list[Test]:
        """All that a matrix of scope all would test."""
        pairs = itertools.permutations(self.rails, 2)
        return [(one, other, rail) for one, other in pairs for rail in self.rails[one] & self.rails[other]]


@dataclass(frozen=True)
class Fault:
    """What is broken, on which rails, in what it sends, receives, or both. Of a pair the first one sends."""

    kind: str
    names: tuple[str, ...]
    rails: set[int]
    ways: set[str]

    def hits(self, test: Test, leaves: Leaves) -> bool:
        """Whether such a test fails."""
        client, server, rail = test
        if rail not in self.rails or self.kind == "rail":
            return rail in self.rails
        ends: tuple[t.Any, t.Any] = (client, server)
        if self.kind == "pair":
            return ("sends" in self.ways and ends == self.names) or (
                "receives" in self.ways and ends == self.names[::-1]
            )
        if self.kind in ("leaf", "uplinks"):
            ends = (leaf_of(leaves, (client, rail)), leaf_of(leaves, (server, rail)))
            if self.kind == "uplinks" and (None in ends or ends[0] == ends[1]):
                return False
        return any(end in self.names and way in self.ways for end, way in zip(ends, ("sends", "receives"), strict=True))


def scheduled(rails: dict[str, set[int]], **scope: t.Any) -> list[Test]:
    """What the hosts measure."""
    hosts = tuple(FabricHost(name, dict.fromkeys(own, ("eth", "192.0.2.1"))) for name, own in rails.items())
    matrix = Matrix(hosts, **scope)
    return [(h, one.peer, one.rail) for h in rails for one in matrix.tests_of(h) if one.role == "client"]


@st.composite
def fabrics(draw: st.DrawFn, least: int = 2, least_leaves: int = 0) -> Fabric:
    count, rails = draw(st.integers(least, 12)), draw(st.integers(1, 4))
    every = set(range(rails))
    some = draw(st.booleans())
    own = {
        f"n{number:02}": draw(st.sets(st.sampled_from(sorted(every)), min_size=1)) if some else every
        for number in range(count)
    }
    groups = draw(st.integers(max(1, least_leaves), 4))
    place = {host: draw(st.integers(1, groups)) for host in own}
    of_a_rail = draw(st.booleans())
    leaves = {h: {r: f"leaf{place[h]}" + (f"-{r}" if of_a_rail else "") for r in own[h]} for h in own}
    scope = draw(st.sampled_from(["all", "ring", "sample", "reference"]))
    samples, seed = draw(st.integers(1, 4)), draw(st.integers(0, 99))
    tests = scheduled(own, scope=scope, samples=samples, seed=seed, reference="n00")
    told = set(own) if least_leaves else draw(st.sets(st.sampled_from(sorted(own))))
    return Fabric(own, leaves, {host: leaves[host] for host in told}, tests)


@st.composite
def broken(draw: st.DrawFn, kind: str) -> tuple[Fabric, Fault]:
    of_leaves = kind in ("leaf", "uplinks")
    fabric = draw(fabrics(least=4 if of_leaves else 2, least_leaves=2 if of_leaves else 0))
    host = draw(st.sampled_from(sorted(fabric.rails)))
    rails = fabric.rails[host]
    some = draw(st.sets(st.sampled_from(sorted(rails)), min_size=1))
    ways = draw(st.sampled_from(WAYS))
    if kind == "pair":
        other = draw(st.sampled_from(sorted(set(fabric.rails) - {host})))
        return fabric, Fault(kind, (host, other), some, ways)
    if of_leaves:
        names = {leaf for rail in some if (leaf := leaf_of(fabric.leaves, (host, rail)))}
        return fabric, Fault(kind, (min(names),), some, ways)
    return fabric, Fault(kind, (host,), {"node": rails, "port": {min(some)}, "rail": {min(some)}}[kind], ways)


def is_blind(tests: list[Test], failed: set[Test]) -> bool:
    """Whether nothing tells what fails on a rail from the rail."""
    hosts = [{client, server} for client, server, _rail in tests]
    return failed.issuperset(tests) and len(set.union(*hosts)) > 2 and not set.intersection(*hosts)


def is_node(host: str, tests: list[Test], failed: set[Test]) -> bool:
    """Whether all rails of a host fail in the same way, maybe one in the other way as well, and nothing else does."""
    bad: dict[int, set[int]] = {rail: set() for *ends, rail in tests if host in ends}
    through = {
        (rail, place): [x for x in tests if x[place] == host and x[2] == rail] for rail in bad for place in (0, 1)
    }
    for (rail, place), own in through.items():
        if own and failed.issuperset(own):
            bad[rail].add(place)
    explained = {test for rail, places in bad.items() for place in places for test in through[rail, place]}
    return len(bad) > 1 and bool(set.intersection(*bad.values())) and explained == failed


def smallest(tests: list[Test], failed: set[Test], leaves: Leaves) -> str:
    """Kind of the smallest part that explains exactly what failed. It is in each failed test, so in any one."""
    client, server, rail = min(failed)
    rails = {rail for _client, _server, rail in failed}
    of_leaves = [(leaf,) for host in (client, server) if (leaf := leaf_of(leaves, (host, rail)))]
    names = {"pair": [(client, server)], "port": [(client,), (server,)], "uplinks": of_leaves, "leaf": of_leaves}
    for kind in SMALLEST_FIRST:
        if kind == "node" and any(is_node(host, tests, failed) for host in (client, server)):
            return kind
        if kind == "port" and len(rails) > 1:
            continue
        for name, ways in itertools.product(names.get(kind, []), WAYS):
            fault = Fault(kind, name, rails, ways)
            if {test for test in tests if fault.hits(test, leaves)} == failed:
                return kind
    raise AssertionError("the fault itself explains it")


def measured(tests: t.Iterable[Test], failed: t.Callable[[Test], bool]) -> list[Measured]:
    return [Measured(*test, not failed(test), 5.0 if failed(test) else 97.0) for test in tests]


def kind_of(cause: Cause) -> str:
    return "uplinks" if cause.uplinks else cause.kind


KINDS = [*SMALLEST_FIRST, "rail"]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_one_fault_is_the_smallest_cause(kind: str, data: st.DataObject) -> None:
    fabric, fault = data.draw(broken(kind))
    failed = {test for test in fabric.tests if fault.hits(test, fabric.leaves)}
    assume(failed)
    by_rail = {rail: [test for test in fabric.tests if test[2] == rail] for rail in {r for _c, _s, r in fabric.tests}}
    blind = {rail for rail, tests in by_rail.items() if is_blind(tests, failed)}
    rest = {test for test in failed if test[2] not in blind}
    expected = [smallest([test for test in fabric.tests if test[2] not in blind], rest, fabric.known)] if rest else []
    causes = explain(measured(fabric.tests, failed.__contains__), fabric.known)
    assert [kind_of(cause) for cause in causes] == ["rail"] * len(blind) + expected
    assert {(m.client, m.server, m.rail) for cause in causes for m in cause.failures} == failed


def is_well(kind: str, hosts: list[str], rails: list[int], fails: list[Test], fabric: Fabric) -> bool:
    """Whether a test would pass through it: on some port in each direction, of a pair in both."""
    ports = [(host, rail) for host in hosts for rail in rails if rail in fabric.rails[host]]
    if kind == "pair":
        ways = [(tuple(hosts), rail) for rail in rails] + [(tuple(hosts[::-1]), rail) for rail in rails]
        return not any((*names, rail) in fails for names, rail in ways)
    for host, rail in ports:
        for place in (0, 1):
            through = [test for test in fabric.possible() if test[place] == host and test[2] == rail]
            if set(fails).issuperset(through):
                break
        else:
            return True
    return False


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_nothing_that_is_well_is_confirmed(kind: str, data: st.DataObject) -> None:
    fabric, fault = data.draw(broken(kind))
    fails = [test for test in fabric.possible() if fault.hits(test, fabric.leaves)]
    first = measured(fabric.tests, fails.__contains__)
    pairs = [(sorted(pair["hosts"]), pair["rail"]) for pair in suspects(first, fabric.known)]
    second = [(*names, rail) for pair, rail in pairs for names in (pair, pair[::-1])]
    for finding in findings(first, fabric.known, again=measured(second, fails.__contains__)):
        seen = finding.observed
        if seen.get("confidence") == "confirmed" and finding.cause.startswith("the uplinks"):
            (cause,) = (cause for cause in explain(first, fabric.known) if cause.uplinks)
            ways = {way_of(m, fabric.known) for m in cause.failures}
            across = (m for m in measured(fabric.possible(), fails.__contains__) if way_of(m, fabric.known) in ways)
            assert not any(m.passed for m in across), finding.cause
        elif seen.get("confidence") == "confirmed":
            assert not is_well(seen["kind"], seen["hosts"], seen["rails"], fails, fabric), finding.cause
