# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a port sits: PCIe link, nearest GPU, NUMA node, interrupts. Reported, never changed.

Paths are compared as sysfs has them: /sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0 names every bridge between
the host bridge and the function.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ..errors import NotApplicable, RoceError
from ..findings import CONVERGE, FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.dmesg import parse_pcie_limits
from ..parsers.nvidia_topo import LEVELS, Topology, parse_topology
from ..port_kinds import BOND
from ..settings.pcie import Pcie

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port
    from .base import Context

# linux include/linux/pci.h: GT/s of a lane -> Mb/s of data, after the line code.
_LANE_MBPS = {2.5: 2000, 5.0: 4000, 8.0: 7876, 16.0: 15753, 32.0: 31507, 64.0: 64000}
_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# NCCL's default NCCL_NET_GDR_LEVEL: further than this, it copies through host memory.
_GPUDIRECT = ("PIX", "PXB")
_MEANING = {
    "PIX": "one PCIe switch apart",
    "PXB": "several PCIe switches apart, not through the processor",
    "PHB": "through the processor's PCIe host bridge",
    "NODE": "under different PCIe host bridges of one NUMA node",
    "SYS": "on different NUMA nodes",
}
_LARGEST_READ = 4096
Link = tuple[float, int]


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Findings on each declared port that is a PCI function, and on the GPUs of the node."""
    ports = [each for port in context.ports for each in (port.members if port.kind == BOND else (port,))]
    limits = _limits(host)
    gpus = {gpu["pci"]: (_pci_path(host, gpu["pci"]), gpu.get("numa_node")) for gpu in context.facts.get("gpus", [])}
    balanced = "irqbalance" in host.process_names()
    found = []
    for port in ports:
        path, policy = _device_path(host, port), context.policy_of(port.netdev)
        link_gbps, nic = context.link_gbps_of(port.netdev), (policy.nic if policy else None) or {}
        found.append(check_link(port, _links(host, path), _maximum(host, path), link_gbps, limits.get(port.pci)))
        found.append(_read_request(host, port, nic.get("max_read_request")))
        found.append(check_nearest_gpu(port, path, gpus))
        found.append(check_interrupts(port, *_interrupts(host, port), balanced))
    topology = _topology(host)
    return [*found, topology] if topology else found


# -- PCIe link -----------------------------------------------------------------------------------


def gbps(link: Link) -> float | None:
    """What a PCIe link carries one way, in Gb/s; None for a speed that is not known."""
    lane = _LANE_MBPS.get(link[0])
    return lane * link[1] / 1000 if lane else None


def check_link(
    port: Port,
    links: dict[str, Link],
    most: Link | None,
    link_gbps: float | None,
    limit: dict[str, t.Any] | None = None,
) -> Finding:
    """The narrowest link between the host bridge and the port, against the network link and the card.

    links: trained links by address of the function at their lower end; most: what the card can do; limit: what the
    driver logged.
    """
    rates = {at: rate for at, link in links.items() for rate in [gbps(link)] if rate is not None}
    at = min(rates, key=lambda key: rates[key], default="")
    rate, card = rates.get(at), gbps(most) if most else None
    if limit and limit["at"] not in rates and (rate is None or limit["gbps"] < rate):
        at, rate, card = limit["at"], limit["gbps"], limit["capable_gbps"]
    verdict, cause = _judge_link(rate, card, link_gbps, at, port)
    return Finding(
        check="pcie_link",
        verdict=verdict,
        observed={"gbps": rate, "at": at},
        expected={"gbps": link_gbps, "card_gbps": card},
        evidence=f"/sys/bus/pci/devices/{port.pci}/current_link_{{speed,width}} and those of the bridges above; dmesg",
        cause=cause,
        remedy="seat the card anew, use a slot with more lanes, look at BIOS (bifurcation, link speed) and riser"
        if verdict == FAIL
        else "",
        port=port.netdev,
    )


def _judge_link(
    rate: float | None, card: float | None, link_gbps: float | None, at: str, port: Port
) -> tuple[str, str]:
    if rate is None:
        return UNKNOWN, "the negotiated PCIe link is not stated"
    where = "" if at == port.pci else f", at the bridge {at} above the card"
    if link_gbps is not None and rate < link_gbps:
        return FAIL, f"the PCIe link carries {rate:g} Gb/s{where}: less than the {link_gbps:g} Gb/s of the network link"
    if card is None:
        return (UNKNOWN, "what the card can do is not stated, nor link_gbps") if link_gbps is None else (PASS, "")
    if rate < card:
        text = f"the PCIe link carries {rate:g} Gb/s{where}, and the card could do {card:g} Gb/s"
        return (FAIL, text) if link_gbps is None else (PASS, f"{text}; that is enough for the network link")
    return PASS, ""


def _links(host: Host, path: str) -> dict[str, Link]:
    """Trained links of the function and of the bridges above it."""
    links = {}
    while _FUNCTION.fullmatch(path.rsplit("/", 1)[-1]):
        link = _link(host, path, "current")
        if link:
            links[path.rsplit("/", 1)[-1]] = link
        path = path.rsplit("/", 1)[0]
    return links


def _maximum(host: Host, path: str) -> Link | None:
    return _link(host, path, "max")


def _link(host: Host, path: str, which: str) -> Link | None:
    speed = re.match(r"[0-9]{1,3}(\.[0-9])?", host.read_optional(f"{path}/{which}_link_speed") or "")
    width = (host.read_optional(f"{path}/{which}_link_width") or "").strip()
    # 0 and 255 stand for "not known" there.
    if speed is None or width not in ("1", "2", "4", "8", "12", "16", "32"):
        return None
    return float(speed.group(0)), int(width)


def check_read_request(port: Port, size: int | None, declared: int | None) -> Finding:
    """The largest PCIe read request, against the policy, or else against what suits fast cards."""
    if size is None:
        verdict, cause = UNKNOWN, "the PCIe device control register cannot be read"
    elif declared is None and size < _LARGEST_READ:
        verdict, cause = SKIPPED, f"the policy declares no nic.max_read_request; {_LARGEST_READ} is the usual advice"
    else:
        verdict = PASS if size == (declared or _LARGEST_READ) else FAIL
        cause = "" if verdict == PASS else "it was never set, or the node was booted since: the register does not last"
    return Finding(
        check="max_read_request",
        verdict=verdict,
        observed=size,
        expected=declared or _LARGEST_READ,
        evidence=Pcie().evidence(port),
        cause=cause,
        remedy=CONVERGE if verdict == FAIL else "",
        port=port.netdev,
    )


def _read_request(host: Host, port: Port, declared: int | None) -> Finding:
    try:
        return check_read_request(port, int(Pcie().read(host, port)["max_read_request"]), declared)
    except NotApplicable as exc:
        finding = check_read_request(port, None, declared)
        return replace(finding, verdict=SKIPPED, cause=str(exc))
    except RoceError as exc:
        return replace(check_read_request(port, None, declared), cause=str(exc))


def _limits(host: Host) -> dict[str, dict[str, t.Any]]:
    try:
        return parse_pcie_limits(host.run("dmesg", check=False).out)
    except RoceError:
        return {}


# -- GPUs ----------------------------------------------------------------------------------------


def distance(one: tuple[str, int | None], other: tuple[str, int | None]) -> str | None:
    """How far two functions are apart, in nvidia-smi's words; each is (path in sysfs, NUMA node).

    None when they have no host bridge in common and a NUMA node is not known.
    """
    mine, others = (
        re.findall(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}|" + _FUNCTION.pattern, path) for path, _node in (one, other)
    )
    common = 0
    for left, right in zip(mine[:-1], others[:-1]):
        if left != right:
            break
        common += 1
    if common > 1:
        # Bridges of their own: below one switch each has one, its downstream port.
        apart = max(len(mine), len(others)) - 1 - common
        return "PIX" if apart <= 1 else "PXB"
    if common == 1:
        return "PHB"
    nodes = [node for _path, node in (one, other) if node is not None and node >= 0]
    if len(nodes) < 2:
        return None
    return "NODE" if nodes[0] == nodes[1] else "SYS"


def check_nearest_gpu(port: Port, path: str, gpus: dict[str, tuple[str, int | None]]) -> Finding:
    """The nearest GPU of a port, and whether GPUDirect RDMA to it stays off the processor."""
    apart = {gpu: distance((path, port.numa_node), where) for gpu, where in gpus.items()}
    known = {gpu: level for gpu, level in apart.items() if level}
    nearest = min(known, key=lambda gpu: LEVELS.index(known[gpu]), default="")
    level = known.get(nearest, "")
    if not gpus:
        verdict, cause = SKIPPED, "there is no NVIDIA GPU on this node"
    elif not nearest:
        verdict, cause = UNKNOWN, "port and GPUs have no host bridge in common, and their NUMA nodes are not stated"
    else:
        verdict = PASS if level in _GPUDIRECT else FAIL
        cause = (
            "" if verdict == PASS else f"the nearest GPU is {_MEANING[level]}: GPUDirect RDMA goes through it, slowly"
        )
    return Finding(
        check="nearest_gpu",
        verdict=verdict,
        observed={"gpu": nearest, "distance": level, "numa_node": port.numa_node},
        expected={"distance": list(_GPUDIRECT)},
        evidence=f"realpath /sys/bus/pci/devices/{port.pci} and of the GPUs; nvidia-smi topo -m",
        cause=cause,
        remedy="put the card below its GPU's PCIe switch; NCCL goes further than PXB only as NCCL_NET_GDR_LEVEL says"
        if verdict == FAIL
        else "",
        port=port.netdev,
    )


def check_topology(topology: Topology) -> Finding:
    """Nearest NICs of each GPU, as nvidia-smi sees it."""
    nearest = topology.nearest()
    far = [gpu for gpu, (level, _nics) in nearest.items() if level not in _GPUDIRECT]
    return Finding(
        check="gpu_nics",
        verdict=UNKNOWN if not nearest else FAIL if far else PASS,
        observed={
            "nearest": {gpu: {"distance": level, "nics": nics} for gpu, (level, nics) in nearest.items()},
            "no_rail": topology.unattached(),
        },
        expected={"distance": list(_GPUDIRECT)},
        evidence="nvidia-smi topo -m",
        cause=f"no NIC is nearer than {nearest[far[0]][0]} to {', '.join(far)}: {_MEANING[nearest[far[0]][0]]}"
        if far
        else ("" if nearest else "the matrix names no NIC"),
        remedy="put a card below the PCIe switch of each GPU (or of each two)" if far else "",
    )


def _topology(host: Host) -> Finding | None:
    if host.which("nvidia-smi") is None:
        return None
    try:
        return check_topology(parse_topology(host.run("nvidia-smi", "topo", "-m").out))
    except RoceError as exc:
        return Finding(check="gpu_nics", verdict=UNKNOWN, evidence="nvidia-smi topo -m", cause=str(exc))


# -- interrupts ----------------------------------------------------------------------------------


def check_interrupts(port: Port, affinity: dict[str, str], local: str, balanced: bool) -> Finding:
    """Whether the port's interrupts are served on its own NUMA node.

    affinity: list of processors by interrupt; local: the port's own processors.
    """
    own = cpu_list(local)
    away = {irq: cpus for irq, cpus in affinity.items() if not cpu_list(cpus) <= own}
    if not affinity or not own or port.numa_node < 0:
        verdict, cause = UNKNOWN, "the port states no interrupts, or no NUMA node"
    else:
        verdict = FAIL if away else PASS
        cause = "interrupts of the port are served by processors of another NUMA node" if away else ""
    if away and balanced and verdict == FAIL:
        cause += "; irqbalance is running, and moves them"
    return Finding(
        check="irq_affinity",
        verdict=verdict,
        observed={"away": away, "irqs": len(affinity), "irqbalance": balanced},
        expected={"processors": local, "numa_node": port.numa_node},
        evidence=f"/sys/class/net/{port.netdev}/device/msi_irqs, /proc/irq/*/{{effective,smp}}_affinity_list",
        cause=cause,
        remedy=f"write {local} to /proc/irq/N/smp_affinity_list of these, with irqbalance stopped or told to leave them"
        if verdict == FAIL
        else "",
        port=port.netdev,
    )


def cpu_list(text: str) -> set[int]:
    """0-3,8 -> {0, 1, 2, 3, 8}; empty for what is no such list."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        found = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part)
        if found is None:
            return set()
        cpus |= set(range(int(found.group(1)), int(found.group(2) or found.group(1)) + 1))
    return cpus


