# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which port, node, rail, leaf or pair explains the failed tests of a matrix. Pure.

An end is one port in one direction: what it sends (it is the client) or what it receives. An end is to
blame when all of its tests fail, with several partners, while those partners do well with others: a row
or a column of a rail's heat map. Ends are taken one by one, the one that explains most first; what is
left over are uplinks between leaves, where all pairs across fail, and single pairs. A host that stopped
answering explains by itself what gave no result with it.

All of it is close to linear in the number of tests: 512 hosts make 261,632 of them on one rail.
"""

from __future__ import annotations

import heapq
import re
import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..findings import FAIL, PASS
from .coverage import rail_number
from .leaves import Leaves, leaf_of

SENDS, RECEIVES = "sends", "receives"
_FEW = 3  # hosts on a rail from which on a rail as a whole can be told from its ends
# How Meeting says when a partner was lost; without a step it never came.
_SINCE = re.compile(r"since step (\d+) \(([\d:]+)\)")
_NEVER = -1


@dataclass(frozen=True)
class Measured:
    """One judged measurement: client to server on a rail. gbps is None when there was no result."""

    client: str
    server: str
    rail: int
    passed: bool
    gbps: float | None = None

    def ends(self) -> tuple[End, End]:
        """The end that sent and the one that received."""
        return End(self.client, self.rail, SENDS), End(self.server, self.rail, RECEIVES)


@dataclass(frozen=True)
class Absence:
    """``reporter`` gave ``host`` up; ``line`` says when, in the words of Meeting."""

    host: str
    reporter: str
    line: str

    def step(self) -> int:
        """The step from which on there was silence; -1 when the host never came."""
        found = _SINCE.search(self.line)
        return int(found.group(1)) if found else _NEVER

    def time_of_day(self) -> str:
        """HH:MM:SS of the reporter's clock; empty when the host never came."""
        found = _SINCE.search(self.line)
        return found.group(2) if found else ""


@dataclass(frozen=True)
class End:
    """One direction of the port that a host has on a rail."""

    host: str
    rail: int
    way: str

    @property
    def port(self) -> tuple[str, int]:
        """Its host and rail."""
        return self.host, self.rail


@dataclass(frozen=True)
class Cause:
    """What explains some failures: kind is gone, port, node, rail, leaf or pair."""

    kind: str
    hosts: tuple[str, ...]
    rails: tuple[int, ...]
    ways: tuple[str, ...]
    failures: tuple[Measured, ...]
    tests: int  # how many tests went through it
    leaf: str = ""  # as a whole
    uplinks: tuple[str, ...] = ()  # of the one leaf to all others, or between these leaves; their inside is well
    ends: tuple[End, ...] = ()  # of a port, node or leaf: those that are bad
    absence: Absence | None = None  # the earliest: of a host that is gone, or of one of a pair by the other


def _seen(finding: t.Mapping[str, t.Any], checks: t.Collection[str]) -> t.Mapping[str, t.Any] | None:
    """What a judged finding on a measurement between two hosts observed."""
    seen = finding.get("observed")
    if finding["check"] not in checks or finding["verdict"] not in (PASS, FAIL) or not isinstance(seen, dict):
        return None
    return seen if seen.get("client") and seen.get("server") and seen.get("rail") is not None else None


def measured_from(findings: t.Iterable[t.Mapping[str, t.Any]], checks: t.Collection[str]) -> list[Measured]:
    """The judged measurements among findings; of two on one pair and direction the last stands.

    Raises ValueError for a rail that is no number of one.
    """
    found: dict[tuple[str, str, int], Measured] = {}
    for finding in findings:
        seen = _seen(finding, checks)
        if seen is not None:
            key = (seen["client"], seen["server"], rail_number(seen["rail"]))
            found[key] = Measured(*key, finding["verdict"] == PASS, seen.get("gbps"))
    return list(found.values())


