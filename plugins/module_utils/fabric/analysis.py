# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which port, node, rail, leaf or pair explains the failed tests of a matrix. Pure.

An end is one port in one direction: what it sends (it is the client) or what it receives. An end is to
blame when all of its tests fail, with several partners, while those partners do well with others: a row
or a column of a rail's heat map. Ends are taken one by one, the one that explains most first; what is
left over are single pairs.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..findings import FAIL, PASS, Finding

SENDS, RECEIVES = "sends", "receives"
_FEW = 3  # hosts on a rail from which on a rail as a whole can be told from its ends


@dataclass(frozen=True)
class Measured:
    """One judged measurement: client to server on a rail. gbps is None when there was no result."""

    client: str
    server: str
    rail: int
    passed: bool
    gbps: float | None = None


@dataclass(frozen=True)
class End:
    """One direction of the port that a host has on a rail."""

    host: str
    rail: int
    way: str


@dataclass(frozen=True)
class Cause:
    """What explains some failures: kind is port, node, rail, leaf or pair."""

    kind: str
    hosts: tuple[str, ...]
    rails: tuple[int, ...]
    ways: tuple[str, ...]
    failures: tuple[Measured, ...]
    tests: int  # how many tests went through it
    leaf: str = ""


def measured_from(findings: t.Iterable[t.Mapping[str, t.Any]], checks: t.Collection[str]) -> list[Measured]:
    """The judged measurements among findings; of two on one pair and direction the last stands."""
    found: dict[tuple[str, str, int], Measured] = {}
    for finding in findings:
        seen = finding.get("observed")
        if finding["check"] not in checks or finding["verdict"] not in (PASS, FAIL) or not isinstance(seen, dict):
            continue
        if seen.get("client") and seen.get("server") and seen.get("rail") is not None:
            key = (seen["client"], seen["server"], int(seen["rail"]))
            found[key] = Measured(*key, finding["verdict"] == PASS, seen.get("gbps"))
    return list(found.values())


def explain(tests: t.Sequence[Measured], leaves: t.Mapping[str, str] | None = None) -> list[Cause]:
    """The fewest causes that explain all failed tests. ``leaves``: name of each host's leaf switch, as far as known."""
    causes: list[Cause] = []
    bad_ends: list[End] = []
    for rail in sorted({test.rail for test in tests}):
        on_rail = [test for test in tests if test.rail == rail]
        hosts = {test.client for test in on_rail} | {test.server for test in on_rail}
        if len(hosts) >= _FEW and not any(test.passed for test in on_rail):
            causes.append(Cause("rail", tuple(sorted(hosts)), (rail,), (), tuple(on_rail), len(on_rail)))
        else:
            bad_ends += _bad_ends(on_rail)
    failed = [test for test in tests if not test.passed and not _in(test, causes)]
    causes += _join(bad_ends, tests, failed, leaves or {})
    explained = {test for cause in causes for test in cause.failures}
    return causes + _pairs([test for test in failed if test not in explained], tests)


def _in(test: Measured, causes: list[Cause]) -> bool:
    return any(test in cause.failures for cause in causes)


def _ends(test: Measured) -> tuple[End, End]:
    return End(test.client, test.rail, SENDS), End(test.server, test.rail, RECEIVES)


def _bad_ends(tests: list[Measured]) -> list[End]:
    """Ends whose tests all fail, with at least two partners, the one with most failures first."""
    bad: list[End] = []
    while True:
        through: dict[End, list[Measured]] = defaultdict(list)
        for test in tests:
            if not set(_ends(test)) & set(bad):
                for end in _ends(test):
                    through[end].append(test)
        suspects = [end for end, own in through.items() if len(own) > 1 and not any(test.passed for test in own)]
        if not suspects:
            return bad
        # Most failures first; the name only makes the order the same everywhere.
        bad.append(min(suspects, key=lambda end: (-len(through[end]), end.host, end.way)))


def _join(
    ends: list[End], tests: t.Sequence[Measured], failed: list[Measured], leaves: t.Mapping[str, str]
) -> list[Cause]:
    """Both directions of a port are one port, all ports of a host one node, all hosts of a leaf one leaf."""
    ways: dict[tuple[str, int], set[str]] = defaultdict(set)
    for end in ends:
        ways[(end.host, end.rail)].add(end.way)
    hosts: dict[str, list[int]] = defaultdict(list)
    for host, rail in sorted(ways):
        hosts[host].append(rail)
    causes = []
    for leaf, members in _bad_leaves(hosts, tests, leaves).items():
        rails = sorted({rail for host in members for rail in hosts[host]})
        causes.append(_cause("leaf", members, rails, ways, tests, failed, leaf))
        hosts = defaultdict(list, {host: own for host, own in hosts.items() if host not in members})
    for host, rails in hosts.items():
        if len(rails) > 1 and set(rails) == _rails_of(host, tests):
            causes.append(_cause("node", [host], rails, ways, tests, failed))
        else:
            causes += [_cause("port", [host], [rail], ways, tests, failed) for rail in rails]
    return causes


def _rails_of(host: str, tests: t.Sequence[Measured]) -> set[int]:
    return {test.rail for test in tests if host in (test.client, test.server)}


