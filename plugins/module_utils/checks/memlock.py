# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The limit on locked memory of services; that of logins is in links.py."""

from __future__ import annotations

import typing as t

from ..errors import RoceError
from ..findings import FAIL, PASS, UNKNOWN, Finding

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

_COMMAND = ("systemctl", "show", "--property=DefaultLimitMEMLOCK", "--value")


def diagnose(host: Host, context: Context) -> list[Finding]:
    """A finding on what systemd gives services that ask for nothing, such as the daemons of schedulers."""
    try:
        return [check_default(host.run(*_COMMAND).out)]
    except RoceError as exc:
        return [Finding("memlock_services", UNKNOWN, evidence=" ".join(_COMMAND), cause=str(exc))]


def check_default(text: str) -> Finding:
    """``infinity`` or a number of bytes."""
    limit = text.strip()
    right = limit == "infinity"
    return Finding(
        check="memlock_services",
        verdict=PASS if right else FAIL if limit.isdecimal() else UNKNOWN,
        observed=limit,
        expected="infinity",
        evidence=" ".join(_COMMAND),
        cause=""
        if right
        else f"services may lock {limit or 'an unknown number of'} bytes: jobs that a daemon starts inherit that limit",
        remedy="" if right else "role lossless.roce.baseline sets DefaultLimitMEMLOCK; then restart the daemon",
    )
