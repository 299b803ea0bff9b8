# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Suspects of a matrix are tested once more with a known-good partner before they are blamed. Pure.

A partner is known good on a rail when all of its tests there with hosts that are not suspected passed, in both
directions. Ports, nodes and leaves are tested with one; of a pair each end is, and the pair once more. Of uplinks some
pairs are tested across once more. A partner on the suspect's own leaf is the better one, and so is one that others of
that leaf reach: a failure across uplinks over which nothing has passed says nothing of the suspect.
"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass

from .analysis import Cause, Measured, Way, way_of, without_ports
from .leaves import Leaves, leaf_of

CONFIRMED, NOT_REPRODUCED, UNTOLD, NOT_RETESTED = "confirmed", "not reproduced", "cannot be told", "not retested"
_OWN = ("port", "node", "leaf")  # causes that lie in their hosts' own ends


@dataclass(frozen=True)
class Retest:
    """Two hosts that are to test with each other once more on a rail; suspect is the one in question.

    telling: a failure can't be that of uplinks between the two
    """

    suspect: str
    partner: str
    rail: int
    telling: bool = True

    def as_pair(self) -> dict[str, t.Any]:
        """As the matrix takes pairs: {hosts: [a, b], rail}."""
        return {"hosts": sorted((self.suspect, self.partner)), "rail": self.rail}


@dataclass(frozen=True)
class Settled:
    """What a retest says of a cause: confidence is one of the above; ``told`` says by what, as part of a sentence.

    settles: what would tell where this could not; empty when it did
    """

    confidence: str
    told: str
    settles: str = ""
    measured: tuple[Measured, ...] = ()


class Partners:
    """Known-good partners by rail, those first that are reached well, and of these those that were taken least."""

    def __init__(self, tests: t.Sequence[Measured], causes: t.Sequence[Cause], leaves: Leaves) -> None:
        own = [c for c in causes if c.kind in (*_OWN, "gone") and not c.uplinks]
        suspects = {(h, r) for c in own for h in c.hosts for r in c.rails}
        on_uplinks = {test for c in causes if c.uplinks for test in c.failures}
        passed: dict[tuple[str, int], set[str]] = defaultdict(set)
        failed: set[tuple[str, int]] = set()
        for test in tests:
            ends = ((test.client, test.rail), (test.server, test.rail))
            if suspects.intersection(ends) or test in on_uplinks:
                continue
            for end, way in zip(ends, ("sends", "receives")):
                passed[end].add(way)
                if not test.passed:
                    failed.add(end)
        self._good: dict[int, list[str]] = defaultdict(list)
        for host, rail in sorted(end for end, ways in passed.items() if len(ways) == 2 and end not in failed):
            self._good[rail].append(host)
        self._taken: Counter[tuple[str, int]] = Counter()
        self._leaves = leaves
        ways = (way_of(test, leaves) for test in tests if test.passed)
        self._good_ways: set[Way] = {way for way in ways if way is not None}

    def take(self, host: str, rail: int, *, not_one_of: t.Collection[str]) -> str | None:
        """A partner for a host on the rail, or None when there is none."""
        free = [other for other in self._good[rail] if other not in not_one_of]
        if not free:
            return None
        chosen = min(free, key=lambda other: (not self.reaches(host, other, rail), self._taken[other, rail]))
        self._taken[chosen, rail] += 1
        return chosen

    def reaches(self, host: str, other: str, rail: int) -> bool:
        """Whether no uplinks are between two hosts, as far as is known, or such over which something passed."""
        both = (way_of(Measured(*ends, rail, True), self._leaves) for ends in ((host, other), (other, host)))
        return all(way is None or way in self._good_ways for way in both)

    def is_alone(self, host: str, rail: int) -> bool:
        """Whether no other host is known on its leaf: its port and the uplinks are one then."""
        leaf = leaf_of(self._leaves, (host, rail))
        return all(leaf_of(self._leaves, (other, rail)) != leaf for other in self._leaves if other != host)


