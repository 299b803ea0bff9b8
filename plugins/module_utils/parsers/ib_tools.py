# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Listings of RDMA devices by ibstat, ibstatus, ibdev2netdev and ibv_devinfo -> data. Pure.

What a listing does not tell is None. A rate counts only where the port is active: a port without link
still prints one.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError
from .rdma import natural

Device = dict[str, t.Any]
# With -v the PCI address comes first, and card and firmware stand between.
_NETDEV_ROW = re.compile(
    r"^(?:[0-9a-f:.]+ +)?(\S+)(?: \(.*)?[ \t]+port[ \t]+([0-9]{1,3})(?: \(\w* *\))?"
    r"[ \t]+==>[ \t]+(\S+)[ \t]+\((Up|Down)\)",
    re.MULTILINE,
)


def parse_ibstat(text: str) -> list[Device]:
    """One dict a device: ibdev, ca_type, firmware, node_guid, ports (port, state, physical_state, gbps, link_layer)."""
    devices: list[Device] = []
    for head, body in _blocks(text, r"^CA '([^'\n]+)'[ \t]*$"):
        ports = [_ibstat_port(number, part) for number, part in _blocks(body, r"^[ \t]*Port ([0-9]{1,3}):[ \t]*$")]
        devices.append(
            {
                "ibdev": head,
                "ca_type": _value(body, "CA type"),
                "firmware": _value(body, "Firmware version"),
                "node_guid": _guid(_value(body, "Node GUID")),
                "ports": ports,
            }
        )
    return _in_order(devices, "ibstat", text)


def _ibstat_port(number: str, text: str) -> Device:
    state = _value(text, "State")
    rate = re.fullmatch(r"([0-9]{1,5})(\.[0-9]+)?", _value(text, "Rate"))
    return {
        "port": int(number),
        "state": state,
        "physical_state": _value(text, "Physical state"),
        "gbps": float(rate.group(0)) if rate and state == "Active" else None,
        "link_layer": _value(text, "Link layer"),
    }


def parse_ibstatus(text: str) -> list[Device]:
    """One dict a port: ibdev, port, state, physical_state, gbps, link_layer.

    The name of the rate ("1X EDR") is InfiniBand's for a lane rate; link_layer says which network it is.
    """
    ports = []
    for head, body in _blocks(text, r"^Infiniband device '([^'\n]+' port [0-9]{1,3}) status:[ \t]*$"):
        ibdev, _quote, number = head.partition("' port ")
        state = _value(body, "state").partition(": ")[2]
        rate = re.match(r"([0-9]{1,5}(?:\.[0-9]+)?) Gb/sec", _value(body, "rate"))
        ports.append(
            {
                "ibdev": ibdev,
                "port": int(number),
                "state": state,
                "physical_state": _value(body, "phys state").partition(": ")[2],
                "gbps": float(rate.group(1)) if rate and state == "ACTIVE" else None,
                "link_layer": _value(body, "link_layer"),
            }
        )
    return _in_order(ports, "ibstatus", text)


def parse_ibdev2netdev(text: str) -> list[Device]:
    """One dict a port: ibdev, port, netdev, infiniband, up.

    The word in brackets is the netdev's carrier. The netdev of an InfiniBand port (ib...) is IPoIB, which tells
    nothing of the link: up is then None.
    """
    ports = []
    for ibdev, number, netdev, word in _NETDEV_ROW.findall(text):
        infiniband = netdev.startswith("ib")
        up = None if infiniband else word == "Up"
        ports.append({"ibdev": ibdev, "port": int(number), "netdev": netdev, "infiniband": infiniband, "up": up})
    return _in_order(ports, "ibdev2netdev", text)


def parse_ibv_devinfo(text: str) -> list[Device]:
    """One dict a port: ibdev (empty where the head is cut off), port, state, link_layer, rdma_mtu, gbps."""
    ports = []
    for ibdev, body in _blocks(text, r"^[ \t]*hca_id:\s*(\S+)[ \t]*$", keep_head=True):
        for number, part in _blocks(body, r"^[ \t]+port:[ \t]*([0-9]{1,3})[ \t]*$"):
            state = _value(part, "state").partition(" ")[0].replace("PORT_", "")
            ports.append(
                {
                    "ibdev": ibdev,
                    "port": int(number),
                    "state": state,
                    "link_layer": _value(part, "link_layer"),
                    "rdma_mtu": _leading_number(_value(part, "active_mtu")),
                    "gbps": _total_rate(part) if state == "ACTIVE" else None,
                }
            )
    return _in_order(ports, "ibv_devinfo", text)


def _total_rate(text: str) -> float | None:
    """Lanes times the rate of a lane; both only with -v."""
    lane = re.match(r"([0-9]{1,5}(?:\.[0-9]+)?) Gbps", _value(text, "active_speed"))
    width = re.match(r"([0-9]{1,3})X", _value(text, "active_width"))
    return float(lane.group(1)) * int(width.group(1)) if lane and width else None


def _leading_number(text: str) -> int | None:
    found = re.match(r"[0-9]{1,6}\b", text)
    return int(found.group(0)) if found else None


def _blocks(text: str, head: str, keep_head: bool = False) -> list[tuple[str, str]]:
    """The text behind each head line, up to the next; with keep_head also what comes before the first."""
    first, *parts = re.split(head, text, flags=re.MULTILINE)
    blocks = list(zip(parts[::2], parts[1::2]))
    return [("", first), *blocks] if keep_head else blocks


def _value(text: str, label: str) -> str:
    found = re.search(rf"^[ \t]*{label}:[ \t]*(.*?)[ \t]*$", text, re.MULTILINE)
    return found.group(1) if found else ""


def _guid(text: str) -> str:
    """A GUID in the form that sysfs prints; empty when it is none."""
    found = re.fullmatch(r"0x([0-9a-f]{16})", text.lower())
    return ":".join(found.group(1)[at : at + 4] for at in range(0, 16, 4)) if found else ""


def _in_order(devices: list[Device], tool: str, text: str) -> list[Device]:
    if not devices:
        raise ParseError(f"{tool}: no device in {text.strip()[:80]!r}")
    return sorted(devices, key=lambda device: (natural(device["ibdev"]), device.get("port", 0)))
