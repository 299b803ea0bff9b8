# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tables of nccl-tests (all_reduce_perf and its like) -> data. Pure. Sources: common.cu, 2.0 to 2.20.

Times are microseconds, bandwidths GB/s (10^9 bytes). The last column of each half is a number of wrong elements where
the header says #wrong, and the largest rounding error where it says error, as old versions do.
"""

from __future__ import annotations

import math
import re
import typing as t
from collections import Counter
from dataclasses import dataclass, field

_HEADER = re.compile(r"^#\s+size\s+count\s+type\b(.*)$", re.MULTILINE)
_RANK = re.compile(
    r"^#\s+Rank\s+([0-9]{1,6})\s+(?:Group\s+[0-9]{1,6}\s+)?Pid\s+[0-9]{1,9}\s+on\s+(\S{1,255})\s+device",
    re.MULTILINE,
)
_VALIDATION = re.compile(r"^#.*\bvalidation:\s*([0-9]{1,3})", re.MULTILINE)
_VERSION = re.compile(r"^# nccl-tests version (\S{1,40})", re.MULTILINE)
_NAME = re.compile(r"^# Collective test starting: (\w{1,60})", re.MULTILINE)
_OUT_OF_BOUNDS = re.compile(r"^# Out of bounds values : ([0-9]{1,12}) (OK|FAILED)", re.MULTILINE)
_AVERAGE = re.compile(r"^# Avg bus bandwidth\s*: ([0-9.]{1,20})", re.MULTILINE)
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?(?:e[+-]?[0-9]{1,2})?", re.ASCII)
_LAST = re.compile(r"N/A|-?nan|-?inf|[0-9]{1,15}(?:\.[0-9]{1,15})?(?:e[+-]?[0-9]{1,2})?", re.ASCII)


@dataclass(frozen=True)
class Half:
    """One half of a row: µs, GB/s, GB/s; ``last`` is what stands under #wrong or error, None for N/A."""

    time_us: float
    algbw: float
    busbw: float
    last: float | None


@dataclass(frozen=True)
class TableRow:
    """One size in bytes, out of place and in place."""

    size: int
    count: int
    type: str
    out_of_place: Half
    in_place: Half
    operation: str = ""  # redop and root

    @property
    def busbw(self) -> float:
        """The better of both halves: they take turns, and both go over the same path."""
        return max(self.out_of_place.busbw, self.in_place.busbw)


@dataclass
class Table:
    """One output. More than one job may have written it: then ``jobs`` says how many at least.

    magnitudes: the last column holds rounding errors and no counts; None where no header tells
    validation: whether results were checked; None where nothing tells
    """

    version: str = ""
    test: str = ""
    ranks: dict[int, str] = field(default_factory=dict)  # rank -> host
    validation: bool | None = None
    magnitudes: bool | None = None
    rows: list[TableRow] = field(default_factory=list)
    out_of_bounds: list[tuple[int, bool]] = field(default_factory=list)
    averages: list[float] = field(default_factory=list)
    jobs: int = 0

    def largest(self) -> TableRow | None:
        """The row that tells of bandwidth."""
        return max(self.rows, key=lambda row: row.size, default=None)

    def hosts(self) -> set[str]:
        """The hosts that took part, where the output lists them."""
        return set(self.ranks.values())

    def wrong(self) -> int | None:
        """Number of wrong elements; None where results were not checked, or the column counts no elements."""
        counts = [last for last in self._lasts() if math.isfinite(last)]
        if self.validation is False or self.magnitudes is not False or not counts:
            return None
        return int(sum(counts))

    def not_numbers(self) -> bool:
        """Whether an error is nan or infinite, which no threshold finds."""
        return not all(map(math.isfinite, self._lasts()))

    def _lasts(self) -> list[float]:
        halves = [half for row in self.rows for half in (row.out_of_place, row.in_place)]
        return [half.last for half in halves if half.last is not None]


def parse_table(text: str) -> Table:
    """All rows, and what the comments around them say; an empty table from a text without any."""
    headers = _HEADER.findall(text)
    rows = [row for line in text.splitlines() for row in [_row(line)] if row]
    validations = [found != "0" for found in _VALIDATION.findall(text)]
    versions, names = _VERSION.findall(text), _NAME.findall(text)
    bounds = [(int(count), word == "OK") for count, word in _OUT_OF_BOUNDS.findall(text)]
    ranks = _RANK.findall(text)
    heads = max(len(headers), [rank for rank, _host in ranks].count("0"))
    return Table(
        version=versions[0] if versions else "",
        test=names[0] if names else "",
        ranks={int(rank): host for rank, host in ranks},
        validation=all(validations) if validations else None,
        magnitudes=_magnitudes(headers, rows),
        rows=rows,
        out_of_bounds=bounds,
        averages=[float(found) for found in _AVERAGE.findall(text) if _NUMBER.fullmatch(found)],
        jobs=max(heads, len(bounds)) if heads else max(len(bounds), _repeats(rows)),
    )


def _repeats(rows: list[TableRow]) -> int:
    """How often the same test stands in the table at most. Small sizes are rounded to 0, and are then there more often.

    One job repeats a test with -N, too: so where heads are there, they count and not this.
    """
    tests = Counter((row.size, row.type, row.operation) for row in rows if row.size)
    return max(tests.values(), default=int(bool(rows)))


def _magnitudes(headers: list[str], rows: list[TableRow]) -> bool | None:
    if headers:
        return "#wrong" not in headers[0]
    # Without a header: counts are whole numbers. A row of zeros may be either.
    values = [half.last for row in rows for half in (row.out_of_place, row.in_place) if half.last is not None]
    return None if not any(value % 1 for value in values) else True


def _row(line: str) -> TableRow | None:
    """A row: 13 columns, or 12 without the root."""
    words = line.split()
    if len(words) not in (12, 13) or not (_WHOLE.fullmatch(words[0]) and _WHOLE.fullmatch(words[1])):
        return None
    halves = words[-8:-4], words[-4:]
    if not all(all(map(_NUMBER.fullmatch, half[:3])) and _LAST.fullmatch(half[3]) for half in halves):
        return None
    out_of_place, in_place = (_half(half) for half in halves)
    return TableRow(int(words[0]), int(words[1]), words[2], out_of_place, in_place, " ".join(words[3:-8]))


def _half(words: t.Sequence[str]) -> Half:
    time_us, algbw, busbw = (float(word) for word in words[:3])
    return Half(time_us, algbw, busbw, None if words[3] == "N/A" else float(words[3]))
