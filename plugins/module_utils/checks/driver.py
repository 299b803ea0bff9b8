# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kernel modules of the RDMA stack: loaded, and the same as on disk. Pure but for the reading."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..findings import FAIL, PASS, PENDING, SKIPPED, Finding
from ..parsers.driver import ModuleFile, module_name, parse_modinfo

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

MLX5_MODULES = ("mlx5_core", "mlx5_ib")
RDMA_MODULES = ("ib_uverbs", "rdma_cm", "rdma_ucm")
# The modules by which one tells which stack is loaded.
STACK = ("mlx5_core", "mlx5_ib", "ib_core")
_MELLANOX = "0x15b3"


@dataclass(frozen=True)
class Loaded:
    """A module that is loaded. The kernel's own have no version, and srcversion only where the kernel keeps it."""

    version: str = ""
    srcversion: str = ""


@dataclass(frozen=True)
class Modules:
    """Modules by name, as they run and as they lie on disk."""

    loaded: dict[str, Loaded] = field(default_factory=dict)
    on_disk: dict[str, ModuleFile] = field(default_factory=dict)

    def is_there(self, name: str) -> bool:
        """Whether the module is loaded or part of the kernel itself."""
        return name in self.loaded or (name in self.on_disk and self.on_disk[name].builtin)

    def not_loaded(self, names: t.Iterable[str]) -> list[str]:
        """Those of the names that the kernel has and that are not loaded."""
        return [name for name in names if not self.is_there(name) and name in self.on_disk]

    def missing(self, names: t.Iterable[str]) -> list[str]:
        """Those of the names that this kernel does not have at all."""
        return [name for name in names if not self.is_there(name) and name not in self.on_disk]


def read_modules(host: Host, names: t.Iterable[str]) -> Modules:
    """The modules of these names, by one modinfo."""
    wanted = list(dict.fromkeys(module_name(name) for name in names))
    # modinfo names on standard error those that it does not find, and fails.
    on_disk = parse_modinfo(host.run("modinfo", *wanted, check=False).out)
    loaded = {name: _loaded(host, name) for name in wanted if host.exists(f"/sys/module/{name}")}
    return Modules(loaded, on_disk)


def _loaded(host: Host, name: str) -> Loaded:
    version, srcversion = (
        (host.read_optional(f"/sys/module/{name}/{file}") or "").strip() for file in ("version", "srcversion")
    )
    return Loaded(version, srcversion)


def judge_modules(modules: Modules, names: t.Sequence[str], error: str = "") -> Finding:
    """A finding on modules that must be loaded."""
    missing, waiting = modules.missing(names), modules.not_loaded(names)
    right = not missing and not waiting
    causes = [
        f"this kernel has no module {', '.join(missing)}" if missing else "",
        f"not loaded: {', '.join(waiting)}" if waiting else "",
        error,
    ]
    remedies = [
        "install the package with the kernel's further modules, or OFED or DOCA" if missing else "",
        f"role mlx5, or modprobe -a {' '.join(waiting)}" if waiting else "",
    ]
    return Finding(
        check="kernel_modules",
        verdict=PASS if right else FAIL,
        observed=[name for name in names if modules.is_there(name)],
        expected=list(names),
        evidence="/sys/module, modinfo",
        cause="" if right else "; ".join(text for text in causes if text),
        remedy="; ".join(text for text in remedies if text),
    )


def stale_modules(modules: Modules) -> list[str]:
    """Modules of the stack whose file on disk is not what is loaded."""
    return [
        name
        for name in STACK
        if name in modules.loaded
        and name in modules.on_disk
        and not modules.on_disk[name].builtin
        and _differs(modules.loaded[name], modules.on_disk[name])
    ]


def _differs(loaded: Loaded, on_disk: ModuleFile) -> bool:
    """By version (the kernel's own has none, OFED's has), and by srcversion where both sides keep it."""
    if loaded.version != on_disk.version:
        return True
    return bool(loaded.srcversion and on_disk.srcversion) and loaded.srcversion != on_disk.srcversion


def flavour(version: str) -> str:
    """How a stack is called: only the modules of OFED and DOCA carry a version."""
    return f"OFED or DOCA {version}" if version else "inbox"


def judge_stack(modules: Modules, note: str = "") -> Finding:
    """A finding on the loaded stack against the one on disk. ``note``: why it was not restarted."""
    stale = stale_modules(modules)
    core, file = modules.loaded.get("mlx5_core"), modules.on_disk.get("mlx5_core")
    verdict = SKIPPED if core is None else PENDING if stale else PASS
    causes = {
        SKIPPED: "mlx5_core is not loaded",
        PENDING: f"driver restart or reboot outstanding: {', '.join(stale)} on disk is not what is loaded",
        PASS: "",
    }
    layers = {
        "running": {name: _shown(modules.loaded[name]) for name in STACK if name in modules.loaded},
        "on_disk": {name: _shown(modules.on_disk[name]) for name in STACK if name in modules.on_disk},
    }
    return Finding(
        check="driver_stack",
        verdict=verdict,
        observed=flavour(core.version) if core else None,
        expected=flavour(file.version) if file else None,
        evidence="/sys/module/*/version and srcversion, modinfo",
        cause="; ".join(text for text in (causes[verdict], note) if text) if verdict != PASS else "",
        remedy="reboot, or module mlx5_driver with restart: true when no job runs" if stale else "",
        layers=layers,
    )


def _shown(module: Loaded | ModuleFile) -> str:
    return f"{module.version or 'inbox'} {module.srcversion}".strip()


def has_card(host: Host) -> bool:
    """Whether the node has a PCI device of the vendor, or a netdev with the driver."""
    vendors = (host.read_optional(f"/sys/bus/pci/devices/{pci}/vendor") for pci in host.listdir("/sys/bus/pci/devices"))
    if any((vendor or "").strip() == _MELLANOX for vendor in vendors):
        return True
    drivers = (host.realpath(f"/sys/class/net/{name}/device/driver") for name in host.listdir("/sys/class/net"))
    return any(driver.rsplit("/", 1)[-1] == "mlx5_core" for driver in drivers)


def judge_card(there: bool) -> Finding:
    """A finding on the card itself."""
    return Finding(
        check="mlx5_card",
        verdict=PASS if there else SKIPPED,
        observed="there" if there else "none",
        expected="an mlx5 device",
        evidence="/sys/bus/pci/devices/*/vendor, /sys/class/net/*/device/driver",
        cause="" if there else "this node has no mlx5 device: of the driver only its modules can be judged",
    )


def diagnose(host: Host, context: Context) -> list[Finding]:
    """RDMA modules not loaded; a driver on disk that is not the one that runs."""
    card = has_card(host)
    names = [*(MLX5_MODULES if card else ()), *RDMA_MODULES]
    modules = read_modules(host, [*names, *STACK])
    return [judge_modules(modules, names), *([judge_stack(modules)] if card else [])]
