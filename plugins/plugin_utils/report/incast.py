# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Many senders to one port, from findings of the check ``incast``, as a table for people. Pure."""

from __future__ import annotations

import typing as t

from .values import number, rate, show

CHECK = "incast"


def is_incast(finding: dict[str, t.Any]) -> bool:
    """Whether the finding tells how counters moved while many sent to one port."""
    observed = finding["observed"]
    return finding["check"] == CHECK and isinstance(observed, dict) and isinstance(observed.get("deltas"), dict)


def incasts(findings: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Rows ``{verdict, host, port, senders, gbps, counters: [{name, moved, simulated}]}``."""
    return [_row(finding) for finding in findings if is_incast(finding)]


def _row(finding: dict[str, t.Any]) -> dict[str, t.Any]:
    observed = finding["observed"]
    gbps = number(observed.get("gbps_total"))
    simulated = set(_names(observed.get("simulated")))
    return {
        "verdict": finding["verdict"],
        "host": finding["host"],
        "port": str(observed.get("port") or finding["port"]),
        "senders": _names(observed.get("senders")),
        "gbps": show(None) if gbps is None else rate(gbps),
        "counters": [
            {"name": name, "moved": _moved(moved), "simulated": name in simulated}
            for name, moved in observed["deltas"].items()
        ],
        "cause": finding["cause"],
    }


def _names(value: t.Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _moved(value: t.Any) -> str:
    """How far a counter moved, with its sign; a value that is no number as it is."""
    return f"{value:+d}" if isinstance(value, int) and not isinstance(value, bool) and value else show(value)
