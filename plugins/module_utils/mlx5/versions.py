# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Firmware versions of a device: devlink where it answers, else ethtool. Private to the collection."""

from __future__ import annotations

import typing as t

from ..errors import RoceError
from ..parsers.driver import parse_devlink_versions, parse_ethtool_firmware

if t.TYPE_CHECKING:
    from ..host import Host
    from .devices import Device


def read_versions(host: Host, device: Device) -> dict[str, str]:
    """psid, running, stored (empty when unknown) and evidence. ethtool can't tell what is stored."""
    handle = f"pci/{device.pci}"
    try:
        argv: tuple[str, ...] = ("devlink", "-j", "dev", "info", handle)
        return {**parse_devlink_versions(host.run(*argv).out, handle), "evidence": " ".join(argv)}
    except RoceError:
        pass
    for netdev in device.netdevs:
        argv = ("ethtool", "-i", netdev)
        try:
            return {**parse_ethtool_firmware(host.run(*argv).out), "evidence": " ".join(argv)}
        except RoceError:
            continue
    return {"psid": "", "running": "", "stored": "", "evidence": f"devlink -j dev info {handle}"}
