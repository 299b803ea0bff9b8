# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""MTU of the port's netdev. RoCE's own MTU follows from it (facts: ib_addr.h, see ``rdma_mtu``)."""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError
from ..operations import Operation, Run
from ..port_kinds import NETDEV
from .base import Setting, State, Value

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


class Mtu(Setting):
    """``{"mtu": 9000}``, bytes of an Ethernet payload."""

    name = "mtu"
    rank = 10
    belongs_to = NETDEV
    disturbs = True
    risk = "RDMA runs with a smaller MTU than the fabric, or packets are dropped where the MTU is smaller"

    def read(self, host: Host, port: Port) -> Value:
        text = host.read(self.evidence(port)).strip()
        if not re.fullmatch("[0-9]{1,9}", text):
            raise ParseError(f"{self.evidence(port)}: {text!r}, a number was expected")
        return {"mtu": int(text)}

    def evidence(self, port: Port) -> str:
        return f"/sys/class/net/{port.netdev}/mtu"

    def wanted(self, policy: Policy) -> Value | None:
        return {"mtu": policy.mtu}

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        return (Run(("ip", "link", "set", "dev", port.netdev, "mtu", str(wanted["mtu"]))),)
