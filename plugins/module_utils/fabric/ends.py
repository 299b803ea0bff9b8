# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the other ends of a fabric need to know of a port: its active RDMA MTU, and the leaf switch that it hangs on."""

from __future__ import annotations

import typing as t

from ..errors import HostError, ParseError
from ..parsers.ib_tools import parse_ibv_devinfo
from ..parsers.lldp import parse_neighbours
from ..ports import find_ports

if t.TYPE_CHECKING:
    from ..host import Host

_LLDP_LIMIT_S = 10.0


def active_mtus(host: Host) -> dict[str, int]:
    """Netdev -> active RDMA MTU of its port; without those of which nothing can be told.

    It is what the driver says, which is not always what the netdev's MTU would give: a device has a limit of its own.
    """
    try:
        told = parse_ibv_devinfo(host.run("ibv_devinfo").out)
        ports = find_ports(host)
    except (HostError, ParseError):
        return {}
    mtus = {(port["ibdev"], port["port"]): port["rdma_mtu"] for port in told}
    found = {port.netdev: mtus.get((port.ibdev, port.ibport)) for port in ports if port.netdev}
    return {netdev: mtu for netdev, mtu in found.items() if mtu is not None}


def leaves(host: Host) -> dict[str, dict[str, str]]:
    """Netdev -> {chassis, port} of the switch, as lldpd heard it; empty where lldpd is not there or does not run."""
    if host.which("lldpcli") is None:
        return {}
    try:
        done = host.run("lldpcli", "-f", "json0", "show", "neighbors", check=False, timeout=_LLDP_LIMIT_S)
        return parse_neighbours(done.out) if done.rc == 0 else {}
    except (HostError, ParseError):
        return {}


def told_to_peers(host: Host, declared: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Declared ports, as info.declared_ports has them, with ``rdma_mtu`` and ``leaf``; None where nothing is known."""
    mtus, switches = active_mtus(host), leaves(host)
    return [{**port, "rdma_mtu": mtus.get(port["netdev"]), "leaf": switches.get(port["netdev"])} for port in declared]
