# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether an IOMMU translates what NICs and GPUs send. Only a device's own group decides that.

Sources: ABI sysfs-kernel-iommu_groups (type, since Linux 5.11), kernel-parameters.txt.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..errors import RoceError
from ..findings import FAIL, PASS, PENDING, SKIPPED, UNKNOWN, Finding
from ..ports import functions_of

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

PASSTHROUGH = ("iommu=pt", "iommu.passthrough=1", "iommu.passthrough=on", "iommu.passthrough=y")
_OFF = ("iommu=off", "intel_iommu=off", "amd_iommu=off")
_BOOT_FILES = ("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg")
_BOOT_ENTRIES = "/boot/loader/entries"
_GROUPS = "/sys/bus/pci/devices"


@dataclass(frozen=True)
class Seen:
    """What sysfs and the kernel's command lines say.

    iommus: names under /sys/class/iommu
    groups: PCI address -> type of its group; "" without a group, None when it can't be read
    now, next_boot: words about the IOMMU on the running and on the next kernel's command line
    """

    iommus: tuple[str, ...] = ()
    groups: dict[str, str | None] = field(default_factory=dict)
    now: tuple[str, ...] = ()
    next_boot: tuple[str, ...] = ()


def diagnose(host: Host, context: Context) -> list[Finding]:
    """One finding on the declared ports and the GPUs together."""
    devices = [
        *(pci for port in context.ports for pci in sorted(functions_of(port))),
        *(gpu["pci"] for gpu in context.facts.get("gpus", [])),
    ]
    try:
        return [judge(read(host, devices))]
    except RoceError as exc:
        return [Finding("iommu", UNKNOWN, evidence="/proc/cmdline", cause=str(exc))]


def read(host: Host, devices: t.Iterable[str]) -> Seen:
    """Look at the devices with these PCI addresses."""
    entries = [f"{_BOOT_ENTRIES}/{name}" for name in host.listdir(_BOOT_ENTRIES) if name.endswith(".conf")]
    boot = "\n".join(host.read_optional(path) or "" for path in (*_BOOT_FILES, *entries))
    return Seen(
        iommus=tuple(host.listdir("/sys/class/iommu")),
        groups={address: _group(host, address) for address in devices},
        now=iommu_words(host.read("/proc/cmdline")),
        next_boot=iommu_words(boot),
    )


def _group(host: Host, address: str) -> str | None:
    device = f"{_GROUPS}/{address}"
    if not host.exists(device):
        return None
    if not host.exists(f"{device}/iommu_group"):
        return ""
    text = host.read_optional(f"{device}/iommu_group/type")
    return text.strip() if text and text.strip() else None


def iommu_words(text: str) -> tuple[str, ...]:
    """Kernel arguments that speak of the IOMMU, each once; comments of boot files are left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    words = [
        word
        for line in lines
        for word in line.split()
        if word.partition("=")[0].endswith(("iommu", "iommu.passthrough"))
    ]
    return tuple(dict.fromkeys(words))


def judge(seen: Seen) -> Finding:
    """Off or passthrough is right. What the command line says is shown; it proves nothing."""
    if not seen.iommus:
        return _finding(PASS, seen)
    if not seen.groups:
        return _finding(SKIPPED, seen, "no RDMA port or GPU with a PCI address was found")
    translated = [address for address, kind in seen.groups.items() if kind is not None and kind.startswith("DMA")]
    if translated:
        return _translated(seen, translated)
    strange = {a: kind for a, kind in seen.groups.items() if kind not in ("", "identity")}
    if strange:
        told = ", ".join(f"{address} ({kind or 'unreadable'})" for address, kind in strange.items())
        cause = f"the type of the IOMMU group does not decide it for {told}"
        return _finding(
            UNKNOWN,
            seen,
            cause,
            "see whether the device is handed to a virtual machine; kernels before 5.11 show no type",
        )
    return _finding(PASS, seen)


def _translated(seen: Seen, addresses: list[str]) -> Finding:
    names = ", ".join(addresses)
    wanted = {*PASSTHROUGH, *_OFF}
    if set(seen.next_boot) & wanted and not set(seen.now) & wanted:
        return _finding(
            PENDING, seen, f"the next boot turns translation off; until then it is on for {names}", "reboot the node"
        )
    cause = f"the IOMMU translates every access of {names}: GPUDirect is slow or impossible, and so is a fast NIC"
    if set(seen.now) & wanted:
        cause += f"; the kernel was started with {' '.join(seen.now)}, and translates them all the same"
        return _finding(
            FAIL, seen, cause, "see dmesg | grep -i -e iommu -e dmar: firmware can force translation for a device"
        )
    return _finding(FAIL, seen, cause, "baseline_iommu: passthrough (kernel argument iommu=pt), then reboot")


def _finding(verdict: str, seen: Seen, cause: str = "", remedy: str = "") -> Finding:
    groups = {a: "unknown" if kind is None else kind or "no group" for a, kind in seen.groups.items()}
    return Finding(
        check="iommu",
        verdict=verdict,
        observed={"iommus": list(seen.iommus), "groups": groups, "kernel_arguments": list(seen.now)},
        expected="no IOMMU, or groups of type identity",
        evidence="/sys/class/iommu, /sys/bus/pci/devices/ADDRESS/iommu_group/type",
        cause=cause,
        remedy=remedy,
        layers={"running": list(seen.now), "next_boot": list(seen.next_boot)},
    )
