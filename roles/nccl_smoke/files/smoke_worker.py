# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One rank of the smoke test: collectives over a sweep of sizes, with checked results. Started by torchrun.

Prints lines that begin with MARK and go on with JSON: ``facts`` of each rank, and from rank 0 ``start``, the number of
``ranks`` of each host, a ``row`` for each operation and size, and ``end``. Needs PyTorch and the standard library, on a
host or in a container.
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import datetime
import json
import os
import resource
import signal
import socket
import sys
import time
from collections import Counter

MARK = "@lossless-roce "
ELEMENT = 4  # bytes of a float32
# Values stay below 2^24, so that their sums are exact in float32.
PATTERN = 1021
NAME = 256  # bytes: a host's name has 255 at most


def say(event: str, **values: object) -> None:
    """One line in one write, and a short one: of more than 4096 bytes a pipe takes pieces, among other ranks'."""
    sys.stdout.write(f"\n{MARK}{json.dumps({'event': event, **values})}\n")
    sys.stdout.flush()


def die_with_parent() -> None:
    """torchrun starts ranks in sessions of their own: without this they would outlive a killed torchrun."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def listed(folder: str) -> list[str]:
    """Names in a folder; none when it is not there."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def loadable(library: str) -> bool:
    """Whether a shared library can be loaded here."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def host_name() -> str:
    """What the inventory calls this host, or what it calls itself."""
    return os.environ.get("LOSSLESS_ROCE_HOST") or socket.gethostname()


def facts(torch, backend: str) -> None:
    """What this rank sees where it runs."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    cuda = backend == "nccl"
    say(
        "facts",
        rank=int(os.environ["RANK"]),
        local_rank=int(os.environ["LOCAL_RANK"]),
        host=host_name(),
        pid=os.getpid(),
        torch=torch.__version__,
        nccl=".".join(map(str, torch.cuda.nccl.version())) if cuda else "",
        cuda=torch.version.cuda or "",
        device=torch.cuda.get_device_name() if cuda else "cpu",
        memlock=None if soft == resource.RLIM_INFINITY else soft,
        ibdevs=listed("/sys/class/infiniband"),
        uverbs=[name for name in listed("/dev/infiniband") if name.startswith("uverbs")],
        libibverbs=loadable("libibverbs.so.1"),
    )


def choose_gid(torch, backend: str) -> None:
    """Before NCCL 2.21 a GID is chosen by its index, which the launcher looked up; from then on by its address."""
    indexes = os.environ.pop("LOSSLESS_ROCE_GID_INDEX", "")
    if backend != "nccl" or not indexes or torch.cuda.nccl.version() >= (2, 21):
        return
    if not indexes.isdecimal():
        # Without an index NCCL would take GID 0, which is no RoCE v2 address.
        version = ".".join(map(str, torch.cuda.nccl.version()))
        text = f"NCCL {version} takes one GID index for all ports, and those of the ports' RoCE v2 GIDs are {indexes}"
        say("error", kind="gid_index", text=text)
        sys.exit(3)
    os.environ["NCCL_IB_GID_INDEX"] = indexes
    os.environ.pop("NCCL_IB_ADDR_RANGE", None)


def connect(backend: str, limit: float):
    """torch, torch.distributed and the device, with all ranks connected."""
    die_with_parent()
    begin = time.perf_counter()
    import torch
    import torch.distributed as dist

    if backend == "nccl":
        if not torch.cuda.is_available():
            say("error", kind="no_gpu", text="PyTorch sees no GPU here")
            sys.exit(3)
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    choose_gid(torch, backend)
    facts(torch, backend)
    imported = time.perf_counter()
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=limit))
    device = torch.device("cuda" if backend == "nccl" else "cpu")
    # The first collective makes the communicator: NCCL's start-up is part of it.
    dist.all_reduce(torch.zeros(1, device=device))
    if backend == "nccl":
        torch.cuda.synchronize()
    connected = time.perf_counter()
    if dist.get_rank() == 0:
        say("start", import_s=round(imported - begin, 3), connect_s=round(connected - imported, 3))
    return torch, dist, device


def gather_names(name: str, torch, dist, device) -> list[str]:
    """The names of all ranks, in their order. As bytes: PyTorch gathers objects only where NumPy is installed."""
    own = torch.tensor(list(name.encode()[:NAME].ljust(NAME, b"\0")), dtype=torch.uint8, device=device)
    names = [torch.empty_like(own) for _rank in range(dist.get_world_size())]
    dist.all_gather(names, own)
    return [bytes(one.tolist()).rstrip(b"\0").decode(errors="replace") for one in names]


