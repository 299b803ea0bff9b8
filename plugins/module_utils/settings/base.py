# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every setting of a port has in common. Pure: a setting reads through the host it is given.

A value is a plain JSON dict. ``state`` maps names of settings to values; while a port is planned
it is a simulation, in which a setting sees what the earlier ones will have done.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..operations import Operation
from ..port_kinds import UPLINK

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

Value = dict[str, t.Any]
State = dict[str, Value]


@dataclass(frozen=True)
class Change:
    """One setting of one port goes from ``before`` to ``after`` by ``operations``, in order."""

    setting: str
    port: str
    before: Value
    after: Value
    operations: tuple[Operation, ...]
    disturbs: bool = False
    bounces_link: bool = False


class Setting:
    """One setting of a port. Subclasses are stateless; ``rank`` is the order of application."""

    name: str = ""
    rank: int = 0
    # What follows when the running value is wrong: one clause, for findings.
    risk: str = ""
    # To what it belongs (see port_kinds): decides on which kinds of port there is such a setting.
    belongs_to: str = UPLINK
    # Whether a change interrupts traffic of the port (restarted queues), or even drops its link.
    disturbs: bool = False
    bounces_link: bool = False
    # Settings that clash() must see when nobody manages them.
    needs_to_see: tuple[str, ...] = ()

    def read(self, host: Host, port: Port) -> Value:
        """The running value. Raises Unreadable, ToolMissing, HostError, ParseError."""
        raise NotImplementedError

    def evidence(self, port: Port) -> str:
        """The command or file that shows the running value."""
        raise NotImplementedError

    def wanted(self, policy: Policy) -> Value | None:
        """The value that the policy asks for, or None when it does not manage this setting."""
        raise NotImplementedError

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        """What takes the port from ``state`` to ``wanted``; both differ when this is called."""
        raise NotImplementedError

    def equal(self, wanted: Value, actual: Value) -> bool:
        """Whether the running value is what was wanted."""
        return wanted == actual

    def predicted(self, wanted: Value, actual: Value) -> Value:
        """What ``read`` will return once ``operations`` are done."""
        return wanted

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        """Raise PolicyError when the driver is known to refuse ``wanted`` on this port."""

    def clash(self, port: Port, wanted: Value, unmanaged: State) -> None:
        """Raise PolicyError when a change would alter a setting (of ``needs_to_see``) that is not managed."""

    def release(self, port: Port, wanted: State, state: State) -> Value | None:
        """The value to go to first, in the release phase, since the present one blocks others."""
        return None

    def cannot_restore(self, before: Value) -> str:
        """Why ``before`` can't be brought back, or an empty string when it can."""
        return ""

    def narrowed(self, value: Value, wanted: Value) -> Value:
        """The part of a running value that ``wanted`` speaks of. The rest is not managed."""
        return value

    def shown(self, value: Value) -> Value:
        """The value as users see it, without what is only read along for checks."""
        return value

    def differing(self, wanted: Value, actual: Value) -> tuple[Value, Value]:
        """Observed and expected, cut down to what a reader needs in order to see the difference."""
        return self.shown(actual), self.shown(wanted)

    def change(self, port: Port, wanted: Value, state: State) -> Change:
        """The change that takes the port from ``state`` to ``wanted``."""
        before = state[self.name]
        return Change(
            setting=self.name,
            port=port.netdev,
            before=before,
            after=self.predicted(wanted, before),
            operations=self.operations(port, wanted, state),
            disturbs=self.disturbs,
            bounces_link=self.bounces_link,
        )
