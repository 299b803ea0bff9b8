# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""mlx5 devices of a node: by PCI address, with the ports that stand on them. Private to the collection."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..errors import PolicyError, RoceError
from ..guards import busy_ports, management_netdevs
from ..parsers.rdma import natural
from ..ports import Port, find_ports, functions_of, with_members

if t.TYPE_CHECKING:
    from ..host import Host

DRIVER = "mlx5_core"
_PCI = re.compile(r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_RETURN_LIMIT_S = 120.0
_PAUSE_S = 0.5


@dataclass(frozen=True)
class Device:
    """One PCI function with the mlx5 driver.

    ports: the RDMA ports that stand on it, the one of a bond that it is in included
    """

    pci: str
    netdevs: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()

    @property
    def card(self) -> str:
        """Domain, bus and slot: what the functions of one card have in common."""
        return self.pci.rpartition(".")[0]

    def label(self) -> str:
        """How messages name the device."""
        return f"{self.pci} ({', '.join(self.netdevs)})" if self.netdevs else self.pci

    def port(self) -> str:
        """What findings give as port."""
        return self.netdevs[0] if self.netdevs else self.pci


def find_devices(host: Host) -> list[Device]:
    """Every function with driver mlx5_core that has a netdev or an RDMA device, by address."""
    netdevs: dict[str, list[str]] = {}
    for name in sorted(host.listdir("/sys/class/net"), key=natural):
        link = f"/sys/class/net/{name}/device"
        if host.exists(f"{link}/driver") and _base(host.realpath(f"{link}/driver")) == DRIVER:
            netdevs.setdefault(_base(host.realpath(link)), []).append(name)
    ports = [port for port in _ports(host) if DRIVER in [each.driver for each in with_members([port])]]
    addresses = sorted({*netdevs, *(pci for port in ports for pci in functions_of(port))})
    return [
        Device(pci, tuple(netdevs.get(pci, ())), tuple(port for port in ports if pci in functions_of(port)))
        for pci in addresses
        if _PCI.fullmatch(pci)
    ]


def _ports(host: Host) -> list[Port]:
    try:
        return find_ports(host)
    except RoceError:  # no rdma tool or no RDMA module yet: the netdevs tell enough
        return []


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def select_devices(host: Host, names: t.Sequence[str]) -> tuple[list[Device], dict[str, str]]:
    """Devices by PCI address, netdev or RDMA device; name -> reason for what is not there.

    Without names: of each card the first function that is no virtual one, since a card keeps one
    configuration for all of its ports. Raises PolicyError for two names of one device.
    """
    found = find_devices(host)
    if not names:
        return _first_functions(host, found), {}
    chosen: dict[Device, str] = {}
    missing: dict[str, str] = {}
    for name in names:
        device = next((device for device in found if _is_named(device, name)), None)
        if device is None:
            there = ", ".join(device.label() for device in found) or "none"
            missing[name] = f"devices: {name!r} is no mlx5 device or port of this node; there are: {there}"
        elif device in chosen:
            raise PolicyError(
                f"devices: {chosen[device]!r} and {name!r} are one and the same device ({device.label()})"
            )
        else:
            chosen[device] = name
    return list(chosen), missing


def _first_functions(host: Host, found: list[Device]) -> list[Device]:
    physical = [device for device in found if not is_virtual_function(host, device)]
    firsts: dict[str, Device] = {}
    for device in physical:
        firsts.setdefault(device.card, device)
    return list(firsts.values())


def is_virtual_function(host: Host, device: Device) -> bool:
    """Whether the function is a virtual one, which has no configuration of its own."""
    return host.exists(f"/sys/bus/pci/devices/{device.pci}/physfn")


def _is_named(device: Device, name: str) -> bool:
    address = _PCI.fullmatch(name.lower())
    if address:
        return device.pci == f"{address.group(1) or '0000'}:{address.group(2)}"
    return name in device.netdevs or name in [port.ibdev for port in device.ports]


def why_untouchable(host: Host, devices: t.Sequence[Device]) -> str:
    """Why these devices must not be restarted now: management connection or a running job; empty if they may."""
    reserved = management_netdevs(host)
    for device in devices:
        for netdev in device.netdevs:
            if netdev in reserved:
                return f"{netdev} carries the management connection ({reserved[netdev]})"
    busy = busy_ports(host, [port for device in devices for port in device.ports])
    return "; ".join(f"{netdev}: {reason}" for netdev, reason in busy.items())


def on_card_of(host: Host, device: Device) -> list[Device]:
    """The device and its siblings on the same card, virtual functions included."""
    card = _card_of(host, device)
    return [other for other in find_devices(host) if _card_of(host, other) == card] or [device]


def _card_of(host: Host, device: Device) -> str:
    """The card's part of the address of the physical function: virtual ones have slots and buses of their own."""
    if not is_virtual_function(host, device):
        return device.card
    return _base(host.realpath(f"/sys/bus/pci/devices/{device.pci}/physfn")).rpartition(".")[0]


def wait_for_return(host: Host, devices: t.Sequence[Device]) -> str:
    """Wait until netdevs and RDMA devices are back after a restart; what is not back in time, else empty."""
    deadline = host.now() + _RETURN_LIMIT_S
    while True:
        missing = sorted(
            {name for device in devices for name in device.netdevs if not host.exists(f"/sys/class/net/{name}")}
            | {
                port.ibdev
                for device in devices
                for port in device.ports
                if not host.exists(f"/sys/class/infiniband/{port.ibdev}")
            }
        )
        if not missing:
            return ""
        if host.now() >= deadline:
            return f"{', '.join(missing)} did not come back within {_RETURN_LIMIT_S:g} s"
        host.sleep(_PAUSE_S)
