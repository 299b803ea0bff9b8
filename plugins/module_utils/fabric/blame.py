# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Findings on what explains the failures of a matrix, with how sure that is. Pure."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..findings import FAIL, PASS, UNKNOWN, Finding
from .analysis import Absence, Cause, Measured, explain
from .leaves import Leaves
from .retest import NOT_REPRODUCED, Settled, choose, narrow, settle

_REMEDIES = {
    "gone": "look at its power, console and kernel log; then test again: nothing was proven with it after that",
    "port": "look at this port's cable, transceiver, PCIe link, settings and counters, and at its switch port",
    "node": "look at what the node's ports share: settings, PCIe, processors, memory, its switch",
    "rail": "look at what all ports of the rail share: its switch, VLAN, MTU and addresses",
    "leaf": "look at the leaf switch and its uplinks: MTU, PFC, ECN, load balancing",
    "uplinks": "look at these uplinks and the switches that they lead to: cables, rates, MTU, PFC, ECN, load balancing",
    "pair": "look at the path between just these two: routes, ECMP member links, and ACLs of the switches",
    "unmet": "look at TCP 18514 between just these two, by which hosts keep step: firewalls of both, routes, and ACLs"
    " of the switches",
}


def suspects(
    tests: t.Sequence[Measured], leaves: Leaves | None = None, absences: t.Sequence[Absence] = ()
) -> list[dict[str, t.Any]]:
    """The pairs to test again, as {hosts: [a, b], rail}, each once."""
    causes = explain(tests, leaves, absences)
    chosen = (one.as_pair() for retests in choose(tests, causes, leaves) for one in retests)
    return list({(*pair["hosts"], pair["rail"]): pair for pair in chosen}.values())


def findings(
    tests: t.Sequence[Measured],
    leaves: Leaves | None = None,
    absences: t.Sequence[Absence] = (),
    again: t.Sequence[Measured] | None = None,
) -> list[Finding]:
    """A finding on each cause; one that passes when every test passed; none without tests.

    again: what the pairs of ``suspects`` measured the second time; None when they were not tested again
    """
    causes = explain(tests, leaves, absences)
    if not causes:
        return [Finding(check="fabric", verdict=PASS, observed={"failed": 0, "tests": len(tests)})] if tests else []
    partners = _Partners(tests)
    retests = choose(tests, causes, leaves)
    return [
        _gone(cause, cause.absence)
        if cause.kind == "gone" and cause.absence
        else _finding(cause, settle(cause, own, again), partners)
        for whole, own in zip(causes, retests)
        for cause in narrow(whole, own, again, tests)
    ]


class _Partners:
    """With whom the port that a host has on a rail was tested, and with whom it passed."""

    def __init__(self, tests: t.Iterable[Measured]) -> None:
        self._all: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._passed: dict[tuple[str, int], set[str]] = defaultdict(set)
        for test in tests:
            for by_port in (self._all, self._passed) if test.passed else (self._all,):
                by_port[test.client, test.rail].add(test.server)
                by_port[test.server, test.rail].add(test.client)

    def do_well(self, cause: Cause) -> bool:
        """Whether any partner of the cause's ports passed with a host that the cause does not name."""
        own = set(cause.hosts)
        return any(
            self._passed[partner, rail] - own
            for rail in cause.rails
            for host in cause.hosts
            for partner in self._all[host, rail] - own
        )

    def do_well_elsewhere(self, cause: Cause) -> bool:
        """Whether each port that failed over uplinks passed with another host."""
        ports = {end.port for test in cause.failures for end in test.ends()}
        return all(self._passed[port] for port in ports)

    def is_alone(self, cause: Cause) -> bool:
        """Whether an end of a pair has no test with a third host on a rail, so that it can't be told from the path."""
        return any(self._all[host, rail] <= set(cause.hosts) for host in cause.hosts for rail in cause.rails)


