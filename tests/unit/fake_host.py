# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node made of two dictionaries, for unit tests."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError, ToolMissing
from ansible_collections.lossless.roce.plugins.module_utils.host import Done


class FakeHost:
    """Answers from ``files`` (path -> text) and ``outputs`` (command line -> text, (rc, out, err) or a callable).

    An unknown command fails the test; ``ran`` and ``written`` record what was done.
    """

    def __init__(self, files: dict[str, str] | None = None, outputs: dict[str, t.Any] | None = None) -> None:
        self.files = dict(files or {})
        self.outputs = dict(outputs or {})
        self.links: dict[str, str] = {}
        self.missing_tools: set[str] = set()
        self.processes: list[str] = []
        self.opened: list[tuple[str, str, int]] = []
        self.environment: dict[str, str] = {}
        self.ran: list[tuple[str, ...]] = []
        self.written: list[tuple[str, str]] = []
        self.slept = 0.0

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        if argv[0] in self.missing_tools:
            raise ToolMissing(argv[0], "the-package")
        self.ran.append(argv)
        line = " ".join(argv)
        if line not in self.outputs:
            raise AssertionError(f"unexpected command: {line}")
        answer = self.outputs[line]
        if callable(answer):
            answer = answer()
        rc, out, err = (0, answer, "") if isinstance(answer, str) else answer
        if check and rc:
            raise HostError(f"{line}: exit status {rc}: {err or out}")
        return Done(argv, rc, out, err)

    def which(self, tool: str) -> str | None:
        return None if tool in self.missing_tools else f"/usr/bin/{tool}"

    def read(self, path: str) -> str:
        if path not in self.files:
            raise HostError(f"{path}: cannot be read: No such file or directory")
        return self.files[path]

    def read_optional(self, path: str) -> str | None:
        try:
            return self.read(path)
        except HostError:
            return None

    def read_named(self, path: str) -> str:
        return self.read(path)

    def read_exact(self, path: str) -> str:
        return self.read(path)

    def backup(self, path: str) -> str:
        self.files[f"{path}.backup~"] = self.files[path]
        return f"{path}.backup~"

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def write(self, path: str, content: str) -> None:
        self.written.append((path, content))
        self.files[path] = content

    def mkdir(self, path: str) -> None:
        self.written.append((path, ""))
        self.files.setdefault(f"{path}/.", "")

    def listdir(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        below = [name for name in (*self.files, *self.links) if name.startswith(prefix)]
        return sorted({name[len(prefix) :].split("/")[0] for name in below})

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.links or bool(self.listdir(path))

    def realpath(self, path: str) -> str:
        return self.links.get(path, path)

    @contextlib.contextmanager
    def temporary_directory(self) -> t.Iterator[str]:
        yield "/tmp/private"

    def process_names(self) -> list[str]:
        return list(self.processes)

    def holders(self, folder: str) -> list[tuple[str, str, int]]:
        return [one for one in self.opened if one[0].startswith(f"{folder}/")]

    def env(self, name: str) -> str | None:
        return self.environment.get(name)

    def pid(self) -> int:
        return 1000

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def time_of_day(self) -> str:
        return "12:00:00"

    def now(self) -> float:
        return self.slept

    @contextlib.contextmanager
    def lock(self, path: str = "", timeout: float = 0.0) -> t.Iterator[None]:
        yield
