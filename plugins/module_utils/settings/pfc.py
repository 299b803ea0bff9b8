# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Priority flow control (IEEE 802.1Qbb): which priorities are lossless."""

from __future__ import annotations

import typing as t

from ..errors import PolicyError
from ..operations import Operation, Run
from ..parsers.dcb import PRIOS, parse_pfc
from .base import Setting, State, Value
from .buffers import lossless_before_buffers, require_fit
from .dcb_tool import show

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


class Pfc(Setting):
    """``{"enabled_prios": [3]}``. On mlx5 a changed mask bounces the link; the same mask does not."""

    name = "pfc"
    rank = 60
    disturbs = True
    bounces_link = True
    needs_to_see = ("pause",)
    risk = "RDMA packets are dropped when a switch or receiver is congested, and go-back-N makes each loss dear"

    def read(self, host: Host, port: Port) -> Value:
        return {"enabled_prios": parse_pfc(show(host, "pfc", port.netdev))["enabled_prios"]}

    def evidence(self, port: Port) -> str:
        return f"dcb -j pfc show dev {port.netdev}"

    def wanted(self, policy: Policy) -> Value | None:
        return {"enabled_prios": list(policy.pfc)}

    def clash(self, port: Port, wanted: Value, unmanaged: State) -> None:
        pause = unmanaged.get("pause", {})
        if wanted["enabled_prios"] and (pause.get("rx") or pause.get("tx")):
            # One register holds both: PFC would turn pause off behind the back of whoever wants it.
            raise PolicyError(
                f"{port.netdev}: global pause is on, and PFC on {wanted['enabled_prios']} would silently turn it off;"
                f" turn it off first (ethtool -A {port.netdev} rx off tx off), or let the policy manage pause"
            )

    def release(self, port: Port, wanted: State, state: State) -> Value | None:
        pause = wanted.get("pause", {})
        # PFC and global pause share one register: pause goes on only where PFC has gone off.
        if pause.get("rx") or pause.get("tx"):
            return wanted[self.name]
        return lossless_before_buffers(wanted, state)

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        if set(wanted["enabled_prios"]) - set(state[self.name]["enabled_prios"]):
            require_fit(port, {**state, self.name: wanted})

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        flags = (f"{prio}:{'on' if prio in wanted['enabled_prios'] else 'off'}" for prio in range(PRIOS))
        return (Run(("dcb", "pfc", "set", "dev", port.netdev, "prio-pfc", *flags)),)