def _bad_leaves(
    hosts: t.Mapping[str, list[int]], tests: t.Sequence[Measured], leaves: t.Mapping[str, str]
) -> dict[str, list[str]]:
    """Leaves of several hosts all of which are bad, while there are other leaves."""
    members: dict[str, list[str]] = defaultdict(list)
    for host in sorted({name for test in tests for name in (test.client, test.server)}):
        if host in leaves:
            members[leaves[host]].append(host)
    if len(members) < 2:
        return {}
    return {leaf: own for leaf, own in members.items() if len(own) > 1 and all(host in hosts for host in own)}


def _cause(
    kind: str,
    hosts: list[str],
    rails: list[int],
    ways: t.Mapping[tuple[str, int], set[str]],
    tests: t.Sequence[Measured],
    failed: list[Measured],
    leaf: str = "",
) -> Cause:
    ends = {End(host, rail, way) for host in hosts for rail in rails for way in ways.get((host, rail), ())}
    through = [test for test in tests if set(_ends(test)) & ends]
    return Cause(
        kind,
        tuple(hosts),
        tuple(rails),
        tuple(sorted({end.way for end in ends})),
        tuple(test for test in failed if test in set(through)),
        len(through),
        leaf,
    )


def _pairs(failed: list[Measured], tests: t.Sequence[Measured]) -> list[Cause]:
    """What no port explains, by pair and rail."""
    groups: dict[tuple[tuple[str, ...], int], list[Measured]] = defaultdict(list)
    for test in failed:
        groups[(tuple(sorted((test.client, test.server))), test.rail)].append(test)
    return [
        Cause(
            "pair",
            hosts,
            (rail,),
            (),
            tuple(group),
            len([test for test in tests if test.rail == rail and {test.client, test.server} == set(hosts)]),
        )
        for (hosts, rail), group in sorted(groups.items())
    ]


# -- findings ------------------------------------------------------------------------------------

_REMEDIES = {
    "port": "look at this port's cable, transceiver, PCIe link, settings and counters, and at its switch port",
    "node": "look at what the node's ports share: settings, PCIe, processors, memory, its switch",
    "rail": "look at what all ports of the rail share: its switch, VLAN, MTU and addresses",
    "leaf": "look at the leaf switch and its uplinks: MTU, PFC, ECN, load balancing",
    "pair": "look at the path between just these two: routes, ECMP member links, and ACLs of the switches",
}


def findings(tests: t.Sequence[Measured], leaves: t.Mapping[str, str] | None = None) -> list[Finding]:
    """A finding on each cause; one that passes when every test passed; none without tests."""
    if not tests:
        return []
    causes = explain(tests, leaves)
    if not causes:
        return [Finding(check="fabric", verdict=PASS, observed={"failed": 0, "tests": len(tests)})]
    return [_finding(cause, tests) for cause in causes]


def _finding(cause: Cause, tests: t.Sequence[Measured]) -> Finding:
    best = max((test.gbps for test in cause.failures if test.gbps is not None), default=None)
    lonely = cause.kind == "pair" and _is_alone(cause, tests)
    return Finding(
        check="fabric",
        verdict=FAIL,
        observed={
            "kind": cause.kind,
            "hosts": list(cause.hosts),
            "rails": list(cause.rails),
            "failed": len(cause.failures),
            "tests": cause.tests,
            "best_gbps": best,
        },
        expected="every test passes",
        evidence="the matrix of this run",
        cause=f"{_place(cause)}: {len(cause.failures)} of {cause.tests} tests {_way(cause)}fail"
        + (f", at best {best:g} Gb/s" if best else "")
        + ("; either end, or the path between them" if lonely else _confidence(cause)),
        remedy="test each end with a third host, which tells the two apart" if lonely else _REMEDIES[cause.kind],
        host=cause.hosts[0] if cause.kind in ("port", "node") else "",
    )


def _place(cause: Cause) -> str:
    hosts = " and ".join(cause.hosts)
    rails = f"rail {', '.join(map(str, cause.rails))}"
    places = {
        "port": f"the port of {hosts} on {rails}",
        "node": f"node {hosts} as a whole ({rails})",
        "rail": f"{rails} as a whole ({len(cause.hosts)} hosts)",
        "leaf": f"leaf {cause.leaf} ({', '.join(cause.hosts)}; {rails})",
        "pair": f"the pair {hosts} on {rails}",
    }
    return places[cause.kind]


def _way(cause: Cause) -> str:
    return f"that it {cause.ways[0]} " if len(cause.ways) == 1 else ""


def _confidence(cause: Cause) -> str:
    if cause.kind == "pair":
        return "; both do well with other hosts"
    if cause.kind == "rail":
        return ", and no test on it passes"
    return "; its partners do well with others"


def _is_alone(cause: Cause, tests: t.Sequence[Measured]) -> bool:
    """Whether one end of the pair has no test with a third host on the rail, so that it can't be told from the path."""
    rail = [test for test in tests if test.rail == cause.rails[0]]
    return any(
        all({test.client, test.server} == set(cause.hosts) for test in rail if host in (test.client, test.server))
        for host in cause.hosts
    )
