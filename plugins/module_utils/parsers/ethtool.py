# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``ethtool`` -> data, JSON or text. Pure.

Which sub-command offers JSON depends on the version: -a does in 6.1 and later, -l only in 7.x.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..errors import ParseError
from .numbers import is_int


def parse_pause(text: str) -> dict[str, bool]:
    """``{"rx": bool, "tx": bool}`` of ``ethtool -a``."""
    if text.lstrip().startswith("["):
        return _pause_json(_only_object(text))
    return {"rx": _pause_line(text, "RX"), "tx": _pause_line(text, "TX")}


def _pause_json(data: dict[str, t.Any]) -> dict[str, bool]:
    for way in ("rx", "tx"):
        if not isinstance(data.get(way), bool):
            raise ParseError(f"ethtool -a: {way} is {data.get(way)!r}, true or false was expected")
    return {"rx": data["rx"], "tx": data["tx"]}


def _pause_line(text: str, way: str) -> bool:
    found = re.search(rf"^{way}:\s+(on|off)\s*$", text, re.MULTILINE)
    if found is None:
        raise ParseError(f"ethtool -a: no line '{way}: on|off' in {text.strip()[:80]!r}")
    return found.group(1) == "on"


def parse_combined_channels(text: str) -> int:
    """Current number of combined channels of ``ethtool -l``."""
    if text.lstrip().startswith("["):
        value = _only_object(text).get("combined")
        if not is_int(value):
            raise ParseError(f"ethtool -l: combined is {value!r}, a number was expected")
        return value
    _maximums, found, current = text.partition("Current hardware settings:")
    line = re.search(r"^Combined:\s+(\d+)\s*$", current, re.MULTILINE) if found else None
    if line is None:
        raise ParseError(f"ethtool -l: no current 'Combined:' line in {text.strip()[:80]!r}")
    return int(line.group(1))


def _only_object(text: str) -> dict[str, t.Any]:
    try:
        data = json.loads(text)
    except ValueError as exc:
        raise ParseError(f"ethtool: output is not JSON: {text.strip()[:80]!r}") from exc
    if not (isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict)):
        raise ParseError(f"ethtool: a list with one object was expected, got {text.strip()[:80]!r}")
    return data[0]
