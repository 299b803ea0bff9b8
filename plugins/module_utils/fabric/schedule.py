# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's tests of a matrix: with whom, on which rail, in which step. Pure.

A matrix is the same few numbers on every host, so nobody has to be told its part: host and rail
give the addresses, the number of a step gives the TCP port, and both ends come to the same.
"""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ..errors import PolicyError, brief
from ..values import require
from .rounds import Round, choose_rounds, pairs_of, partner

FIRST_TCP_PORT = 18515
_TCP_PORTS = 1000


@dataclass(frozen=True)
class FabricHost:
    """A host of the matrix: rail -> (netdev, IPv4 address), and rail -> Gb/s of the link where that was told."""

    name: str
    rails: dict[int, tuple[str, str]]
    gbps: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PairTest:
    """One test as one end sees it. Addresses are IPv4; the client connects to ``peer_address``.

    gbps: link rates in Gb/s of this end and of the other; None: not told
    """

    role: str
    peer: str
    peer_address: str
    netdev: str
    address: str
    rail: int
    tcp_port: int
    step: int = 0
    gbps: tuple[float | None, float | None] = (None, None)

    def slower_gbps(self, common: float | None) -> float | None:
        """The link rate that the test can reach, in Gb/s: of the slower end, each with the common rate if none is told.

        None where neither is known.
        """
        rates = [common if rate is None else rate for rate in self.gbps]
        return min((rate for rate in rates if rate is not None), default=None)


@dataclass(frozen=True)
class Matrix:
    """Which hosts test with each other, and how.

    scope, samples, seed, reference: see rounds.choose_rounds; reference is the name of a host
    at_once: all rails of a pair at the same time, else one after the other
    left_out: pairs on a rail that are not tested, as ({host, host}, rail)
    pairs: the only ones that are, with scope "pairs"
    """

    hosts: tuple[FabricHost, ...]
    scope: str = "all"
    samples: int = 0
    seed: int = 0
    reference: str = ""
    at_once: bool = False
    left_out: frozenset[tuple[frozenset[str], int]] = field(default_factory=frozenset)
    pairs: frozenset[tuple[frozenset[str], int]] = field(default_factory=frozenset)

    def rounds(self) -> list[Round]:
        """The rounds. Raises PolicyError for a scope that does not fit the hosts."""
        return choose_rounds(
            self.scope,
            len(self.hosts),
            samples=self.samples,
            seed=self.seed,
            reference=self._rank(self.reference) if self.scope == "reference" else 0,
            pairs=self._given_pairs(),
        )

    def _given_pairs(self) -> list[tuple[int, int]]:
        if self.scope != "pairs":
            return []
        ranks = {host.name: rank for rank, host in enumerate(self.hosts)}
        found = set()
        for names, rail in self.pairs:
            lacking = [name for name in names if name not in ranks or rail not in self.hosts[ranks[name]].rails]
            if len(names) != 2 or lacking:
                who = " and ".join(sorted(names))
                raise PolicyError(f"pairs: {who} on rail {rail} … two of the hosts that have this rail were expected")
            one, other = sorted(ranks[name] for name in names)
            found.add((one, other))
        return sorted(found)

    def _is_tested(self, one: str, other: str, rail: int) -> bool:
        pair = (frozenset((one, other)), rail)
        return pair not in self.left_out and (self.scope != "pairs" or pair in self.pairs)

    def _rank(self, name: str) -> int:
        names = [host.name for host in self.hosts]
        if name not in names:
            raise PolicyError(f"host {name!r} … one of {', '.join(names) or 'none'} was expected")
        return names.index(name)

    def rails(self) -> list[int]:
        """All rails that any host has."""
        return sorted({rail for host in self.hosts for rail in host.rails})

    def steps_a_round(self) -> int:
        """Steps in each round: both directions, and every rail by itself unless all run at once."""
        return 2 * (1 if self.at_once else len(self.rails()))

    def steps(self) -> int:
        """Number of steps of the whole matrix."""
        return len(self.rounds()) * self.steps_a_round()

    def tests_of(self, name: str) -> list[PairTest]:
        """A host's tests in order; those with the same step run at the same time."""
        rank = self._rank(name)
        tests: list[PairTest] = []
        for number, round_ in enumerate(self.rounds()):
            other = partner(round_, len(self.hosts), rank)
            if other is not None:
                tests += self._pair(rank, other, number * self.steps_a_round())
        return sorted(tests, key=lambda test: test.step)

    def partners_of(self, name: str) -> set[str]:
        """The hosts with which a host tests on any rail, known to be broken or not."""
        rank, count = self._rank(name), len(self.hosts)
        ranks = (partner(round_, count, rank) for round_ in self.rounds())
        return {self.hosts[other].name for other in ranks if other is not None}

    def _pair(self, rank: int, other: int, first_step: int) -> t.Iterator[PairTest]:
        own, peer = self.hosts[rank], self.hosts[other]
        rails = self.rails()
        for place, rail in enumerate(rails):
            if rail not in own.rails or rail not in peer.rails:
                continue
            if not self._is_tested(own.name, peer.name, rail):
                continue
            for way in (0, 1):
                step = first_step + (way if self.at_once else 2 * place + way)
                netdev, address = own.rails[rail]
                yield PairTest(
                    # First the lower rank serves, then the higher one.
                    role="server" if (rank < other) == (way == 0) else "client",
                    peer=peer.name,
                    peer_address=peer.rails[rail][1],
                    netdev=netdev,
                    address=address,
                    rail=rail,
                    # A port of its own for each run: the one before may still be in TIME_WAIT.
                    tcp_port=FIRST_TCP_PORT + (step * len(rails) + place) % _TCP_PORTS,
                    step=step,
                    gbps=(own.gbps.get(rail), peer.gbps.get(rail)),
                )

    def measurements(self) -> int:
        """How many measurements the whole matrix makes: pairs, rails and directions, less what is left out."""
        if self.scope == "all":
            return 2 * (self._all_pairs() - self._left_out_pairs())
        count = len(self.hosts)
        return 2 * sum(
            self._is_tested(self.hosts[one].name, self.hosts[other].name, rail)
            for round_ in self.rounds()
            for one, other in pairs_of(round_, count)
            for rail in self.hosts[one].rails.keys() & self.hosts[other].rails.keys()
        )

    def _all_pairs(self) -> int:
        """Reckoned, since there may be millions: any two hosts that have a rail are a pair on it."""
        on_rail = Counter(rail for host in self.hosts for rail in host.rails)
        return sum(hosts * (hosts - 1) // 2 for hosts in on_rail.values())

    def _left_out_pairs(self) -> int:
        rails = {host.name: host.rails for host in self.hosts}
        return sum(
            len(names) == 2 and all(name in rails and rail in rails[name] for name in names)
            for names, rail in self.left_out
        )


def fit_budget(matrix: Matrix, seconds_a_test: float, budget_s: float) -> Matrix:
    """The largest part of ``matrix`` that ends within a budget. Raises PolicyError when not even one round does."""
    a_round = matrix.steps_a_round() * seconds_a_test
    rounds = len(matrix.rounds())
    fitting = int(budget_s // a_round) if a_round else rounds
    if fitting >= rounds:
        return matrix
    if fitting < 1:
        raise PolicyError(f"time budget: {budget_s:g} s … at least {a_round:g} s, which one round takes, was expected")
    if matrix.scope not in ("all", "sample"):
        raise PolicyError(
            f"time budget: {budget_s:g} s … scope {matrix.scope} takes {rounds * a_round:g} s; use scope sample"
        )
    return Matrix(**{**matrix.__dict__, "scope": "sample", "samples": fitting})


def parse_hosts(raw: t.Any) -> tuple[FabricHost, ...]:
    """Hosts from [{name, ports: [{name, rail, address, link_gbps?}]}]. Raises PolicyError naming what is wrong."""
    hosts = []
    for item in raw:
        rails: dict[int, tuple[str, str]] = {}
        gbps: dict[int, float] = {}
        for port in item["ports"]:
            rail = int(port["rail"])
            if rail in rails:
                raise PolicyError(f"hosts: {item['name']} has two ports on rail {rail}")
            rails[rail] = (port["name"], _ipv4(port["address"], f"hosts: {item['name']} {port['name']}"))
            if port.get("link_gbps") is not None:
                require(f"hosts: {item['name']} {port['name']}: link_gbps", port["link_gbps"], 0.001, 100_000)
                gbps[rail] = port["link_gbps"]
        hosts.append(FabricHost(item["name"], rails, gbps))
    twice = sorted(name for name, count in Counter(host.name for host in hosts).items() if count > 1)
    if twice:
        raise PolicyError(f"hosts: {twice[0]} is listed twice")
    return tuple(hosts)


def _ipv4(address: t.Any, where: str) -> str:
    """The address. GIDs are looked for, and perftest is called, by IPv4 addresses only."""
    try:
        if isinstance(address, str):
            ipaddress.IPv4Address(address)
            return address
    except ValueError:
        pass
    raise PolicyError(f"{where}: address {brief(address)} … an IPv4 address was expected")
