# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Numbers and switches as inventories and -e give them: as such, or as text. Pure. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from .errors import PolicyError

_SWITCHES = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}


def integer(value: t.Any, low: int, high: int) -> int:
    """A whole number from low to high. Raises ValueError, also for 1.0, true and what int() alone reads (" 3")."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError
    return value


def one_of(value: t.Any, allowed: t.Sequence[int]) -> int:
    """A whole number that is allowed. Raises ValueError."""
    found = integer(value, min(allowed), max(allowed))
    if found not in allowed:
        raise ValueError
    return found


def number(value: t.Any) -> float:
    """A number that is not negative. Raises ValueError, also for true, infinity, and what only float() reads (1e3)."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?|\.[0-9]{1,15}", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        raise ValueError
    return float(value)


def require(name: str, value: float | None, low: float, high: float) -> None:
    """Raise PolicyError unless the value is from low to high, which NaN is not. None was not given, and is right."""
    if value is not None and not low <= value <= high:
        raise PolicyError(f"{name}: {str(value)[:40]} … {low:.15g} to {high:.15g} was expected")


def switch(value: t.Any) -> bool:
    """True or false, or one of YAML's words for them. Raises ValueError."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _SWITCHES:
        return _SWITCHES[value.lower()]
    raise ValueError
