# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of the kernel's log that concern RDMA ports -> data. Pure. Source: linux drivers/pci/pci.c."""

from __future__ import annotations

import re
import typing as t

_ADDRESS = r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
# "PCIe" stands before the width since kernel 5.7.
_LIMIT = re.compile(
    rf"mlx5_core {_ADDRESS}: ([0-9]{{1,5}}\.[0-9]+) Gb/s available PCIe bandwidth, limited by"
    rf" ([0-9]{{1,3}}(?:\.[0-9])?) GT/s(?: PCIe)? x([0-9]{{1,2}}) link at {_ADDRESS}"
    rf" \(capable of ([0-9]{{1,5}}\.[0-9]+) Gb/s with ([0-9]{{1,3}}(?:\.[0-9])?) GT/s(?: PCIe)? x([0-9]{{1,2}}) link\)"
)
_FIRMWARE = re.compile(rf"mlx5_core {_ADDRESS}: firmware version: ([0-9]+(?:\.[0-9]+){{1,3}})")


def parse_pcie_limits(text: str) -> dict[str, dict[str, t.Any]]:
    """By address of the card: gbps, at (the bridge whose link is the narrow one), link, capable_gbps, capable_link.

    The last line about a card counts. No line is no proof of a good link: the log forgets.
    """
    return {
        card: {
            "gbps": float(gbps),
            "at": bridge,
            "link": [float(speed), int(width)],
            "capable_gbps": float(capable),
            "capable_link": [float(capable_speed), int(capable_width)],
        }
        for card, gbps, speed, width, bridge, capable, capable_speed, capable_width in _LIMIT.findall(text)
    }


def parse_firmware(text: str) -> dict[str, str]:
    """Firmware version by address, as the driver logged it at its start."""
    return dict(_FIRMWARE.findall(text))
