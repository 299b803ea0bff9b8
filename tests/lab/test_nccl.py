# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The smoke test of collectives on nodes without GPU and PyTorch: variables, rendezvous, and faults with a name.

A stand-in takes torchrun's place where a run has to go on: launcher, company and verdict are real.
"""

from __future__ import annotations

import time
import typing as t

import pytest
from roce_lab import Lab, Node
from run_ansible import Ansible

pytestmark = pytest.mark.full

# What `python3 -m torch.distributed.run` starts: a rank that reports, or that ends as the test wants.
STAND_IN = """
import json, os, sys, time
rank = int(sys.argv[sys.argv.index("--node-rank") + 1])
how = os.environ.get("HOW", "") if rank == 1 else ""
if how == "die":
    sys.exit("Root Cause (first observed failure):\\n[0]:\\n  time : 1\\n  host : x\\n"
             "  rank      : 1 (local_rank: 0)\\n  exitcode  : -9 (pid: 1)\\n")
time.sleep(1000 if how == "hang" or os.environ.get("HOW") == "die" else 1)
row = {"operation": "all_reduce", "size": 1024, "iterations": 1, "time_us": 1.0, "algbw": 1.0, "busbw": 1.0, "wrong": 0}
for event in ({"event": "facts", "rank": rank}, {"event": "ranks", "host": "node1", "ranks": 1},
              {"event": "ranks", "host": "node2", "ranks": 1}, {"event": "row", **row}, {"event": "end"}):
    print("@lossless-roce " + json.dumps(event))
