"""Processes on the host: run them, know them again later, end them."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

TAIL_LINES = 15


@dataclass(frozen=True)
class Done:
    """How a command ended; `rc` is 124 when it ran out of time."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    start: int


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """The last lines of a text."""
    return "\n".join(text.strip().splitlines()[-lines:])


def call(argv: Sequence[str], *, stdin: str | None = None, timeout: float | None = None) -> Done:
    """Run a command and return how it ended."""
    try:
        done = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL if stdin is None else None,
        )
    except FileNotFoundError as exc:
        raise LabError(f"{argv[0]}: not found; `labctl.py deps` tells what to install") from exc
    except subprocess.TimeoutExpired as exc:
        return Done(124, _text(exc.stdout), _text(exc.stderr) + f"timed out after {timeout:g} s")
    return Done(done.returncode, done.stdout, done.stderr)


def _text(data: bytes | str | None) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else data or ""


def run(argv: Sequence[str], *, stdin: str | None = None, timeout: float | None = None) -> str:
    """Run a command that has to succeed and return its output."""
    done = call(argv, stdin=stdin, timeout=timeout)
    if done.rc:
        raise LabError(f"{' '.join(argv)}: exit status {done.rc}: {tail(done.err or done.out)}")
    return done.out


def identity(pid: int) -> Identity | None:
    """The running process of that pid; None when there is none or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]))


def alive(process: Identity) -> bool:
    """Whether this very process still runs."""
    return identity(process.pid) == process


def command_line(pid: int) -> list[str]:
    """The argument vector of a process, empty when it is gone."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return raw.decode(errors="replace").split("\0")[:-1]


def command_lines() -> dict[int, list[str]]:
    """The argument vectors of all processes."""
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return {pid: command_line(pid) for pid in pids}


def has_marker(argv: Sequence[str], marker: str) -> bool:
    """Whether a process was marked by `-name MARKER-node1` or `--marker MARKER-watch`."""
    following = itertools.pairwise(argv)
    return any(
        flag in ("-name", "--marker") and value.startswith(f"{marker}-") and "-" not in value[len(marker) + 1 :]
        for flag, value in following
    )


def find_marked(marker: str) -> set[Identity]:
    """Running processes of a lab, found by their argument vectors."""
    marked = (identity(pid) for pid, argv in command_lines().items() if has_marker(argv, marker))
    return {process for process in marked if process and process.pid != os.getpid()}


def _signal(processes: Iterable[Identity], number: int) -> None:
    for process in processes:
        if alive(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _wait_gone(processes: Iterable[Identity], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def end(processes: Iterable[Identity], patience: float = 5) -> None:
    """End processes: SIGTERM first (QEMU then writes its image's tables), SIGKILL after."""
    processes = set(processes)
    _signal(processes, signal.SIGTERM)
    if _wait_gone(processes, patience):
        return
    _signal(processes, signal.SIGKILL)
    if not _wait_gone(processes, patience):
        left = ", ".join(str(process.pid) for process in processes if alive(process))
        raise LabError(f"process {left}: does not end on SIGKILL")
