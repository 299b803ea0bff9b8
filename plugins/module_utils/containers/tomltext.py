# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read and set single keys of a TOML text, and leave every other character as it is. Pure.

Python has no TOML writer, and before 3.11 no reader. This knows statements (headers and
assignments), not values; whether a text is right is for the program that reads it to say.
"""

from __future__ import annotations

import json
import re
import typing as t
from dataclasses import dataclass

from ..errors import ParseError

Path = tuple[str, ...]

_KEY = re.compile(r"[ \t]*(?:([A-Za-z0-9_-]+)|\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)')[ \t]*")
_FILLER = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING_KINDS = (r'"""(?:[^\\]|\\.)*?"{3,5}', r"'''.*?'{3,5}", r'"(?:[^"\\\n]|\\.)*"', r"'[^'\n]*'")
_STRING = re.compile("|".join(_STRING_KINDS), re.DOTALL)
_TOKEN = re.compile(rf"#[^\n]*|{_STRING.pattern}|\S", re.DOTALL)


@dataclass(frozen=True)
class Header:
    """``[table]`` or ``[[table]]``, from ``start`` to ``end``."""

    path: Path
    start: int
    end: int
    array: bool


@dataclass(frozen=True)
class Assignment:
    """``key = value``. ``path`` is the whole one; ``dotted`` is the length of the key as written."""

    path: Path
    dotted: int
    start: int
    value_start: int
    value_end: int


Statement = t.Union[Header, Assignment]


def statements(text: str) -> list[Statement]:
    """All statements of a text in order. Raises ParseError with line and column."""
    found: list[Statement] = []
    table: Path = ()
    at = _filler(text, 0)
    while at < len(text):
        if text[at] == "[":
            header = _header(text, at)
            table = header.path
            found.append(header)
            at = _filler(text, header.end)
        else:
            assignment = _assignment(text, at, table)
            found.append(assignment)
            at = _filler(text, assignment.value_end)
    return found


def values(text: str) -> dict[Path, str]:
    """Every assigned value by its whole path, as it is written; a later one wins."""
    return {s.path: text[s.value_start : s.value_end] for s in statements(text) if isinstance(s, Assignment)}


def scalar(written: str | None) -> t.Any:
    """A written boolean or simple string as a value; anything else as it is written."""
    if written in ("true", "false"):
        return written == "true"
    if written and len(written) > 1 and written[0] == written[-1] and written[0] in "\"'":
        return _unquoted(written[1:-1]) if written[0] == '"' else written[1:-1]
    return written


def strings(written: str) -> list[str]:
    """The simple strings of a written array."""
    found = [written[start:end] for start, end in items(written)]
    return [str(scalar(item)) for item in found if item[0] in "\"'"]


def items(written: str) -> list[tuple[int, int]]:
    """Where each item of a written array starts and ends; a comment is none."""
    found: list[tuple[int, int]] = []
    depth, start, end = 0, -1, -1
    for token in _TOKEN.finditer(written):
        char = token.group()
        if char.startswith("#"):
            continue
        depth += (char in ("[", "{")) - (char in ("]", "}"))
        if depth > 1 or (depth == 1 and char != "," and token.start()):
            start, end = (token.start() if start < 0 else start), token.end()
        elif start >= 0:
            found.append((start, end))
            start = -1
    return found


def set_value(text: str, path: Path, value: str) -> str:
    """The text with ``path`` set to ``value``, a written value; its table is added at the end if need be.

    Raises ParseError when the table is written in a way that cannot be extended in place.
    """
    found = statements(text)
    for statement in found:
        if isinstance(statement, Assignment) and statement.path == path:
            return text[: statement.value_start] + value + text[statement.value_end :]
    table, key = path[:-1], path[-1]
    headers = [i for i, s in enumerate(found) if isinstance(s, Header) and s.path == table and not s.array]
    if headers:
        return _insert(text, found, headers[0], f"{_shown((key,))} = {value}")
    if not table:
        return f"{_shown((key,))} = {value}\n{text}"
    _refuse_closed(found, table)
    lead = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{lead}{'' if not text else chr(10)}[{_shown(table)}]\n  {_shown((key,))} = {value}\n"


def _insert(text: str, found: list[Statement], index: int, line: str) -> str:
    """A line after the last assignment that stands below the header."""
    last = found[index]
    for statement in found[index + 1 :]:
        if isinstance(statement, Header):
            break
        last = statement
    indent = _indent(text, last.start) + ("  " if isinstance(last, Header) else "")
    end = last.end if isinstance(last, Header) else last.value_end
    line_end = text.find("\n", end)
    if line_end < 0:
        return f"{text}\n{indent}{line}\n"
    newline = "\r\n" if text[line_end - 1] == "\r" else "\n"
    return f"{text[: line_end + 1]}{indent}{line}{newline}{text[line_end + 1 :]}"


def _refuse_closed(found: list[Statement], table: Path) -> None:
    for statement in found:
        inline = isinstance(statement, Assignment) and statement.path == table[: len(statement.path)]
        dotted = isinstance(statement, Assignment) and statement.dotted > 1 and statement.path[: len(table)] == table
        if inline or dotted:
            raise ParseError(
                f"{_shown(table)}: is written as {'an inline table' if inline else 'dotted keys'} … a table of its own,"
                f" [{_shown(table)}], was expected"
            )


def _header(text: str, at: int) -> Header:
    array = text.startswith("[[", at)
    path, end = _keys(text, at + (2 if array else 1))
    close = "]]" if array else "]"
    if not text.startswith(close, end):
        raise _error(text, end, f"{close} was expected")
    return Header(path, at, end + len(close), array)


def _assignment(text: str, at: int, table: Path) -> Assignment:
    keys, equals = _keys(text, at)
    if not text.startswith("=", equals):
        raise _error(text, equals, "= was expected")
    start = equals + 1
    while text[start : start + 1] in (" ", "\t"):
        start += 1
    return Assignment(table + keys, len(keys), at, start, _value_end(text, start))


def _keys(text: str, at: int) -> tuple[Path, int]:
    keys = []
    while True:
        found = _KEY.match(text, at)
        if not found:
            raise _error(text, at, "a key was expected")
        bare, basic, literal = found.groups()
        keys.append(bare or (_unquoted(basic) if basic is not None else literal or ""))
        at = found.end()
        if not text.startswith(".", at):
            return tuple(keys), at
        at += 1


def _value_end(text: str, start: int) -> int:
    """Where a value ends: at the end of its line, outside of strings and brackets."""
    depth, at, end = 0, start, start
    while at < len(text):
        char = text[at]
        if char in "\"'":
            string = _STRING.match(text, at)
            if not string:
                raise _error(text, at, "a string that ends was expected")
            at = end = string.end()
            continue
        if char == "#":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        if char == "\n" and not depth:
            break
        depth += (char in "[{") - (char in "]}")
        at += 1
        end = end if char in " \t\r\n" else at
    if end == start or depth:
        raise _error(text, start, "a value was expected" if end == start else "a closing bracket was expected")
    return end


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:  # an escape that only TOML knows
        return text


def _shown(path: Path) -> str:
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key) for key in path)


def _indent(text: str, at: int) -> str:
    line = text.rfind("\n", 0, at) + 1
    return text[line:at] if not text[line:at].strip() else ""


def _filler(text: str, at: int) -> int:
    found = _FILLER.match(text, at)
    return found.end() if found else at


def _error(text: str, at: int, what: str) -> ParseError:
    line = text.count("\n", 0, at) + 1
    return ParseError(f"line {line}, column {at - text.rfind(chr(10), 0, at)}: {what}")
