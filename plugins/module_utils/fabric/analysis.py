# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which port, node, rail, leaf or pair explains the failed tests of a matrix. Pure.

A part is a port, a node, a leaf, or uplinks. It is to blame when it explains the failures of several pairs,
and nothing passes through it: of a port, say, a row or a column of a rail's heat map. Parts are taken one by
one, the one that explains most first, and of those that explain as much the smallest; what is left over are
single pairs. A host that stopped answering explains by itself what gave no result with it, and so does a
rail on which nothing passes.

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


class Way(t.NamedTuple):
    """From one leaf to another on a rail."""

    client: str
    server: str
    rail: int


def way_of(test: Measured, leaves: Leaves) -> Way | None:
    """The way from leaf to leaf that a test takes; None inside of a leaf, and where a leaf is not known."""
    one, other = leaf_of(leaves, (test.client, test.rail)), leaf_of(leaves, (test.server, test.rail))
    return None if one is None or other is None or one == other else Way(one, other, test.rail)


class _Matrix:
    """The tests of a matrix, found by what they went through."""

    def __init__(self, tests: t.Iterable[Measured], leaves: Leaves) -> None:
        self.leaves = leaves
        self.through: dict[End, list[Measured]] = defaultdict(list)
        self.by_rail: dict[int, list[Measured]] = defaultdict(list)
        self.rails_of: dict[str, set[int]] = defaultdict(set)
        self.of_pair: dict[tuple[frozenset[str], int], int] = defaultdict(int)
        self.of_way: dict[Way, int] = defaultdict(int)
        self.good: set[End] = set()
        self.good_ways: set[Way] = set()
        for test in tests:
            self.by_rail[test.rail].append(test)
            self.of_pair[frozenset((test.client, test.server)), test.rail] += 1
            for end in test.ends():
                self.through[end].append(test)
                self.rails_of[end.host].add(end.rail)
            way = way_of(test, leaves)
            if way is not None:
                self.of_way[way] += 1
            if test.passed:
                self.good.update(test.ends())
                self.good_ways.update(() if way is None else (way,))


def explain(
    tests: t.Sequence[Measured], leaves: Leaves | None = None, absences: t.Sequence[Absence] = ()
) -> list[Cause]:
    """The fewest causes that explain all failed tests. ``leaves``: the switches that ports hang on, as far as known."""
    causes = _gone(tests, absences)
    lost = {test for cause in causes for test in cause.failures}
    matrix = _Matrix((test for test in tests if test not in lost), leaves or {})
    for rail, on_rail in sorted(matrix.by_rail.items()):
        hosts = {test.client for test in on_rail} | {test.server for test in on_rail}
        if not any(test.passed for test in on_rail) and len(hosts) >= _FEW and not _is_star(on_rail):
            causes.append(Cause("rail", tuple(sorted(hosts)), (rail,), (), tuple(on_rail), len(on_rail)))
    found = _Search(_unexplained(tests, causes), matrix).blamed()
    causes += _join(found, matrix)
    causes += _uplinks(found, {test for cause in causes for test in cause.failures}, matrix)
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


# Of parts that explain the same the first is named: it claims least.
_PORT, _NODE, _BETWEEN, _UPLINKS, _LEAF, _SPINE = range(6)


class _Part(t.NamedTuple):
    """What tests go through. Its name is that of a port, a host, a leaf, or two leaves."""

    rank: int
    name: tuple[t.Any, ...]


class _Side(t.NamedTuple):
    """One direction of what a leaf has on a rail: of all its ports, of its uplinks, or of all uplinks."""

    rank: int
    leaf: str
    rail: int
    way: str


# A part is bad in some of its columns, each on one rail in one direction.
_Column = t.Union[End, Way, _Side]


def _columns_of_end(end: End, leaves: Leaves) -> t.Iterator[tuple[_Part, _Column]]:
    yield _Part(_PORT, end.port), end
    yield _Part(_NODE, (end.host,)), end
    leaf = leaf_of(leaves, end.port)
    if leaf is not None:
        yield _Part(_LEAF, (leaf,)), _Side(_LEAF, leaf, end.rail, end.way)


def _columns_of_way(way: Way) -> t.Iterator[tuple[_Part, _Column]]:
    yield _Part(_BETWEEN, tuple(sorted((way.client, way.server)))), way
    yield _Part(_UPLINKS, (way.client,)), _Side(_UPLINKS, way.client, way.rail, SENDS)
    yield _Part(_UPLINKS, (way.server,)), _Side(_UPLINKS, way.server, way.rail, RECEIVES)
    yield _Part(_SPINE, ()), _Side(_SPINE, "", way.rail, SENDS)


def _columns(test: Measured, leaves: Leaves) -> t.Iterator[tuple[_Part, _Column]]:
    """What a test goes through."""
    for end in test.ends():
        yield from _columns_of_end(end, leaves)
    way = way_of(test, leaves)
    if way is not None:
        yield from _columns_of_way(way)


class _Found(t.NamedTuple):
    """A part to blame: what it explains that no other does, and the columns that it is bad in."""

    part: _Part
    failures: tuple[Measured, ...]
    columns: frozenset[_Column]