def choose(tests: t.Sequence[Measured], causes: t.Sequence[Cause], leaves: Leaves | None = None) -> list[list[Retest]]:
    """The retests of each cause, in the order of the causes; none where no partner is known to be good.

    Nothing settles a whole rail or a host that is gone but another look at them.
    """
    partners = Partners(tests, causes, leaves or {})
    return [_of_cause(cause, partners) for cause in causes]


def _of_cause(cause: Cause, partners: Partners) -> list[Retest]:
    if cause.uplinks:
        return _over_uplinks(cause)
    if cause.kind in _OWN:
        ports = dict.fromkeys(end.port for end in cause.ends)
        return [one for host, rail in ports for one in _with_partner(host, rail, cause, partners)]
    if cause.kind != "pair":
        return []
    retests = []
    for rail in cause.rails:
        ends = [one for host in cause.hosts for one in _with_partner(host, rail, cause, partners)]
        # Without a third host the pair would fail again and say nothing new.
        retests += [Retest(cause.hosts[0], cause.hosts[1], rail), *ends] if ends else []
    return retests


def _over_uplinks(cause: Cause) -> list[Retest]:
    """Pairs that failed, no host in two of them: all can be tested at the same time."""
    taken: set[tuple[str, int]] = set()
    retests = []
    for test in cause.failures:
        ends = {(test.client, test.rail), (test.server, test.rail)}
        if not ends & taken:
            taken |= ends
            retests.append(Retest(test.client, test.server, test.rail))
    return retests


def _with_partner(host: str, rail: int, cause: Cause, partners: Partners) -> list[Retest]:
    partner = partners.take(host, rail, not_one_of=cause.hosts)
    if partner is None:
        return []
    # A leaf whose inside is bad as well was told from its uplinks at first.
    telling = cause.kind == "leaf" or partners.reaches(host, partner, rail) or partners.is_alone(host, rail)
    return [Retest(host, partner, rail, telling)]


def narrow(
    cause: Cause, retests: t.Sequence[Retest], again: t.Iterable[Measured] | None, tests: t.Iterable[Measured]
) -> list[Cause]:
    """The cause; or of a node or leaf that failed again in part only what is left of it, and what passed."""
    measured = _chosen(retests, again or ())
    ends = set(cause.ends)
    untold = ends.difference(end for m in measured for end in m.ends())
    failed = {end.port for m in measured if not m.passed for end in m.ends() if end in ends}
    passed = {end.port for end in ends} - failed - {end.port for end in untold}
    return without_ports(cause, passed, tests) if failed and passed else [cause]


def _chosen(retests: t.Iterable[Retest], measured: t.Iterable[Measured]) -> list[Measured]:
    """Those of the measurements that were asked for by these retests."""
    wanted = {(frozenset((one.suspect, one.partner)), one.rail) for one in retests}
    return [m for m in measured if (frozenset((m.client, m.server)), m.rail) in wanted]


def settle(cause: Cause, retests: t.Sequence[Retest], again: t.Iterable[Measured] | None) -> Settled:
    """What the second measurements say of a cause; ``again`` is None when nothing was retested at all."""
    if cause.kind not in (*_OWN, "pair"):
        return Settled(NOT_RETESTED, "")
    if not retests:
        third = (
            "test with a host that is known to be good" if cause.kind != "pair" else "test each end with a third host"
        )
        return Settled(UNTOLD, "no known-good partner was there to test with again", third)
    if again is None:
        return Settled(NOT_RETESTED, "", "test again with a known-good partner")
    measured = _chosen(retests, again)
    if cause.uplinks:
        return _settle_uplinks(cause, measured, _chosen(retests, cause.failures))
    if cause.kind == "pair":
        return _settle_pair(cause, measured)
    return _settle_own(cause, measured, _chosen((one for one in retests if one.telling), again))


