# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The only door to a node: start processes, read and write files. Private to the collection.

Standard library only, so that the same code serves Ansible modules and programs installed on the
node. Unit tests replace ``Host`` by a fake with the same methods.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import typing as t
from dataclasses import dataclass

from .errors import CommandTimeout, HostError, ToolMissing, brief

# Debian's package of each program that we start; used in messages only.
PACKAGES = {
    "dcb": "iproute2",
    "tc": "iproute2 (iproute-tc on RHEL)",
    "ip": "iproute2",
    "rdma": "iproute2",
    "devlink": "iproute2",
    "ethtool": "ethtool",
    "ping": "iputils-ping",
    "ib_write_bw": "perftest",
    "ibv_devinfo": "ibverbs-utils",
    "lspci": "pciutils",
    "setpci": "pciutils",
    "dmesg": "util-linux",
    "setpriv": "util-linux",
    "mstconfig": "mstflint",
    "mstfwreset": "mstflint",
    "modprobe": "kmod",
    "modinfo": "kmod",
    "nft": "nftables",
    "systemctl": "systemd",
    "docker": "docker-cli or docker-ce-cli",
    "dockerd": "docker.io or docker-ce",
    "containerd": "containerd or containerd.io",
    "ctr": "containerd or containerd.io",
    "podman": "podman",
    "nvidia-ctk": "nvidia-container-toolkit",
}
_COMMAND_LIMIT_S = 60.0
# A killed process is gone at once, unless it sleeps in the kernel where no signal reaches it.
_END_LIMIT_S = 5.0
# A file that somebody names is held in memory as a whole, beside a running job.
_LARGEST_NAMED_MIB = 16
# A module may be ended at any time: the kernel then ends what it started, from about a millisecond after the start on.
# Set by a program and not between fork and exec, where nothing could come before it: a Python that runs there in a
# process of several threads may wait for a lock for ever, and we for it.
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True)
class Done:
    """A finished command: argument vector, exit status, output and error text."""

    argv: tuple[str, ...]
    rc: int
    out: str
    err: str

    def text(self) -> str:
        """What the command said, for an error message: standard error first, in one line."""
        return " ".join((self.err.strip() or self.out.strip()).split())


class Process:
    """A command that runs in the background in a process group of its own."""

    def __init__(self, argv: tuple[str, ...], popen: subprocess.Popen[str]) -> None:
        self.argv = argv
        self._popen = popen

    def wait(self, timeout: float) -> Done | None:
        """Wait at most ``timeout`` seconds; the finished command, or None while it still runs."""
        try:
            out, err = self._popen.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return None
        return Done(self.argv, self._popen.returncode, out or "", err or "")

    def end(self, limit: float | None = None) -> Done:
        """Kill the whole process group and return what the command had printed until then.

        Raises CommandTimeout when it is not gone after ``limit`` seconds (by default a few): the run goes on without it
        and lets go of the node.
        """
        limit = _END_LIMIT_S if limit is None else limit
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        try:
            out, err = self._popen.communicate(timeout=limit)
        except subprocess.TimeoutExpired as exc:
            raise CommandTimeout(
                f"{' '.join(self.argv)}: killed, and not gone {limit:g} s later: process {self._popen.pid}, or"
                " one that it started, hangs in the kernel; it was left behind",
                _text(exc.stdout) + _text(exc.stderr),
            ) from exc
        return Done(self.argv, self._popen.returncode, out or "", err or "")


def _text(printed: bytes | None) -> str:
    """What was read before a time-out, which Python hands over undecoded."""
    return (printed or b"").decode("utf-8", "replace")


