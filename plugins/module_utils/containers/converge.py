# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One call for a node's container engines: plan and validate all, guard, apply one by one, ask them.

An engine is a transaction: when its service does not come back, its files and the service are put
back, and the other engines go on.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass, field

from ..errors import HostError, RoceError, ToolMissing
from ..findings import FAIL, UNKNOWN, Finding
from .cdi import NvidiaCdi, RdmaCdi
from .containerd import Containerd
from .docker import Docker
from .engine import RELOAD, RESTART, Engine, Options, Plan, size_bytes
from .podman import Podman

if t.TYPE_CHECKING:
    from ..host import Host

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Docker(), Containerd(), Podman())}
NVIDIA_MODES = ("auto", "runtime", "cdi", "none")
_RUNTIME = "nvidia-container-runtime"
# A service that must load images' metadata takes its time.
_SERVICE_LIMIT_S = 300.0
# SIGHUP is taken over a moment after systemctl returned.
_RELOAD_LIMIT_S = 10.0
_PAUSE_S = 0.5


@dataclass
class Result:
    """What a run did, or in a dry run would do."""

    plans: list[Plan] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    backup: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def as_dict(self) -> dict[str, t.Any]:
        """The module's result, as plain JSON."""
        done = [plan for plan in self.plans if plan.engine not in self.failed]
        return {
            "changed": any(plan.commands() for plan in done),
            "commands": [command for plan in done for command in plan.commands()],
            "diff": [edit.diff() for plan in done for edit in plan.edits],
            "backup": self.backup,
            "failed_engines": self.failed,
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def message(self) -> str:
        """One line that says what failed; empty when nothing did."""
        return "; ".join(self.failed.values())

    def notes(self) -> list[str]:
        """What the user should know besides."""
        return [note for plan in self.plans for note in plan.notes]


def resolve_nvidia(host: Host, mode: str) -> tuple[bool, bool]:
    """Whether to register the runtime, and whether to use CDI. Raises RoceError when what is asked for is missing."""
    runtime, ctk = host.which(_RUNTIME) is not None, host.which("nvidia-ctk") is not None
    for wanted, tool, there in (("runtime", _RUNTIME, runtime), ("cdi", "nvidia-ctk", ctk)):
        if mode == wanted and not there:
            raise RoceError(
                f"nvidia: {mode} was asked for and {tool} is not installed on this node … install package"
                " nvidia-container-toolkit, or set nvidia to auto or none"
            )
    # Without the driver nvidia-ctk has nothing to tell.
    driver = host.exists("/dev/nvidiactl")
    return mode == "runtime" or (mode == "auto" and runtime), mode == "cdi" or (mode == "auto" and ctk and driver)


def make_options(host: Host, params: dict[str, t.Any]) -> Options:
    """The options from a module's parameters. Raises RoceError for what is not allowed."""
    if params["config"] and len(params["engines"]) != 1:
        raise RoceError(f"config: {params['config']!r} is one file … exactly one engine was expected with it")
    if params["shm_size"]:
        size_bytes(params["shm_size"], "shm_size")
    runtime, cdi = resolve_nvidia(host, params["nvidia"])
    return Options(
        nvidia_runtime=runtime,
        nvidia_cdi=cdi,
        rdma_devices=params["rdma_devices"],
        default_runtime=params["default_runtime"] or "",
        memlock=params["memlock"],
        shm_size=params["shm_size"] or "",
        cgroup_driver=params["cgroup_driver"],
        config=params["config"] or "",
        restart=params["restart"],
        when_busy=params["when_busy"],
    )


def converge(host: Host, engines: t.Sequence[str], options: Options, dry_run: bool) -> Result:
    """Bring the engines to the options, or plan it in a dry run.

    Raises RoceError for what is wrong before anything is changed. An engine that fails later is in
    the result's ``failed``; the other engines have gone on.
    """
    if dry_run:
        return _converge(host, engines, options, dry_run)
    with host.lock():
        return _converge(host, engines, options, dry_run)


def _converge(host: Host, engines: t.Sequence[str], options: Options, dry_run: bool) -> Result:
    chosen = _chosen(engines, options)
    result = Result([_plan(host, engine, options, dry_run) for engine in chosen])
    _guard(host, result.plans, options)
    if not dry_run:
        for engine, plan in zip(chosen, result.plans):
            _apply(host, engine, plan, options, result)
    for engine, plan in zip(chosen, result.plans):
        result.findings += _findings(host, engine, plan, options, result, dry_run)
    return result


def _chosen(engines: t.Sequence[str], options: Options) -> list[Engine]:
    own: list[Engine] = [RdmaCdi()] if options.rdma_devices else []
    own += [NvidiaCdi()] if options.nvidia_cdi else []
    return own + [ENGINES[name] for name in dict.fromkeys(engines)]


def _plan(host: Host, engine: Engine, options: Options, dry_run: bool) -> Plan:
    try:
        plan = engine.plan(host, options)
    except ToolMissing as exc:
        if not dry_run:
            raise
        return Plan(engine.name, missing=str(exc))  # a real run may install it first
    outstanding = _outstanding(host, plan)
    if outstanding and plan.action != RESTART:
        plan.action = outstanding
    plan.held = options.restart == "never"
    return plan


def _guard(host: Host, plans: list[Plan], options: Options) -> None:
    """Refuse a restart or a daemon-reload beside running containers. A reload does them no harm."""
    if options.when_busy == "force":
        return
    for plan in (plan for plan in plans if not plan.held):
        names = [plan.engine] if plan.action == RESTART else []
        if plan.daemon_reload:
            names = list(ENGINES)  # it may take devices from containers of any engine
        running = [f"{name}: {one}" for name in names for one in ENGINES[name].containers(host)]
        if running:
            what = "systemctl daemon-reload and a restart" if plan.daemon_reload else "a restart"
            raise RoceError(
                f"{plan.engine}: needs {what}, and {len(running)} containers run ({', '.join(running[:5])}); nothing"
                " was changed … no running container was expected (when_busy: force overrides, restart: never only"
                " writes the files)"
            )


# -- apply ---------------------------------------------------------------------------------------


def _apply(host: Host, engine: Engine, plan: Plan, options: Options, result: Result) -> None:
    try:
        _remember(host, plan)
        for folder in plan.folders if plan.edits else []:
            host.mkdir(folder)
        for edit in plan.edits:
            if edit.backup and edit.before is not None:
                result.backup[edit.path] = host.backup(edit.path)
            host.write(edit.path, edit.after)
        _take_over(host, engine, plan, options)
    except RoceError as exc:
        result.failed[plan.engine] = f"{plan.engine}: {exc}; {_roll_back(host, plan)}"


def _take_over(host: Host, engine: Engine, plan: Plan, options: Options) -> None:
    if plan.held:
        return
    plan.tried = True
    if plan.daemon_reload:
        host.run("systemctl", "daemon-reload")
    if not plan.action or plan.service is None:
        return
    host.run("systemctl", plan.action, f"{plan.service.name}.service", timeout=_SERVICE_LIMIT_S)
    deadline = host.now() + _RELOAD_LIMIT_S
    while plan.action == RELOAD and host.now() < deadline:
        if all(finding.verdict != FAIL for finding in engine.findings(host, options, "")):
            break
        host.sleep(_PAUSE_S)
    host.remove(_marker(plan))


def _roll_back(host: Host, plan: Plan) -> str:
    """Put the files back, and start a service with them that was to take the new ones over; what came of it."""
    try:
        for edit in plan.edits:
            if edit.before is None:
                host.remove(edit.path)
            else:
                host.write(edit.path, edit.before)
        if plan.daemon_reload and plan.tried:
            host.run("systemctl", "daemon-reload")
        if plan.action and plan.service and plan.tried:
            # After a few failed starts systemd refuses any further one.
            host.run("systemctl", "reset-failed", f"{plan.service.name}.service", check=False)
            host.run("systemctl", plan.action, f"{plan.service.name}.service", timeout=_SERVICE_LIMIT_S)
        with contextlib.suppress(HostError):
            host.remove(_marker(plan))
    except RoceError as exc:
        return f"rolling back failed: {exc}"
    return "rolled back: the former files are in place"


# -- what a service has not taken over yet -------------------------------------------------------
# A run may write a file and leave the service alone (restart: never, or it was killed in between).
# The marker says so: it names the service's run that has not read the file, and what it takes.


def _marker(plan: Plan) -> str:
    return f"/run/lossless-roce-{plan.engine}.pending"


def _remember(host: Host, plan: Plan) -> None:
    if plan.edits and plan.service and plan.service.active:
        host.write(_marker(plan), f"{plan.service.invocation} {plan.action or RESTART}\n")


def _outstanding(host: Host, plan: Plan) -> str:
    """reload or restart, when this very run of the service has not taken its file over; else empty."""
    if plan.service is None or not plan.service.active:
        return ""
    invocation, _blank, action = (host.read_optional(_marker(plan)) or "").strip().partition(" ")
    return action if invocation == plan.service.invocation and action in (RELOAD, RESTART) else ""


# -- findings ------------------------------------------------------------------------------------


def _findings(host: Host, engine: Engine, plan: Plan, options: Options, result: Result, dry_run: bool) -> list[Finding]:
    if plan.engine in result.failed:
        return [
            Finding(
                check=f"{plan.engine}_config",
                verdict=FAIL,
                evidence=", ".join(edit.path for edit in plan.edits),
                cause=result.failed[plan.engine],
                remedy="see the cause; journalctl -u docker or containerd says more",
            )
        ]
    if plan.missing:
        return [Finding(check=f"{plan.engine}_config", verdict=UNKNOWN, evidence=plan.engine, cause=plan.missing)]
    outstanding = "" if dry_run else _outstanding(host, plan)
    pending = f"systemctl {outstanding} {plan.engine}, once no container runs" if outstanding else ""
    try:
        return engine.findings(host, options, pending)
    except RoceError as exc:  # the changes are made; what the engine says of them is not known
        return [Finding(check=f"{plan.engine}_running", verdict=UNKNOWN, evidence=plan.engine, cause=str(exc))]
