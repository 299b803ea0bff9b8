# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a smoke test is asked to do, and the command lines that do it. Pure. Private to the collection."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..errors import PolicyError
from ..values import require
from .company import Member
from .results import OPERATIONS

TORCH, NCCL_TESTS = "torch", "nccl_tests"
MAIN, SOCKET, TRAINING = "main", "socket", "training"
# How role nccl_smoke begins the names of its containers; they end in the run.
_CONTAINER = "lossless-roce-nccl-"
# What follows from the ports and interfaces of a host, and not from the policy alone.
_OF_ONE_HOST = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_IB_ADDR_RANGE", "NCCL_IB_GID_INDEX")
# The comparison without RDMA is short: one size, not larger than this.
_COMPARED_SIZE = 64 << 20
# Inside a container a killed client leaves its program running: there a limit of its own ends it.
_INNER_SLACK_S = 30


@dataclass(frozen=True)
class Job:
    """A smoke test as one host runs its part. Sizes in bytes, limits in seconds.

    members: all hosts in the order of their ranks; name: this one; absent: hosts that should be there and are not
    ranks: ranks on each host, or ``gpu`` for one a GPU
    prefix: what stands in front of the command, as docker run does; cleanup: commands after each run
    gdr: whether GPUDirect is asked for; force_ib: NCCL_NET=IB, so that no fallback can happen
    """

    name: str
    members: tuple[Member, ...]
    run: str
    interface: str
    absent: tuple[str, ...] = ()
    ports: tuple[t.Mapping[str, t.Any], ...] = ()
    policy: t.Mapping[str, t.Any] = field(default_factory=dict)
    tool: str = TORCH
    backend: str = "nccl"
    ranks: str = "gpu"
    port: int = 29500
    operations: tuple[str, ...] = ("all_reduce",)
    begin: int = 1024
    end: int = 1 << 30
    factor: int = 4
    warmup: int = 5
    iterations: int = 20
    accept_socket: bool = False
    force_ib: bool = True
    gdr: bool = True
    compare: bool = True
    training_steps: int = 0
    training_arguments: tuple[str, ...] = ()
    environment: t.Mapping[str, t.Any] = field(default_factory=dict)
    version: str = ""
    prefix: tuple[str, ...] = ()
    cleanup: tuple[tuple[str, ...], ...] = ()
    python: str = "python3"
    folder: str = "/var/lib/lossless-roce/nccl"
    nccl_tests: str = "all_reduce_perf"
    mpirun_arguments: tuple[str, ...] = ()
    min_busbw: float | None = None
    gpu_target: float = 80.0
    barrier_limit: float = 120.0
    start_limit: float = 120.0
    time_limit: float = 600.0
    log_folder: str = "/var/log/lossless-roce"

    def check(self) -> None:
        """Raise PolicyError for what does not fit together."""
        names = [member.name for member in self.members]
        if self.name not in names or len(set(names)) != len(names):
            raise PolicyError(f"hosts: {names} … each once, and {self.name} among them, was expected")
        unknown = [name for name in self.operations if name not in OPERATIONS]
        if unknown or not self.operations:
            raise PolicyError(f"operations: {unknown} … some of {', '.join(OPERATIONS)} were expected")
        if not 0 < self.begin <= self.end or self.factor < 2:
            raise PolicyError(
                f"sizes: {self.begin} to {self.end} by {self.factor} … begin up to end, and a factor of 2 or more,"
                " were expected"
            )
        if self.ranks != "gpu" and not (self.ranks.isdecimal() and 0 < int(self.ranks) <= 1024):
            raise PolicyError(f"ranks: {self.ranks!r} … a number from 1 to 1024, or gpu, was expected")
        if self.ranks == "gpu" and self.backend == "gloo":
            raise PolicyError("ranks: gpu, and backend gloo uses no GPU … a number was expected")
        if self.tool == NCCL_TESTS and (self.ranks == "gpu" or self.backend != "nccl"):
            raise PolicyError("tool: nccl_tests needs backend nccl and a number of ranks a host")
        if self.tool == NCCL_TESTS and not self.one_host and self.prefix[1:2] == ("run",):
            raise PolicyError(
                f"tool: nccl_tests, and {self.prefix[0]} run (nccl_smoke_image) … one container running on each"
                f" host, with sshd inside, was expected (nccl_smoke_prefix: {self.prefix[0]} exec NAME): mpirun of the"
                " first host starts all ranks by ssh (its port by nccl_smoke_mpirun_arguments)"
            )
        self._check_limits()

    def _check_limits(self) -> None:
        for name in ("warmup", "iterations", "barrier_limit", "start_limit", "time_limit"):
            if getattr(self, name) <= 0:
                raise PolicyError(f"{name}: {getattr(self, name)} … a number above 0 was expected")
        # A threshold that everything meets would be a pass without a proof.
        require("min_busbw", self.min_busbw, 0.001, 1_000_000)
        if self.start_limit >= self.time_limit:
            raise PolicyError(f"start_limit {self.start_limit:g} s is not below time_limit {self.time_limit:g} s")
        if not 1 <= self.port <= 65535:
            raise PolicyError(f"port: {self.port} … 1 to 65535 was expected")

    @property
    def one_host(self) -> bool:
        """Whether nothing has to leave this host."""
        return len(self.members) == 1

    @property
    def index(self) -> int:
        """Place of this host among the members; 0 has rank 0."""
        return [member.name for member in self.members].index(self.name)

    def containers(self) -> list[str]:
        """The command that names containers of smoke tests that run; empty where the prefix starts none."""
        words = self.prefix
        if not any(word == "--name" and name.startswith(_CONTAINER) for word, name in zip(words, words[1:])):
            return []
        return [words[0], "ps", "--filter", f"name={_CONTAINER}", "--format", "{{.Names}}"]

    def of_others(self, listed: str) -> list[str]:
        """Of the names that the engine listed those of other runs."""
        names = [name for name in listed.split() if name.startswith(_CONTAINER)]
        return [name for name in names if not name.endswith(f"-{self.run}")]

    def labels(self) -> list[str]:
        """The runs, in order."""
        compare = self.compare and self.backend == "nccl" and self.tool == TORCH and not self.one_host
        return [
            MAIN,
            *([SOCKET] if compare else []),
            *([TRAINING] if self.training_steps and self.tool == TORCH else []),
        ]

    def run_variables(self, label: str, derived: t.Mapping[str, str], gid_indexes: str) -> dict[str, str]:
        """The environment of a run. gid_indexes: those of the ports, which the worker of an NCCL before 2.21 needs."""
        always = {"LOSSLESS_ROCE_HOST": self.name, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        if self.backend == "gloo":
            given = {name: value for name, value in derived.items() if name in self.environment}
            return {**always, "GLOO_SOCKET_IFNAME": self.interface, **given}
        debug = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH"}
        if label == SOCKET:
            kept = {name: value for name, value in derived.items() if not name.startswith(("NCCL_IB_", "NCCL_NET"))}
            return {**always, **debug, **kept, "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
        # No silent fallback in an acceptance run. One host alone needs no network.
        forced = {"NCCL_NET": "IB"} if self.force_ib and not self.accept_socket and not self.one_host else {}
        gid = {"LOSSLESS_ROCE_GID_INDEX": gid_indexes} if gid_indexes else {}
        return {**always, **debug, **gid, **forced, **derived}

    def own_variables(self, derived: t.Mapping[str, str]) -> dict[str, str]:
        """The variables that may differ from host to host."""
        return {name: derived[name] for name in _OF_ONE_HOST if name in derived}

    def command(self, label: str, variables: t.Mapping[str, str]) -> list[str]:
        """The argument vector of a run on this host."""
        inner = self._mpirun(variables) if self.tool == NCCL_TESTS else self._torchrun(label)
        limit = ["timeout", "-k", "10", f"{self.time_limit + _INNER_SLACK_S:g}"] if self.prefix else []
        return [*self.prefix, *limit, "env", *(f"{name}={value}" for name, value in variables.items()), *inner]

    def _torchrun(self, label: str) -> list[str]:
        # Static rendezvous: ranks go by the order of hosts, and both ends give up after the timeout.
        script = "train.py" if label == TRAINING else "smoke_worker.py"
        return [
            *(self.python, "-m", "torch.distributed.run", "--nnodes", str(len(self.members))),
            *("--node-rank", str(self.index), "--nproc-per-node", self.ranks, "--max-restarts", "0"),
            *("--rdzv-backend", "static", "--rdzv-id", f"{self.run}-{label}"),
            *("--rdzv-conf", f"timeout={int(self.start_limit)}"),
            *("--master-addr", self.members[0].address, "--master-port", str(self.port)),
            *("--local-addr", self.members[self.index].address),
            f"{self.folder}/{script}",
            *("--backend", self.backend, "--limit", f"{self.time_limit:g}"),
            *(self._training() if label == TRAINING else self._sweep(label)),
        ]

    def _training(self) -> list[str]:
        return ["--steps", str(self.training_steps), *self.training_arguments]

    def _sweep(self, label: str) -> list[str]:
        begin, operations = self.begin, self.operations
        end = self.end
        if label == SOCKET:
            begin = end = self.compared_size()
            operations = operations[:1]
        return [
            *("--operations", ",".join(operations), "--begin", str(begin), "--end", str(end)),
            *("--factor", str(self.factor), "--warmup", str(self.warmup), "--iterations", str(self.iterations)),
        ]

    def sizes(self) -> list[int]:
        """The sizes of the sweep in bytes, as the worker and nccl-tests count them."""
        found = [self.begin]
        while found[-1] * self.factor <= self.end:
            found.append(found[-1] * self.factor)
        return found

    def sweep(self) -> dict[str, int]:
        """How many sizes of each operation are measured."""
        return dict.fromkeys(self.operations, len(self.sizes()))

    def compared_size(self) -> int:
        """The largest size of the sweep that is not too large for a short run."""
        return max(size for size in self.sizes() if size <= max(self.begin, _COMPARED_SIZE))

    def _mpirun(self, variables: t.Mapping[str, str]) -> list[str]:
        hosts = ",".join(f"{member.address}:{self.ranks}" for member in self.members)
        exported = [word for name in variables for word in ("-x", name)]
        return [
            *("mpirun", "--allow-run-as-root", "--host", hosts, "-np", str(int(self.ranks) * len(self.members))),
            *("--mca", "btl_tcp_if_include", self.interface, "--mca", "oob_tcp_if_include", self.interface),
            *self.mpirun_arguments,
            *exported,
            *(self.nccl_tests, "-b", str(self.begin), "-e", str(self.end), "-f", str(self.factor), "-g", "1"),
            *("-c", "1", "-w", str(self.warmup), "-n", str(self.iterations)),
        ]
