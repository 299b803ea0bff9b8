# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Private flags of the driver, by the names that ``ethtool --show-priv-flags`` prints."""

from __future__ import annotations

import typing as t

from ..errors import NotApplicable
from ..operations import Operation, Run
from ..parsers.ethtool import parse_priv_flags
from .base import State, Value
from .ethtool_tool import show_text
from .partial import Partial

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port


class PrivFlags(Partial):
    """``{"rx_cqe_compress": true, ...}``."""

    name = section = "priv_flags"
    # Before coalescing: another rx_cqe_moder or tx_cqe_moder puts times and frames back to their defaults.
    rank = 15
    disturbs = True
    risk = "the driver handles completions of TCP/IP traffic otherwise than declared (RDMA is not affected)"
    along = ()

    def read(self, host: Host, port: Port) -> Value:
        flags = parse_priv_flags(show_text(host, "--show-priv-flags", port.netdev))
        if not flags:
            raise NotApplicable(f"{port.netdev}: the driver has no private flags")
        return flags

    def evidence(self, port: Port) -> str:
        return f"ethtool --show-priv-flags {port.netdev}"

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        todo = self.todo(wanted, state[self.name])
        words = [word for name, value in todo.items() for word in (name, "on" if value else "off")]
        return (Run(("ethtool", "--set-priv-flags", port.netdev, *words)),)
