# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""RDMA ports of a node: ibdev, netdev, PCI address, NUMA node; selection by name; what to keep off.

Private to the collection. Sources: ``rdma -j link show`` and sysfs (ABI sysfs-class-infiniband, sysfs-class-net).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import asdict, dataclass, replace

from .errors import PolicyError
from .parsers.rdma import natural, parse_links
from .port_kinds import (
    BOND,
    BONDED,
    LAG_PORT,
    MELLANOX,
    PHYSICAL,
    STACKED,
    SUBFUNCTION,
    VF_DEVICES,
    VIRTUAL_FUNCTION,
    VLAN,
    unsupported,
    vlan_of,
)

if t.TYPE_CHECKING:
    from .host import Host

# How a name is called that stands for no port at all; other reasons speak of a port that is there.
ABSENT = "is declared and is no RDMA port of this node"
# Some firmware (VMD) gives PCI domains of five digits.
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# The name of a subfunction's device on the auxiliary bus.
_SUBFUNCTION = re.compile(r"mlx5_core\.sf\.[0-9]+")


@dataclass(frozen=True)
class Port:
    """One port of one RDMA device. Empty text and -1 mean unknown.

    kind: see port_kinds
    related: netdevs that its kind speaks of: a bond's ports, a port's bond, what a VLAN is on, a VF's owner
    members: the ports of a bond that has the RDMA device
    vlans: VLAN netdevs on top
    """

    ibdev: str
    ibport: int
    netdev: str
    state: str = ""
    link_layer: str = ""
    pci: str = ""
    driver: str = ""
    numa_node: int = -1
    kind: str = PHYSICAL
    related: tuple[str, ...] = ()
    members: tuple[Port, ...] = ()
    vlans: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """The port as plain JSON."""
        return asdict(self)

    def label(self) -> str:
        """How messages name the port."""
        return f"{self.ibdev}/{self.netdev}" if self.netdev else self.ibdev


def find_ports(host: Host) -> list[Port]:
    """All ports of all RDMA devices, in natural order of the device's name."""
    links = parse_links(host.run("rdma", "-j", "link", "show").out)
    own = {link["netdev"] for link in links}
    return [_port(host, _on_its_bond(host, link, own)) for link in links]


def _port(host: Host, link: dict[str, t.Any]) -> Port:
    kind, related = _kind(host, link["netdev"])
    port = _plain_port(host, link, kind, related)
    if kind != BOND:
        return port
    members = (_plain_port(host, {**link, "netdev": name}, LAG_PORT, (port.netdev,)) for name in related)
    return replace(port, members=tuple(members))


def _plain_port(host: Host, link: dict[str, t.Any], kind: str, related: tuple[str, ...]) -> Port:
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
        kind=kind,
        related=related,
        vlans=tuple(name for name in _adjacent(host, netdev, "upper_") if _type(host, name) == "vlan"),
    )


# -- kinds ---------------------------------------------------------------------------------------


def _kind(host: Host, netdev: str) -> tuple[str, tuple[str, ...]]:
    """The kind of a netdev, and the netdevs that it speaks of."""
    device = f"/sys/class/net/{netdev}/device"
    lower, type_ = _adjacent(host, netdev, "lower_"), _type(host, netdev)
    if not netdev or not host.exists(device):
        stacked = {"bond": BOND, "vlan": VLAN}.get(type_, STACKED if lower else PHYSICAL)
        return stacked, lower
    if host.exists(f"{device}/physfn"):
        return VIRTUAL_FUNCTION, tuple(host.listdir(f"{device}/physfn/net"))
    identity = tuple((host.read_optional(f"{device}/{name}") or "").strip() for name in ("vendor", "device"))
    if identity[0] == MELLANOX and identity[1] in VF_DEVICES:
        return VIRTUAL_FUNCTION, ()
    if _SUBFUNCTION.fullmatch(host.realpath(device).rsplit("/", 1)[-1]):
        return SUBFUNCTION, ()
    bond = _bond_above(host, netdev)
    return (BONDED, (bond,)) if bond else (PHYSICAL, ())


def _on_its_bond(host: Host, link: dict[str, t.Any], own: set[str]) -> dict[str, t.Any]:
    """The link with the bond as its netdev, where the driver names one of the ports of a RoCE LAG.

    The RDMA device is the whole bond's when another port of the bond has none of its own.
    """
    bond = _bond_above(host, link["netdev"])
    ports = set(_adjacent(host, bond, "lower_")) if bond else set()
    return {**link, "netdev": bond} if ports - own else link


def _bond_above(host: Host, netdev: str) -> str:
    return next((name for name in _adjacent(host, netdev, "upper_") if _type(host, name) == "bond"), "")


def _adjacent(host: Host, netdev: str, prefix: str) -> tuple[str, ...]:
    """Netdevs on top of this one ("upper_") or below it ("lower_")."""
    names = host.listdir(f"/sys/class/net/{netdev}") if netdev else []
    return tuple(sorted((name[len(prefix) :] for name in names if name.startswith(prefix)), key=natural))


def _type(host: Host, netdev: str) -> str:
    """What the kernel calls this type of netdev (vlan, bond, bridge, ...); empty for plain Ethernet."""
    uevent = host.read_optional(f"/sys/class/net/{netdev}/uevent") if netdev else None
    found = re.search(r"^DEVTYPE=(\S+)$", uevent or "", re.MULTILINE)
    return found.group(1) if found else ""


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
        vlan = next((reason for reason in (vlan_of(port, name) for port in found) if reason), "")
        if vlan:
            return f"ports: {name!r} {vlan}"
        there = ", ".join(port.label() for port in found) or "none"
        return f"ports: {name!r} {ABSENT}; there are: {there}"
    if len(matches) > 1:
        several = ", ".join(port.label() for port in matches)
        return f"ports: {name!r} names several ports ({several}); use the name of the netdev"
    reason = unfit(matches[0])
    return f"ports: {name!r} ({matches[0].label()}) {reason}" if reason else ""


def unfit(port: Port) -> str:
    """Why RoCE cannot use a port that is there, and what would help; empty when it can."""
    if port.link_layer == "InfiniBand":
        return (
            "is in InfiniBand mode; RoCE needs an Ethernet port: LINK_TYPE_P1 (of a second port _P2) is ETH by module"
            " mlx5_firmware, then reset the card"
        )
    if not port.netdev:
        return "has no netdev in this network namespace; RoCE needs one: bring it back from the namespace it is in"
    return unsupported(port)


def with_members(ports: t.Iterable[Port]) -> list[Port]:
    """The ports, and after each bond the ports that it is made of."""
    return [each for port in ports for each in (port, *port.members)]


def functions_of(port: Port) -> set[str]:
    """PCI addresses that the port stands on: its own, or those of a bond's ports."""
    return {each.pci for each in with_members([port]) if each.pci}
