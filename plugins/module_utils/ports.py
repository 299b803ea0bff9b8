# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""RDMA ports of a node: ibdev, netdev, PCI address, NUMA node; selection by name; what to keep off.

Private to the collection. Sources: ``rdma -j link show`` and sysfs (ABI sysfs-class-infiniband, sysfs-class-net).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import asdict, dataclass

from .errors import PolicyError
from .parsers.rdma import parse_links

if t.TYPE_CHECKING:
    from .host import Host

_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True)
class Port:
    """One port of one RDMA device. Empty text and -1 mean unknown."""

    ibdev: str
    ibport: int
    netdev: str
    state: str = ""
    link_layer: str = ""
    pci: str = ""
    driver: str = ""
    numa_node: int = -1

    def as_dict(self) -> dict[str, t.Any]:
        """The port as plain JSON."""
        return asdict(self)

    def label(self) -> str:
        """How messages name the port."""
        return f"{self.ibdev}/{self.netdev}" if self.netdev else self.ibdev


def find_ports(host: Host) -> list[Port]:
    """All ports of all RDMA devices, in natural order of the device's name."""
    links = parse_links(host.run("rdma", "-j", "link", "show").out)
    return [_port(host, link) for link in links]


def _port(host: Host, link: dict[str, t.Any]) -> Port:
    ibdev, number, netdev = link["ibdev"], link["port"], link["netdev"]
    device = f"/sys/class/net/{netdev}/device" if netdev else f"/sys/class/infiniband/{ibdev}/device"
    has_device = host.exists(device)
    address = host.realpath(device).rsplit("/", 1)[-1] if has_device else ""
    return Port(
        ibdev=ibdev,
        ibport=number,
        netdev=netdev,
        state=link["state"],
        link_layer=(host.read_optional(f"/sys/class/infiniband/{ibdev}/ports/{number}/link_layer") or "").strip(),
        pci=address if _PCI.fullmatch(address) else "",
        driver=host.realpath(f"{device}/driver").rsplit("/", 1)[-1] if host.exists(f"{device}/driver") else "",
        numa_node=_number(host.read_optional(f"{device}/numa_node")),
    )


def _number(text: str | None) -> int:
    try:
        return int(text or "-1")
    except ValueError:
        return -1


def select_ports(found: list[Port], names: list[str]) -> tuple[list[Port], dict[str, str]]:
    """The ports with these names (RDMA device or netdev), in the order given; name -> reason for the others.

    What was declared must be there: a name without a usable port is a failure of that port. Raises
    PolicyError when nothing is declared, and for two names of one port.
    """
    if not names:
        raise PolicyError("ports: none are declared; name the RDMA ports that this node should have")
    chosen: dict[Port, str] = {}
    missing: dict[str, str] = {}
    for name in names:
        matches = [port for port in found if name in (port.netdev, port.ibdev)]
        reason = _unusable(name, matches, found)
        if reason:
            missing[name] = reason
        elif matches[0] in chosen:
            both = f"{chosen[matches[0]]!r} and {name!r}"
            raise PolicyError(f"ports: {both} are one and the same port ({matches[0].label()})")
        else:
            chosen[matches[0]] = name
    return list(chosen), missing


def _unusable(name: str, matches: list[Port], found: list[Port]) -> str:
    """Why a declared name stands for no port that RoCE can use; empty when it does."""
    if not matches:
        there = ", ".join(port.label() for port in found) or "none"
        return f"ports: {name!r} is declared and is no RDMA port of this node; there are: {there}"
    if len(matches) > 1:
        several = ", ".join(port.label() for port in matches)
        return f"ports: {name!r} names several ports ({several}); use the name of the netdev"
    if matches[0].link_layer == "InfiniBand":
        return f"ports: {name!r} ({matches[0].label()}) is in InfiniBand mode; RoCE needs an Ethernet port"
    if not matches[0].netdev:
        return f"ports: {name!r} ({matches[0].label()}) has no netdev in this network namespace; RoCE needs one"
    return ""
