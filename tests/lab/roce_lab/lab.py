"""A lab as a whole: up, down, and what is known of it in between."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import LabError
from .host import NODE_DISK_MIB, check_disk, check_host, check_memory, kvm_usable
from .image import Image, ensure_image
from .inventory import Host, inventory_text
from .network import Fabric
from .node import BOOT_TIMEOUT, Node, wait_until
from .process import Identity, end, find_marked, identity
from .progress import Progress
from .qemu import Machine
from .signals import interruptible, uninterruptible
from .state import LAB_FOLDER, Paths, Shape, State, locked

REPORT_SECONDS = 15


class Lab:
    """A named lab; `with Lab("mine", Shape(nodes=2)) as lab:` leaves nothing behind."""

    def __init__(
        self,
        name: str = "default",
        shape: Shape | None = None,
        *,
        owner_pid: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.name = name
        self.paths = Paths(name)
        self.fabric = Fabric(self.paths.id)
        self.progress = progress or Progress()
        self._wanted = shape
        self._owner_pid = owner_pid
        self._state: State | None = None
        self._kvm: bool | None = None
        self._started_here = False

    # --- what is known --------------------------------------------------------

    @property
    def state(self) -> State:
        """What is remembered of the lab; an error when it is not up."""
        if self._state is None:
            self._state = State.load(self.paths.state)
        if self._state is None:
            raise LabError(f"lab {self.name} is not up; start it with `labctl.py up`")
        return self._state

    @property
    def shape(self) -> Shape:
        """The lab's shape."""
        return self.state.shape

    @property
    def image(self) -> Image:
        """The image that the nodes stand on."""
        return Image(Path(self.state.image))

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in order."""
        return [Node(self, index, port) for index, port in enumerate(self.state.ports, start=1)]

    @property
    def inventory(self) -> Path:
        """The Ansible inventory file."""
        return self.paths.inventory

    @property
    def password(self) -> str:
        """Root's password on every node, for logging in without the key."""
        return self.image.password.read_text().strip()

    def node(self, name: str | int) -> Node:
        """A node by its name or number."""
        for node in self.nodes:
            if name in (node.name, node.index, str(node.index)):
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise LabError(f"lab {self.name} has no node {name}; it has {known}")

    def status(self) -> dict[str, Any]:
        """The lab as plain data."""
        state = State.load(self.paths.state)
        if state is None:
            left = [process.pid for process in find_marked(self.paths.id)]
            return {
                "name": self.name,
                "phase": "down",
                "left_processes": sorted(left),
                "left_namespace": self.fabric.exists(),
            }
        self._state = state
        return {
            "name": self.name,
            "phase": state.phase,
            "namespace": self.paths.id,
            "nodes": [self._node_status(node) for node in self.nodes],
            "rails": state.shape.rails,
            "memory_mib": state.shape.memory,
            "link_mbits": state.shape.mbits,
            "flavour": state.shape.flavour,
            "iommu": state.shape.iommu,
            "gpus": state.shape.gpus,
            "image": state.image,
            "inventory": str(self.inventory),
        }

    def _node_status(self, node: Node) -> dict[str, Any]:
        return {
            "name": node.name,
            "running": node.running,
            "ssh": node.answers(),
            "ssh_port": node.port,
            "pid": node.process.pid if node.process else None,
            "addresses": [node.address(rail) for rail in range(self.shape.rails)],
            "serial_log": str(node.serial_log),
        }

    # --- up -------------------------------------------------------------------

    def up(self) -> bool:
        """Bring the lab up; False when it was up already in this shape."""
        check_host()
        with locked(self.paths.lock, self.progress, f"lab {self.name}"):
            if self._is_up():
                return False
            self._wanted = self._wanted or Shape()
            with interruptible():
                try:
                    self._build()
                except BaseException as exc:
                    with uninterruptible():
                        self._tear_down(keep_logs=isinstance(exc, LabError))
                    raise
            self._started_here = True
            return True

    def _is_up(self) -> bool:
        """Whether the wanted lab is up and well; what is left of a broken one is removed."""
        state = State.load(self.paths.state)
        if state is not None and state.phase == "up":
            self._state = state
            well = all(node.running and node.answers(15) for node in self.nodes)
            if self._wanted not in (None, state.shape) and well:
                raise LabError(
                    f"lab {self.name} is up with {state.shape}; asked for "
                    f"{self._wanted}; run `labctl.py down` first or use --name"
                )
            if well and self.fabric.exists():
                return True
            self.progress(f"lab {self.name} is broken; starting afresh")
        self._tear_down()
        return False

    def _build(self) -> None:
        shape = self._wanted
        assert shape is not None
        check_memory(shape.nodes, shape.memory)
        image = ensure_image(self.progress)
        check_disk(self._make_folder(), shape.nodes * NODE_DISK_MIB, f"a lab of {shape.nodes}")
        self._state = State(shape, str(image.folder), ports=free_ports(shape.nodes))
        self._save()
        self._watch_owner()
        shutil.copy(image.key, self.paths.key)
        self.fabric.create(shape.nodes, shape.rails, shape.mbits)
        how = "kvm" if self.kvm else "tcg: no hardware virtualisation here"
        self.progress(f"booting {shape} ({how})")
        for node in self.nodes:
            node.start()
        self.wait_ready(self.nodes)
        self._write_inventory()
        self._state.phase = "up"
        self._save()

    def _make_folder(self) -> Path:
        shutil.rmtree(self.paths.folder, ignore_errors=True)  # logs of a failed start
        self.paths.folder.mkdir(parents=True)
        return self.paths.folder

    def _save(self) -> None:
        self.state.save(self.paths.state)

    @property
    def kvm(self) -> bool:
        """Whether nodes run under KVM."""
        if self._kvm is None:
            self._kvm = kvm_usable()
        return self._kvm

    def machine(self, node: Node) -> Machine:
        """What a node's QEMU is started with."""
        return Machine(
            self.paths.id,
            node.index,
            self.shape.rails,
            self.shape.memory,
            node.port,
            self.shape.flavour,
            self.image,
            self.kvm,
            self.shape.iommu,
            self.shape.gpus,
        )

    def remember(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """Note a process that was started for the lab."""
        found = identity(process.pid)
        if found is None:
            raise LabError(f"{name}: ended at once\n{self.node(name).logs()}")
        self.state.processes[name] = found
        self._save()

    def wait_ready(self, nodes: Sequence[Node], timeout: float = BOOT_TIMEOUT, not_boot: str | None = None) -> None:
        """Wait until nodes answer and have their hardware, in another boot than that one."""
        start = time.monotonic()
        reported, waiting = start, list(nodes)
        self.progress(f"waiting for {_names(waiting)}")
        while waiting:
            for node in list(waiting):
                if node.ready_boot() not in (None, not_boot):
                    waiting.remove(node)
                    self.progress(f"{node.name} is ready")
            if waiting and time.monotonic() - reported > REPORT_SECONDS:
                self.progress(f"still waiting for {_names(waiting)}")
                reported = time.monotonic()
            if waiting and not wait_until(start + timeout):
                raise LabError(f"{_names(waiting)}: no answer after {timeout:g} s; console:\n{waiting[0].logs()}")

    def _write_inventory(self) -> None:
        hosts = [Host(node.index, node.name, node.port) for node in self.nodes]
        self.inventory.parent.mkdir(parents=True, exist_ok=True)
        self.inventory.write_text(inventory_text(hosts, self.shape.rails, self.paths.key))
        beside = self.inventory.parent / "group_vars"
        if beside != self.paths.group_vars and not beside.is_symlink():
            beside.symlink_to(self.paths.group_vars)

    def _watch_owner(self) -> None:
        """Start a process that takes the lab down when its owner dies."""
        if self._owner_pid is None:
            return
        owner = identity(self._owner_pid)
        if owner is None:
            raise LabError(f"owner {self._owner_pid}: no such process")
        argv = [
            sys.executable,
            str(LAB_FOLDER / "labctl.py"),
            "watch",
            "--name",
            self.name,
            "--marker",
            f"{self.paths.id}-watch",
            str(owner.pid),
            str(owner.start),
        ]
        with (self.paths.folder / "watch.log").open("ab") as log:
            watcher = subprocess.Popen(
                argv, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.remember("watch", watcher)

    # --- down -----------------------------------------------------------------

    def down(self) -> bool:
        """Take the lab down, whatever state it is in; False when there was nothing."""
        with locked(self.paths.lock, self.progress, f"lab {self.name}"), uninterruptible():
            return self._tear_down()

    def _tear_down(self, *, keep_logs: bool = False) -> bool:
        state = State.load(self.paths.state) or self._state
        self._state = state
        if state is not None:
            for node in self.nodes:
                node.close_ssh()
        recorded = set(state.processes.values()) if state is not None else set()
        processes = {it for it in recorded if it.pid != os.getpid()} | find_marked(self.paths.id)
        found = bool(processes) or self.fabric.exists() or self.paths.state.exists()
        end(processes)
        end(find_marked(self.paths.id))  # one that was just being started
        self.fabric.delete()
        self._remove_files(keep_logs=keep_logs)
        self._state = None
        return found

    def _remove_files(self, *, keep_logs: bool) -> None:
        shutil.rmtree(self.paths.run, ignore_errors=True)
        self.inventory.unlink(missing_ok=True)
        self.paths.state.unlink(missing_ok=True)
        if not keep_logs:
            shutil.rmtree(self.paths.folder, ignore_errors=True)
        self.paths.key.unlink(missing_ok=True)
        for disk in self.paths.folder.glob("*/disk.qcow2"):
            disk.unlink()

    # --- as a context ---------------------------------------------------------

    def __enter__(self) -> Lab:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take down what was brought up here; a lab that was up before stays."""
        if self._started_here:
            self.down()


def watch(lab: Lab, owner: Identity) -> None:
    """Wait for the owner's end, then take the lab down; end with the lab otherwise."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(owner.pid)
        if identity(owner.pid) == owner:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while not poll.poll(1000):
                if not lab.paths.state.exists():
                    return
    lab.down()


def free_ports(count: int) -> list[int]:
    """Free TCP ports of 127.0.0.1, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


def _names(nodes: Sequence[Node]) -> str:
    return ", ".join(node.name for node in nodes)
