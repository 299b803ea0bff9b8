# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a change does to a node, as data. Private to the collection.

The same list is shown by a diff, performed by a run, undone by a roll-back and replayed at boot.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from .host import Host


@dataclass(frozen=True)
class Run:
    """Run an argument vector; a non-zero exit status is an error."""

    argv: tuple[str, ...]

    def perform(self, host: Host) -> None:
        """Do it. Raises HostError."""
        host.run(*self.argv)

    def shown(self) -> list[str]:
        """The form that users see under ``commands``."""
        return list(self.argv)


@dataclass(frozen=True)
class Write:
    """Write a file (sysfs, configfs, disk)."""

    path: str
    content: str

    def perform(self, host: Host) -> None:
        """Do it. Raises HostError."""
        host.write(self.path, self.content)

    def shown(self) -> list[str]:
        """The form that users see under ``commands``."""
        return ["write", self.path, self.content.strip()]


@dataclass(frozen=True)
class Backup:
    """Copy somebody's file beside itself, before it is written."""

    path: str

    def perform(self, host: Host) -> None:
        """Do it. Raises HostError."""
        host.backup(self.path)

    def shown(self) -> list[str]:
        """The form that users see under ``commands``."""
        return ["backup", self.path]


@dataclass(frozen=True)
class MakeDir:
    """Make a directory (on configfs: ask the kernel for the object of that name)."""

    path: str

    def perform(self, host: Host) -> None:
        """Do it. Raises HostError."""
        host.mkdir(self.path)

    def shown(self) -> list[str]:
        """The form that users see under ``commands``."""
        return ["mkdir", self.path]


@dataclass(frozen=True)
class Remove:
    """Remove a file."""

    path: str

    def perform(self, host: Host) -> None:
        """Do it. Raises HostError."""
        host.remove(self.path)

    def shown(self) -> list[str]:
        """The form that users see under ``commands``."""
        return ["remove", self.path]


Operation = t.Union[Run, Write, Backup, MakeDir, Remove]
