# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kinds of port, and which settings belong to which. Pure. Private to the collection.

The quality of service of a cable is set on the physical function that owns it, whatever is built on top.
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .ports import Port

PHYSICAL = "physical"
VIRTUAL_FUNCTION = "virtual function"
SUBFUNCTION = "subfunction"
BOND = "bond"  # one RDMA device for all ports of the bond (RoCE LAG)
LAG_PORT = "port of a RoCE LAG"  # a port of such a bond, without an RDMA device of its own
BONDED = "port in a bond"  # enslaved, and with an RDMA device of its own
VLAN = "VLAN"
STACKED = "stacked"  # bridge, macvlan, team, ...

# To what a setting belongs.
UPLINK = "uplink"  # the physical port: DCB, pause, congestion control
FUNCTION = "function"  # the function's own queues and PCI registers
NETDEV = "netdev"  # the network device that carries the addresses
RDMA = "rdma"  # the RDMA device


# linux mlx5/core/main.c, entries with MLX5_PCI_DEV_IS_VF: in a virtual machine nothing else tells.
VF_DEVICES = ("0x1012", "0x1014", "0x1016", "0x1018", "0x101a", "0x101c", "0x101e", "0xa2d3")
MELLANOX = "0x15b3"


def lacks(port: Port, belongs_to: str) -> str:
    """Why this kind of port has no setting that belongs to ..., and where it is; empty when it has."""
    names = ", ".join(port.related)
    if port.kind == BOND and belongs_to in (UPLINK, FUNCTION):
        return f"{port.netdev}: a bond has none of its own: it belongs to the ports {names}, which are set one by one"
    if port.kind == LAG_PORT and belongs_to in (NETDEV, RDMA):
        return f"{port.netdev}: belongs to the bond {names}, which has the RDMA device {port.ibdev}"
    if port.kind == BONDED and belongs_to == NETDEV:
        return f"{port.netdev}: is in the bond {names}, which sets it for all its ports: set it there"
    if port.kind in (VIRTUAL_FUNCTION, SUBFUNCTION) and belongs_to == UPLINK:
        owner = f" ({names})" if names else " on the host that owns the card"
        return f"{port.netdev}: a {port.kind} has none of its own: it belongs to the physical function{owner}"
    return ""


def unsupported(port: Port) -> str:
    """Why RDMA ports of this kind are refused; empty when they are not."""
    names = ", ".join(port.related)
    if port.kind == VLAN:
        return _vlan(port.netdev, names)
    if port.kind == STACKED:
        return f"is a virtual network device on top of {names}; declare the physical port"
    return ""


def vlan_of(port: Port, name: str) -> str:
    """Why a declared VLAN is refused; empty when it is none of this port's."""
    return _vlan(name, port.netdev) if name in port.vlans else ""


def _vlan(name: str, parent: str) -> str:
    return (
        f"is a VLAN on {parent}; QoS belongs to the port: declare {parent}, the address may stay on {name}"
        " (with trust pcp its egress map or the application's service level gives the priority)"
    )
