# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A fabric of hundreds of hosts: schedule, analysis with faults put in, and many hosts that keep step."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "build" / "collections")]

from ansible_collections.lossless.roce.plugins.filter.fabric_ports import FilterModule
from ansible_collections.lossless.roce.plugins.module_utils.fabric.rounds import pairs_of
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import FabricHost, Matrix
from measure import page

HOSTS, RAILS = 512, 8
ROWS: list[list[t.Any]] = [["what", "size", "took"]]
PROCESSES, ROUNDS, SECONDS = 64, 8, 2
TEXT = """
What the tests between nodes cost beside the measurements themselves; `make bench ARGS=tests/benchmarks/test_fabric.py`
measures anew.

- *Schedule*: all rounds and pairs; then what one host works out for itself, all its tests on eight rails.
- *Analysis*: findings of 512 simulated hosts as the role has them, host by host, through the filters `suspects` and
  `analysed`. Faults were put in (ports in one or both directions, nodes, pairs, a host that was lost), and each was
  named, and nothing else.
- *Hosts that keep step*: that many processes, each a host with an address of its own, with the real barrier and steps;
  in place of perftest a script that takes two seconds. *Ideal* is tests after tests without a pause between them.
"""


def note(what: str, size: str, seconds: float, more: str = "") -> None:
    """One row of the page."""
    ROWS.append([what, size, f"{seconds:.2f} s{more}"])


@pytest.fixture(scope="module", autouse=True)
def the_page() -> t.Iterator[None]:
    """Written when all has been measured."""
    yield
    page("fabric", "Tests of a big fabric", TEXT, ROWS)


def hosts(count: int, rails: int) -> tuple[FabricHost, ...]:
    return tuple(
        FabricHost(
            f"h{number:04}",
            {rail: (f"eth{rail}", f"10.{rail}.{number // 256}.{number % 256}") for rail in range(rails)},
        )
        for number in range(count)
    )


def test_schedule() -> None:
    matrix = Matrix(hosts(1024, RAILS))
    start = time.monotonic()
    pairs = sum(len(pairs_of(round_, 1024)) for round_ in matrix.rounds())
    note("schedule: all rounds", "1,024 hosts", time.monotonic() - start)
    assert pairs == 1024 * 1023 // 2
    start = time.monotonic()
    tests, measurements = matrix.tests_of("h0511"), matrix.measurements()
    note("schedule: one host's part", "1,024 hosts × 8 rails", time.monotonic() - start)
    assert len(tests) == 1023 * RAILS * 2 and measurements == pairs * RAILS * 2


Bad = t.Callable[[str, str, int], bool]
LOST = "h0300"


def finding(client: str, server: str, rail: int, gbps: float | None, **more: t.Any) -> dict[str, t.Any]:
    """A finding on bandwidth as fabric_bandwidth makes it, as far as the analysis looks."""
    seen = {"client": client, "server": server, "rail": rail, "gbps": gbps, **more}
    return {"check": "ib_write_bw", "verdict": "pass" if gbps and gbps >= 90 else "fail", "observed": seen}


def by_host(pairs: t.Iterable[tuple[str, str, int]], bad: Bad, lost: str = "") -> list[list[dict[str, t.Any]]]:
    """The findings of each host; those with ``lost`` were made by the others."""
    found: dict[str, list[dict[str, t.Any]]] = {}
    line = {"gone": lost, "line": "has not answered since step 40 (12:00:00)"}
    for client, server, rail in pairs:
        if lost in (client, server):
            found.setdefault(server if client == lost else client, []).append(
                finding(client, server, rail, None, **line)
            )
        else:
            found.setdefault(client, []).append(
                finding(client, server, rail, 5.0 if bad(client, server, rail) else 97.0)
            )
    return list(found.values())


def analysed(findings: list[list[dict[str, t.Any]]], size: str) -> set[tuple[t.Any, ...]]:
    """Kind, hosts and rails of what was found."""
    filters = FilterModule().filters()
    start = time.monotonic()
    suspects = filters["suspects"](findings, {})
    note("analysis: whom to test again", size, time.monotonic() - start, f", {len(suspects)} pairs")
    start = time.monotonic()
    found = filters["analysed"](findings, {}, None)
    note("analysis: what explains the failures", size, time.monotonic() - start, f", {len(found)} causes")
    return {(f["observed"]["kind"], tuple(f["observed"]["hosts"]), tuple(f["observed"]["rails"])) for f in found}


def test_all_pairs_of_one_rail() -> None:
    names = [f"h{number:04}" for number in range(HOSTS)]
    both, sends, receives = set(names[3:20:4]), set(names[30:33]), set(names[40:60])
    pairs = [(names[70 + 2 * n], names[401 + n]) for n in range(40)]
    broken = {frozenset(pair) for pair in pairs}

    def bad(client: str, server: str, rail: int) -> bool:
        ends = {client, server}
        return bool(ends & both) or client in sends or server in receives or frozenset(ends) in broken

    every = [(client, server, 0) for client in names for server in names if client != server]
    found = analysed(by_host(every, bad, LOST), f"512 hosts, all pairs of 1 rail: {len(every):,} tests")
    assert found == {
        ("gone", (LOST,), (0,)),
        *(("port", (name,), (0,)) for name in both | sends | receives),
        *(("pair", tuple(sorted(pair)), (0,)) for pair in pairs),
    }


def test_a_ring_on_eight_rails() -> None:
    names = [f"h{number:04}" for number in range(HOSTS)]
    nodes, ports = {names[10], names[100]}, {(names[200], 3), (names[250], 7)}

    def bad(client: str, server: str, rail: int) -> bool:
        return bool({client, server} & nodes or {(client, rail), (server, rail)} & ports)

    neighbours = [(names[n], names[(n + 1) % HOSTS]) for n in range(HOSTS)]
    every = [
        (*pair, rail) for one, other in neighbours for pair in ((one, other), (other, one)) for rail in range(RAILS)
    ]
    found = analysed(by_host(every, bad), f"512 hosts, ring on 8 rails: {len(every):,} tests")
    assert found == {
        *(("node", (name,), tuple(range(RAILS))) for name in nodes),
        *(("port", (name,), (rail,)) for name, rail in ports),
    }


def test_hosts_that_keep_step(tmp_path: Path) -> None:
    script = tmp_path / "ib_write_bw"
    head = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
    result = " 65536      5000             0.00               97.00                0.184059"
    script.write_text(f"#!/bin/sh\nsleep {SECONDS}\necho '{head}'\necho '{result}'\n")
    script.chmod(0o755)
    program = str(Path(__file__).parent / "fabric_host.py")
    more = (str(tmp_path), str(ROUNDS), str(SECONDS))
    started = [
        subprocess.Popen([sys.executable, program, str(PROCESSES), str(rank), *more], stdout=subprocess.PIPE, text=True)
        for rank in range(PROCESSES)
    ]
    try:
        told = [json.loads(process.communicate(timeout=600)[0]) for process in started]
    finally:
        for process in started:
            process.kill()
    wall = max(one["last"] for one in told) - min(one["first"] for one in told)
    ideal = ROUNDS * 2 * SECONDS
    assert sum(one["passed"] for one in told) == PROCESSES * ROUNDS
    size = f"{PROCESSES} hosts, {ROUNDS} rounds both ways"
    note("hosts that keep step", size, wall, f", ideal {ideal} s, ratio {wall / ideal:.2f}")
