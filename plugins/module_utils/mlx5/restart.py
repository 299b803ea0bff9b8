# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The loaded driver against the one on disk, and its restart where that is asked for. Private to the collection."""

from __future__ import annotations

import typing as t

from ..checks.driver import MLX5_MODULES, STACK, Modules, judge_stack, read_modules, stale_modules
from ..findings import Finding
from . import once
from .devices import Device, find_devices, why_untouchable
from .part import LongRun, Operation, Part, Plan, WaitFor

if t.TYPE_CHECKING:
    from ..host import Host

# OFED's and DOCA's own service reloads the whole stack; it has lain in both places.
_OPENIBD = ("/etc/init.d/openibd", "/usr/lib/systemd/system/openibd.service", "/lib/systemd/system/openibd.service")
_MARK = "driver-restart"


class StackPart(Part):
    """Restarts the driver at most once in a boot for the same reason, and only where nothing speaks against it."""

    name = "restart"

    def __init__(self, restart: bool, stale_options: t.Callable[[], list[str]]) -> None:
        self.restart = restart
        self._stale_options = stale_options
        self._modules = Modules()
        self._devices: tuple[Device, ...] = ()

    def read(self, host: Host) -> None:
        self._modules = read_modules(host, STACK)

    def plan(self, host: Host) -> Plan:
        reason = self._reason() if self.restart else ""
        if not reason:
            return Plan()
        devices = tuple(find_devices(host))
        refusal = why_untouchable(host, devices)
        if not refusal and once.tried(host, _MARK, reason):
            refusal = "a restart in this boot did not help; reboot the node"
        if refusal:
            return Plan(note=f"not restarted: {refusal}")
        operations: list[Operation] = [*once.operations(_MARK, reason), _restart(host), WaitFor(devices)]
        return Plan(operations, {"driver": reason}, {"driver": "restarted"})

    def _reason(self) -> str:
        """What a restart of the mlx5 modules would bring; other modules of the stack stay loaded."""
        options = [name for name in self._stale_options() if name.partition(".")[0] in MLX5_MODULES]
        modules = [f"{name} {self._modules.on_disk[name].version}".strip() for name in stale_modules(self._modules)]
        return ", ".join([*modules, *options])

    def findings(self, note: str, error: str) -> list[Finding]:
        return [judge_stack(self._modules, note or error)]


def _restart(host: Host) -> LongRun:
    if any(host.exists(path) for path in _OPENIBD):
        return LongRun(("systemctl", "restart", "openibd"))
    # What was unloaded comes back even when the rest could not be unloaded.
    return LongRun(("modprobe", "-r", *reversed(MLX5_MODULES)), then=("modprobe", "-a", *MLX5_MODULES))
