# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The driver of a node in one call: modules, options, namespaces, devlink, the way to GPU memory.

Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..checks import gpudirect
from ..checks.driver import has_card, judge_card
from ..errors import RoceError, ToolMissing
from ..findings import PASS, UNKNOWN, Finding
from .devices import select_devices
from .devlink import DevlinkPart
from .modules import ModulesPart, Options, OptionsPart
from .netns import NetnsPart, with_netns
from .part import LongRun, Operation, Part, Plan
from .restart import StackPart

if t.TYPE_CHECKING:
    from ..host import Host

_AFTER = "what ran on the ports (MTU, QoS, RDMA-CM settings) must be applied again: role roce_policy"


@dataclass(frozen=True)
class Request:
    """What is asked; nothing that could disturb traffic is on by default."""

    modules: tuple[str, ...] = ()
    options: Options = field(default_factory=dict)
    netns: str | None = None
    gpu_direct: str = "auto"
    devices: tuple[str, ...] = ()
    devlink: dict[str, t.Any] = field(default_factory=dict)
    reload: bool = False
    restart: bool = False
    dry_run: bool = False


@dataclass
class Result:
    """What a run did, or in a dry run would do."""

    plans: dict[str, Plan] = field(default_factory=dict)  # by part, those with something to do or to say
    done: list[Operation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    gpu_path: str = ""
    restarted: bool = False

    def message(self) -> str:
        """One line that says what failed; empty when nothing did."""
        return "; ".join(self.errors)

    def notes(self) -> list[str]:
        """What should be known: why something was not restarted, and what follows where it was."""
        notes = [plan.note for plan in self.plans.values() if plan.note]
        return [*notes, *([_AFTER] if self.restarted else [])]

    def as_dict(self) -> dict[str, t.Any]:
        """The module's result as plain JSON."""
        return {
            "changed": bool(self.done),
            "commands": [operation.shown() for operation in self.done],
            "diff": {which: self._values(which) for which in ("before", "after")},
            "gpu_direct": self.gpu_path,
            "reapply": self.restarted,
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def _values(self, which: str) -> dict[str, t.Any]:
        return {name: getattr(plan, which) for name, plan in self.plans.items() if plan.operations}


def converge(host: Host, request: Request) -> Result:
    """Bring the driver to what is asked, or plan it in a dry run.

    Raises RoceError for what is wrong before anything is changed. A part that fails later is in the
    result's ``message()``; the others have gone on.
    """
    if not request.dry_run:
        with host.lock():
            return _converge(host, request)
    try:
        return _converge(host, request)
    except ToolMissing as exc:  # on a bare node the role baseline would bring it first
        evidence, remedy = f"which {exc.tool}", "role baseline installs the tools"
        return Result(findings=[Finding("driver", UNKNOWN, evidence=evidence, cause=str(exc), remedy=remedy)])


def _converge(host: Host, request: Request) -> Result:
    gpu = gpudirect.read_gpu(host, _gpus(host)) if request.gpu_direct != "none" else gpudirect.GpuFacts()
    choice = gpudirect.choose(gpu, request.gpu_direct)
    peermem = choice.path == "peermem" and bool(gpu.gpus or gpu.driver)
    parts = _parts(host, request, (gpudirect.PEERMEM,) if peermem else ())
    for part in parts:
        part.read(host)
    plans = {part.name: part.plan(host) for part in parts}
    result = Result(
        plans={name: plan for name, plan in plans.items() if plan.operations or plan.note},
        gpu_path=choice.path if gpu.driver else "none",
        findings=[judge_card(has_card(host))],
    )
    errors = {part.name: _apply(host, plans[part.name], result, request.dry_run) for part in parts}
    for part in parts:
        if result.done and not request.dry_run:
            part.read(host)
        repaired = bool(plans[part.name].operations) and not request.dry_run
        found = part.findings(plans[part.name].note, errors[part.name])
        result.findings += [_repaired(finding) for finding in found] if repaired else found
        problem = part.problem(errors[part.name])
        result.errors += [problem] if problem and not request.dry_run else []
    if request.gpu_direct != "none":
        seen = gpu if request.dry_run or not peermem else gpudirect.read_gpu(host, gpu.gpus)
        result.findings += gpudirect.judge(seen, request.gpu_direct)
    return result


def _parts(host: Host, request: Request, more_modules: tuple[str, ...]) -> list[Part]:
    """The parts in their order: options before modules take them, a restart before what it would undo."""
    devices, missing = select_devices(host, request.devices) if request.devlink else ([], {})
    if missing:
        raise RoceError("; ".join(missing.values()) + "; nothing was changed")
    options = OptionsPart(with_netns(request.options, request.netns))
    return [
        options,
        StackPart(request.restart, options.stale),
        ModulesPart((*request.modules, *(name for name in more_modules if name not in request.modules))),
        NetnsPart(request.netns),
        DevlinkPart(devices, request.devlink, request.reload),
    ]


def _apply(host: Host, plan: Plan, result: Result, dry_run: bool) -> str:
    """Perform one part's plan; the errors of its operations, empty when all went well."""
    if dry_run:
        result.done += plan.operations
        return ""
    errors: list[str] = []
    for operation in plan.operations:
        result.done.append(operation)
        result.restarted = result.restarted or isinstance(operation, LongRun)
        try:
            operation.perform(host)
        except RoceError as exc:
            errors.append(str(exc))
            if not plan.independent:
                break
    return "; ".join(errors)


def _repaired(finding: Finding) -> Finding:
    """The terminal names what a run put right."""
    return replace(finding, cause="repaired by this run") if finding.verdict == PASS and not finding.cause else finding


def _gpus(host: Host) -> int:
    """The number of NVIDIA GPUs (display and 3D controllers) on the PCI bus."""
    devices = [f"/sys/bus/pci/devices/{address}" for address in host.listdir("/sys/bus/pci/devices")]
    return sum(
        (host.read_optional(f"{device}/vendor") or "").strip() == "0x10de"
        and (host.read_optional(f"{device}/class") or "").startswith(("0x0300", "0x0302"))
        for device in devices
    )