def _gone(cause: Cause, absence: Absence) -> Finding:
    return Finding(
        check="fabric",
        verdict=FAIL,
        observed={**_observed(cause), "since_step": absence.step(), "time": absence.time_of_day()},
        expected="every host takes part to the end",
        evidence=f"{absence.reporter}, which was its partner then, and others after it",
        cause=f"{cause.hosts[0]} {absence.line}: {len(cause.failures)} of {cause.tests} tests with it gave no result;"
        " the others went on without it",
        remedy=_REMEDIES["gone"],
        host=cause.hosts[0],
    )


def _finding(cause: Cause, settled: Settled, partners: _Partners) -> Finding:
    best = max((test.gbps for test in cause.failures if test.gbps is not None), default=None)
    lonely = cause.kind == "pair" and partners.is_alone(cause)
    bare = cause.kind in ("port", "node", "leaf") and not cause.uplinks and not partners.do_well(cause)
    return Finding(
        check="fabric",
        # A suspect that did well the second time is not blamed; its failed tests are findings of their own.
        verdict=UNKNOWN if settled.confidence == NOT_REPRODUCED else FAIL,
        observed={
            **_observed(cause),
            "best_gbps": best,
            "confidence": settled.confidence,
            "retested": [
                {"client": m.client, "server": m.server, "rail": m.rail, "gbps": m.gbps, "passed": m.passed}
                for m in settled.measured
            ],
        },
        expected="every test passes",
        evidence="the matrix of this run" + (", and the retest of its suspects" if settled.measured else ""),
        cause=f"{_place(cause)}: {len(cause.failures)} of {cause.tests} tests {_way(cause)}fail"
        + (f", at best {best:g} Gb/s" if best else "")
        + ("; either end, or the path between them" if lonely else _seen_elsewhere(cause, bare, partners))
        + (f"; {cause.absence.reporter} says that {cause.absence.host} {cause.absence.line}" if cause.absence else "")
        + (f"; {settled.confidence}: {settled.told}" if settled.told else ""),
        remedy=_remedy(cause, settled, lonely, bare),
        host=cause.hosts[0] if cause.kind in ("port", "node") else "",
    )


def _observed(cause: Cause) -> dict[str, t.Any]:
    return {
        "kind": cause.kind,
        "hosts": list(cause.hosts),
        "rails": list(cause.rails),
        "failed": len(cause.failures),
        "tests": cause.tests,
    }


def _remedy(cause: Cause, settled: Settled, lonely: bool, bare: bool) -> str:
    if lonely:
        return "test each end with a third host, which tells the two apart"
    if settled.confidence == NOT_REPRODUCED:
        return settled.settles
    remedy = _REMEDIES["unmet" if cause.absence else "uplinks" if cause.uplinks else cause.kind]
    settles = "test its partners with each other" if bare else settled.settles
    return remedy + (f"; to be sure, {settles}" if settles else "")


def _place(cause: Cause) -> str:
    hosts = " and ".join(cause.hosts)
    rails = f"rail {', '.join(map(str, cause.rails))}"
    places = {
        "port": f"the port of {hosts} on {rails}",
        "node": f"node {hosts} as a whole ({rails})",
        "rail": f"{rails} as a whole ({len(cause.hosts)} hosts)",
        "leaf": f"{_leaves(cause)} ({', '.join(cause.hosts)}; {rails})",
        "pair": f"the pair {hosts} on {rails}",
    }
    return places[cause.kind]


def _leaves(cause: Cause) -> str:
    if not cause.uplinks:
        return f"leaf {cause.leaf}"
    names = [f"leaf {name}" for name in cause.uplinks]
    if len(names) == 1:
        return f"the uplinks of {names[0]}"
    return f"the uplinks between {', '.join(names[:-1])} and {names[-1]}"


def _way(cause: Cause) -> str:
    return f"that it {cause.ways[0]} " if len(cause.ways) == 1 else ""


def _seen_elsewhere(cause: Cause, bare: bool, partners: _Partners) -> str:
    if cause.kind == "pair":
        return "; both do well with other hosts"
    if cause.kind == "rail":
        return ", and no test on it passes"
    if cause.uplinks:
        return "; all of these hosts do well with others" if partners.do_well_elsewhere(cause) else ""
    return "; none of its partners has passed with another host" if bare else "; its partners do well with others"
