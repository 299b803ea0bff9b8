# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One call for a node: select ports, plan everything, guard, apply port by port, report.

Every module that changes ports goes through ``converge``. Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from .checks.dcb_masters import check_masters
from .checks.links import missing_port
from .errors import PolicyError, RoceError
from .findings import CONVERGE, FAIL, PASS, SKIPPED, UNKNOWN, Finding
from .guards import busy_ports, management_netdevs
from .plan import PortRun, apply_run, plan_run, read_state
from .port_kinds import BOND, LAG_PORT, lacks
from .ports import Port, find_ports, select_ports, with_members
from .saved import Declared, Demand, Disk, read_disk, state_of
from .settings.base import Change, Setting, State, Value

if t.TYPE_CHECKING:
    from .host import Host


@dataclass(frozen=True)
class Options:
    """How a run goes.

    dry_run plans only; when_busy is refuse or force, and allow_busy names ports to force; allow_management
    names netdevs; strict takes a setting that a port does not have for an error, since somebody asked for
    just that one; save is what should be saved for the next boot once all ports are right; lock_wait is how
    long another run is waited for, in seconds.
    """

    dry_run: bool = False
    strict: bool = False
    when_busy: str = "refuse"
    allow_busy: tuple[str, ...] = ()
    allow_management: tuple[str, ...] = ()
    save: Declared | None = None
    lock_wait: float = 60.0


@dataclass
class Result:
    """What a run did, or in a dry run would do."""

    runs: list[PortRun] = field(default_factory=list)
    settings: t.Sequence[Setting] = ()
    missing: dict[str, str] = field(default_factory=dict)  # declared name -> why there is no such port
    masters: list[Finding] = field(default_factory=list)
    disk: Disk = field(default_factory=Disk)

    def failed(self) -> dict[str, dict[str, t.Any]]:
        """Ports that failed, were refused or are not there, by netdev or declared name."""
        missing = {name: {"error": reason} for name, reason in self.missing.items()}
        return {**missing, **{run.port.netdev: run.as_failure() for run in self.runs if run.error}}

    def message(self) -> str:
        """One line that says what failed; empty when nothing did."""
        return "; ".join([*self._port_errors(), *([self.disk.failure] if self.disk.failure else [])])

    def _port_errors(self) -> list[str]:
        return [*self.missing.values(), *(run.error for run in self.runs if run.error)]

    def settle_disk(self, host: Host, dry_run: bool) -> None:
        """Save the declared policy if all ports are right; else the former file stays, and that is said."""
        if self._port_errors():
            self.disk.withhold()
        if not dry_run:
            self.disk.save(host)

    def as_dict(self) -> dict[str, t.Any]:
        """The result keys that all port modules share, as plain JSON."""
        operations = [op for run in self.runs for change in run.effective() for op in change.operations]
        changed = any(run.changes and (run.left_over or not run.error) for run in self.runs)
        disk_before, disk_after = self.disk.diff()
        return {
            "changed": changed or bool(self.disk.operations()),
            "diff": {
                "before": {**self._changed("before"), **disk_before},
                "after": {**self._changed("after"), **disk_after},
            },
            "commands": [op.shown() for op in (*operations, *self.disk.operations())],
            "ports": {run.port.netdev: self._shown(run.after) for run in self.runs},
            "unknown": {run.port.netdev: run.unreadable for run in self.runs if run.unreadable},
            # Not "skipped": Ansible would take the whole task for skipped.
            "not_applicable": {run.port.netdev: run.skipped for run in self.runs if run.skipped},
            "busy": {run.port.netdev: run.busy for run in self.runs if run.busy},
            "failed_ports": self.failed(),
            "findings": [finding.as_dict() for finding in self.findings()],
        }

    def notes(self) -> list[str]:
        """What should be known before the changes are made: what cannot be undone."""
        return [
            f"{change.port}: {change.setting}: {note}"
            for run in self.runs
            for change in run.changes
            for note in [self._setting(change.setting).cannot_restore(change.before)]
            if note
        ]

    def lines(self) -> list[str]:
        """What was done, a line for each change, for a journal."""
        return [_line(self._setting(change.setting), change, run) for run in self.runs for change in run.effective()]

    def _setting(self, name: str) -> Setting:
        return next(setting for setting in self.settings if setting.name == name)

    def _shown(self, state: State) -> State:
        return {name: self._setting(name).shown(value) for name, value in state.items()}

    def _changed(self, which: str) -> dict[str, State]:
        """The former or new values of the settings that change, by port."""
        return {
            run.port.netdev: {
                name: value
                for name, value in self._shown(getattr(run, which)).items()
                if name in {change.setting for change in run.effective()}
            }
            for run in self.runs
            if run.effective()
        }

    def findings(self) -> t.Iterator[Finding]:
        """A verdict on each declared port, each of its settings, and what the next boot brings back."""
        for name, reason in self.missing.items():
            yield missing_port(name, reason)
        on_disk = self.disk.demands()
        for run in self.runs:
            yield from self._port_findings(run, state_of(run.port, on_disk))
        yield from self.masters
        yield from self.disk.findings()

    def _port_findings(self, run: PortRun, saved: State) -> t.Iterator[Finding]:
        for name, wanted in run.wanted.items():
            setting = self._setting(name)
            judge = _unknown if name in run.unreadable else _skipped if name in run.skipped else _verdict
            finding = judge(setting, run, wanted)
            if name in saved:
                finding = replace(finding, layers={**finding.layers, "on_disk": setting.shown(saved[name])})
            yield finding


