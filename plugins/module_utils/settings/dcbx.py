# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who owns DCB on the port: the operating system (host), the card's firmware, or lldpad."""

from __future__ import annotations

import typing as t

from ..errors import PolicyError
from ..operations import Operation, Run
from ..parsers.dcb import parse_dcbx
from .base import Setting, State, Value
from .dcb_tool import show

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


class Dcbx(Setting):
    """``{"owner": "host" | "firmware" | "lldpad"}``."""

    name = "dcbx"
    rank = 20
    risk = "the card's own DCBX agent may overwrite PFC and ETS at any time"

    def read(self, host: Host, port: Port) -> Value:
        flags = parse_dcbx(show(host, "dcbx", port.netdev))
        if flags["lld_managed"]:
            return {"owner": "lldpad"}
        return {"owner": "host" if flags["host"] else "firmware"}

    def evidence(self, port: Port) -> str:
        return f"dcb -j dcbx show dev {port.netdev}"

    def wanted(self, policy: Policy) -> Value | None:
        return {"owner": policy.dcbx}

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        if wanted["owner"] != "host":
            raise PolicyError(
                f"{port.netdev}: dcbx is {state[self.name]['owner']!r} and cannot be given to {wanted['owner']!r}:"
                " iproute2's dcb can only hand it to the host (mlnx_qos -d fw returns it to the firmware)"
            )

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        return (Run(("dcb", "dcbx", "set", "dev", port.netdev, "host", "ieee")),)

    def cannot_restore(self, before: Value) -> str:
        if before["owner"] == "host":
            return ""
        return f"DCBX cannot be given back to the {before['owner']} by dcb (mlnx_qos -d fw does it)"
