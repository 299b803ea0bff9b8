# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GID tables, and the choice of the right index. Pure. Source: core/sysfs.c, show_gids of mlnx-tools."""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import asdict, dataclass

_MAPPED = "0000:0000:0000:0000:0000:ffff:"


@dataclass(frozen=True)
class Gid:
    """One entry: index, GID in eight groups, netdev, version (1, 2, or None where a tool did not say)."""

    index: int
    gid: str
    netdev: str
    version: int | None

    @property
    def address(self) -> str:
        """The IPv4 address that the GID stands for; empty for others."""
        if not self.gid.startswith(_MAPPED):
            return ""
        try:
            return str(ipaddress.IPv4Address(int(self.gid[len(_MAPPED) :].replace(":", ""), 16)))
        except ValueError:
            return ""

    def as_dict(self) -> dict[str, t.Any]:
        """The entry as plain JSON, with its address."""
        return {**asdict(self), "address": self.address}


def choose(gids: t.Iterable[Gid], address: str, netdev: str = "") -> int | None:
    """Index of the RoCE v2 GID of an IPv4 address (on that netdev); None when there is none.

    Index 3 is common and proves nothing: VLANs, IPv6 and changed addresses move the entry.
    """
    fitting = (gid for gid in gids if gid.version == 2 and gid.address == address and netdev in ("", gid.netdev))
    return next((gid.index for gid in fitting), None)


def parse_show_gids(text: str) -> list[Gid]:
    """Entries that mlnx-tools' show_gids lists."""
    row = re.compile(r"^\S+\s+\d+\s+(\d{1,5})\s+([0-9a-f:]{39})\s+(?:[\d.]+\s+)?v([12])\s+(\S+)\s*$", re.MULTILINE)
    return [Gid(int(index), gid, netdev, int(version)) for index, gid, version, netdev in row.findall(text)]


def parse_devinfo(text: str) -> list[Gid]:
    """Entries of ibv_devinfo -v. Older builds print no type: the version is then unknown."""
    gids = []
    for index, value in re.findall(r"GID\[\s*(\d{1,5})\]:\s+(\S.*)", text):
        gid, _comma, kind = value.partition(",")
        version = {"RoCE v2": 2, "RoCE v1": 1, "IB/RoCE v1": 1}.get(kind.strip())
        gids.append(Gid(int(index), _eight_groups(gid.strip()), "", version))
    return gids


def _eight_groups(gid: str) -> str:
    try:
        return ipaddress.IPv6Address(gid).exploded
    except ValueError:
        return gid
