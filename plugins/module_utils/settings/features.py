# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Offloads of the netdev, by the names that ``ethtool -k`` prints."""

from __future__ import annotations

import typing as t

from ..errors import PolicyError
from ..operations import Operation, Run
from ..parsers.ethtool import parse_features
from .base import State, Value
from .partial import Partial, show_offered

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port


class Features(Partial):
    """``{"generic-receive-offload": true, ...}``; ``fixed`` lists those that the driver does not let go."""

    name = section = "features"
    rank = 17
    # Several of them (LRO, GRO in hardware, receive checksums) restart the queues of mlx5.
    disturbs = True
    risk = "TCP/IP traffic costs more, or is aggregated otherwise, than declared (RDMA is not affected)"
    along = ("fixed",)

    def read(self, host: Host, port: Port) -> Value:
        return parse_features(show_offered(host, "-k", port.netdev))

    def evidence(self, port: Port) -> str:
        return f"ethtool -k {port.netdev}"

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        super().refuse(port, wanted, state)
        for name, value in self.todo(wanted, state[self.name]).items():
            if name in state[self.name]["fixed"]:
                present, asked = ("off", "on") if value else ("on", "off")
                raise PolicyError(
                    f"{port.netdev}: features: {name} is fixed {present} by the driver … {asked} is asked for"
                )

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        todo = self.todo(wanted, state[self.name])
        words = [word for name, value in todo.items() for word in (name, "on" if value else "off")]
        return (Run(("ethtool", "-K", port.netdev, *words)),)
