# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who else writes PFC, ETS and the APP table of this node. Pure."""

from __future__ import annotations

from ..findings import FAIL, PASS, Finding


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
