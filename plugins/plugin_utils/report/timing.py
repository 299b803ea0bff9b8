# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long the rounds of a matrix took, against the ideal. Pure.

A run's timing is ``{rounds: [{round, seconds, ideal_s}], wall_s, ideal_s, ratio}``, all times in seconds.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .values import InputError, brief, number, plain

Timing = dict[str, t.Any]


def run_timing(hosts: t.Any, test_s: t.Any, wall_s: t.Any = None) -> Timing:
    """The timing of a run, from what each host says of its own steps.

    hosts: one list a host of ``{step, round, seconds}``; the steps are numbered alike on all hosts
    test_s: the seconds that one test takes at the ideal; None where nobody knows
    wall_s: the time on the clock where it is known; else the rounds' seconds summed

    A step is over when its slowest host is done with it, so it counts with its longest time; a round is the sum of its
    steps, and ideal for it is ``test_s`` for each of them. Raises InputError.
    """
    ideal = _optional("test_s", test_s)
    longest: dict[tuple[int, int], float] = {}
    for place, step in _steps(hosts):
        key = (_whole(f"{place}.round", step.get("round")), _whole(f"{place}.step", step.get("step")))
        longest[key] = max(longest.get(key, 0.0), _seconds(f"{place}.seconds", step.get("seconds")))
    by_round: dict[int, list[float]] = {}
    for (round_, _step), seconds in sorted(longest.items()):
        by_round.setdefault(round_, []).append(seconds)
    rounds = [
        {
            "round": round_,
            "seconds": round(sum(steps), 3),
            "ideal_s": None if ideal is None else round(ideal * len(steps), 3),
        }
        for round_, steps in by_round.items()
    ]
    known = {} if wall_s is None else {"wall_s": _seconds("wall_s", wall_s)}
    return parse_timing({"rounds": rounds, **known})


def _steps(hosts: t.Any) -> t.Iterator[tuple[str, Mapping[str, t.Any]]]:
    """All steps of all hosts, each with its place in the input."""
    if not isinstance(hosts, list):
        raise InputError(f"timing: {brief(hosts)} … one list of steps a host was expected")
    for index, steps in enumerate(hosts):
        if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
            raise InputError(
                f"timing[{index}]: {brief(steps)} … a list of mappings with step, round and seconds was expected"
            )
        yield from ((f"timing[{index}][{place}]", step) for place, step in enumerate(steps))


def parse_timing(raw: t.Any) -> Timing:
    """A run's timing, with what can be reckoned from its rounds filled in. Raises InputError."""
    if not isinstance(raw, Mapping) or not isinstance(raw.get("rounds"), list):
        raise InputError(f"timing: {brief(raw)} … a mapping with rounds, a list, was expected")
    try:
        given = plain(dict(raw))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InputError(f"timing: not plain JSON … {exc}") from exc
    rounds = [_round(f"timing.rounds[{index}]", item) for index, item in enumerate(given["rounds"])]
    ideals = [item["ideal_s"] for item in rounds]
    wall = _optional("timing.wall_s", given.get("wall_s"))
    ideal = _optional("timing.ideal_s", given.get("ideal_s"))
    if wall is None:
        wall = round(sum(item["seconds"] for item in rounds), 3)
    if ideal is None and None not in ideals:
        ideal = round(sum(ideals), 3)
    ratio = _optional("timing.ratio", given.get("ratio"))
    if ratio is None and ideal:
        ratio = number(round(wall / ideal, 3))
    return {**given, "rounds": rounds, "wall_s": wall, "ideal_s": ideal, "ratio": ratio}


def _round(place: str, item: t.Any) -> dict[str, t.Any]:
    if not isinstance(item, Mapping):
        raise InputError(f"{place}: {brief(item)} … a mapping with round, seconds and ideal_s was expected")
    return {
        **item,
        "round": _whole(f"{place}.round", item.get("round")),
        "seconds": _seconds(f"{place}.seconds", item.get("seconds")),
        "ideal_s": _optional(f"{place}.ideal_s", item.get("ideal_s")),
    }


def _whole(place: str, value: t.Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{place}: {brief(value)} … a whole number from 0 on was expected")
    return int(value)


def _optional(place: str, value: t.Any) -> float | None:
    return None if value is None else _seconds(place, value)


def _seconds(place: str, value: t.Any) -> float:
    found = number(value)
    if found is None or not 0 <= found <= _LONGEST_S:
        raise InputError(f"{place}: {brief(value)} … a number from 0 to {_LONGEST_S:.0e} was expected")
    return found


_LONGEST_S = 1e9  # thirty years: whatever is longer is no measurement