def absences_from(findings: t.Iterable[t.Mapping[str, t.Any]], checks: t.Collection[str]) -> list[Absence]:
    """Who gave up whom, each once: the earliest."""
    found: dict[tuple[str, str], Absence] = {}
    for finding in findings:
        seen = _seen(finding, checks)
        if seen is not None and seen.get("gone"):
            reporter = seen["client"] if seen["server"] == seen["gone"] else seen["server"]
            absence = Absence(seen["gone"], reporter, str(seen.get("line", "")))
            known = found.setdefault((absence.host, reporter), absence)
            if absence.step() < known.step():
                found[absence.host, reporter] = absence
    return list(found.values())


class _Matrix:
    """The tests of a matrix, found by what they went through."""

    def __init__(self, tests: t.Iterable[Measured]) -> None:
        self.through: dict[End, list[Measured]] = defaultdict(list)
        self.by_rail: dict[int, list[Measured]] = defaultdict(list)
        self.rails_of: dict[str, set[int]] = defaultdict(set)
        self.of_pair: dict[tuple[frozenset[str], int], int] = defaultdict(int)
        self.good: set[End] = set()
        for test in tests:
            self.by_rail[test.rail].append(test)
            self.of_pair[frozenset((test.client, test.server)), test.rail] += 1
            for end in test.ends():
                self.through[end].append(test)
                self.rails_of[end.host].add(end.rail)
                if test.passed:
                    self.good.add(end)


def explain(
    tests: t.Sequence[Measured], leaves: Leaves | None = None, absences: t.Sequence[Absence] = ()
) -> list[Cause]:
    """The fewest causes that explain all failed tests. ``leaves``: the switches that ports hang on, as far as known."""
    causes = _gone(tests, absences)
    lost = {test for cause in causes for test in cause.failures}
    matrix = _Matrix(test for test in tests if test not in lost)
    bad_ends: list[End] = []
    for rail, on_rail in sorted(matrix.by_rail.items()):
        hosts = {test.client for test in on_rail} | {test.server for test in on_rail}
        if not any(test.passed for test in on_rail) and len(hosts) >= _FEW and not _is_star(on_rail):
            causes.append(Cause("rail", tuple(sorted(hosts)), (rail,), (), tuple(on_rail), len(on_rail)))
        else:
            bad_ends += _bad_ends(on_rail)
    causes += _join(bad_ends, matrix, leaves or {})
    causes += _uplinks(_unexplained(tests, causes), matrix, leaves or {})
    return causes + _pairs(_unexplained(tests, causes), matrix, absences)


def _unexplained(tests: t.Iterable[Measured], causes: t.Iterable[Cause]) -> list[Measured]:
    explained = {test for cause in causes for test in cause.failures}
    return [test for test in tests if not test.passed and test not in explained]


def _is_star(tests: t.Iterable[Measured]) -> bool:
    """Whether one host is in all of them: its port explains as much as all that they share."""
    return bool(set.intersection(*({test.client, test.server} for test in tests)))


def _gone(tests: t.Sequence[Measured], absences: t.Sequence[Absence]) -> list[Cause]:
    """Hosts that others gave up, and that never said so of anybody: two that miss each other have a bad path."""
    alive = {absence.reporter for absence in absences} | _living(tests, absences)
    earliest: dict[str, Absence] = {}
    for absence in sorted(absences, key=_when, reverse=True):
        if absence.host not in alive:
            earliest[absence.host] = absence
    causes = []
    explained: set[Measured] = set()
    for host, absence in sorted(earliest.items()):
        own = [test for test in tests if host in (test.client, test.server)]
        # What it still measured stands: only tests without a result are lost with it.
        failures = tuple(t_ for t_ in own if not t_.passed and t_.gbps is None and t_ not in explained)
        explained.update(failures)
        rails = tuple(sorted({test.rail for test in own}))
        causes.append(Cause("gone", (host,), rails, (), failures, len(own), absence=absence))
    return causes


def _when(absence: Absence) -> tuple[int, str, str]:
    return absence.step(), absence.time_of_day(), absence.reporter


def _living(tests: t.Iterable[Measured], absences: t.Iterable[Absence]) -> set[str]:
    """Hosts given up by no more partners than they have results with.

    What counts are a host's results as a client: it tells them itself, at the end of its part.
    """
    results: dict[str, set[str]] = defaultdict(set)
    for test in tests:
        if test.passed or test.gbps is not None:
            results[test.client].add(test.server)
    reporters: dict[str, set[str]] = defaultdict(set)
    for absence in absences:
        reporters[absence.host].add(absence.reporter)
    return {host for host, own in reporters.items() if len(results[host] - own) >= len(own)}