class Host:
    """The node on which this program runs."""

    def __init__(self) -> None:
        # The C locale keeps messages parseable; sbin holds most of the tools.
        self._env = {**os.environ, "LC_ALL": "C"}
        self._env["PATH"] = self._env.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin"

    # -- processes -------------------------------------------------------------------------

    def start(self, *argv: str) -> Process:
        """Start a command in the background. Raises ToolMissing."""
        for tool in (argv[0], _DIES_WITH_US[0]):
            if self.which(tool) is None:
                raise ToolMissing(tool, PACKAGES.get(tool, tool))
        try:
            popen = subprocess.Popen(  # pylint: disable=consider-using-with
                [*_DIES_WITH_US, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._env,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # a group of its own: ended with all that it started
            )
        except OSError as exc:
            raise HostError(f"{argv[0]}: cannot be started: {exc.strerror}") from exc
        return Process(argv, popen)

    def run(self, *argv: str, check: bool = True, timeout: float = _COMMAND_LIMIT_S) -> Done:
        """Run a command to its end, at most ``timeout`` seconds.

        Raises ToolMissing, CommandTimeout, and with ``check`` HostError on a non-zero status.
        """
        process = self.start(*argv)
        try:
            done = process.wait(timeout)
        except BaseException:
            with contextlib.suppress(CommandTimeout):
                process.end()
            raise
        if done is None:
            process.end()
            raise CommandTimeout(f"{' '.join(argv)}: still running after {timeout:g} s, ended")
        if check and done.rc:
            raise HostError(f"{' '.join(argv)}: exit status {done.rc}: {done.text()}")
        return done

    def which(self, tool: str) -> str | None:
        """Path of a program, or None when it is not installed."""
        return shutil.which(tool, path=self._env["PATH"])

    # -- files -----------------------------------------------------------------------------

    def read(self, path: str) -> str:
        """Text of a file. Raises HostError naming path and reason."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError as exc:
            raise HostError(f"{path}: cannot be read: {exc.strerror}") from exc

    def read_optional(self, path: str) -> str | None:
        """Text of a file, or None when it does not exist or the kernel refuses to read it."""
        try:
            return self.read(path)
        except HostError:
            return None

    def read_named(self, path: str) -> str:
        """Text of a file that somebody named: no pipe or device, and not too large. Raises HostError."""
        try:
            found = os.stat(path)
        except (OSError, ValueError) as exc:  # ValueError: a null byte in the path
            raise HostError(f"{path!r}: cannot be read: {exc}") from exc
        if not stat.S_ISREG(found.st_mode):
            raise HostError(f"{path}: is no regular file")
        if found.st_size > _LARGEST_NAMED_MIB << 20:
            raise HostError(f"{path}: {found.st_size >> 20} MiB … at most {_LARGEST_NAMED_MIB} MiB was expected")
        return self.read(path)

    def read_exact(self, path: str) -> str:
        """Text of somebody's file, with its own line ends and byte order mark. Raises HostError."""
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return file.read()
        except OSError as exc:
            raise HostError(f"{path}: cannot be read: {exc.strerror}") from exc
        except UnicodeDecodeError as exc:
            raise HostError(f"{path}: byte {exc.start} is no UTF-8 … text in UTF-8 was expected") from exc

    def write(self, path: str, content: str) -> None:
        """Write a file: kernel files (sysfs, procfs, configfs) in place, others atomically.

        On disk the new text goes to a temporary file in the same folder, is flushed, takes the
        old file's mode and owner, and is renamed: whoever reads sees the old or the new file.
        """
        try:
            if path.startswith(("/sys/", "/proc/")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            else:
                _write_atomic(path, content)
        except OSError as exc:
            raise HostError(f"{path}: cannot write {brief(content.strip())}: {exc.strerror}") from exc

    def backup(self, path: str) -> str:
        """Copy a file beside itself, with mode and times; the path of the copy. Raises HostError."""
        copy = f"{path}.{os.getpid()}.{time.strftime('%Y-%m-%dT%H:%M:%S')}~"
        try:
            shutil.copy2(path, copy)
            former = os.stat(path)
            os.chown(copy, former.st_uid, former.st_gid)
        except OSError as exc:
            raise HostError(f"{path}: cannot be copied to {copy}: {exc.strerror}") from exc
        return copy

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is fine. Raises HostError."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as exc:
            raise HostError(f"{path}: cannot be removed: {exc.strerror}") from exc

    def mkdir(self, path: str) -> None:
        """Make a directory; one that is there already is fine."""
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        except OSError as exc:
            raise HostError(f"{path}: cannot make the directory: {exc.strerror}") from exc

    def listdir(self, path: str) -> list[str]:
        """Sorted names in a directory; none when it is not there."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Whether the path exists, links followed."""
        return os.path.exists(path)

    def realpath(self, path: str) -> str:
        """The path with every link resolved."""
        return os.path.realpath(path)

    @contextlib.contextmanager
    def temporary_directory(self) -> t.Iterator[str]:
        """A private directory that is gone at the end."""
        with tempfile.TemporaryDirectory(prefix="lossless-roce-") as path:
            yield path

    def drop_output(self) -> None:
        """Let what this program still has to print go nowhere: at its end Python would try to write it again."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    # -- surroundings ----------------------------------------------------------------------

    def process_names(self) -> list[str]:
        """Names of all processes, as the kernel keeps them (15 characters)."""
        names = (self.read_optional(f"/proc/{pid}/comm") for pid in self.listdir("/proc") if pid.isdigit())
        return [name.strip() for name in names if name]

    def holders(self, folder: str) -> list[tuple[str, str, int]]:
        """What processes have open below a folder: path, name and number of the process, each once."""
        found = set()
        for pid in filter(str.isdigit, self.listdir("/proc")):
            for number in self.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):  # it is closed, or the process has ended
                    path = os.readlink(f"/proc/{pid}/fd/{number}")
                    if path.startswith(f"{folder}/"):
                        found.add((path, (self.read_optional(f"/proc/{pid}/comm") or "").strip(), int(pid)))
        return sorted(found)

    def env(self, name: str) -> str | None:
        """A variable of this process's environment."""
        return os.environ.get(name)

    def pid(self) -> int:
        """This process's number."""
        return os.getpid()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def now(self) -> float:
        """Seconds on a clock that never jumps."""
        return time.monotonic()

    def time_of_day(self) -> str:
        """The wall clock, for messages: HH:MM:SS."""
        return time.strftime("%H:%M:%S")

    @contextlib.contextmanager
    def lock(self, path: str = "/run/lossless-roce.lock", timeout: float = 60.0) -> t.Iterator[None]:
        """Hold the node's lock: one run at a time. Raises HostError when another run keeps it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise HostError(f"{path}: the lock file cannot be opened: {exc.strerror}") from exc
        try:
            deadline = self.now() + timeout
            while not _try_lock(descriptor):
                if self.now() >= deadline:
                    raise HostError(
                        f"{path}: another run has held the node for {timeout:g} s; try again when it is done"
                    )
                self.sleep(0.2)
            yield
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _write_atomic(path: str, content: str) -> None:
    folder = os.path.dirname(path)
    descriptor, temporary = tempfile.mkstemp(prefix=".lossless-roce-", dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _take_over_mode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _take_over_mode(path: str, temporary: str) -> None:
    try:
        former = os.stat(path)
    except FileNotFoundError:
        os.chmod(temporary, 0o644)
        return
    os.chmod(temporary, former.st_mode & 0o7777)
    os.chown(temporary, former.st_uid, former.st_gid)
