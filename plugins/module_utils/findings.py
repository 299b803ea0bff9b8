# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A finding is an answer: what was checked, what was seen, why, and what to do. Pure.

The same object feeds the terminal, JSON and HTML.
"""

from __future__ import annotations

import typing as t
from dataclasses import asdict, dataclass, field

PASS = "pass"
FAIL = "fail"
PENDING = "pending"  # right after a reset or restart that is outstanding: neither pass nor fail
SKIPPED = "skipped"  # not applicable here, or unreadable: the cause says which
UNKNOWN = "unknown"  # the input cannot decide
VERDICTS = (PASS, FAIL, PENDING, SKIPPED, UNKNOWN)

# The remedy where a node does not run what is declared: a bare node needs bootstrap, one that was right before either.
CONVERGE = "run playbook lossless.roce.bootstrap, or drift with enforce=true"


@dataclass(frozen=True)
class Finding:
    """One verdict on one thing.

    check: what was checked, a short lower-case name (``pfc``, ``path_mtu``, ``ib_write_bw``)
    verdict: one of VERDICTS
    observed, expected: plain JSON values
    evidence: the command or file that showed it
    cause, remedy: one sentence each; empty for a pass
    host, port: where; empty when it is about the whole node or the whole fabric
    layers: declared, running, next_boot, on_disk as far as known
    """

    check: str
    verdict: str
    observed: t.Any = None
    expected: t.Any = None
    evidence: str = ""
    cause: str = ""
    remedy: str = ""
    host: str = ""
    port: str = ""
    layers: dict[str, t.Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is not one of {', '.join(VERDICTS)}")

    def as_dict(self) -> dict[str, t.Any]:
        """The finding as plain JSON."""
        return asdict(self)
