# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host of a big matrix as a process of its own: `python fabric_host.py HOSTS RANK FOLDER ROUNDS SECONDS`.

How hosts meet and keep step is the real thing, on an address of 127/8 each; perftest is a script in FOLDER that takes
SECONDS and prints a result. Prints when this host began its first test and ended its last, and how many passed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "build" / "collections"), str(ROOT / "tests" / "unit")]

from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import Options
from ansible_collections.lossless.roce.plugins.module_utils.fabric.part import run_part
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import FabricHost, Matrix
from ansible_collections.lossless.roce.plugins.module_utils.host import Host, Process
from fake_host import FakeHost

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
LINK_GBPS = 100.0


def address(rank: int) -> str:
    """The address of a host."""
    return f"127.1.{rank // 250}.{rank % 250 + 1}"


class Local(FakeHost):
    """A node made up, but for its clock and its processes."""

    def __init__(self, rank: int) -> None:
        numbers = [int(part) for part in address(rank).split(".")]
        gid = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}\n".format(*numbers)
        link = {"ifindex": 0, "ifname": "mlx5_0", "port": 1, "state": "ACTIVE", "netdev": "eth0"}
        super().__init__(
            {f"{PORT}/gids/3": gid, f"{PORT}/gid_attrs/types/3": "RoCE v2\n", f"{PORT}/gid_attrs/ndevs/3": "eth0\n"},
            {
                "rdma -j link show": json.dumps([link]),
                "rdma -j resource show qp": "[]",
                "ib_write_bw --help": (1, "  -a, --all\n", ""),
            },
        )
        self._real = Host()
        self.first = 0.0

    def start(self, *argv: str) -> Process:
        self.first = self.first or time.monotonic()
        return self._real.start(*argv)

    def now(self) -> float:
        return self._real.now()

    def sleep(self, seconds: float) -> None:
        self._real.sleep(seconds)

    def time_of_day(self) -> str:
        return self._real.time_of_day()


def main() -> None:
    count, rank, rounds, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]), int(sys.argv[5])
    os.environ["PATH"] = f"{sys.argv[3]}:{os.environ['PATH']}"
    hosts = tuple(FabricHost(f"h{number}", {0: ("eth0", address(number))}) for number in range(count))
    host = Local(rank)
    part: dict[str, t.Any] = run_part(
        host,  # type: ignore[arg-type]
        Matrix(hosts, scope="sample", samples=rounds),
        Options(duration=seconds),
        name=f"h{rank}",
        run="benchmark",
        link_gbps=LINK_GBPS,
        efficiency=0.9,
        listen=address(rank),
    )
    passed = [finding for finding in part["findings"] if finding["verdict"] == "pass"]
    print(
        json.dumps(
            {"first": host.first, "last": time.monotonic(), "passed": len(passed), "took_s": part["matrix"]["took_s"]}
        )
    )


if __name__ == "__main__":
    main()
