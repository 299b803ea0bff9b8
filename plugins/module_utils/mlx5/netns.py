# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether RDMA devices are shared by network namespaces or belong to one. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from ..errors import PolicyError, RoceError
from ..findings import FAIL, PASS, PENDING, UNKNOWN, Finding
from ..operations import Run
from ..parsers.driver import parse_netns_mode
from .modules import Options
from .part import Part, Plan

if t.TYPE_CHECKING:
    from ..host import Host

_SHOW = ("rdma", "-j", "system", "show")
_MODULE, _PARAMETER = "ib_core", "netns_mode"


def with_netns(options: Options, mode: str | None) -> Options:
    """The options with the one that keeps the mode over a boot. Raises PolicyError where they disagree."""
    if mode is None:
        return options
    value = str(int(mode == "shared"))
    given = options.get(_MODULE, {}).get(_PARAMETER, value)
    if given.lower() not in (value, "y" if value == "1" else "n"):
        raise PolicyError(f"options: {_MODULE}.{_PARAMETER} is {given!r} and netns is {mode!r}: they say the opposite")
    return {**options, _MODULE: {**options.get(_MODULE, {}), _PARAMETER: value}}


class NetnsPart(Part):
    """Set at run time; the module option that ``with_netns`` adds keeps it."""

    name = "netns"

    def __init__(self, mode: str | None) -> None:
        self.mode = mode
        self._running = ""
        self._unreadable = ""

    def read(self, host: Host) -> None:
        if self.mode is None:
            return
        try:
            self._running, self._unreadable = parse_netns_mode(host.run(*_SHOW).out), ""
        except RoceError as exc:
            self._unreadable = str(exc)

    def plan(self, host: Host) -> Plan:
        if self.mode is None or self._unreadable or self._running == self.mode:
            return Plan()
        operation = Run(("rdma", "system", "set", "netns", self.mode))
        return Plan([operation], {"netns": self._running}, {"netns": self.mode})

    def problem(self, error: str) -> str:
        return "" if _is_busy(error) else error

    def findings(self, note: str, error: str) -> list[Finding]:
        if self.mode is None:
            return []
        verdict, cause, remedy = self._verdict(error)
        return [
            Finding(
                check="rdma_netns",
                verdict=verdict,
                observed=self._running or None,
                expected=self.mode,
                evidence=" ".join(_SHOW),
                cause=cause,
                remedy=remedy,
                layers={"declared": self.mode, "running": self._running or None},
            )
        ]

    def _verdict(self, error: str) -> tuple[str, str, str]:
        if self._unreadable:
            return UNKNOWN, self._unreadable, "role baseline brings the tool"
        if self._running == self.mode:
            return PASS, "", ""
        if _is_busy(error):
            cause = (
                "the kernel changes the mode only while there is no other network namespace, and there are some"
                " (ip netns, containers); the next boot brings it"
            )
            return PENDING, cause, f"reboot, or end them and: rdma system set netns {self.mode}"
        return FAIL, error or f"{self._running} runs and {self.mode} is declared", "role mlx5 sets it"


def _is_busy(error: str) -> bool:
    return bool(re.search(r"resource busy|EBUSY", error))
