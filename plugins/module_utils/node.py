# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One call for a node: select ports, plan everything, guard, apply port by port, report.

Every module that changes ports goes through ``converge``. Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .checks.dcb_masters import check_masters
from .errors import RoceError
from .findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from .guards import busy_ports, management_netdevs
from .plan import PortRun, apply_run, plan_run
from .ports import find_ports, select_ports
from .settings.base import Change, Setting, State, Value

if t.TYPE_CHECKING:
    from .host import Host


@dataclass(frozen=True)
class Options:
    """How a run goes.

    dry_run plans only; when_busy is refuse or force; allow_management names netdevs; strict takes a
    setting that a port does not have for an error, since somebody asked for just that one.
    """

    dry_run: bool = False
    strict: bool = False
    when_busy: str = "refuse"
    allow_management: tuple[str, ...] = ()


@dataclass
class Result:
    """What a run did, or in a dry run would do."""

    runs: list[PortRun] = field(default_factory=list)
    settings: t.Sequence[Setting] = ()
    missing: dict[str, str] = field(default_factory=dict)  # declared name -> why there is no such port
    masters: list[Finding] = field(default_factory=list)

    def failed(self) -> dict[str, dict[str, t.Any]]:
        """Ports that failed, were refused or are not there, by netdev or declared name."""
        missing = {name: {"error": reason} for name, reason in self.missing.items()}
        return {**missing, **{run.port.netdev: run.as_failure() for run in self.runs if run.error}}

    def message(self) -> str:
        """One line that says what failed; empty when nothing did."""
        return "; ".join([*self.missing.values(), *(run.error for run in self.runs if run.error)])

    def as_dict(self) -> dict[str, t.Any]:
        """The result keys that all port modules share, as plain JSON."""
        return {
            "changed": any(run.changes and (run.left_over or not run.error) for run in self.runs),
            "diff": {"before": self._changed("before"), "after": self._changed("after")},
            "commands": [op.shown() for run in self.runs for change in run.effective() for op in change.operations],
            "ports": {run.port.netdev: self._shown(run.after) for run in self.runs},
            "unknown": {run.port.netdev: run.unreadable for run in self.runs if run.unreadable},
            # Not "skipped": Ansible would take the whole task for skipped.
            "not_applicable": {run.port.netdev: run.skipped for run in self.runs if run.skipped},
            "failed_ports": self.failed(),
            "findings": [finding.as_dict() for finding in self._all_findings()],
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

    def _all_findings(self) -> t.Iterator[Finding]:
        for name, reason in self.missing.items():
            yield _missing_port(name, reason)
        for run in self.runs:
            yield from self._findings(run)
        yield from self.masters

    def _findings(self, run: PortRun) -> t.Iterator[Finding]:
        for name, wanted in run.wanted.items():
            setting = self._setting(name)
            if name in run.unreadable:
                yield _unknown(setting, run, wanted)
            elif name in run.skipped:
                yield _skipped(setting, run, wanted)
            else:
                yield _verdict(setting, run, wanted)


def converge(host: Host, names: list[str], settings: t.Sequence[Setting], wanted: State, options: Options) -> Result:
    """Bring the named ports to ``wanted`` (the same for all of them), or plan it in a dry run.

    Raises RoceError for what is wrong before any port is touched. A port that fails later is in the
    result's ``failed()``; the other ports have gone on.
    """
    if options.dry_run:
        return _converge(host, names, settings, wanted, options)
    with host.lock():
        return _converge(host, names, settings, wanted, options)


def _converge(host: Host, names: list[str], settings: t.Sequence[Setting], wanted: State, options: Options) -> Result:
    ports, missing = select_ports(find_ports(host), names)
    runs = [plan_run(settings, host, port, wanted) for port in ports]
    if options.strict:
        for run in runs:
            run.unreadable.update(run.skipped)
    _guard(host, [run for run in runs if run.changes], options)
    if not options.dry_run:
        for run in runs:
            if not run.error:
                apply_run(settings, host, run)
    masters = check_masters(host.process_names()) if "dcbx" in wanted else []
    return Result(runs, settings, missing, masters)


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
    if options.when_busy == "force":
        return
    busy = busy_ports(host, [run.port for run in changing])
    for run in changing:
        if run.port.netdev in busy:
            run.error = f"{run.port.netdev}: {busy[run.port.netdev]}; nothing was changed (when_busy: force overrides)"
            run.after = run.before


def _missing_port(name: str, reason: str) -> Finding:
    return Finding(
        check="port",
        verdict=FAIL,
        observed="not there",
        expected=name,
        evidence="rdma -j link show",
        cause=reason,
        remedy="look for the card (lspci -d 15b3:), its driver (dmesg | grep mlx5) and the name in roce_ports",
        port=name,
    )


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
    return f"run playbook lossless.roce.drift with enforce=true, or by hand: {commands}"


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