def converge(host: Host, names: list[str], settings: t.Sequence[Setting], wanted: State, options: Options) -> Result:
    """Bring the named ports to ``wanted`` (the same for all of them), or plan it in a dry run; see converge_all."""
    return converge_all(host, [Demand(tuple(names), wanted)], settings, options)


def converge_all(host: Host, demands: t.Sequence[Demand], settings: t.Sequence[Setting], options: Options) -> Result:
    """Bring every group of ports to what is demanded of it, or plan it in a dry run.

    Raises RoceError for what is wrong before any port is touched. A port that fails later is in the
    result's ``failed()``; the other ports have gone on.
    """
    if options.dry_run:
        return _converge(host, demands, settings, options)
    with host.lock(timeout=options.lock_wait):
        return _converge(host, demands, settings, options)


def _converge(host: Host, demands: t.Sequence[Demand], settings: t.Sequence[Setting], options: Options) -> Result:
    chosen, missing = assign_ports(find_ports(host), demands)
    runs = [
        plan_run(settings, host, port, _own_part(settings, port, demand.wanted))
        for declared, demand in chosen.items()
        for port in with_members([declared])
    ]
    if options.strict:
        for run in runs:
            run.unreadable.update(run.skipped)
    _guard(host, [run for run in runs if run.changes], options)
    if not options.dry_run:
        for run in runs:
            if run.changes and not run.error:
                _guard_jobs(host, [run], options)  # one may have started while other ports were set
            if not run.error:
                apply_run(settings, host, run)
    dcbx = any("dcbx" in demand.wanted for demand in demands)
    masters = check_masters(host.process_names()) if dcbx else []
    result = Result(runs, settings, missing, masters, read_disk(host, options.save))
    result.settle_disk(host, options.dry_run)
    return result


def examine(host: Host, ports: list[Port], settings: t.Sequence[Setting], wanted: State) -> list[Finding]:
    """Findings on every setting of these ports, for those who only look.

    What forbids a change (a job, the management connection, a driver that refuses) is no reason to say less.
    """
    runs = [_look(settings, host, port, _own_part(settings, port, wanted)) for port in with_members(ports)]
    return list(Result(runs, settings).findings())


def _look(settings: t.Sequence[Setting], host: Host, port: Port, wanted: State) -> PortRun:
    try:
        return plan_run(settings, host, port, wanted)
    except RoceError as exc:
        seen = read_state([setting for setting in settings if setting.name in wanted], host, port, wanted)
        error = f"the port does not run what the policy declares, and the policy cannot be applied to it: {exc}"
        return PortRun(port, wanted, seen.state, seen.state, [], seen.unreadable, seen.skipped, error=error)


