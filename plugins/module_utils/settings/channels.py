# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Number of combined channels (queue pairs of the netdev). A change restarts the queues.

mlx5 refuses another number while mqprio is in channel mode, and without offload the kernel drops the
map of classes when their queues go away (sch_mqprio, netif_setup_tc): mqprio lets go first.
"""

from __future__ import annotations

import typing as t

from ..errors import PolicyError, Unreadable
from ..operations import Operation, Run
from ..parsers.ethtool import parse_channels
from ..parsers.tc import parse_root_qdisc
from .base import State, Value
from .partial import Partial, show_offered

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port


class Channels(Partial):
    """``{"combined": 16}``; ``qdisc`` is read along: the root qdisc may stand in the way."""

    name = section = "channels"
    rank = 14
    disturbs = True
    risk = "TCP/IP traffic is spread over other queues, and processors, than declared (RDMA is not affected)"
    along = ("max", "qdisc")

    def read(self, host: Host, port: Port) -> Value:
        channels = parse_channels(show_offered(host, "-l", port.netdev))
        if channels["combined"] is None:
            raise Unreadable(f"{port.netdev}: channels: 'ethtool -l' states no current number of combined channels")
        qdisc = parse_root_qdisc(host.run("tc", "-j", "qdisc", "show", "dev", port.netdev).out)
        return {**channels, "qdisc": qdisc}

    def evidence(self, port: Port) -> str:
        return f"ethtool -l {port.netdev}"

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        super().refuse(port, wanted, state)
        # Where mqprio is managed, it has let go by now, and its state says so.
        qdisc = state["mqprio"] if "mqprio" in state else state[self.name]["qdisc"]
        if mqprio_holds(qdisc, wanted["combined"]):
            raise PolicyError(
                f"{port.netdev}: channels: combined is {wanted['combined']}, and the root qdisc mqprio holds the"
                f" present {state[self.name]['combined']}: declare mqprio as well, or remove it"
                f" (tc qdisc del dev {port.netdev} root)"
            )

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        return (Run(("ethtool", "-L", port.netdev, "combined", str(wanted["combined"]))),)


def mqprio_holds(qdisc: Value, combined: int) -> bool:
    """Whether this root qdisc stands in the way of another number of channels."""
    if qdisc.get("kind") != "mqprio" or qdisc["offload"] == "dcb":
        return False
    last = max((count + offset for count, offset in qdisc["queues"]), default=0)
    return bool(qdisc["offload"] == "channel" or last > combined)
