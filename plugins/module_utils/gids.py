# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The GID table of a port, read from sysfs. Private to the collection."""

from __future__ import annotations

import typing as t

from .parsers.gids import Gid

if t.TYPE_CHECKING:
    from .host import Host

_VERSIONS = {"RoCE v2": 2, "IB/RoCE v1": 1, "RoCE v1": 1}


# The kernel takes the first free slot, but entries of other network namespaces look empty: on a node
# with many containers the own ones come late. So all 256 slots of an mlx5 port are read; of the 1,024
# of Soft-RoCE no more than are needed, since reading them all takes a second on a slow machine.
_EMPTY_SLOTS = 256


def read_gids(host: Host, ibdev: str, ibport: int) -> list[Gid]:
    """The entries in use, up to a long gap. An empty slot has no type (EINVAL) and is left out."""
    folder = f"/sys/class/infiniband/{ibdev}/ports/{ibport}"
    gids: list[Gid] = []
    for name in sorted(host.listdir(f"{folder}/gids"), key=int):
        if int(name) - (gids[-1].index if gids else -1) > _EMPTY_SLOTS:
            break
        gid = (host.read_optional(f"{folder}/gids/{name}") or "").strip()
        if gid.strip("0:"):
            kind = (host.read_optional(f"{folder}/gid_attrs/types/{name}") or "").strip()
            netdev = (host.read_optional(f"{folder}/gid_attrs/ndevs/{name}") or "").strip()
            gids.append(Gid(int(name), gid, netdev, _VERSIONS.get(kind)))
    return gids
