# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ETS: which traffic class a priority uses, and how the classes share the link (IEEE 802.1Qaz)."""

from __future__ import annotations

import typing as t

from ..errors import PolicyError
from ..operations import Operation, Run
from ..parsers.dcb import PRIOS, parse_ets
from .base import Setting, State, Value
from .dcb_tool import show

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


class Ets(Setting):
    """``{"tsa": [8], "bw": [8], "prio_tc": [8]}``: algorithm and percent by TC, TC by priority."""

    name = "ets"
    rank = 40
    risk = "RDMA has no bandwidth of its own, and the driver's default map even swaps priorities 0 and 1"

    def read(self, host: Host, port: Port) -> Value:
        return parse_ets(show(host, "ets", port.netdev))

    def evidence(self, port: Port) -> str:
        return f"dcb -j ets show dev {port.netdev}"

    def wanted(self, policy: Policy) -> Value | None:
        return policy.ets_table()

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        total = sum(wanted["bw"])
        if "ets" in wanted["tsa"] and total != 100:
            raise PolicyError(f"{port.netdev}: ets: bandwidths {wanted['bw']} add up to {total}, 100 was expected")

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        argv = ["dcb", "ets", "set", "dev", port.netdev]
        for word, key in (("tc-tsa", "tsa"), ("tc-bw", "bw"), ("prio-tc", "prio_tc")):
            argv += [word, *(f"{index}:{wanted[key][index]}" for index in range(PRIOS))]
        return (Run(tuple(argv)),)
