# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Everything about a node's RDMA ports, read and never changed. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from .gids import read_gids
from .guards import busy_ports
from .plan import Reading, read_state
from .policy import rdma_mtu
from .ports import Port, find_ports
from .settings.registry import SETTINGS

if t.TYPE_CHECKING:
    from .host import Host

# PCI classes: 3D controller and VGA; vendor NVIDIA.
_GPU_CLASSES = ("0x0302", "0x0300")
_NVIDIA = "0x10de"


def gather(host: Host) -> dict[str, t.Any]:
    """Facts on the node and on all of its RDMA ports, as plain JSON."""
    ports = find_ports(host)
    busy = busy_ports(host, ports)
    return {
        "kernel": _text(host, "/proc/sys/kernel/osrelease"),
        "boot_id": _text(host, "/proc/sys/kernel/random/boot_id"),
        "memlock": _memlock(host.read("/proc/self/limits")),
        "driver": _driver(host),
        "gpus": find_gpus(host),
        "ports": [{**_port(host, port), "busy": busy.get(port.netdev, "")} for port in ports],
    }


def declared_ports(declared: list[dict[str, t.Any]], facts: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """The declared ports ({name, rail, address}) with what is known of each: netdev, ibdev, mtu, busy.

    A port that is not there has an empty netdev and ibdev.
    """
    unknown = {"netdev": "", "ibdev": "", "mtu": None, "busy": ""}
    found = {name: port for port in facts["ports"] for name in (port["netdev"], port["ibdev"]) if name}
    return [{**wanted, **{key: found.get(wanted["name"], unknown)[key] for key in unknown}} for wanted in declared]


def _port(host: Host, port: Port) -> dict[str, t.Any]:
    netdev = f"/sys/class/net/{port.netdev}"
    mtu = _number(_text(host, f"{netdev}/mtu")) if port.netdev else None
    found = read_state(SETTINGS, host, port) if port.netdev else Reading()
    return {
        **port.as_dict(),
        "carrier": _text(host, f"{netdev}/carrier") == "1",
        "speed_gbps": _speed(_text(host, f"{netdev}/speed")),
        "mtu": mtu,
        "rdma_mtu": rdma_mtu(mtu) if mtu else None,
        "firmware": _text(host, f"/sys/class/infiniband/{port.ibdev}/fw_ver"),
        "gids": [gid.as_dict() for gid in read_gids(host, port.ibdev, port.ibport)],
        "settings": {s.name: s.shown(found.state[s.name]) for s in SETTINGS if s.name in found.state},
        "unknown": found.unreadable,
        "skipped": found.skipped,
        "counters": _counters(host, port),
    }


def _counters(host: Host, port: Port) -> dict[str, int]:
    """RDMA hw_counters. Which ones there are depends on the firmware: a missing one is not 0."""
    folder = f"/sys/class/infiniband/{port.ibdev}/ports/{port.ibport}/hw_counters"
    values = {name: _number(_text(host, f"{folder}/{name}")) for name in host.listdir(folder) if name != "lifespan"}
    return {name: value for name, value in values.items() if value is not None}


def _driver(host: Host) -> dict[str, str]:
    """Only the modules of OFED and DOCA carry a version of their own; the kernel's have none."""
    version = _text(host, "/sys/module/mlx5_core/version")
    loaded = host.exists("/sys/module/mlx5_core")
    return {"flavour": ("ofed" if version else "inbox") if loaded else "", "version": version}


def find_gpus(host: Host) -> list[dict[str, t.Any]]:
    """PCI address and NUMA node of NVIDIA's GPUs."""
    gpus = []
    for address in host.listdir("/sys/bus/pci/devices"):
        device = f"/sys/bus/pci/devices/{address}"
        if _text(host, f"{device}/vendor") == _NVIDIA and _text(host, f"{device}/class")[:6] in _GPU_CLASSES:
            gpus.append({"pci": address, "numa_node": _number(_text(host, f"{device}/numa_node"))})
    return gpus


def _memlock(limits: str) -> str:
    """The hard limit on locked memory in bytes, or "unlimited"; empty when the file does not tell."""
    found = re.search(r"^Max locked memory\s+\S+\s+(\S+)", limits, re.MULTILINE)
    return found.group(1) if found else ""


def _speed(text: str) -> float | None:
    """Gb/s from sysfs's Mb/s; a port without link says -1 or nothing."""
    speed = _number(text)
    return speed / 1000 if speed is not None and speed > 0 else None


def _text(host: Host, path: str) -> str:
    return (host.read_optional(path) or "").strip()


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text) else None
