# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node of eight ports: the policy as one module call, against plain tasks per port and setting."""

from __future__ import annotations

import os
import re
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1] / "lab")]

from measure import Cost, page, playbook
from roce_lab import Lab
from roce_lab.state import Shape

HERE = Path(__file__).parent
PLAYBOOKS = {"ours": HERE / "ours.yml", "plain": HERE / "plain" / "site.yml"}
TEXT = """
One lab node with eight simulated ports (OFED flavour) under emulation; the same policy by `roce_node`
(`tests/benchmarks/ours.yml`) and by plain tasks that read and set one setting of one port each
(`tests/benchmarks/plain/site.yml`). *Processes* are all that were started on the node meanwhile, those of sshd and of
Ansible's own included. *Converge* starts from factory settings, *no change* from the policy. `make bench` measures
anew.
"""


@dataclass(frozen=True)
class Figures:
    """One run: what it cost on the control node, processes started on the node, and tasks of the recap."""

    cost: Cost
    processes: int
    changed: int

    @property
    def tasks(self) -> int:
        """Number of tasks in the output."""
        return len(re.findall(r"^TASK ", self.cost.output, re.MULTILINE))


@pytest.fixture(scope="module")
def lab() -> t.Iterator[Lab]:
    """One bare node with eight ports."""
    with Lab("bench", Shape(nodes=1, rails=8, flavour="ofed", memory=1536), owner_pid=os.getpid()) as lab_:
        lab_.up()
        lab_.node(1).check("modprobe -a rdma_cm rdma_ucm && ls /sys/kernel/config/rdma_cm")
        yield lab_


def measured(lab: Lab, which: str, *words: str) -> Figures:
    """Run one of the two playbooks."""
    before = _forks(lab)
    cost = playbook(lab.inventory.parent, PLAYBOOKS[which], *words)
    changed = sum(map(int, re.findall(r"\bchanged=(\d+)", cost.output)))
    return Figures(cost, _forks(lab) - before, changed)


def _forks(lab: Lab) -> int:
    found = re.search(r"^processes (\d+)", lab.node(1).check("cat /proc/stat"), re.MULTILINE)
    assert found
    return int(found.group(1))


def test_eight_ports(lab: Lab) -> None:
    figures: dict[tuple[str, str], Figures] = {}
    for which in ("plain", "ours"):
        figures[which, "converge"] = measured(lab, which)
        assert figures[which, "converge"].changed > 0
        figures[which, "no change"] = measured(lab, which)
        figures[which, "no change, check mode"] = measured(lab, which, "--check")
        for what in ("no change", "no change, check mode"):
            assert figures[which, what].changed == 0, figures[which, what].cost.output
        lab.node(1).reboot()
        lab.node(1).check("modprobe -a rdma_cm rdma_ucm")
    rows: list[list[t.Any]] = [["run", "by", "tasks", "wall", "processes on the node", "plain / ours"]]
    for what in ("converge", "no change", "no change, check mode"):
        ratio = figures["plain", what].cost.wall_s / figures["ours", what].cost.wall_s
        for which in ("plain", "ours"):
            one = figures[which, what]
            rows.append([what, which, one.tasks, f"{one.cost.wall_s:.1f} s", one.processes, f"{ratio:.1f}"])
    page("configuration", "Configuring a node of eight ports", TEXT, rows)


LOCAL_TEXT = """
`roce_node` in check mode on hosts with a local connection and tools that answer at once: what is left is the cost of
the control node. Twenty forks. *CPU* is that of ansible-playbook and all its children.
"""


def test_many_hosts(tmp_path: Path) -> None:
    rows: list[list[t.Any]] = [["hosts", "wall", "CPU", "CPU a host", "largest process"]]
    for count in (1, 10, 100):
        inventory = tmp_path / f"{count}.yml"
        hosts = "".join(f"        h{number}: {{}}\n" for number in range(count))
        inventory.write_text((HERE / "local" / "hosts.yml").read_text().replace("        HOSTS\n", hosts))
        path = f"{HERE / 'local'}:{os.environ['PATH']}"
        cost = playbook(inventory, PLAYBOOKS["ours"], "--check", "--forks", "20", PATH=path)
        assert "changed=0" in cost.output and "failed=0" in cost.output and "changed=1" not in cost.output
        cells = (f"{cost.wall_s:.1f} s", f"{cost.cpu_s:.1f} s", f"{cost.cpu_s / count:.2f} s")
        rows.append([count, *cells, f"{cost.peak_mib:.0f} MiB"])
    page("hosts", "Cost of the control node", LOCAL_TEXT, rows)
