# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Commands copied from web pages that do not do what they say, and give no error. Pure."""

from __future__ import annotations

import re
import typing as t

from ..findings import FAIL, Finding

_DASHES = re.compile("[\u2010-\u2015\u2212]")
_DESCRIPTOR = re.compile(r"^\s*echo\s+(?P<number>[0-9]+)>\s*\S")
_BROKEN_PATH = re.compile(r"(?P<head>/(?:sys|proc|etc)/\S*/)\s+(?P<tail>[A-Za-z]\S*/\S+)")


def check_commands(text: str) -> list[Finding]:
    """A finding on each line that does something else than it seems to."""
    return [finding for line in text.splitlines() for finding in _check_line(line)]


def _check_line(line: str) -> t.Iterator[Finding]:
    if _DASHES.search(line):
        yield _finding(
            line,
            "a dash of typography is no hyphen: the tool takes the option for a plain word",
            f"write hyphens: {_DASHES.sub('-', line).strip()} (long options begin with two)",
        )
    descriptor = _DESCRIPTOR.match(line)
    if descriptor:
        number = descriptor["number"]
        yield _finding(
            line,
            f"'{number}>' redirects file descriptor {number}: {_effect(number)}",
            f"put a blank before '>': echo {number} > …",
        )
    broken = _BROKEN_PATH.search(line)
    if broken:
        yield _finding(line, "there is a blank inside the path", f"write {broken['head']}{broken['tail']}")


def _effect(number: str) -> str:
    return "an empty line goes into the file" if number == "1" else "nothing is written into the file"


def _finding(line: str, cause: str, remedy: str) -> Finding:
    return Finding(
        check="copied_command",
        verdict=FAIL,
        observed=line.strip(),
        evidence="the command itself",
        cause=cause,
        remedy=remedy,
    )
