# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The door to a node, on the machine that runs the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils import host as host_module
from ansible_collections.lossless.roce.plugins.module_utils.errors import CommandTimeout, HostError, ToolMissing
from ansible_collections.lossless.roce.plugins.module_utils.host import Host


def alive(marker: str) -> list[str]:
    """Processes whose command line holds the marker."""
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [line.decode() for line in lines if marker.encode() in line]


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(HostError, match=r"sh -c echo no >&2; exit 3: exit status 3: no"):
        Host().run("sh", "-c", "echo no >&2; exit 3")


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert Host().run("printf", r"a\377b").out == "a�b"


def test_a_missing_tool_names_its_package() -> None:
    with pytest.raises(ToolMissing, match="no-such-tool: not installed on this node; install package"):
        Host().run("no-such-tool")


def test_a_command_past_its_limit_is_ended_with_all_its_children() -> None:
    with pytest.raises(CommandTimeout, match="still running after 0.3 s, ended"):
        Host().run("sh", "-c", "sleep 98765 & sleep 98765", timeout=0.3)
    assert alive("98765") == []


def test_a_command_whose_end_never_comes_is_left_behind_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a child in uninterruptible sleep, one out of the group keeps the pipes open: nobody waits for it for ever."""
    monkeypatch.setattr(host_module, "_END_LIMIT_S", 0.3)
    try:
        with pytest.raises(CommandTimeout, match="sleep 98760: killed, and not gone 0.3 s later: process"):
            Host().run("sh", "-c", "setsid sleep 98761 & exec sleep 98760", timeout=0.3)
        process = Host().start("sh", "-c", r"printf 'evid\377ence\n'; setsid sleep 98761 & exec sleep 98760")
        assert process.wait(0.3) is None
        with pytest.raises(CommandTimeout, match=r"not gone 0.4 s later") as left:
            process.end(0.4)
        assert left.value.printed == "evid\N{REPLACEMENT CHARACTER}ence\n"
    finally:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            if path.exists() and path.read_bytes().split(b"\0")[:2] == [b"sleep", b"98761"]:
                os.kill(int(path.parent.name), signal.SIGKILL)


def python(script: str) -> subprocess.CompletedProcess[str]:
    """A Python of its own that knows the collection."""
    head = f"import sys; sys.path[:0] = {sys.path}\nfrom {Host.__module__} import Host\n"
    return subprocess.run(
        [sys.executable, "-c", head + script], capture_output=True, text=True, timeout=30, check=False
    )


def test_a_command_dies_with_the_program_that_started_it() -> None:
    done = python(
        "import os, signal\nprocess = Host().start('sh', '-c', 'echo up; exec sleep 98762')\n"
        "process._popen.stdout.readline()\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    deadline = time.monotonic() + 10
    while alive("98762") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive("98762") == []


def test_no_python_runs_between_fork_and_exec() -> None:
    """Beside other threads it could wait for ever for a lock that one of them held, and the module with it."""
    done = python(
        "import os, time\nos.register_at_fork(after_in_child=lambda: time.sleep(1000))\n"
        "print(Host().run('echo', 'on').out)"
    )
    assert done.stdout.strip() == "on", done.stderr


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o640)
    Host().write(str(path), "new\n")
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["file"], "no temporary file stays"


def test_a_file_that_cannot_be_written_keeps_its_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HostError, match="file: cannot write 'new': No space left on device"):
        Host().write(str(path), "new")
    with pytest.raises(HostError) as told:
        Host().write(str(path), "a log of megabytes " * 99_999)
    assert len(str(told.value)) < 300
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(HostError, match="/nowhere/file: cannot be read: No such file or directory"):
        Host().read("/nowhere/file")
    assert Host().read_optional("/nowhere/file") is None
    assert Host().listdir("/nowhere") == []


def test_one_run_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with Host().lock(path):
            inside.set()
            done.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(10)
    try:
        with pytest.raises(HostError, match="another run has held the node"), Host().lock(path, timeout=0):
            pass
    finally:
        done.set()
        holder.join()
    with Host().lock(path, timeout=0):
        pass


def test_a_file_that_somebody_named_is_regular_and_not_too_large(tmp_path: Path) -> None:
    fine, pipe, large = (tmp_path / name for name in ("fine", "pipe", "large"))
    fine.write_text("text")
    os.mkfifo(pipe)
    large.touch()
    os.truncate(large, 17 << 20)
    assert Host().read_named(str(fine)) == "text"
    for path, words in (
        (str(pipe), "is no regular file"),
        ("/dev/zero", "is no regular file"),
        (str(tmp_path), "is no regular file"),
        (str(large), "17 MiB … at most 16 MiB was expected"),
        (str(tmp_path / "none"), "No such file"),
        ("a\0b", "null"),
    ):
        with pytest.raises(HostError, match=words):
            Host().read_named(path)


def test_who_holds_a_file_below_a_folder(tmp_path: Path) -> None:
    assert Host().holders(str(tmp_path)) == []
    with (tmp_path / "uverbs0").open("w"):
        ((path, comm, pid),) = Host().holders(str(tmp_path))
    assert (path, pid) == (str(tmp_path / "uverbs0"), os.getpid()) and comm
