# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run a command and say what it cost; keep the figures as a page of docs/benchmarks."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import typing as t
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PAGES = ROOT / "docs" / "benchmarks"


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock, seconds of processor time of the command and its children, MiB of its largest process."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    output: str


def run(argv: t.Sequence[str | Path], **env: str) -> Cost:
    """Run a command to its end; it must succeed."""
    start = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in argv],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _pid, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    assert os.waitstatus_to_exitcode(status) == 0, output
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output)


def playbook(inventory: Path, path: Path, *words: str, **env: str) -> Cost:
    """Run a playbook."""
    return run([BIN / "ansible-playbook", "-i", inventory, path, *words], **env)


def page(name: str, title: str, text: str, rows: t.Sequence[t.Sequence[t.Any]]) -> None:
    """Write docs/benchmarks/NAME.md: a title, a text, and a table whose first row is its head."""
    PAGES.mkdir(parents=True, exist_ok=True)
    head, *body = ([str(cell) for cell in row] for row in rows)
    table = [_line(head), _line(["---"] * len(head)), *map(_line, body)]
    machine = f"{os.cpu_count()} processors, Python {platform.python_version()}, {time.strftime('%Y-%m-%d')}"
    (PAGES / f"{name}.md").write_text(f"# {title}\n\n{text.strip()}\n\nMeasured on {machine}.\n\n" + "".join(table))


def _line(cells: t.Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