"""
FOLDER = "/root/stand-in"


@pytest.fixture(autouse=True)
def nothing_left(lab: Lab, node1: Node, node2: Node) -> t.Iterator[None]:
    """No test leaves a process behind."""
    for node in lab.nodes:
        node.check(f"mkdir -p {FOLDER}/torch/distributed && touch {FOLDER}/torch/__init__.py")
        node.check(f"touch {FOLDER}/torch/distributed/__init__.py")
        assert node.ssh(f"cat > {FOLDER}/torch/distributed/run.py", stdin=STAND_IN).rc == 0
    yield
    for node in lab.nodes:
        assert node.ssh("pgrep -af '[t]orch.distributed.run'").out == ""
        node.check(f"rm -rf {FOLDER}")


def run(ansible: Ansible, how: str = "", *words: str, **variables: t.Any) -> list[dict[str, t.Any]]:
    """Findings of the playbook, with the stand-in; ``words`` go to its command line."""
    options = {
        "nccl_smoke_backend": "gloo",
        "nccl_smoke_end": 1024,  # the one size that the stand-in reports
        "nccl_smoke_environment": {"PYTHONPATH": FOLDER, "HOW": how},
        "nccl_smoke_barrier_limit": 60,
        "nccl_smoke_start_limit": 30,
        "nccl_smoke_time_limit": 60,
        "nccl_smoke_poll": 1,
        "nccl_smoke_write": False,
    }
    done = ansible.playbook("nccl", *words, **{**options, **variables})
    found = ansible.findings("nccl")
    assert (done.rc != 0) == any(f["verdict"] == "fail" for f in found), done.output
    return found


def failed(findings: list[dict[str, t.Any]]) -> list[tuple[str, str, str]]:
    return [(f["host"], f["check"], f["cause"]) for f in findings if f["verdict"] == "fail"]


@pytest.mark.parametrize("forks", ["5", "1"])  # with fewer forks than nodes, runs are in the background
def test_a_good_run_on_both_nodes(ansible: Ansible, forks: str) -> None:
    found = run(ansible, "", "--forks", forks)
    assert failed(found) == []
    assert {(f["host"], f["verdict"]) for f in found if f["check"] == "nccl_smoke"} == {
        ("node1", "pass"),
        ("node2", "pass"),
    }


def test_a_rank_that_dies_is_one_finding(ansible: Ansible) -> None:
    found = run(ansible, "die")
    ((host, check, cause),) = failed(found)
    assert (host, check) == ("node2", "nccl_smoke") and "rank 1 died: signal 9" in cause
    assert any(f["verdict"] == "skipped" and "node2 failed" in f["cause"] for f in found if f["host"] == "node1")


def test_a_wrong_interface_is_one_finding(ansible: Ansible) -> None:
    wrong = "{{ 'ens77' if inventory_hostname == 'node2' else 'ens1np0' }}"
    ((host, check, cause),) = failed(run(ansible, nccl_smoke_interface=wrong))
    assert (host, check) == ("node2", "nccl_rendezvous") and "ens77 is not on this host" in cause


def test_a_rank_that_never_starts_is_named_in_time(ansible: Ansible, lab: Lab) -> None:
    hosts = [{"name": node.name, "address": node.address(0)} for node in lab.nodes]
    arguments = {"name": "node1", "hosts": hosts, "run": "1", "interface": "ens1np0", "backend": "gloo", "ranks": "1"}
    start = time.monotonic()
    result = ansible.module("node1", "nccl_smoke", {**arguments, "barrier_limit": 5})
    assert time.monotonic() - start < 60, "5 s of waiting, some to tell the others, and Ansible itself"
    (finding,) = result["findings"]
    assert finding["verdict"] == "fail" and "node2 did not come to the start within 5 s" in finding["cause"]


def test_a_hanging_rank_ends_at_the_limit(ansible: Ansible) -> None:
    ((host, check, cause),) = failed(run(ansible, "hang", nccl_smoke_time_limit=31))
    assert (host, check) == ("node2", "nccl_smoke") and "ended after 31 s" in cause


def test_no_pytorch_is_said(ansible: Ansible) -> None:
    causes = {cause for _host, _check, cause in failed(run(ansible, nccl_smoke_environment={}))}
    assert causes == {"PyTorch is not installed for the Python that was started"}


def test_variables_are_written_once_and_other_lines_stay(ansible: Ansible, lab: Lab, node1: Node) -> None:
    ports = [{"name": "ens1np0", "address": node1.address(0)}, {"name": "ens2np0", "address": node1.address(1)}]
    arguments = {"ports": ports, "policy": {"mtu": 9000}, "interface": "ens1np0", "conf": "/root/nccl.conf"}
    arguments["env_file"] = "/root/nccl/nccl.env"
    node1.check("printf '# ours\\nNCCL_DEBUG=WARN\\nNCCL_IB_HCA=mlx5_0\\n' > /root/nccl.conf")
    try:
        results = [ansible.module("node1", "nccl_env", arguments, check=check) for check in (True, False, False, True)]
        assert [result["changed"] for result in results] == [True, True, False, False]
        assert results[0]["diff"] == results[1]["diff"] and results[0]["commands"] == results[1]["commands"]
        lines = node1.check("cat /root/nccl.conf").splitlines()
        assert lines[:3] == ["# ours", "NCCL_DEBUG=WARN", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"]
        assert {"NCCL_IB_TC=106", "NCCL_SOCKET_IFNAME==ens1np0"} <= set(lines)
        assert node1.check('set -a; . /root/nccl/nccl.env; echo "$NCCL_IB_HCA"') == "=mlx5_0:1,mlx5_1:1\n"
    finally:
        node1.check("rm -rf /root/nccl.conf /root/nccl")


def test_check_mode_runs_nothing_and_says_so(ansible: Ansible, node1: Node) -> None:
    written = "ls -l --full-time /etc/nccl.conf /etc/lossless-roce /var/log/lossless-roce"
    before = node1.ssh(written).out
    done = ansible.playbook("nccl", "--check", nccl_smoke_backend="gloo")
    assert done.rc == 0 and "nothing is run in check mode" in done.output, done.output
    assert node1.ssh(written).out == before