def _interrupts(host: Host, port: Port) -> tuple[dict[str, str], str]:
    device = f"/sys/class/net/{port.netdev}/device"
    local = (host.read_optional(f"{device}/local_cpulist") or "").strip()
    affinity = {irq: _served_by(host, irq) for irq in host.listdir(f"{device}/msi_irqs") if _of_a_queue(host, irq)}
    return {irq: cpus for irq, cpus in affinity.items() if cpus}, local


def _of_a_queue(host: Host, irq: str) -> bool:
    """mlx5 has one more for commands and events (mlx5_async), which any processor may serve."""
    return not any(name.startswith("mlx5_async") for name in host.listdir(f"/proc/irq/{irq}"))


def _served_by(host: Host, irq: str) -> str:
    """The processors that serve an interrupt now, or where the kernel does not tell, those that may."""
    for name in ("effective_affinity_list", "smp_affinity_list"):
        cpus = (host.read_optional(f"/proc/irq/{irq}/{name}") or "").strip()
        if cpus:
            return cpus
    return ""


def _device_path(host: Host, port: Port) -> str:
    return host.realpath(f"/sys/class/net/{port.netdev}/device")


def _pci_path(host: Host, address: str) -> str:
    return host.realpath(f"/sys/bus/pci/devices/{address}")
