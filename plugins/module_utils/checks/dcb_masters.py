# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who else writes PFC, ETS and the APP table of this node. Pure."""

from __future__ import annotations

import typing as t

from ..findings import FAIL, PASS, Finding

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Findings on the daemons that run."""
    return check_masters(host.process_names())


def check_masters(running: list[str]) -> list[Finding]:
    """Findings on the LLDP daemons, from the names of the node's processes."""
    return [check_lldpad(running), check_lldpd(running)]


def check_lldpad(running: list[str]) -> Finding:
    """A finding on lldpad, from the names of the node's processes."""
    there = "lldpad" in running
    return Finding(
        check="lldpad",
        verdict=FAIL if there else PASS,
        observed="running" if there else "not running",
        expected="not running",
        evidence="/proc/*/comm",
        cause="lldpad speaks DCBX and may overwrite PFC, ETS and the APP table through the same interface"
        if there
        else "",
        remedy=(
            "systemctl disable --now lldpad.service lldpad.socket && systemctl mask lldpad.service lldpad.socket,"
            " or let lldpad own DCB and list dcbx, trust, ets and pfc as unmanaged"
        )
        if there
        else "",
    )


def check_lldpd(running: list[str]) -> Finding:
    """A finding on lldpd: alone it is harmless, beside lldpad it is not."""
    there, both = "lldpd" in running, "lldpd" in running and "lldpad" in running
    return Finding(
        check="lldpd",
        verdict=FAIL if both else PASS,
        observed="running" if there else "not running",
        expected="running alone, or not running",
        evidence="/proc/*/comm",
        cause=_lldpd_cause(there, both),
        remedy="keep one of them: apt-get remove lldpad, or systemctl disable --now lldpd.service" if both else "",
    )


def _lldpd_cause(there: bool, both: bool) -> str:
    if both:
        return "lldpd and lldpad both send and take LLDP frames of the same ports: neighbours see two agents in turn"
    return "lldpd announces the node to the switch, and changes no setting of the ports" if there else ""
