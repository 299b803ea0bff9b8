# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Firmware parameters of all cards of a node in one call. Private to the collection.

Everything is queried before anything is written, and a value that the next boot brings anyway is never
written: mstconfig writes even what is the same.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, replace

from ..checks import firmware as judge
from ..errors import HostError, NotApplicable, PolicyError, RoceError, ToolMissing, Unreadable
from ..findings import FAIL, PENDING, SKIPPED, UNKNOWN, Finding
from ..parsers.mstconfig import Parameter, same_value
from . import nvconfig, once
from .devices import Device, is_virtual_function, on_card_of, select_devices, wait_for_return, why_untouchable
from .versions import read_versions

if t.TYPE_CHECKING:
    from ..host import Host

_NAME = re.compile(r"[A-Z][A-Z0-9_]*(\[[0-9]+\])?")


@dataclass(frozen=True)
class Request:
    """What is asked: devices by name (none: all cards), values by parameter, minimum versions by PSID."""

    devices: tuple[str, ...] = ()
    parameters: dict[str, t.Any] = field(default_factory=dict)
    minimum: dict[str, str] = field(default_factory=dict)
    reset: bool = False
    dry_run: bool = False


@dataclass
class DeviceRun:
    """What happened, or would happen, to one device."""

    device: Device
    versions: dict[str, str] = field(default_factory=dict)
    before: dict[str, Parameter] = field(default_factory=dict)
    after: dict[str, Parameter] = field(default_factory=dict)
    changes: dict[str, t.Any] = field(default_factory=dict)
    skipped: str = ""  # the card has no such configuration
    unknown: str = ""  # it should answer, and does not
    error: str = ""
    reset: str = ""  # what became of the reset that was asked for

    def pending(self) -> list[str]:
        """Names of the parameters whose next boot differs from what runs, as far as the firmware tells."""
        states = {name: parameter.reset_pending() for name, parameter in self.after.items()}
        return sorted(name for name, state in states.items() if state or (state is None and name in self.changes))


