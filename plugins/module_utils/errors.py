# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors that a user can cause or meet. Private to the collection.

Settings and parsers raise them; only a module's ``main()`` turns one into ``fail_json``.
A message reads ``<object>: <what is> … <what was expected>``.
"""

from __future__ import annotations

import typing as t


class RoceError(Exception):
    """Root of everything this collection raises on purpose."""


class PolicyError(RoceError):
    """The policy contradicts itself or holds a value that is not allowed."""


class HostError(RoceError):
    """The node answered with an error: a command failed, a file could not be read or written."""


class ToolMissing(HostError):
    """A program is not installed on the node."""

    def __init__(self, tool: str, package: str) -> None:
        super().__init__(f"{tool}: not installed on this node; install package {package}")
        self.tool = tool
        self.package = package


class CommandTimeout(HostError):
    """A command was ended because it ran past its time limit.

    printed: what it had printed until then, where that is known
    """

    def __init__(self, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


class Unreadable(RoceError):
    """A setting of a port cannot be read (driver without the feature, module not loaded)."""


class NotApplicable(RoceError):
    """This kind of port, driver or firmware has no such setting: the policy leaves it out, and says why."""


class ParseError(RoceError):
    """A tool printed something that its parser does not understand."""


def brief(value: t.Any) -> str:
    """A value as messages show it."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no integer of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:97]}..."
