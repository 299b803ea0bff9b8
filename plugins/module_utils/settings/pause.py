# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Global (802.3x) pause. It stops every priority at once, so it must be off where PFC is on."""

from __future__ import annotations

import typing as t

from ..operations import Operation, Run
from ..parsers.ethtool import parse_pause
from .base import Setting, State, Value
from .ethtool_tool import show

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


class Pause(Setting):
    """``{"rx": false, "tx": false}``. Autonegotiation of pause is not compared: mlx5 refuses it."""

    name = "pause"
    # After PFC: turning pause on must find PFC off. Turning it off comes first, by release().
    rank = 65
    risk = "a congested receiver pauses every class of traffic, not only the lossless one"

    def read(self, host: Host, port: Port) -> Value:
        return parse_pause(show(host, "-a", port.netdev))

    def evidence(self, port: Port) -> str:
        return f"ethtool --json -a {port.netdev}"

    def wanted(self, policy: Policy) -> Value | None:
        return {"rx": policy.pause, "tx": policy.pause}

    def release(self, port: Port, wanted: State, state: State) -> Value | None:
        target = wanted[self.name]
        return target if not (target["rx"] or target["tx"]) else None

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        words = [word for way in ("rx", "tx") for word in (way, "on" if wanted[way] else "off")]
        return (Run(("ethtool", "-A", port.netdev, *words)),)
