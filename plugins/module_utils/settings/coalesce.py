# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Interrupt coalescing of the netdev's queues."""

from __future__ import annotations

import typing as t

from ..operations import Operation, Run
from ..parsers.ethtool import parse_coalesce
from .base import State, Value
from .partial import Partial, show_offered

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port

_ADAPTIVE = ("adaptive_rx", "adaptive_tx")


class Coalesce(Partial):
    """``{"adaptive_rx": false, "rx_usecs": 8, "rx_frames": 128, ...}``."""

    name = section = "coalesce"
    rank = 16
    # mlx5 restarts the queues when adaptive moderation goes on or off.
    disturbs = True
    risk = "TCP/IP traffic gets more interrupts, or waits longer, than declared (RDMA completions are not affected)"

    def read(self, host: Host, port: Port) -> Value:
        return parse_coalesce(show_offered(host, "-c", port.netdev))

    def evidence(self, port: Port) -> str:
        return f"ethtool -c {port.netdev}"

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        todo = self.todo(wanted, state[self.name])
        adaptive = {key: value for key, value in todo.items() if key in _ADAPTIVE}
        rest = {key: value for key, value in todo.items() if key not in _ADAPTIVE}
        if adaptive:
            # mlx5 puts times and frames back to their defaults as adaptive moderation goes on or off: they follow.
            rest = {key: value for key, value in self.named(wanted).items() if key not in _ADAPTIVE}
        return tuple(Run(("ethtool", "-C", port.netdev, *_words(part))) for part in (adaptive, rest) if part)


def _words(values: Value) -> list[str]:
    words = []
    for key, value in values.items():
        words += [key.replace("_", "-"), ("on" if value else "off") if isinstance(value, bool) else str(value)]
    return words