_IN_PART = "not all of it was tested again"


def _settle_uplinks(cause: Cause, measured: list[Measured], before: list[Measured]) -> Settled:
    """``before``: the pairs in question, as they failed at first."""
    required = set(map(_direction, before))
    own = [m for m in measured if _direction(m) in required]
    failed = [m for m in own if not m.passed]
    if failed:
        part = "" if len(failed) == len(own) else f", in {len(failed)} of {len(own)} retests"
        return Settled(CONFIRMED, f"pairs across failed again{part}", "", tuple(own))
    if len(own) < len(required):
        return Settled(UNTOLD, _IN_PART, "test pairs across again", tuple(own))
    return Settled(
        NOT_REPRODUCED,
        "pairs across passed in the retest",
        "test again under load; what comes and goes is one of several paths (ECMP), or other traffic at the time",
        tuple(own),
    )


def _direction(measured: Measured) -> tuple[str, str, int]:
    return measured.client, measured.server, measured.rail


def _settle_own(cause: Cause, measured: list[Measured], telling: list[Measured]) -> Settled:
    """``telling``: those of the measurements that no uplinks can have failed."""
    ends = set(cause.ends)
    own = [m for m in measured if ends.intersection(m.ends())]
    if not own:
        return Settled(UNTOLD, "the retest gave no result", "test again with a known-good partner")
    failed = [m for m in own if not m.passed]
    if not failed and not ends.issubset(end for m in own for end in m.ends()):
        return Settled(UNTOLD, _IN_PART, "test again with a known-good partner, in both directions", tuple(own))
    if not failed:
        return Settled(
            NOT_REPRODUCED,
            f"passed in the retest with {_partners(cause, own)}",
            "test again under load; what comes and goes is a loose cable, heat, or other traffic at the time",
            tuple(own),
        )
    if not set(failed).intersection(telling):
        return Settled(
            UNTOLD,
            f"failed again with {_partners(cause, failed)}, across uplinks over which nothing has passed",
            "test with a host on the same leaf",
            tuple(own),
        )
    part = "" if len(failed) == len(own) else f", in {len(failed)} of {len(own)} retests"
    return Settled(CONFIRMED, f"failed again with known-good {_partners(cause, failed)}{part}", "", tuple(own))


def _partners(cause: Cause, measured: t.Iterable[Measured]) -> str:
    names = {name for m in measured for name in (m.client, m.server)} - set(cause.hosts)
    return ", ".join(sorted(names))


def _settle_pair(cause: Cause, measured: list[Measured]) -> Settled:
    own = [m for m in measured if {m.client, m.server} == set(cause.hosts)]
    others = [m for m in measured if {m.client, m.server} != set(cause.hosts)]
    if not own:
        return Settled(UNTOLD, "the retest of the pair gave no result", "test the pair again", tuple(others))
    passed = all(m.passed for m in own)
    if passed and not set(map(_direction, own)).issuperset(map(_direction, cause.failures)):
        return Settled(UNTOLD, _IN_PART, "test the pair again, in both directions", tuple(measured))
    if passed:
        return Settled(
            NOT_REPRODUCED,
            "the pair passed in the retest",
            "test again; a path that comes and goes is one of several (ECMP), or other traffic at the time",
            tuple(measured),
        )
    worse = sorted({h for m in others if not m.passed for h in (m.client, m.server) if h in cause.hosts})
    if worse:
        third = f"{' and '.join(worse)} now failed with a third host as well"
        return Settled(UNTOLD, third, f"look at the port of {' and '.join(worse)} first", tuple(measured))
    if not set(cause.hosts) <= {h for m in others for h in (m.client, m.server)}:
        unknown = "the pair failed again, and not both of its ends were tested with third hosts"
        return Settled(UNTOLD, unknown, "test each end with a third host", tuple(measured))
    return Settled(CONFIRMED, "the pair failed again, while its ends did well with third hosts", "", tuple(measured))
