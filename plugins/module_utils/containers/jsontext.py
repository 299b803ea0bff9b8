# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Change single members of a JSON text and leave every other character as it is. Pure.

A file that is loaded and dumped again loses its indentation, its way of writing numbers and the like.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

from ..errors import ParseError

BOM = "\ufeff"
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")
_DEFAULT_UNIT = "    "

Keys = tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """One member of an object: its key, where that starts, and the span of its value."""

    key: str
    key_start: int
    start: int
    end: int


@dataclass(frozen=True)
class Style:
    """How a text is laid out: line end and unit of indentation; no unit means all on one line."""

    newline: str
    unit: str | None


def parse_object(text: str, path: str) -> dict[str, t.Any]:
    """The object that a file holds. Raises ParseError that names file, line and column."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as exc:
        raise ParseError(f"{path}: line {exc.lineno}, column {exc.colno}: {exc.msg} … JSON was expected") from exc
    except (ValueError, RecursionError) as exc:
        raise ParseError(f"{path}: {exc} … JSON was expected") from exc
    if not isinstance(value, dict):
        raise ParseError(f"{path}: line 1, column 1: holds {type(value).__name__} … an object was expected")
    return value


def _no_constant(name: str) -> t.NoReturn:
    raise ValueError(f"{name} is no JSON value")


def set_member(text: str, keys: Keys, value: t.Any) -> str:
    """The text of a valid JSON object with the member at ``keys`` set; objects on the way are made.

    Raises ParseError when something on the way is no object.
    """
    start = _skip(text, 0)
    style = _style(text, start)
    return _set(text, start, keys, value, style)


def _set(text: str, start: int, keys: Keys, value: t.Any, style: Style) -> str:
    members, end = _members(text, start)
    member = next((m for m in reversed(members) if m.key == keys[0]), None)
    if member is None:
        return _insert(text, start, members, end, _nested(keys, value), style)
    if len(keys) > 1:
        if text[member.start] != "{":
            raise ParseError(f"{keys[0]}: is {text[member.start : member.end][:40]} … an object was expected")
        return _set(text, member.start, keys[1:], value, style)
    shown = _render(value, style, _indent(text, member.key_start))
    return text[: member.start] + shown + text[member.end :]


def _members(text: str, start: int) -> tuple[list[Member], int]:
    """The members of the object that starts at ``start``, and where its closing brace stands."""
    members = []
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, key_end = _DECODER.raw_decode(text, at)
        value_start = _skip(text, _skip(text, key_end) + 1)
        _value, value_end = _DECODER.raw_decode(text, value_start)
        members.append(Member(key, at, value_start, value_end))
        at = _skip(text, value_end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members, at


def _insert(text: str, start: int, members: list[Member], end: int, value: tuple[str, t.Any], style: Style) -> str:
    """A new last member, laid out like the first one."""
    key, content = value
    if members:
        gap = text[start + 1 : members[0].key_start]
        own_line = "\n" in gap
        indent = gap.rpartition("\n")[2]
        lead = f",{style.newline}{indent}" if own_line else ", "
        shown = _render(content, style if own_line else Style(style.newline, None), indent)
        return f"{text[: members[-1].end]}{lead}{json.dumps(key)}: {shown}{text[members[-1].end :]}"
    if style.unit is None:
        return f"{text[: start + 1]}{json.dumps(key)}: {json.dumps(content)}{text[end:]}"
    outer = _indent(text, start)
    inner = outer + style.unit
    row = f"{style.newline}{inner}{json.dumps(key)}: {_render(content, style, inner)}{style.newline}{outer}"
    return text[: start + 1] + row + text[end:]


def _nested(keys: Keys, value: t.Any) -> tuple[str, t.Any]:
    for key in reversed(keys[1:]):
        value = {key: value}
    return keys[0], value


def _render(value: t.Any, style: Style, indent: str) -> str:
    """A value as text: objects over several lines, everything else on one."""
    if not isinstance(value, dict) or not value or style.unit is None:
        return json.dumps(value)
    inner = indent + style.unit
    rows = [f"{style.newline}{inner}{json.dumps(k)}: {_render(v, style, inner)}" for k, v in value.items()]
    return "{" + ",".join(rows) + style.newline + indent + "}"


def _style(text: str, start: int) -> Style:
    members, _end = _members(text, start)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not members:
        return Style(newline, _DEFAULT_UNIT)
    gap = text[start + 1 : members[0].key_start]
    return Style(newline, (gap.rpartition("\n")[2] or _DEFAULT_UNIT) if "\n" in gap else None)


def _indent(text: str, at: int) -> str:
    """The blanks at the start of the line of ``at``."""
    line = text.rfind("\n", 0, at) + 1
    return text[line : line + len(text[line:at]) - len(text[line:at].lstrip(" \t"))]


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