def assign_ports(found: list[Port], demands: t.Sequence[Demand]) -> tuple[dict[Port, Demand], dict[str, str]]:
    """The demand on each declared port, and the reason for each name without a port.

    Raises PolicyError where two demands select one port, by whichever names.
    """
    chosen: dict[Port, Demand] = {}
    missing: dict[str, str] = {}
    for demand in demands:
        ports, absent = select_ports(found, list(demand.ports))
        for port in ports:
            if port in chosen:
                raise PolicyError(
                    f"ports: {port.label()} is selected by {chosen[port].label} and by {demand.label}"
                    " … one policy for a port was expected; nothing was changed"
                )
            chosen[port] = demand
        missing.update(absent)
    return chosen, missing


def _own_part(settings: t.Sequence[Setting], port: Port, wanted: State) -> State:
    """What of the wanted state belongs to a bond itself, or to a port of it; all of it for other ports."""
    if port.kind not in (BOND, LAG_PORT):
        return wanted
    return {s.name: wanted[s.name] for s in settings if s.name in wanted and not lacks(port, s.belongs_to)}


def _guard(host: Host, changing: list[PortRun], options: Options) -> None:
    """Refuse what would cut the management connection (all of it) or disturb a job (that port)."""
    if not changing:
        return
    reserved = management_netdevs(host)
    for run in changing:
        netdev = run.port.netdev
        if netdev in reserved and netdev not in options.allow_management:
            raise RoceError(
                f"{netdev}: carries the management connection of this node ({reserved[netdev]}) … a fabric port was"
                " expected; nothing was changed; name it in allow_management to change it all the same"
            )
    _guard_jobs(host, changing, options)


def _guard_jobs(host: Host, changing: list[PortRun], options: Options) -> None:
    """Refuse to change each of these ports that a job uses."""
    if options.when_busy == "force":
        return
    busy = busy_ports(host, [run.port for run in changing])
    for run in changing:
        netdev = run.port.netdev
        if netdev in busy and not {netdev, run.port.ibdev} & set(options.allow_busy):
            run.busy = busy[netdev]
            run.error = (
                f"{netdev}: {run.busy}; nothing was changed (allow_busy: [{netdev}] or when_busy: force overrides)"
            )
            run.after = run.before


def _line(setting: Setting, change: Change, run: PortRun) -> str:
    before, after = setting.differing(change.after, change.before)
    undone = " (rolled back)" if run.rolled_back else ""
    return f"{change.port}: {change.setting}: {before} -> {after}{undone}"


def _verdict(setting: Setting, run: PortRun, wanted: Value) -> Finding:
    """A finding on one setting: on the value before a dry run, on the value after a real one."""
    change = _change_of(run, setting.name)
    seen = run.before[setting.name] if run.planned_only else run.after.get(setting.name, {})
    right = bool(seen) and setting.equal(wanted, seen)
    observed, expected = setting.differing(wanted, seen)
    return Finding(
        check=setting.name,
        verdict=PASS if right else FAIL,
        observed=observed,
        expected=expected,
        evidence=setting.evidence(run.port),
        cause=_cause(setting, run, change, right),
        remedy="" if right else _remedy(change),
        port=run.port.netdev,
        layers={"declared": setting.shown(wanted), "running": setting.shown(seen)},
    )


def _cause(setting: Setting, run: PortRun, change: Change | None, right: bool) -> str:
    if right:
        return "repaired by this run" if change and not run.planned_only else ""
    return run.error or f"the port does not run what the policy declares: {setting.risk}"


def _change_of(run: PortRun, name: str) -> Change | None:
    return next((change for change in run.changes if change.setting == name), None)


def _remedy(change: Change | None) -> str:
    if change is None:
        return "see the cause"
    commands = " && ".join(" ".join(op.shown()) for op in change.operations)
    return f"{CONVERGE}, or by hand: {commands}"


def _unknown(setting: Setting, run: PortRun, wanted: Value) -> Finding:
    return Finding(
        check=setting.name,
        verdict=UNKNOWN,
        expected=setting.shown(wanted),
        evidence=setting.evidence(run.port),
        cause=run.unreadable[setting.name],
        remedy="apply the role baseline if a tool or module is missing",
        port=run.port.netdev,
    )


def _skipped(setting: Setting, run: PortRun, wanted: Value) -> Finding:
    return Finding(
        check=setting.name,
        verdict=SKIPPED,
        expected=setting.shown(wanted),
        evidence=setting.evidence(run.port),
        cause=run.skipped[setting.name],
        port=run.port.netdev,
    )
