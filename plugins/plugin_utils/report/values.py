# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plain values: natural order, text for people, text that is safe on a terminal. Pure."""

from __future__ import annotations

import functools
import json
import re
import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError

NOTHING = "–"
_NUMBER = re.compile("[0-9]{1,18}")


class InputError(RoceError):
    """What the report was given is not what it takes."""


@functools.cache
def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that puts node2 before node10."""
    parts = re.split(r"([0-9]{1,18})", text)
    return tuple((0, int(part), "") if _NUMBER.fullmatch(part) else (1, 0, part.lower()) for part in parts if part)


def plain(value: t.Any) -> t.Any:
    """The value as plain JSON, without what Ansible attaches to it. Raises TypeError or ValueError."""
    return json.loads(json.dumps(value, allow_nan=False))


def show(value: t.Any) -> str:
    """A JSON value on one line, for people."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return _show_dict(value)
    if isinstance(value, list):
        return ", ".join(_nested(item) for item in value) or "none"
    return str(value) or '""'


def _show_dict(value: dict[str, t.Any]) -> str:
    pairs = _runs(value) if value and all(_NUMBER.fullmatch(key) for key in value) else list(value.items())
    return ", ".join(f"{key}: {_nested(item)}" for key, item in pairs) or "none"


def _runs(value: dict[str, t.Any]) -> list[tuple[str, t.Any]]:
    """A mapping of numbers with neighbours of one value joined: ``0-7: 0``. For maps such as DSCP to priority."""
    runs: list[tuple[int, int, t.Any]] = []
    for key in sorted(value, key=int):
        index, item = int(key), value[key]
        if runs and runs[-1][1] == index - 1 and runs[-1][2] == item:
            runs[-1] = (runs[-1][0], index, item)
        else:
            runs.append((index, index, item))
    return [(str(first) if first == last else f"{first}-{last}", item) for first, last, item in runs]


def _nested(value: t.Any) -> str:
    if isinstance(value, dict) and value:
        return "{" + show(value) + "}"
    if isinstance(value, list) and value:
        return "[" + show(value) + "]"
    return show(value)


def printable(text: str) -> str:
    """The text on one line, with control characters (terminal escapes among them) spelled out."""
    line = " ".join(text.split())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)


def number(value: t.Any) -> float | None:
    """The value if it is a number that a float can hold, else None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def brief(value: t.Any) -> str:
    """The value as a programmer writes it, cut where it is long; for errors."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def rate(gbps: float) -> str:
    """A rate in Gb/s with three significant digits: ``185``, ``0.0456``."""
    return f"{gbps:.0f}" if gbps >= 100 else f"{gbps:.3g}"


def count(amount: int, noun: str) -> str:
    """``1 host``, ``2 hosts``."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def listed(names: t.Sequence[str], most: int = 4) -> str:
    """Names in one line, the first few of them when there are many."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
