# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A leaf switch that makes itself known by LLDP (IEEE 802.1AB) on the links of a lab."""

from __future__ import annotations

import base64
import sys
import time

from ansible_collections.lossless.roce.plugins.module_utils.parsers.lldp import parse_neighbours
from roce_lab import Node
from roce_lab.network import tap_name

_NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
_SWITCH_MAC = bytes.fromhex("020000000001")
_LONG_S = 3600
_SEND = (
    "import base64, socket, sys; link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW);"
    " link.bind((sys.argv[1], 0)); link.send(base64.b64decode(sys.argv[2]))"
)


def frame(chassis: str, port: str) -> bytes:
    """The frame by which a switch says its name and the port's."""
    told = (
        _tlv(1, b"\x07" + chassis.encode())  # chassis id, locally assigned
        + _tlv(2, b"\x05" + port.encode())  # port id, name of an interface
        + _tlv(3, _LONG_S.to_bytes(2, "big"))
        + _tlv(5, chassis.encode())  # name of the system
        + _tlv(7, b"\x00\x04\x00\x04")  # a bridge, and enabled
        + _tlv(0, b"")
    )
    return (_NEAREST_BRIDGE + _SWITCH_MAC + b"\x88\xcc" + told).ljust(60, b"\0")


def _tlv(kind: int, value: bytes) -> bytes:
    return (kind << 9 | len(value)).to_bytes(2, "big") + value


def announce(node: Node, chassis: str) -> None:
    """Until lldpd has heard it on all of the node's ports."""
    rails = range(node.lab.shape.rails)
    text = base64.b64encode(frame(chassis, f"swp{node.index}")).decode()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for rail in rails:
            node.lab.fabric.run([sys.executable, "-c", _SEND, tap_name(node.index, rail), text])
        heard = parse_neighbours(node.check("lldpcli -f json0 show neighbors"))
        # The devices that carry the simulated cards hear it as well.
        if all(heard.get(node.netdev(rail), {}).get("chassis") == chassis for rail in rails):
            return
        time.sleep(2)
    raise AssertionError(f"lldpd of {node.name} did not hear {chassis}: {heard}")