def _bad_ends(tests: list[Measured]) -> list[End]:
    """Ends whose tests all fail, with at least two partners, the one with most failures first.

    What fails by an end that was found bad says nothing on the end across. No test that passes goes through a bad
    end, so an end with one is never suspected, and each test is taken away once.
    """
    through: dict[End, list[Measured]] = defaultdict(list)
    good: set[End] = set()
    for test in tests:
        for end in test.ends():
            through[end].append(test)
            if test.passed:
                good.add(end)
    left = {end: len(own) for end, own in through.items() if end not in good}
    # Most failures first; the name only makes the order the same everywhere.
    queue = [(-count, end.host, end.way, end) for end, count in left.items()]
    heapq.heapify(queue)
    bad: list[End] = []
    while queue:
        count, _host, _way, end = heapq.heappop(queue)
        if end not in left or left[end] < 2:
            continue
        if left[end] != -count:
            heapq.heappush(queue, (-left[end], end.host, end.way, end))
            continue
        bad.append(end)
        del left[end]
        for across in (other for test in through[end] for other in test.ends()):
            if across in left:
                left[across] -= 1
    return bad


def _join(ends: list[End], matrix: _Matrix, leaves: Leaves) -> list[Cause]:
    """Both directions of a port are one port, what all ports of a host share the node, all hosts of a leaf the leaf."""
    causes = [_cause("leaf", own, matrix, leaf) for leaf, own in _bad_leaves(ends, matrix, leaves).items()]
    taken = {end for cause in causes for end in cause.ends}
    for own in _by_host(end for end in ends if end not in taken):
        causes += [_cause(kind, part, matrix) for kind, part in _node_or_ports(own, matrix.rails_of)]
    return causes


def _by_host(ends: t.Iterable[End]) -> list[list[End]]:
    """The ends of each host, in order."""
    hosts: dict[str, list[End]] = defaultdict(list)
    for end in sorted(ends, key=_order):
        hosts[end.host].append(end)
    return list(hosts.values())


def _order(end: End) -> tuple[str, int, str]:
    return end.host, end.rail, end.way


def _node_or_ports(own: list[End], rails_of: t.Mapping[str, set[int]]) -> list[tuple[str, list[End]]]:
    """Kind and ends: the node when all rails of the host have a bad way in common, else each port."""
    ports: dict[int, list[End]] = defaultdict(list)
    for end in own:
        ports[end.rail].append(end)
    shared = set.intersection(*({end.way for end in port} for port in ports.values()))
    if shared and len(ports) > 1 and set(ports) == rails_of[own[0].host]:
        return [("node", own)]
    return [("port", port) for port in ports.values()]


def _through(ends: t.AbstractSet[End], tests: t.Iterable[Measured]) -> list[Measured]:
    return [test for test in tests if not ends.isdisjoint(test.ends())]


def _bad_leaves(ends: t.Collection[End], matrix: _Matrix, leaves: Leaves) -> dict[str, list[End]]:
    """The ends that are bad on all of the several hosts that a leaf has on a rail, while that has other leaves."""
    members: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for host, rail in sorted((host, rail) for host, rails in matrix.rails_of.items() for rail in rails):
        leaf = leaf_of(leaves, (host, rail))
        if leaf is not None:
            members[rail][leaf].append(host)
    columns = {(leaf, end.rail, end.way) for end in ends for leaf in [leaf_of(leaves, end.port)] if leaf is not None}
    bad = set(ends)
    found: dict[str, list[End]] = defaultdict(list)
    for leaf, rail, way in sorted(columns):
        column = [End(host, rail, way) for host in members[rail][leaf]]
        if len(members[rail]) > 1 and len(column) > 1 and bad.issuperset(column):
            found[leaf] += column
    return found


def _cause(kind: str, ends: t.Iterable[End], matrix: _Matrix, leaf: str = "") -> Cause:
    own = sorted(ends, key=_order)
    # Once each, in order: a test between two bad ends goes through both. None of them passes.
    return _of_ends(kind, own, dict.fromkeys(test for end in own for test in matrix.through[end]), leaf)


