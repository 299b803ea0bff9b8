# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the parts of the driver have in common: read, plan, judge. Private to the collection.

A part reads the node once; all parts are planned before the first one changes anything, and a part
whose operation fails does not keep the others from theirs.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..errors import HostError
from ..findings import Finding
from ..operations import MakeDir, Run, Write
from .devices import Device, wait_for_return

if t.TYPE_CHECKING:
    from ..host import Host

Value = dict[str, t.Any]


@dataclass(frozen=True)
class LongRun:
    """A command that takes its time; ``then`` follows even when it failed, and the failure is reported."""

    argv: tuple[str, ...]
    then: tuple[str, ...] = ()
    limit: float = 300.0

    def perform(self, host: Host) -> None:
        """Do it. Raises HostError."""
        try:
            host.run(*self.argv, timeout=self.limit)
        finally:
            if self.then:
                host.run(*self.then, timeout=self.limit)

    def shown(self) -> list[str]:
        """The form that users see under ``commands``."""
        return [*self.argv, *(["&&", *self.then] if self.then else [])]


@dataclass(frozen=True)
class WaitFor:
    """Wait until devices are back after a restart."""

    devices: tuple[Device, ...]

    def perform(self, host: Host) -> None:
        """Do it. Raises HostError naming what stayed away."""
        lost = wait_for_return(host, self.devices)
        if lost:
            raise HostError(lost)

    def shown(self) -> list[str]:
        """The form that users see under ``commands``."""
        return ["wait", *(device.label() for device in self.devices)]


Operation = t.Union[Run, Write, MakeDir, LongRun, WaitFor]


@dataclass
class Plan:
    """What a part will do, the values that change, and why it does not do what was asked.

    independent: an operation that fails does not keep the later ones from being done.
    """

    operations: list[Operation] = field(default_factory=list)
    before: Value = field(default_factory=dict)
    after: Value = field(default_factory=dict)
    note: str = ""
    independent: bool = False


class Part:
    """One part of the driver. ``read`` comes first, again after a change, and the others work on what it found."""

    name: str = ""

    def read(self, host: Host) -> None:
        """Look at the node. Raises PolicyError for what can't be asked of it."""
        raise NotImplementedError

    def plan(self, host: Host) -> Plan:
        """What is to be done; reads at most."""
        raise NotImplementedError

    def findings(self, note: str, error: str) -> list[Finding]:
        """Verdicts on what was read last. ``error``: an operation that failed."""
        raise NotImplementedError

    def problem(self, error: str) -> str:
        """What makes the whole call fail, if anything."""
        return error
