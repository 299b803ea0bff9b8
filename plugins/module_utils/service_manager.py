# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""systemd reads changed files again, and not while running containers would lose their GPUs by it.

Private to the collection. What waits is done by a later run, or by the next boot.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .containers.converge import ENGINES
from .containers.daemon_reload import diagnose_daemon_reload
from .errors import PolicyError, RoceError
from .findings import CONVERGE, FAIL, PASS, PENDING, UNKNOWN, Finding

if t.TYPE_CHECKING:
    from .host import Host

DAEMON_RELOAD = ("systemctl", "daemon-reload")
# Reads system.conf as well.
_DAEMON_REEXEC = ("systemctl", "daemon-reexec")
_LIMIT = ("systemctl", "show", "--property=DefaultLimitMEMLOCK", "--value")


@dataclass(frozen=True)
class ManagerRun:
    """What was done, or in a dry run would be done; ``pending`` says what waits, and why."""

    command: tuple[str, ...] = ()
    pending: str = ""
    dry_run: bool = False

    def as_dict(self) -> dict[str, t.Any]:
        """The module's result."""
        return {
            "changed": bool(self.command),
            "commands": [list(self.command)] if self.command else [],
            "pending": self.pending,
            "findings": [self._finding().as_dict()],
        }

    def _finding(self) -> Finding:
        wrong = bool(self.command) and self.dry_run
        cause = self.pending
        if self.command:
            cause = "systemd runs by older files than there are on disk" if wrong else "repaired by this run"
        return Finding(
            check="service_manager",
            verdict=PENDING if self.pending else FAIL if wrong else PASS,
            observed="older files" if wrong or self.pending else "the files on disk",
            expected="the files on disk",
            evidence=f"systemctl show, NeedDaemonReload; {' '.join(_LIMIT)}",
            cause=cause,
            remedy=f"{CONVERGE}, once no such container runs" if self.pending else CONVERGE if wrong else "",
        )


def converge(host: Host, units: t.Sequence[str], memlock: str, dry_run: bool) -> ManagerRun:
    """Have systemd read what has changed of these units and of its own limit, or plan it in a dry run.

    units: names, or patterns of names; memlock: ``unlimited``, a number of KiB, or empty to leave it out of account
    Raises RoceError.
    """
    limit = _limit_bytes(memlock)
    if dry_run:
        return _plan(host, units, limit, dry_run)
    with host.lock():
        run = _plan(host, units, limit, dry_run)
        if run.command:
            host.run(*run.command)
            _read_back(host, limit)
    return run


def _plan(host: Host, units: t.Sequence[str], limit: str, dry_run: bool) -> ManagerRun:
    command: tuple[str, ...] = ()
    if limit and _default_limit(host) != limit:
        command = _DAEMON_REEXEC
    elif units and reload_due(host, units):
        command = DAEMON_RELOAD
    reason = why_deferred(host) if command else ""
    return ManagerRun(pending=waiting(command, reason)) if reason else ManagerRun(command, "", dry_run)


def reload_due(host: Host, units: t.Sequence[str]) -> bool:
    """Whether systemd has read an older file than there is of one of these units. Raises HostError."""
    return "NeedDaemonReload=yes" in host.run("systemctl", "show", "-p", "NeedDaemonReload", *units).out.splitlines()


def why_deferred(host: Host) -> str:
    """Why a daemon-reload has to wait; empty when it does no harm. An engine that cannot be asked is a reason, too."""
    reasons = (_reason(host, engine, finding) for engine, finding in diagnose_daemon_reload(host).items())
    return "; ".join(reason for reason in reasons if reason)


def _reason(host: Host, engine: str, finding: Finding) -> str:
    if finding.verdict not in (FAIL, UNKNOWN):
        return ""
    try:
        running = ENGINES[engine].containers(host)
    except RoceError as exc:
        return f"whether {engine} runs containers cannot be told: {exc}"
    if not running:
        return ""
    harm = f"it cannot be told whether they lose their GPUs by it: {finding.cause}"
    if finding.verdict == FAIL:
        harm = "may lose their GPUs by it (check daemon_reload of playbook diagnose)"
    return f"{len(running)} containers of {engine} run ({', '.join(running[:5])}) and {harm}"


def waiting(command: tuple[str, ...], reason: str) -> str:
    """What a user is told of a command that waits."""
    return f"{' '.join(command)} waits: {reason}; the files are written, and the next boot reads them"


def _default_limit(host: Host) -> str:
    return host.run(*_LIMIT).out.strip()


def _read_back(host: Host, limit: str) -> None:
    seen = _default_limit(host) if limit else limit
    if seen != limit:
        raise RoceError(
            f"systemd's DefaultLimitMEMLOCK is {seen or 'not shown'} after {' '.join(_DAEMON_REEXEC)} … {limit} was"
            " expected: a later file in /etc/systemd/system.conf.d sets another one (systemd-analyze cat-config"
            " systemd/system.conf lists them)"
        )


def _limit_bytes(memlock: str) -> str:
    """As systemctl shows it."""
    if memlock in ("", "unlimited"):
        return memlock and "infinity"
    if not (memlock.isascii() and memlock.isdigit()):
        raise PolicyError(f"memlock: {memlock!r} … unlimited or a number of KiB was expected")
    return str(int(memlock) * 1024)
