# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Sizes of the receive and transmit rings of the netdev. A change restarts the queues (en_ethtool.c)."""

from __future__ import annotations

import typing as t

from ..errors import Unreadable
from ..operations import Operation, Run
from ..parsers.ethtool import parse_rings
from .base import State, Value
from .partial import Partial, show_offered

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port


class Rings(Partial):
    """``{"rx": 4096, "tx": 4096}``, entries; mlx5 takes powers of two."""

    name = section = "rings"
    rank = 12
    disturbs = True
    risk = "TCP/IP packets are dropped in bursts that the rings cannot hold (RDMA has queues of its own)"

    def read(self, host: Host, port: Port) -> Value:
        rings = parse_rings(show_offered(host, "-g", port.netdev))
        if rings["rx"] is None and rings["tx"] is None:
            raise Unreadable(f"{port.netdev}: rings: 'ethtool -g' states no current sizes")
        return rings

    def evidence(self, port: Port) -> str:
        return f"ethtool -g {port.netdev}"

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        words = [str(word) for item in self.todo(wanted, state[self.name]).items() for word in item]
        return (Run(("ethtool", "-G", port.netdev, *words)),)
