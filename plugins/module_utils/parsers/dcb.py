# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of iproute2's ``dcb`` -> data. Pure.

Shapes: iproute2 5.12 to 7.1, dcb/dcb_*.c. JSON is one object; text is parsed where people post it.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError, brief
from .json_output import read_json
from .numbers import is_int

PRIOS = 8
DSCPS = 64


def parse_object(text: str) -> dict[str, t.Any]:
    """The one JSON object that ``dcb -j <object> show`` prints; empty output is an empty table."""
    if not text.strip():
        return {}
    data = read_json(text, "dcb")
    if not isinstance(data, dict):
        raise ParseError(f"dcb: a JSON object was expected, got {text.strip()[:80]!r}")
    return data


def parse_pfc(text: str) -> dict[str, t.Any]:
    """``{"enabled_prios": [3], "pfc_cap": 8, "delay": 7}`` from JSON or text; absent numbers are None."""
    if text.lstrip().startswith("{"):
        return _pfc_json(parse_object(text))
    return _pfc_text(text)


def _pfc_json(data: dict[str, t.Any]) -> dict[str, t.Any]:
    flags = _eight(data, "prio_pfc", bool)
    return {
        "enabled_prios": [prio for prio, on in enumerate(flags) if on],
        "pfc_cap": _number_or_none(data.get("pfc_cap")),
        "delay": _number_or_none(data.get("delay")),
    }


def _pfc_text(text: str) -> dict[str, t.Any]:
    line = re.search(r"prio-pfc((?:\s+\d+:(?:on|off))+)", text)
    if line is None:
        raise ParseError(f"dcb pfc: no prio-pfc line in {text.strip()[:80]!r}")
    pairs = dict(re.findall(r"(\d+):(on|off)", line.group(1)))
    if set(pairs) != {str(prio) for prio in range(PRIOS)}:
        raise ParseError(f"dcb pfc: eight priorities were expected in {line.group(0)[:80]!r}")
    return {
        "enabled_prios": [prio for prio in range(PRIOS) if pairs[str(prio)] == "on"],
        "pfc_cap": _text_number(text, "pfc-cap"),
        "delay": _text_number(text, "delay"),
    }


def parse_ets(text: str) -> dict[str, list[t.Any]]:
    """``{"tsa": [8 names], "bw": [8 percent], "prio_tc": [8]}``, index = TC (prio_tc: priority)."""
    data = parse_object(text)
    return {
        "tsa": _eight(data, "tc_tsa", str),
        "bw": _eight(data, "tc_bw", int),
        "prio_tc": _eight(data, "prio_tc", int),
    }


def parse_app_dscp(text: str) -> dict[int, int]:
    """DSCP -> priority for the listed entries. On mlx5 that is not the whole map.

    From iproute2 6.5 on each pair has a stray third element.
    """
    entries = parse_object(text).get("dscp_prio", [])
    if not isinstance(entries, list):
        raise ParseError(f"dcb app: dscp_prio is {brief(entries)}, a list was expected")
    mapping = {}
    for entry in entries:
        if not (
            isinstance(entry, list) and len(entry) >= 2 and _in_range(entry[0], DSCPS) and _in_range(entry[1], PRIOS)
        ):
            raise ParseError(f"dcb app: entry {brief(entry)}, a pair of DSCP 0..63 and priority 0..7 was expected")
        mapping[entry[0]] = entry[1]
    return dict(sorted(mapping.items()))


def parse_buffer(text: str) -> dict[str, t.Any]:
    """``{"prio_buffer": [8], "buffer_size": [8, bytes], "total_size": bytes or None}``."""
    data = parse_object(text)
    return {
        "prio_buffer": _eight_in_range(data, "prio_buffer", PRIOS),
        "buffer_size": _eight_in_range(data, "buffer_size", 2**32),
        "total_size": _number_or_none(data.get("total_size")),
    }


def parse_dcbx(text: str) -> dict[str, bool]:
    """Flags of the DCBX mode: host, lld_managed, cee, ieee, static. Only those set are printed."""
    data = parse_object(text)
    return {flag: data.get(flag) is True for flag in ("host", "lld_managed", "cee", "ieee", "static")}


def _eight(data: dict[str, t.Any], key: str, kind: type) -> list[t.Any]:
    values = data.get(key)
    if not (isinstance(values, list) and len(values) == PRIOS and all(_is(value, kind) for value in values)):
        raise ParseError(f"dcb: {key} is {brief(values)}, eight values of type {kind.__name__} were expected")
    return values


def _eight_in_range(data: dict[str, t.Any], key: str, limit: int) -> list[int]:
    values = _eight(data, key, int)
    if not all(_in_range(value, limit) for value in values):
        raise ParseError(f"dcb: {key} is {brief(values)}, values of 0 to {limit - 1} were expected")
    return values


def _is(value: t.Any, kind: type) -> bool:
    return is_int(value) if kind is int else isinstance(value, kind)


def _in_range(value: t.Any, limit: int) -> bool:
    return is_int(value) and 0 <= value < limit


def _number_or_none(value: t.Any) -> int | None:
    return value if is_int(value) else None


def _text_number(text: str, word: str) -> int | None:
    found = re.search(rf"(?<!\S){word} ([0-9]{{1,9}})\b", text)
    return int(found.group(1)) if found else None
