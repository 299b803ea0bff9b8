# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings made of several values, of which the policy manages those that it names. Pure."""

from __future__ import annotations

import typing as t

from ..errors import NotApplicable, PolicyError, Unreadable
from ..port_kinds import FUNCTION
from .base import Setting, State, Value
from .ethtool_tool import show

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


class Partial(Setting):
    """Values that are not named are neither compared nor changed, shown or put back.

    section: its key in the policy's field ``nic``
    along: what is only read along, for ``refuse``
    """

    belongs_to = FUNCTION
    section: str = ""
    along: tuple[str, ...] = ("max",)

    def wanted(self, policy: Policy) -> Value | None:
        return (policy.nic or {}).get(self.section)

    def named(self, value: Value) -> Value:
        """The value without what is read along."""
        return {key: part for key, part in value.items() if key not in self.along}

    def todo(self, wanted: Value, actual: Value) -> Value:
        """What differs, of what is named."""
        return {key: part for key, part in self.named(wanted).items() if actual.get(key) != part}

    def equal(self, wanted: Value, actual: Value) -> bool:
        return not self.todo(wanted, actual)

    def predicted(self, wanted: Value, actual: Value) -> Value:
        return {**actual, **wanted}

    def narrowed(self, value: Value, wanted: Value) -> Value:
        return {key: part for key, part in value.items() if key in wanted or key in self.along}

    def shown(self, value: Value) -> Value:
        return self.named(value)

    def differing(self, wanted: Value, actual: Value) -> tuple[Value, Value]:
        named = self.named(wanted)
        return {key: actual.get(key) for key in named}, named

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        actual = state[self.name]
        for key, value in self.todo(wanted, actual).items():
            if actual.get(key) is None:
                raise PolicyError(
                    f"{port.netdev}: {self.name}: the driver does not offer {key!r}, {value!r} is asked for"
                )
            most = actual.get("max", {}).get(key)
            if most is not None and value > most:
                raise PolicyError(f"{port.netdev}: {self.name}: {key} is {value} … at most {most} was expected")


def show_offered(host: Host, option: str, netdev: str) -> str:
    """See ethtool_tool.show. Raises NotApplicable where the driver lacks the feature: not every one must have it."""
    try:
        return show(host, option, netdev)
    except Unreadable as exc:
        raise NotApplicable(str(exc)) from exc
