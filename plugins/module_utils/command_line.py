# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the programs that run without Ansible share: how they speak and end. Private to the collection."""

from __future__ import annotations

import sys
import typing as t

from .errors import RoceError
from .host import Host

if t.TYPE_CHECKING:
    import argparse

# Exit status of a program that could not do what it is for.
CANNOT_TELL = 2


def start(parser: argparse.ArgumentParser, argv: list[str] | None, host: Host | None) -> int:
    """Run the ``command`` that the arguments ask for: its exit status, or CANNOT_TELL with the error in one line."""
    args = parser.parse_args(argv)
    host = host or Host()
    try:
        status = int(args.command(host, args))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as head, has seen enough
        host.drop_output()
        return CANNOT_TELL
    except RoceError as exc:
        say(f"{parser.prog}: {exc}", sys.stderr)
        return CANNOT_TELL


def say(text: str, stream: t.TextIO | None = None) -> None:
    """A line for whoever started the program. In one piece: lines of many hosts meet on one terminal."""
    (stream or sys.stdout).write(f"{text}\n")
