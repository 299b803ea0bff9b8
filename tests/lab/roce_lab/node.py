"""One node of a running lab: log in, cut its links, kill it, boot it again."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import network, qemu
from .errors import LabError
from .process import Done, Identity, alive, call, end, tail

if TYPE_CHECKING:
    from pathlib import Path

    from .lab import Lab

BOOT_TIMEOUT = 300  # seconds; 15 are usual for a node alone on a core under TCG
READY = re.compile(r"lab: boot (\S+) hardware (\S+)\s")  # by lab-ready in the node
LINK_STATES = ("up", "down", "cut")


class Node:
    """A node that `Lab.up` has started."""

    def __init__(self, lab: Lab, index: int, port: int) -> None:
        self.lab = lab
        self.index = index
        self.port = port  # of ssh on 127.0.0.1
        self.name = f"node{index}"

    @property
    def folder(self) -> Path:
        """Where the node's disk, sockets and logs are."""
        return self.lab.paths.node(self.name)

    @property
    def serial_log(self) -> Path:
        """What the node wrote on its console."""
        return self.folder / "serial.log"

    @property
    def process(self) -> Identity | None:
        """The node's QEMU as it was started last."""
        return self.lab.state.processes.get(self.name)

    @property
    def running(self) -> bool:
        """Whether the node's QEMU runs."""
        return self.process is not None and alive(self.process)

    def address(self, rail: int = 0) -> str:
        """The node's IPv4 address on a rail."""
        self._check_rail(rail)
        return network.address(self.index, rail)

    def netdev(self, rail: int = 0) -> str:
        """The node's network device on a rail."""
        self._check_rail(rail)
        return f"ens{rail + 1}np0"

    def _check_rail(self, rail: int) -> None:
        if not 0 <= rail < self.lab.shape.rails:
            raise LabError(f"rail {rail}: lab {self.lab.name} has rails 0 to {self.lab.shape.rails - 1}")

    # --- ssh ------------------------------------------------------------------

    @property
    def _socket(self) -> Path:
        return self.lab.paths.run / f"{self.name}.ssh"

    def ssh_argv(self, *options: str) -> list[str]:
        """The ssh command up to and without what is run on the node."""
        return [
            "ssh",
            "-F",
            "/dev/null",
            "-i",
            str(self.lab.paths.key),
            "-p",
            str(self.port),
            "-S",
            str(self._socket),
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "LogLevel=ERROR",
            "-o",
            "ConnectTimeout=20",
            "-o",
            "ServerAliveInterval=10",
            *options,
            "root@127.0.0.1",
        ]

    def ssh(self, command: str | Sequence[str], timeout: float = 60, stdin: str | None = None) -> Done:
        """Run a shell command (or an argument vector) on the node.

        Exit status 255 means that the node could not be reached, 124 that the
        time was up; the command may then go on in the node.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        self._open_master()
        return call([*self.ssh_argv("-o", "BatchMode=yes"), "--", text], stdin=stdin, timeout=timeout)

    def check(self, command: str | Sequence[str], timeout: float = 60) -> str:
        """Run a command that has to succeed and return its output."""
        done = self.ssh(command, timeout)
        if done.rc:
            raise LabError(f"{self.name}: {command}: exit status {done.rc}: {tail(done.err or done.out)}")
        return done.out

    def _open_master(self) -> None:
        """One connection for all commands: a handshake takes a second under TCG."""
        if self._socket.exists() or not self.running:
            return
        self._socket.parent.mkdir(mode=0o700, exist_ok=True)
        # Apart from the commands: a master keeps the stderr that it was started with.
        subprocess.run(
            self.ssh_argv("-M", "-N", "-f", "-o", "BatchMode=yes"),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close_ssh(self) -> None:
        """End the connection that commands share."""
        if self._socket.exists():
            call(self.ssh_argv("-O", "exit"), timeout=10)
            self._socket.unlink(missing_ok=True)

    def answers(self, timeout: float = 3) -> bool:
        """Whether the node's sshd greets; QEMU itself takes any connection."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout) as sock:
                sock.settimeout(timeout)
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    # --- power ----------------------------------------------------------------

    def start(self) -> None:
        """Switch the node on; its disk is made first when it has none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "disk.qcow2").exists():
            qemu.create_overlay(self.folder, self.lab.image)
        self.serial_log.write_text("")  # what a former boot said is no answer
        taps: list[int] = []
        try:
            for rail in range(self.lab.shape.rails):
                self.lab.fabric.set_tap(self.index, rail, up=True)
                taps.append(self.lab.fabric.open_tap(self.index, rail))
            process = qemu.start(self.lab.machine(self), taps, self.folder)
        finally:
            _close(taps)
        self.lab.remember(self.name, process)

    def kill(self) -> None:
        """Take the node's power away. It keeps its disk; `reboot` starts it again."""
        self.close_ssh()
        if self.process is not None:
            end([self.process])

    def reboot(self, *, hard: bool = False, timeout: float = BOOT_TIMEOUT) -> None:
        """Boot the node anew and wait for it; a dead one is switched on."""
        before = self.boot_id()
        if hard or before is None:
            self.kill()
            self.start()
        else:
            self.ssh("systemctl reboot", timeout=30)
            self.close_ssh()
        self.lab.wait_ready([self], timeout, not_boot=before)

    def boot_id(self) -> str | None:
        """A name for the present boot; None when the node cannot be asked."""
        if not self.running:
            return None
        done = self.ssh("cat /proc/sys/kernel/random/boot_id", timeout=30)
        return done.out.strip() if done.rc == 0 else None

    # --- links ----------------------------------------------------------------

    def shape(self, rail: int, mbits: float) -> None:
        """Set the rate of the link towards the node, in Mb/s."""
        self._check_rail(rail)
        self.lab.fabric.shape(self.index, rail, mbits)

    def link(self, rail: int, state: str) -> None:
        """The link as the switch would: up, down (no carrier), cut (carrier, no frames).

        A node that is switched on anew finds its links up.
        """
        self._check_rail(rail)
        if state not in LINK_STATES:
            raise LabError(f"link state {state!r}: it may be {', '.join(LINK_STATES)}")
        self.lab.fabric.set_tap(self.index, rail, up=state == "up")
        if self.running:
            qemu.control(self.folder, "set_link", name=f"rail{rail}", up=state != "down")

    # --- waiting --------------------------------------------------------------

    def ready_boot(self) -> str | None:
        """The boot id of a node whose hardware is there; None while it is not.

        Raises when it never will: QEMU has ended or the hardware's unit failed.
        """
        if not self.running:
            raise LabError(f"{self.name}: its QEMU has ended\n{self.logs()}")
        said = last_boot(self.serial_log.read_text(errors="replace"))
        if said is None:
            return None
        boot, hardware = said
        if hardware != "active":
            journal = self.ssh("journalctl -b -u lab-hardware -n 15 -o cat; dmesg | tail -n 5")
            raise LabError(f"{self.name}: its hardware did not come up\n{journal.out.strip()}")
        return boot

    def logs(self) -> str:
        """The last lines of QEMU's and of the console's log."""
        files = (self.folder / "qemu.log", self.serial_log)
        texts = [file.read_text(errors="replace") for file in files if file.exists()]
        return "\n".join(tail(text) for text in texts if text.strip())

    def wait_ssh(self, timeout: float = BOOT_TIMEOUT) -> None:
        """Wait until the node answers and its hardware is there."""
        self.lab.wait_ready([self], timeout)


def last_boot(console: str) -> tuple[str, str] | None:
    """Boot id and state of the hardware, as the node said last on its console."""
    found = READY.findall(console)
    return found[-1] if found else None


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def wait_until(deadline: float, pause: float = 0.3) -> bool:
    """Sleep a little; False when the time is up."""
    if time.monotonic() > deadline:
        return False
    time.sleep(pause)
    return True