@dataclass
class Result:
    """What a run did, or in a dry run would do."""

    request: Request
    tools: nvconfig.Tools | None = None
    tool_error: str = ""
    runs: list[DeviceRun] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    commands: list[list[str]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def message(self) -> str:
        """One line that says what failed; empty when nothing did."""
        return "; ".join([*self.missing.values(), *(run.error for run in self.runs if run.error)])

    def as_dict(self) -> dict[str, t.Any]:
        """The module's result as plain JSON."""
        return {
            "changed": bool(self.commands),
            "commands": self.commands,
            "diff": {"before": self._diff(lambda run, name: run.before[name].next_boot), "after": self._diff(_wanted)},
            "devices": {run.device.pci: _shown(run) for run in self.runs},
            "skipped_devices": {run.device.pci: run.skipped for run in self.runs if run.skipped},
            "unknown_devices": {run.device.pci: run.unknown for run in self.runs if run.unknown},
            "reset_pending": [run.device.pci for run in self.runs if run.pending()],
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def notes(self) -> list[str]:
        """What became of resets that were asked for."""
        return [f"{run.device.label()}: {run.reset}" for run in self.runs if run.reset]

    def _diff(self, value: t.Callable[[DeviceRun, str], t.Any]) -> dict[str, dict[str, t.Any]]:
        return {run.device.pci: {name: value(run, name) for name in run.changes} for run in self.runs if run.changes}


def _wanted(run: DeviceRun, name: str) -> t.Any:
    return run.changes[name]


def _shown(run: DeviceRun) -> dict[str, t.Any]:
    return {
        "netdevs": list(run.device.netdevs),
        "psid": run.versions.get("psid", ""),
        "firmware": {"running": run.versions.get("running", ""), "stored": run.versions.get("stored", "")},
        "parameters": {name: parameter.as_dict() for name, parameter in run.after.items()},
    }


def checked_parameters(raw: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Names and values that can go to the tool. Raises PolicyError."""
    for name, value in raw.items():
        if not _NAME.fullmatch(str(name)):
            raise PolicyError(
                f"parameters: {name!r} … a name as mstconfig prints it was expected, such as ROCE_CC_PRIO_MASK_P1;"
                " the elements of an array one by one, such as NAME[0]"
            )
        if not isinstance(value, (bool, int, str)) or not re.fullmatch(r"[\w.()-]+", str(value)):
            raise PolicyError(f"parameters: {name}: {value!r} … a number, true, false or a word was expected")
    return dict(raw)


def converge(host: Host, request: Request) -> Result:
    """Bring every device's next boot to what is asked, or plan it in a dry run.

    Raises RoceError for what is wrong before anything is written. A device that fails later is in the
    result's ``message()``; the others have gone on.
    """
    if request.dry_run:
        return _converge(host, request)
    with host.lock():
        return _converge(host, request)


def _converge(host: Host, request: Request) -> Result:
    devices, missing = select_devices(host, request.devices)
    result = Result(request, missing=missing, runs=[DeviceRun(device) for device in devices])
    for run in result.runs:
        run.versions = read_versions(host, run.device)
    if request.parameters and devices:
        _find_tools(host, result)
    if result.tools:
        _plan(host, result, result.tools)
        for run in result.runs:
            _apply(host, result, run, result.tools)
    result.findings = list(_findings(result))
    return result


def _find_tools(host: Host, result: Result) -> None:
    try:
        result.tools = nvconfig.find_tools(host)
    except ToolMissing as exc:
        if not result.request.dry_run:
            raise
        result.tool_error = str(exc)  # on a bare node the role baseline would bring it first


def _plan(host: Host, result: Result, tools: nvconfig.Tools) -> None:
    """Query all devices and plan; raises PolicyError naming all that is refused, before anything is written."""
    problems: list[str] = []
    for run in result.runs:
        try:
            if is_virtual_function(host, run.device):
                raise NotApplicable(f"{run.device.label()}: a virtual function; the configuration is its card's")
            run.before = run.after = _read(host, run.device, result.request, tools)
            run.changes = _changes(run.before, result.request.parameters)
            problems += _refusals(run)
        except NotApplicable as exc:
            run.skipped = str(exc)
        except PolicyError as exc:
            problems.append(str(exc))
        except RoceError as exc:
            run.unknown = str(exc)
    if problems:
        raise PolicyError("; ".join(problems) + "; nothing was written")


def _read(host: Host, device: Device, request: Request, tools: nvconfig.Tools) -> dict[str, Parameter]:
    found = nvconfig.query(host, tools, device.pci, tuple(request.parameters)).parameters
    silent = [name for name in request.parameters if found[name].next_boot is None]
    if silent:
        raise Unreadable(f"{device.pci}: {', '.join(silent)}: the firmware does not show what the next boot brings")
    return {name: found[name] for name in request.parameters}


def _changes(found: t.Mapping[str, Parameter], wanted: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {name: value for name, value in wanted.items() if not same_value(value, found[name].next_boot)}


def _refusals(run: DeviceRun) -> t.Iterator[str]:
    for name in run.changes:
        if run.before[name].read_only:
            yield f"{run.device.pci}: {name}: is read only on this device (it is {run.before[name].next_boot})"
        elif (run.before[name].next_boot or "").startswith("Array["):
            yield f"{run.device.pci}: {name}: is an array; name its elements one by one, such as {name}[0]"


def _apply(host: Host, result: Result, run: DeviceRun, tools: nvconfig.Tools) -> None:
    """Write one device's changes in one command, read back, and reset it where that was asked for."""
    try:
        if run.changes and result.request.dry_run:
            result.commands.append(nvconfig.set_operation(tools, run.device.pci, run.changes).shown())
            run.after = {name: _predicted(run, name) for name in run.before}
        elif run.changes:
            _write(host, result, run, tools)
        if result.request.reset and run.pending():
            run.reset = _reset(host, result, run, tools)
    except RoceError as exc:
        run.error = f"{run.device.label()}: {exc}"


def _predicted(run: DeviceRun, name: str) -> Parameter:
    found = run.before[name]
    return replace(found, next_boot=str(run.changes[name])) if name in run.changes else found


def _write(host: Host, result: Result, run: DeviceRun, tools: nvconfig.Tools) -> None:
    # Another function of the same card may have written it a moment ago: look again.
    run.after = _read(host, run.device, result.request, tools)
    run.changes = _changes(run.after, run.changes)
    if not run.changes:
        return
    operation = nvconfig.set_operation(tools, run.device.pci, run.changes)
    result.commands.append(operation.shown())
    nvconfig.perform(host, operation)
    run.after = _read(host, run.device, result.request, tools)
    wrong = _changes(run.after, run.changes)
    if wrong:
        shown = ", ".join(f"{name} is {run.after[name].next_boot} … {value}" for name, value in wrong.items())
        raise HostError(f"the next boot reads back as {shown} was expected")


def _reset(host: Host, result: Result, run: DeviceRun, tools: nvconfig.Tools) -> str:
    """Reset the firmware of a card, at most once for the same pending values; what became of it."""
    card = on_card_of(host, run.device)
    reason = ", ".join(f"{name}={run.after[name].next_boot}" for name in run.pending())
    mark = f"firmware-reset-{run.device.pci}"
    refusal = why_untouchable(host, card)
    if refusal:
        return f"not reset: {refusal}"
    if once.tried(host, mark, reason):
        return f"not reset again: one in this boot did not load {reason}; reboot the node"
    operation = nvconfig.reset_operation(tools, run.device.pci)
    result.commands.append(operation.shown())
    if result.request.dry_run:
        return ""
    for keep in once.operations(mark, reason):
        keep.perform(host)
    nvconfig.perform(host, operation)
    lost = wait_for_return(host, card)
    if lost:
        raise HostError(f"after {' '.join(operation.argv)}: {lost}")
    run.after = _read(host, run.device, result.request, tools)
    return "was reset; all that ran on its ports (MTU, QoS, RDMA-CM settings) must be applied again: role roce_policy"


# -- findings --------------------------------------------------------------------------------------


def _findings(result: Result) -> t.Iterator[Finding]:
    for name, reason in result.missing.items():
        remedy = "look for the card (lspci -d 15b3:) and its driver (module mlx5_driver)"
        yield Finding("firmware", FAIL, "not there", name, "/sys/class/net/*/device/driver", reason, remedy, port=name)
    if not (result.runs or result.missing):
        cause = "this node has no mlx5 device"
        yield Finding("firmware", SKIPPED, "none", "an mlx5 device", "/sys/class/net/*/device/driver", cause)
    if result.tool_error:
        yield judge.tool_missing(result.tool_error)
    for run in result.runs:
        version = judge.judge_version(run.device, run.versions, result.request.minimum)
        if version:
            yield version
        if result.tools:
            yield from _device_findings(result, run, result.tools)


def _device_findings(result: Result, run: DeviceRun, tools: nvconfig.Tools) -> t.Iterator[Finding]:
    evidence = " ".join(nvconfig.query_argv(tools, run.device.pci, tuple(result.request.parameters)))
    if run.skipped or run.unknown:
        verdict = SKIPPED if run.skipped else UNKNOWN
        yield judge.silent_device(run.device, verdict, run.skipped or run.unknown, evidence)
        return
    for name, wanted in result.request.parameters.items():
        dry = result.request.dry_run
        seen = (run.before if dry else run.after)[name]
        written = name in run.changes and not dry
        found = judge.judge_parameter(run.device, wanted, seen, evidence, written=written, error=run.error)
        yield _with_reset(found, run.reset)


def _with_reset(finding: Finding, reset: str) -> Finding:
    """A pending finding says why the reset that was asked for did not help."""
    if finding.verdict != PENDING or not reset:
        return finding
    return Finding(**{**finding.as_dict(), "cause": f"{finding.cause}; {reset}"})
