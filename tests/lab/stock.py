# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the stock tools say of a port: the tests' own eyes, apart from the collection's code."""

from __future__ import annotations

import json
import typing as t

from roce_lab import Node


def dcb(node: Node, what: str, netdev: str) -> dict[str, t.Any]:
    """``dcb -j WHAT show``."""
    return t.cast("dict[str, t.Any]", json.loads(node.check(f"dcb -j {what} show dev {netdev}")))


def lossless_prios(node: Node, netdev: str) -> list[int]:
    """Priorities with PFC."""
    return [prio for prio, on in enumerate(dcb(node, "pfc", netdev)["prio_pfc"]) if on]


def dscp_map(node: Node, netdev: str) -> dict[int, int]:
    """Listed DSCP -> priority."""
    return {entry[0]: entry[1] for entry in dcb(node, "app", netdev).get("dscp_prio", [])}


def mtu(node: Node, netdev: str) -> int:
    """MTU by ip."""
    return int(json.loads(node.check(f"ip -j link show {netdev}"))[0]["mtu"])


def pause(node: Node, netdev: str) -> tuple[bool, bool]:
    """Global pause rx, tx by ethtool."""
    data = json.loads(node.check(f"ethtool --json -a {netdev}"))[0]
    return data["rx"], data["tx"]


def root_qdisc(node: Node, netdev: str) -> dict[str, t.Any]:
    """The root qdisc by tc."""
    qdiscs = json.loads(node.check(f"tc -j qdisc show dev {netdev}"))
    return next((qdisc for qdisc in qdiscs if qdisc.get("root")), {})


def cma_tos(node: Node, ibdev: str) -> int:
    """default_roce_tos in configfs."""
    return int(node.check(f"cat /sys/kernel/config/rdma_cm/{ibdev}/ports/1/default_roce_tos"))


def carrier_changes(node: Node, netdev: str) -> int:
    """How often the link went up or down."""
    return int(node.check(f"cat /sys/class/net/{netdev}/carrier_changes"))
