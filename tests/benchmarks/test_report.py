# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report of 512 nodes with eight rails: time, memory, and the size of what it writes."""

from __future__ import annotations

import json
import sys
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measure import page, run

HERE = Path(__file__).parent
TEXT = """
The report of 512 nodes with eight rails each: all settings of all ports, and the bandwidth of a ring on every rail, of
all pairs of one rail, or of both (`tests/benchmarks/make_report.py`; findings are made up, and as long as real ones).
*First* is judging the findings and writing all files into an empty folder; *again* reads what is there and replaces it.
Memory is that of the whole process, the findings in memory included (*of that findings*). A browser opens the page
at once: what it draws is compressed in it.
"""
SCOPES = {"ring": "ring on 8 rails", "all": "all pairs of one rail", "both": "both"}


def _mb(size: int) -> str:
    return f"{size / 1e6:.2g} MB" if size < 10e6 else f"{size / 1e6:.0f} MB"


def test_512_nodes(tmp_path: Path) -> None:
    names = ("report.html", "report.json", "junit.xml", "lossless_roce.prom")
    rows: list[list[t.Any]] = [
        ["bandwidth tests", "findings", "pairs", "first", "again", "memory", "of that findings", *names]
    ]
    for scope, label in SCOPES.items():
        folder = tmp_path / scope
        found = json.loads(run([sys.executable, HERE / "make_report.py", folder, scope]).output)
        assert found["sizes"]["report.html"] < 1_000_000
        cost = (f"{found['first_s']:.1f} s", f"{found['again_s']:.1f} s")
        memory = (f"{found['peak_mib']:.0f} MiB", f"{found['before_mib']:.0f} MiB")
        sizes = (_mb(found["sizes"][name]) for name in names)
        rows.append([label, found["findings"], found["pairs"], *cost, *memory, *sizes])
    page("report", "The report of 512 nodes", TEXT, rows)
