# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What all container engines have in common: options, a plan as data, and the questions put to an engine."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..errors import RoceError
from ..findings import FAIL, PASS, PENDING, SKIPPED, Finding

if t.TYPE_CHECKING:
    from ..host import Host
    from .units import Service

RELOAD = "reload"
RESTART = "restart"
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class Options:
    """What is wanted of every engine.

    nvidia_runtime: register the nvidia runtime; nvidia_cdi and rdma_devices: devices by CDI
    memlock: unlimited or keep; cgroup_driver: systemd or keep; shm_size and default_runtime: empty keeps
    config: another file than the engine's own; restart: when_changed or never; when_busy: refuse or force
    """

    nvidia_runtime: bool = False
    nvidia_cdi: bool = False
    rdma_devices: bool = True
    default_runtime: str = ""
    memlock: str = "unlimited"
    shm_size: str = ""
    cgroup_driver: str = "keep"
    config: str = ""
    restart: str = "when_changed"
    when_busy: str = "refuse"

    @property
    def cdi(self) -> bool:
        """Whether engines must know CDI."""
        return self.rdma_devices or self.nvidia_cdi


@dataclass(frozen=True)
class FileEdit:
    """One file goes from one text to another; ``before`` is None when there is none yet."""

    path: str
    before: str | None
    after: str
    backup: bool = False

    def diff(self) -> dict[str, str]:
        """As Ansible shows it."""
        headers = {"before_header": self.path, "after_header": self.path}
        return {**headers, "before": self.before or "", "after": self.after}


@dataclass
class Plan:
    """What one engine needs. ``action`` is what its service must do to take it over: reload or restart.

    held: the files are written, and the service is left alone (restart: never)
    missing: in a dry run, why nothing could be planned: the engine is not installed yet
    tried: the service was told to take it over
    """

    engine: str
    service: Service | None = None
    edits: list[FileEdit] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    action: str = ""
    daemon_reload: bool = False
    held: bool = False
    notes: list[str] = field(default_factory=list)
    missing: str = ""
    tried: bool = False

    def commands(self) -> list[list[str]]:
        """What will be done, in order, as users see it."""
        done = [["write", edit.path] for edit in self.edits]
        if self.held:
            return done
        if self.daemon_reload:
            done.append(["systemctl", "daemon-reload"])
        if self.action and self.service:
            done.append(["systemctl", self.action, self.service.name])
        return done


class Engine:
    """One engine. Reads only: converge.py is what changes the node."""

    name = ""

    def plan(self, host: Host, options: Options) -> Plan:
        """What must change. Raises RoceError when a file is broken, contradicts the unit or fails validation."""
        raise NotImplementedError

    def containers(self, host: Host) -> list[str]:
        """Names of the running containers."""
        return []

    def findings(self, host: Host, options: Options, pending: str) -> list[Finding]:
        """What the engine itself says it runs with. ``pending`` names the outstanding action, if any."""
        return []


def judge(
    check: str, right: bool, observed: t.Any, expected: t.Any, evidence: str, cause: str, remedy: str, pending: str = ""
) -> Finding:
    """A finding: pass when right, pending while the service has not taken its file over, else fail."""
    if right:
        return Finding(check=check, verdict=PASS, observed=observed, expected=expected, evidence=evidence)
    return Finding(
        check=check,
        verdict=PENDING if pending else FAIL,
        observed=observed,
        expected=expected,
        evidence=evidence,
        cause=f"the configuration is written, and the service has not read it: {pending}" if pending else cause,
        remedy=pending or remedy,
    )


def size_bytes(text: str, where: str) -> int:
    """A size such as 8G in bytes. Raises RoceError."""
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise RoceError(f"{where}: {text!r} … a size such as 8g or 512m was expected")
    power = "bkmgt".index(found.group(2).lower() or "b")
    return int(found.group(1)) * int(1024**power)


def not_running(engine: str) -> Finding:
    """The finding on a service that is off: its file counts from the next start."""
    return Finding(
        check=f"{engine}_running",
        verdict=SKIPPED,
        observed="not running",
        evidence=f"systemctl show {engine}",
        cause=f"{engine} does not run: its configuration is on disk and counts from the next start",
    )