def _of_ends(kind: str, ends: t.Sequence[End], through: t.Collection[Measured], leaf: str = "") -> Cause:
    return Cause(
        kind,
        tuple(dict.fromkeys(end.host for end in ends)),
        tuple(sorted({end.rail for end in ends})),
        tuple(sorted({end.way for end in ends})),
        tuple(through),
        len(through),
        leaf,
        ends=tuple(ends),
    )


def without_ports(cause: Cause, ports: t.Collection[tuple[str, int]], tests: t.Iterable[Measured]) -> list[Cause]:
    """A node or leaf as two parts, each as nodes and ports: what is left of it without ``ports``, then these."""
    rails_of: dict[str, set[int]] = defaultdict(set)
    for end in (end for test in tests for end in test.ends()):
        rails_of[end.host].add(end.rail)
    parts = ([end for end in cause.ends if (end.port in ports) is inside] for inside in (False, True))
    return [
        _of_ends(kind, ends, _through(frozenset(ends), cause.failures))
        for part in parts
        for own in _by_host(part)
        for kind, ends in _node_or_ports(own, rails_of)
    ]


class _Across(t.NamedTuple):
    """From one leaf to another on a rail."""

    client: str
    server: str
    rail: int


def _uplinks(failed: list[Measured], matrix: _Matrix, leaves: Leaves) -> list[Cause]:
    """Leaves between which all fails that no port explains, while their hosts do well otherwise.

    Leaves are taken for hosts then: one without a good way to others explains more than the ways one by one.
    """
    bad = _bad_ways(failed, matrix, leaves)
    if not bad:
        return []
    tried: dict[_Across, int] = defaultdict(int)
    passed: set[_Across] = set()
    for test in (test for on_rail in matrix.by_rail.values() for test in on_rail):
        way = _across(test, leaves)
        if way is not None:
            tried[way] += 1
            passed.update([way] if test.passed else [])
    between = [Measured(*way, way in passed) for way in tried if way in passed or way in bad]
    causes = []
    for cause in explain(between):
        ways = [_Across(test.client, test.server, test.rail) for test in cause.failures]
        own = [test for way in ways for test in bad[way]]
        hosts = {e.host for test in own for e in test.ends() if leaf_of(leaves, e.port) in cause.hosts}
        count = sum(tried[way] for way in ways)
        causes.append(Cause("leaf", tuple(sorted(hosts)), cause.rails, (), tuple(own), count, uplinks=cause.hosts))
    return causes


def _across(test: Measured, leaves: Leaves) -> _Across | None:
    one, other = (leaf_of(leaves, end.port) for end in test.ends())
    return None if one is None or other is None or one == other else _Across(one, other, test.rail)


def _bad_ways(failed: t.Iterable[Measured], matrix: _Matrix, leaves: Leaves) -> dict[_Across, list[Measured]]:
    """What failed from leaf to leaf, where that is more than a pair, and each end did well with another host."""
    ways: dict[_Across, list[Measured]] = defaultdict(list)
    for test in failed:
        way = _across(test, leaves)
        if way is not None:
            ways[way].append(test)
    return {
        way: own
        for way, own in ways.items()
        if len(own) > 1 and all(end in matrix.good for test in own for end in test.ends())
    }


def _pairs(failed: list[Measured], matrix: _Matrix, absences: t.Iterable[Absence]) -> list[Cause]:
    """What no port explains, by pair; a pair that fails on several rails is one cause."""
    missed = {frozenset((a.host, a.reporter)): a for a in sorted(absences, key=_when, reverse=True)}
    groups: dict[frozenset[str], list[Measured]] = defaultdict(list)
    for test in failed:
        groups[frozenset((test.client, test.server))].append(test)
    causes = []
    for pair, group in sorted(groups.items(), key=lambda item: sorted(item[0])):
        rails = tuple(sorted({test.rail for test in group}))
        count = sum(matrix.of_pair[pair, rail] for rail in rails)
        causes.append(Cause("pair", tuple(sorted(pair)), rails, (), tuple(group), count, absence=missed.get(pair)))
    return causes