class _Search:
    """Takes parts one by one, the one that explains most first. Each failure is taken away once."""

    def __init__(self, failed: t.Iterable[Measured], matrix: _Matrix) -> None:
        self._matrix = matrix
        leaves = matrix.leaves
        well = {column for end in matrix.good for _part, column in _columns_of_end(end, leaves)}
        well.update(column for way in matrix.good_ways for _part, column in _columns_of_way(way))
        self._through: dict[_Part, list[tuple[Measured, _Column]]] = defaultdict(list)
        self._parts: dict[Measured, set[_Part]] = {}
        self._left: dict[_Part, int] = defaultdict(int)
        for test in failed:
            own = [(part, column) for part, column in _columns(test, leaves) if column not in well]
            self._parts[test] = {part for part, _column in own}
            for part, column in own:
                self._through[part].append((test, column))
            for part in self._parts[test]:
                self._left[part] += 1

    def blamed(self) -> list[_Found]:
        """The parts to blame."""
        # Most failures first; rank and name make the order the same everywhere.
        queue = [(-count, part) for part, count in self._left.items()]
        heapq.heapify(queue)
        blamed = []
        while queue:
            count, part = heapq.heappop(queue)
            if self._left[part] != -count:
                heapq.heappush(queue, (-self._left[part], part))
                continue
            found = self._open(part)
            if self._is_enough(found):
                blamed.append(found)
                self._take(found.failures)
        return blamed

    def _open(self, part: _Part) -> _Found:
        """The part with what is not explained yet."""
        own = [(test, column) for test, column in self._through[part] if test in self._parts]
        tests, columns = dict.fromkeys(test for test, _column in own), frozenset(column for _test, column in own)
        return _Found(part, tuple(tests), columns)

    def _take(self, tests: t.Iterable[Measured]) -> None:
        for test in tests:
            for part in self._parts.pop(test):
                self._left[part] -= 1

    def _is_enough(self, found: _Found) -> bool:
        """Whether it is several pairs that fail, on all rails of a node, or with several hosts of a leaf."""
        if len({frozenset((test.client, test.server)) for test in found.failures}) < 2:
            return False
        ends = {end for test in found.failures for end in _bad_ends(test.ends(), found, self._matrix.leaves)}
        if found.part.rank == _NODE:
            return _is_node(ends, self._matrix.rails_of)
        return found.part.rank != _LEAF or len({end.host for end in ends}) > 1


def _bad_ends(ends: t.Iterable[End], found: _Found, leaves: Leaves) -> list[End]:
    """Those of the ends that are bad as a part of what was found."""
    return [
        end
        for end in ends
        if any(part == found.part and column in found.columns for part, column in _columns_of_end(end, leaves))
    ]


def _is_node(ends: t.Iterable[End], rails_of: t.Mapping[str, set[int]]) -> bool:
    """Whether all rails of a host have a bad way in common, and are several."""
    ports: dict[tuple[str, int], set[str]] = defaultdict(set)
    for end in ends:
        ports[end.port].add(end.way)
    hosts = {host for host, _rail in ports}
    rails = {rail for host in hosts for rail in rails_of[host]}
    return len(ports) > 1 and len(ports) == len(rails) and bool(set.intersection(*ports.values()))


def _join(found: t.Sequence[_Found], matrix: _Matrix) -> list[Cause]:
    """Leaves, then what else is bad as nodes and ports, by host."""
    causes = [
        _cause("leaf", _bad_ends(matrix.through, one, matrix.leaves), matrix, one.part.name[0])
        for one in sorted(found)
        if one.part.rank == _LEAF
    ]
    taken = {end for cause in causes for end in cause.ends}
    of_hosts = {end for one in found if one.part.rank in (_PORT, _NODE) for end in one.columns}
    for own in _by_host(end for end in of_hosts if isinstance(end, End) and end not in taken):
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
    if _is_node(own, rails_of):
        return [("node", own)]
    ports: dict[int, list[End]] = defaultdict(list)
    for end in own:
        ports[end.rail].append(end)
    return [("port", port) for port in ports.values()]


def _through(ends: t.AbstractSet[End], tests: t.Iterable[Measured]) -> list[Measured]:
    return [test for test in tests if not ends.isdisjoint(test.ends())]


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


def _uplinks(found: t.Iterable[_Found], explained: t.Collection[Measured], matrix: _Matrix) -> list[Cause]:
    """Of uplinks what no port explains: from a leaf to all others, between two, or between all."""
    causes = []
    for one in found:
        ways = {test: way_of(test, matrix.leaves) for test in one.failures if test not in explained}
        if one.part.rank not in (_BETWEEN, _UPLINKS, _SPINE) or not ways:
            continue
        used = {way for way in ways.values() if way is not None}
        leaves = one.part.name or tuple(sorted({leaf for way in used for leaf in (way.client, way.server)}))
        ends = {end for test in ways for end in test.ends() if leaf_of(matrix.leaves, end.port) in leaves}
        hosts, rails = sorted({end.host for end in ends}), sorted({end.rail for end in ends})
        count = sum(matrix.of_way[way] for way in used)
        causes.append(Cause("leaf", tuple(hosts), tuple(rails), (), tuple(ways), count, uplinks=leaves))
    return causes


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
