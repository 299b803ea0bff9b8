# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who meets whom in which round. Pure: every host computes its own part from the same few numbers.

A round is a pairing in which nobody stands twice. It is named by a short tuple, so that a thousand
rounds cost nothing until somebody asks for a partner.
"""

from __future__ import annotations

import random
import typing as t

from ..errors import PolicyError

SCOPES = ("all", "sample", "ring", "reference", "pairs")
# Kind and number; of given pairs the pairs themselves.
Round = tuple[str, t.Any]
Pair = tuple[int, int]


def all_rounds(count: int) -> list[Round]:
    """Rounds in which every pair of ``count`` hosts meets once."""
    return [("circle", number) for number in range(_ring(count))]


def _ring(count: int) -> int:
    """Number of rounds of the circle method; with an odd count one host rests in each."""
    return count - 1 + count % 2 if count > 1 else 0


def choose_rounds(
    scope: str,
    count: int,
    *,
    samples: int = 0,
    seed: int = 0,
    reference: int = 0,
    pairs: t.Iterable[Pair] = (),
) -> list[Round]:
    """The rounds of a scope among ``count`` hosts.

    all: every pair. sample: ``samples`` rounds of those, drawn by ``seed``. ring: each host with the
    next. reference: one host with each other. pairs: those given. Raises PolicyError for another scope.
    """
    if scope == "all":
        return all_rounds(count)
    if scope == "sample":
        every = all_rounds(count)
        return sorted(random.Random(seed).sample(every, min(samples, len(every))), key=lambda round_: round_[1])
    if scope == "ring":
        colours = 0 if count < 2 else 1 if count == 2 else 2 + count % 2
        return [("ring", number) for number in range(colours)]
    if scope == "reference":
        return [("star", other * count + reference) for other in range(count) if other != reference]
    if scope == "pairs":
        return given_rounds(pairs)
    raise PolicyError(f"scope: {scope!r} … one of {', '.join(SCOPES)} was expected")


def given_rounds(pairs: t.Iterable[Pair]) -> list[Round]:
    """Rounds of given pairs: each in the first one in which both are free. The order given plays no part."""
    rounds: list[list[Pair]] = []
    busy: list[set[int]] = []
    for pair in sorted({(min(pair), max(pair)) for pair in pairs}):
        free = next((number for number, taken in enumerate(busy) if taken.isdisjoint(pair)), len(rounds))
        if free == len(rounds):
            rounds.append([])
            busy.append(set())
        rounds[free].append(pair)
        busy[free].update(pair)
    return [("pairs", tuple(round_)) for round_ in rounds]


def partner(round_: Round, count: int, rank: int) -> int | None:
    """Whom host ``rank`` meets in a round; None when it rests."""
    kind, number = round_
    if kind == "circle":
        other = _circle(number, count + count % 2, rank)
        return other if other < count else None
    if kind == "ring":
        return _neighbour(number, count, rank)
    if kind == "pairs":
        return next((sum(pair) - rank for pair in number if rank in pair), None)
    other, reference = divmod(number, count)
    return {reference: other, other: reference}.get(rank)


def _circle(number: int, even: int, rank: int) -> int:
    """Circle method: ranks whose sum is ``number`` modulo even-1 meet; the last meets who would meet itself."""
    size = even - 1
    if rank == size:
        return number * (even // 2) % size
    other = (number - rank) % size
    return size if other == rank else other


def _neighbour(number: int, count: int, rank: int) -> int | None:
    """Edges (i, i+1) of a ring in two rounds, by the parity of i; the edge that closes an odd ring is a third."""
    for first in (rank, (rank - 1) % count):
        colour = 2 if count % 2 and first == count - 1 else first % 2
        if count == 2 and first == 1:
            continue  # the same pair once more
        if colour == number:
            return (first + 1) % count if first == rank else first
    return None


def pairs_of(round_: Round, count: int) -> list[tuple[int, int]]:
    """All pairs of a round, the lower rank first."""
    if round_[0] == "pairs":
        return list(round_[1])
    found = ((rank, partner(round_, count, rank)) for rank in range(count))
    return [(rank, other) for rank, other in found if other is not None and rank < other]
