# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What can stand between the NIC and GPU memory: dma-buf or nvidia_peermem. Pure but for the reading.

Whether a job really uses it only NCCL's own log proves; this tells whether it can. IOMMU and ACS,
which make it slow or wrong, are checked elsewhere.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import asdict, dataclass

from ..errors import RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.driver import parse_modinfo

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

PEERMEM = "nvidia_peermem"
# The first kernel whose RDMA core registers a dma-buf, and the first driver branch of CUDA 11.7.
_KERNEL, _DRIVER = (5, 12), 515
_CLIENTS = ("nv_mem", "nv_mem_nc", "nvidia-peermem", "nvidia_peermem")
_SYMBOL = "ib_register_peer_memory_client"


@dataclass(frozen=True)
class GpuFacts:
    """What kernel, driver and library offer. None: could not be found out."""

    gpus: int = 0
    kernel: str = ""
    driver: str = ""  # version of the loaded NVIDIA driver; empty when it is not loaded
    open_module: bool | None = None
    library: bool | None = None  # libibverbs has ibv_reg_dmabuf_mr
    peermem_loaded: bool = False
    peermem_registered: bool = False
    peermem_on_disk: bool = False
    peer_symbols: bool | None = None  # the RDMA core offers the symbols that nvidia_peermem needs

    def as_dict(self) -> dict[str, t.Any]:
        """The facts as plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Choice:
    """The way to GPU memory (dmabuf, peermem, none, or empty when undecided) and why."""

    path: str
    reason: str


# -- judgement -------------------------------------------------------------------------------------


def dmabuf_offered(facts: GpuFacts) -> tuple[bool | None, str]:
    """Whether dma-buf can be used, and what speaks against it; None when something is unknown."""
    kernel, driver = _numbers(facts.kernel), _numbers(facts.driver)
    against = [
        f"kernel {facts.kernel} is older than 5.12" if kernel and kernel < _KERNEL else "",
        f"NVIDIA driver {facts.driver} is older than {_DRIVER}" if driver and driver[0] < _DRIVER else "",
        "the proprietary NVIDIA kernel module is loaded, not the open one" if facts.open_module is False else "",
        "libibverbs has no ibv_reg_dmabuf_mr (rdma-core 34 brings it)" if facts.library is False else "",
    ]
    if any(against):
        return False, "; ".join(text for text in against if text)
    unknown = [
        "" if kernel else "the kernel's version",
        "" if driver else "the driver's version",
        "whether the NVIDIA module is the open one" if facts.open_module is None else "",
        "whether libibverbs has ibv_reg_dmabuf_mr" if facts.library is None else "",
    ]
    missing = ", ".join(text for text in unknown if text)
    return (None, f"{missing} could not be found out") if missing else (True, "")


def peermem_offered(facts: GpuFacts) -> tuple[bool | None, str]:
    """Whether nvidia_peermem works or could be loaded, and what speaks against it."""
    if facts.peermem_loaded:
        return facts.peermem_registered, "" if facts.peermem_registered else _unregistered()
    if not facts.peermem_on_disk:
        return False, f"module {PEERMEM} is not on this node; it comes with the NVIDIA driver"
    if facts.peer_symbols is False:
        return False, f"the RDMA core has no {_SYMBOL}, which {PEERMEM} needs: OFED or DOCA brings it"
    return facts.peer_symbols, "" if facts.peer_symbols else f"whether the RDMA core has {_SYMBOL} is not known"


def _unregistered() -> str:
    return (
        f"{PEERMEM} is loaded and not registered with ib_core: it was built without this node's RDMA stack, or"
        " against another one"
    )


def choose(facts: GpuFacts, mode: str = "auto") -> Choice:
    """The way to take. auto: dma-buf, as NVIDIA recommends; else nvidia_peermem; else none."""
    (dmabuf, no_dmabuf), (peermem, no_peermem) = dmabuf_offered(facts), peermem_offered(facts)
    if mode != "auto":
        return Choice(mode, "asked for")
    if dmabuf:
        return Choice("dmabuf", "kernel, libibverbs and the open NVIDIA module offer it")
    if peermem:
        return Choice("peermem", f"no dma-buf ({no_dmabuf}); {PEERMEM} is there")
    why = f"dma-buf: {no_dmabuf}; peermem: {no_peermem}"
    return Choice("" if None in (dmabuf, peermem) else "none", why)


def judge(facts: GpuFacts, mode: str = "auto") -> list[Finding]:
    """Findings on the way to GPU memory, and on a module that is loaded in vain."""
    if not facts.gpus and not facts.driver:
        return [_finding(facts, SKIPPED, "none", "this node has no NVIDIA GPU", "")]
    if not facts.driver:
        remedy = "install the NVIDIA driver, or look why it is not loaded: dmesg | grep -i nvidia"
        return [_finding(facts, FAIL, "none", "the NVIDIA driver is not loaded", remedy)]
    found = [_peermem_finding(facts)] if facts.peermem_loaded else []
    return [_path_finding(facts, choose(facts, mode)), *found]


def _path_finding(facts: GpuFacts, choice: Choice) -> Finding:
    if choice.path == "":
        return _finding(facts, UNKNOWN, "", choice.reason, "")
    if choice.path == "none":
        return _finding(facts, FAIL, "none", f"GPUDirect RDMA is not possible: {choice.reason}", _way_out(facts))
    offered, against = dmabuf_offered(facts) if choice.path == "dmabuf" else peermem_offered(facts)
    if offered is None:
        return _finding(facts, UNKNOWN, choice.path, against, "")
    if offered is False:
        return _finding(facts, FAIL, choice.path, f"GPUDirect RDMA is not possible: {against}", _way_out(facts))
    if choice.path == "peermem" and not facts.peermem_loaded:
        return _finding(facts, FAIL, choice.path, f"{PEERMEM} is not loaded", "role mlx5 loads it, or modprobe it")
    return _finding(facts, PASS, choice.path, "", "")


def _finding(facts: GpuFacts, verdict: str, path: str, cause: str, remedy: str) -> Finding:
    return Finding(
        check="gpudirect",
        verdict=verdict,
        observed={"path": path, **(facts.as_dict() if facts.gpus or facts.driver else {})},
        expected="dma-buf or nvidia_peermem",
        evidence="/sys/module/nvidia*, /proc/driver/nvidia/version, modinfo, /sys/kernel/mm/memory_peers, libibverbs",
        cause=cause,
        remedy=remedy,
    )


def _peermem_finding(facts: GpuFacts) -> Finding:
    right = facts.peermem_registered
    return Finding(
        check="gpudirect_peermem",
        verdict=PASS if right else FAIL,
        observed={"loaded": True, "registered": right},
        expected={"loaded": True, "registered": True},
        evidence="/sys/module/nvidia_peermem, /sys/kernel/mm/memory_peers/*/version",
        cause="" if right else _unregistered() + "; NCCL then runs with GPU Direct RDMA disabled, or fails",
        remedy="" if right else _way_out(facts),
    )


def _way_out(facts: GpuFacts) -> str:
    ways = [f"install the NVIDIA driver anew, so that {PEERMEM} is built against the RDMA stack that runs"]
    if dmabuf_offered(facts)[0]:
        ways.insert(0, f"rmmod {PEERMEM}: dma-buf is there")
    else:
        ways.append("or go over to dma-buf: kernel 5.12, rdma-core 34, the open NVIDIA modules of driver 515 or newer")
    return ", ".join(ways)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?", version)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


# -- reading ---------------------------------------------------------------------------------------


def read_gpu(host: Host, gpus: int) -> GpuFacts:
    """The facts of this node; without GPUs and driver nothing more is looked at."""
    text = host.read_optional("/proc/driver/nvidia/version") or ""
    version = (host.read_optional("/sys/module/nvidia/version") or "").strip() or _version_in(text)
    loaded = host.exists(f"/sys/module/{PEERMEM}")
    if not (gpus or version or loaded):
        return GpuFacts()
    modules = parse_modinfo(host.run("modinfo", "nvidia", PEERMEM, check=False).out)
    license_ = modules["nvidia"].license if "nvidia" in modules else ""
    return GpuFacts(
        gpus=gpus,
        kernel=(host.read_optional("/proc/sys/kernel/osrelease") or "").strip(),
        driver=version or ("loaded" if loaded or host.exists("/sys/module/nvidia") else ""),
        open_module=_is_open(text, license_),
        library=_library(host),
        peermem_loaded=loaded,
        peermem_registered=any(host.exists(f"/sys/kernel/mm/memory_peers/{name}/version") for name in _CLIENTS),
        peermem_on_disk=PEERMEM in modules,
        peer_symbols=_peer_symbols(host) if PEERMEM in modules and not loaded else None,
    )


def _version_in(text: str) -> str:
    found = re.search(r"Module\b[^\n]*?\s([0-9]+\.[0-9]+[0-9.]*)\s", text)
    return found.group(1) if found else ""


def _is_open(text: str, license_: str) -> bool | None:
    """From the loaded driver's own words, else from the license of its file."""
    if "Open Kernel Module" in text or "MIT" in license_:
        return True
    return False if "Kernel Module" in text or license_ == "NVIDIA" else None


def _library(host: Host) -> bool | None:
    """Whether the linker's libibverbs holds the name of the function."""
    try:
        found = re.search(r"libibverbs\.so\.1 .*=> (\S+)", host.run("ldconfig", "-p").out)
        return "ibv_reg_dmabuf_mr" in host.read(found.group(1)) if found else False
    except RoceError:
        return None


def _peer_symbols(host: Host) -> bool | None:
    symbols = host.read_optional("/proc/kallsyms")
    return None if symbols is None else _SYMBOL in symbols


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Whether GPUDirect RDMA is possible on this node."""
    return judge(read_gpu(host, len(context.facts.get("gpus", []))))
