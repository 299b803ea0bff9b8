"""Where things are, and what is remembered of a lab between two commands."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .errors import LabError
from .process import Identity
from .progress import Progress

LAB_FOLDER = Path(__file__).resolve().parent.parent  # tests/lab
REPOSITORY = LAB_FOLDER.parent.parent
MAX_NODES, MAX_RAILS = 4, 8
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}")


@dataclass(frozen=True)
class Shape:
    """What a lab looks like; two labs of one name must agree in it."""

    nodes: int = 2
    rails: int = 1
    memory: int = 1024  # MiB a node
    mbits: float = 50  # rate of every link, Mb/s
    flavour: str = "inbox"  # driver stack that the ports look like
    iommu: str = "off"  # or on (it translates), pt (passes through)
    gpus: int = 0  # beside the first ports, as PCI functions without a driver

    def __post_init__(self) -> None:
        _check_range("nodes", self.nodes, 1, MAX_NODES)
        _check_range("rails", self.rails, 1, MAX_RAILS)
        _check_range("memory", self.memory, 384, 65536)
        if self.flavour not in ("inbox", "ofed"):
            raise LabError(f"flavour is {self.flavour!r}, it may be inbox or ofed")
        if self.iommu not in ("off", "on", "pt"):
            raise LabError(f"iommu is {self.iommu!r}, it may be off, on or pt")
        _check_range("gpus", self.gpus, 0, self.rails)
        if self.mbits <= 0:
            raise LabError(f"rate is {self.mbits:g} Mb/s, it must be above 0")

    def __str__(self) -> str:
        usual = f"{self.nodes} nodes, {self.rails} rails, {self.memory} MiB each, {self.mbits:g} Mb/s, {self.flavour}"
        iommu = "" if self.iommu == "off" else f", iommu {self.iommu}"
        return usual + iommu + (f", {self.gpus} GPUs" if self.gpus else "")


def _check_range(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise LabError(f"{what} is {value}, it may be {low} to {high}")


@dataclass
class State:
    """The content of state.json."""

    shape: Shape
    image: str  # folder of the image
    phase: str = "starting"  # or "up"
    ports: list[int] = field(default_factory=list)  # ssh port of each node
    processes: dict[str, Identity] = field(default_factory=dict)  # node name or "watch"

    def save(self, path: Path) -> None:
        """Write the file so that a reader never sees half of it."""
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self), indent=2) + "\n")
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> State | None:
        """What the file says; None when it is missing or broken."""
        try:
            data = json.loads(path.read_text())
            data["shape"] = Shape(**data["shape"])
            data["processes"] = {name: Identity(**it) for name, it in data["processes"].items()}
            return cls(**data)
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
            return None


class Paths:
    """The files of one lab."""

    def __init__(self, name: str, repository: Path = REPOSITORY) -> None:
        if not NAME.fullmatch(name):
            raise LabError(f"name {name!r}: use up to 20 of a-z, 0-9 and -")
        self.name = name
        self.repository = repository
        digest = hashlib.sha256(str(repository).encode()).hexdigest()[:6]
        self.id = f"lrlab-{name}-{digest}"  # also the namespace, and the mark on processes
        self.folder = repository / "build" / "lab" / name
        self.state = self.folder / "state.json"
        self.key = self.folder / "id_ed25519"
        self.lock = self.folder.parent / f".{name}.lock"
        self.run = Path("/run") / self.id  # sockets: their paths must be short
        lab_inventory = repository / "inventories" / "lab"
        self.group_vars = lab_inventory / "group_vars"
        self.inventory = (lab_inventory if name == "default" else self.folder / "inventory") / "hosts.yml"

    def node(self, node: str) -> Path:
        """The folder of a node."""
        return self.folder / node


@contextlib.contextmanager
def locked(path: Path, progress: Progress, what: str) -> Iterator[None]:
    """Hold a lock file; say so when another process has to be waited for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that works on {what}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
