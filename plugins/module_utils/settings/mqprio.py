# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Root qdisc mqprio. It shapes kernel (TCP/IP) traffic only: RDMA bypasses qdiscs.

mqprio has no change operation (sch_mqprio.c): another value means del and add. What mlx5 offloads:
en_main.c mlx5e_setup_tc_mqprio_dcb (8 classes only) and mlx5e_setup_tc_mqprio_channel.
"""

from __future__ import annotations

import typing as t

from ..errors import PolicyError, Unreadable
from ..operations import Operation, Run
from ..parsers.ethtool import parse_channels
from ..parsers.tc import MAP_LENGTH, parse_root_qdisc
from ..port_kinds import FUNCTION
from .base import Change, Setting, State, Value
from .channels import mqprio_holds
from .ethtool_tool import show

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

_DCB_OFFLOAD_CLASSES = 8
_MAX_CLASSES = 16
ABSENT: Value = {"kind": "default"}


def mqprio_value(num_tc: int, map_: list[int], queues: list[list[int]], offload: str) -> Value:
    """The value that stands for these options; ``queues`` are [count, offset] pairs by class.

    Raises PolicyError for what no kernel takes (man tc-mqprio, sch_mqprio_lib.c).
    """
    if not 1 <= num_tc <= _MAX_CLASSES:
        raise PolicyError(f"mqprio: num_tc is {num_tc}, 1 to {_MAX_CLASSES} was expected")
    if len(map_) > MAP_LENGTH:
        raise PolicyError(f"mqprio: map has {len(map_)} entries, at most {MAP_LENGTH} were expected")
    wrong = [class_ for class_ in map_ if not 0 <= class_ < num_tc]
    if wrong:
        raise PolicyError(
            f"mqprio: map sends a priority to class {wrong[0]}, 0 to {num_tc - 1} was expected (num_tc {num_tc})"
        )
    if offload != "dcb":
        _check_queues(num_tc, queues)
    return {
        "kind": "mqprio",
        "num_tc": num_tc,
        "map": (list(map_) + [0] * MAP_LENGTH)[:MAP_LENGTH],
        "queues": [] if offload == "dcb" else [list(pair) for pair in queues],
        "offload": offload,
    }


def _check_queues(num_tc: int, queues: list[list[int]]) -> None:
    if len(queues) != num_tc:
        raise PolicyError(
            f"mqprio: {len(queues)} queue ranges for num_tc {num_tc}, one COUNT@OFFSET per class was expected"
        )
    used: set[int] = set()
    for class_, (count, offset) in enumerate(queues):
        mine = set(range(offset, offset + count))
        if not mine or mine & used:
            raise PolicyError(f"mqprio: queues {count}@{offset} of class {class_} are empty or overlap another class")
        used |= mine


class Mqprio(Setting):
    """See ``mqprio_value`` and parsers.tc; ``combined`` and ``tx_queues`` are read along, for the checks."""

    name = "mqprio"
    rank = 70
    belongs_to = FUNCTION
    disturbs = True
    risk = "kernel traffic uses other transmit queues than declared (RDMA is not affected)"

    def read(self, host: Host, port: Port) -> Value:
        value = parse_root_qdisc(host.run("tc", "-j", "qdisc", "show", "dev", port.netdev).out)
        queues = host.listdir(f"/sys/class/net/{port.netdev}/queues")
        return {
            **value,
            "combined": _combined(host, port),
            "tx_queues": sum(name.startswith("tx-") for name in queues),
        }

    def evidence(self, port: Port) -> str:
        return f"tc -j qdisc show dev {port.netdev}"

    def wanted(self, policy: Policy) -> Value | None:
        return policy.mqprio

    def equal(self, wanted: Value, actual: Value) -> bool:
        if wanted["kind"] != "mqprio" or actual["kind"] != "mqprio":
            return bool(wanted["kind"] == actual["kind"])
        # With a dcb-mode offload the driver chooses the queues, whatever was asked.
        keys = ("num_tc", "map", "offload") + (() if wanted["offload"] == "dcb" else ("queues",))
        return all(wanted[key] == actual[key] for key in keys)

    def shown(self, value: Value) -> Value:
        # Which default the kernel picks is its own business; another kind is named.
        hidden = ("combined", "tx_queues", "qdisc") if value["kind"] == "default" else ("combined", "tx_queues")
        return {key: part for key, part in value.items() if key not in hidden}

    def predicted(self, wanted: Value, actual: Value) -> Value:
        value = {**wanted, "combined": actual["combined"], "tx_queues": actual["tx_queues"]}
        if wanted.get("offload") == "dcb":
            # mlx5e_setup_tc_mqprio_dcb: every class gets all channels, at offset 0.
            value["queues"] = [[actual["combined"], 0] for _class in range(wanted["num_tc"])]
        return value

    def release(self, port: Port, wanted: State, state: State) -> Value | None:
        if "channels" not in wanted or "channels" not in state:
            return None
        combined = wanted["channels"]["combined"]
        held = combined != state["channels"]["combined"] and mqprio_holds(state[self.name], combined)
        return ABSENT if held else None

    def change(self, port: Port, wanted: Value, state: State) -> Change:
        return super().change(port, wanted, {**state, self.name: _with_planned_channels(state[self.name], state)})

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        actual = _with_planned_channels(state[self.name], state)
        if actual["kind"] == "other":
            raise PolicyError(
                f"{port.netdev}: the root qdisc is {actual['qdisc']!r}, which somebody set and nothing could put back:"
                f" remove it (tc qdisc del dev {port.netdev} root) or leave mqprio unmanaged"
            )
        if wanted["kind"] == "mqprio":
            _refuse_offload(port, wanted, actual)

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        steps: list[Operation] = []
        if state[self.name]["kind"] == "mqprio":
            steps.append(Run(("tc", "qdisc", "del", "dev", port.netdev, "root")))
        if wanted["kind"] == "mqprio":
            steps.append(Run(("tc", "qdisc", "add", "dev", port.netdev, "root", *_arguments(wanted))))
        return tuple(steps)


def _combined(host: Host, port: Port) -> int:
    combined = parse_channels(show(host, "-l", port.netdev))["combined"]
    if combined is None:
        raise Unreadable(f"{port.netdev}: mqprio: 'ethtool -l' states no current number of combined channels")
    return int(combined)


def _with_planned_channels(actual: Value, state: State) -> Value:
    """The value with the queues that there will be once the channels are as planned."""
    if "channels" not in state:
        return actual
    return {**actual, "combined": state["channels"]["combined"], "tx_queues": state["channels"]["combined"]}


def _refuse_offload(port: Port, wanted: Value, actual: Value) -> None:
    queues = wanted["queues"]
    needed = sum(count for count, _offset in queues)
    if wanted["offload"] == "dcb" and wanted["num_tc"] != _DCB_OFFLOAD_CLASSES:
        raise PolicyError(
            f"{port.netdev}: mqprio: num_tc is {wanted['num_tc']} with hw 1 in mode dcb, where mlx5 takes"
            f" {_DCB_OFFLOAD_CLASSES} classes only; two ways work: hw 0 (no offload), or mode channel with as many"
            " combined channels as there are queues (ethtool -L)"
        )
    if wanted["offload"] == "channel" and needed != actual["combined"]:
        raise PolicyError(
            f"{port.netdev}: mqprio: mode channel asks for {needed} queues, and the port has {actual['combined']}"
            f" combined channels: both must be the same (ethtool -L {port.netdev} combined {needed})"
        )
    if wanted["offload"] == "channel" and _has_gap(queues):
        raise PolicyError(f"{port.netdev}: mqprio: mode channel needs queues without a gap from 0 on, got {queues}")
    last = max((count + offset for count, offset in queues), default=0)
    if wanted["offload"] == "off" and last > actual["tx_queues"]:
        raise PolicyError(
            f"{port.netdev}: mqprio: queue {last - 1} is asked for,"
            f" and the port has {actual['tx_queues']} transmit queues"
        )


def _has_gap(queues: list[list[int]]) -> bool:
    expected = 0
    for count, offset in queues:
        if offset != expected:
            return True
        expected += count
    return False


def _arguments(wanted: Value) -> list[str]:
    words = ["mqprio", "num_tc", str(wanted["num_tc"]), "map", *map(str, wanted["map"])]
    if wanted["queues"] and wanted["offload"] != "dcb":
        words += ["queues", *(f"{count}@{offset}" for count, offset in wanted["queues"])]
    return (
        words + {"off": ["hw", "0"], "dcb": ["hw", "1"], "channel": ["hw", "1", "mode", "channel"]}[wanted["offload"]]
    )