class Operation:
    """One collective on buffers of ``size`` bytes in all, as nccl-tests count them, with the right result."""

    def __init__(self, name: str, size: int, torch, dist, device) -> None:
        self.name, self.dist, self.torch = name, dist, torch
        self.n, self.rank = dist.get_world_size(), dist.get_rank()
        self.chunk = max(1, size // ELEMENT // self.n)
        self.count = self.chunk * self.n if name != "all_reduce" else max(1, size // ELEMENT)
        self.size = self.count * ELEMENT
        whole = torch.arange(self.count, device=device, dtype=torch.float32).remainder_(PATTERN)
        self.whole = whole
        own = slice(self.rank * self.chunk, (self.rank + 1) * self.chunk)
        # Each element tells its place and its rank.
        if name == "all_gather":
            self.source, self.target = whole[own] + self.rank, torch.empty_like(whole)
        elif name == "reduce_scatter":
            self.source, self.target = whole + self.rank, torch.empty(self.chunk, device=device)
        else:
            self.source, self.target = whole + self.rank, torch.empty_like(whole)
        self.own = own

    def run(self) -> None:
        """The collective, out of place but for all_reduce."""
        if self.name == "all_reduce":
            self.dist.all_reduce(self.target)
        elif self.name == "all_gather":
            self.dist.all_gather_into_tensor(self.target, self.source)
        elif self.name == "reduce_scatter":
            self.dist.reduce_scatter_tensor(self.target, self.source)
        else:
            self.dist.all_to_all_single(self.target, self.source)

    def wrong(self) -> int:
        """How many elements are wrong after one run on fresh buffers."""
        if self.name == "all_reduce":
            self.target.copy_(self.source)
        else:
            self.target.fill_(-1)
        self.run()
        return int((self.target != self._right()).sum().item())

    def _right(self):
        ranks = self.n * (self.n - 1) / 2
        if self.name == "all_reduce":
            return self.whole * self.n + ranks
        if self.name == "reduce_scatter":
            return self.whole[self.own] * self.n + ranks
        if self.name == "all_gather":
            by_rank = self.torch.arange(self.n, device=self.whole.device).repeat_interleave(self.chunk)
            return self.whole + by_rank
        # all_to_all: from each rank the part that is for this one.
        parts = [self.whole[self.own] + source for source in range(self.n)]
        return self.torch.cat(parts)


FACTORS = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
}


def slowest(torch, dist, device, seconds: float) -> float:
    """The largest of all ranks' times: a collective is as slow as its last rank."""
    value = torch.tensor([seconds], device=device, dtype=torch.float64)
    dist.all_reduce(value, op=dist.ReduceOp.MAX)
    return float(value.item())


def timed(operation: Operation, iterations: int, synchronise) -> float:
    """Seconds for one iteration."""
    operation.dist.barrier()
    synchronise()
    start = time.perf_counter()
    for _run in range(iterations):
        operation.run()
    synchronise()
    return (time.perf_counter() - start) / iterations


def measure(name: str, size: int, options: argparse.Namespace, torch, dist, device) -> dict[str, object]:
    """One row: time in µs, bandwidths in GB/s, wrong elements of all ranks."""
    synchronise = torch.cuda.synchronize if options.backend == "nccl" else (lambda: None)
    operation = Operation(name, size, torch, dist, device)
    wrong = operation.wrong()
    # A slow size gets fewer iterations; all ranks must agree on the number.
    once = max(1e-9, slowest(torch, dist, device, timed(operation, 1, synchronise)))
    for _run in range(min(options.warmup, int(options.size_limit / 4 / once))):
        operation.run()
    iterations = max(1, min(options.iterations, int(options.size_limit / once)))
    seconds = slowest(torch, dist, device, timed(operation, iterations, synchronise))
    # Once more: under load another path may have been taken.
    total = torch.tensor([wrong + operation.wrong()], device=device, dtype=torch.float64)
    dist.all_reduce(total)
    algbw = operation.size / seconds / 1e9
    return {
        "operation": name,
        "size": operation.size,
        "iterations": iterations,
        "time_us": round(seconds * 1e6, 2),
        "algbw": round(algbw, 4),
        "busbw": round(algbw * FACTORS[name](operation.n), 4),
        "wrong": int(total.item()),
    }


def sizes(begin: int, end: int, factor: int) -> list[int]:
    """From begin to end, each the former times the factor."""
    found = [begin]
    while found[-1] * factor <= end:
        found.append(found[-1] * factor)
    return found


def main() -> None:
    """Connect, measure, and say how it went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["nccl", "gloo"], required=True)
    parser.add_argument("--operations", default="all_reduce")
    parser.add_argument("--begin", type=int, required=True)
    parser.add_argument("--end", type=int, required=True)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--size-limit", type=float, default=2.0, help="seconds for the iterations of one size")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a collective may take")
    options = parser.parse_args()
    torch, dist, device = connect(options.backend, options.limit)
    hosts = gather_names(host_name(), torch, dist, device)
    first = dist.get_rank() == 0
    if first:
        for host, ranks in Counter(hosts).items():
            say("ranks", host=host, ranks=ranks)
    start = time.perf_counter()
    for name in options.operations.split(","):
        for size in sizes(options.begin, options.end, options.factor):
            row = measure(name, size, options, torch, dist, device)
            if first:
                say("row", **row)
    if first:
        say("end", sweep_s=round(time.perf_counter() - start, 3))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
