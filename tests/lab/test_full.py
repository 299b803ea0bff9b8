# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What needs a bigger lab or more time: `make test-full`."""

from __future__ import annotations

import os
import threading
import typing as t

import pytest
from conftest import Ansible
from roce_lab import Lab, Node
from roce_lab.state import Shape

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[tuple[Lab, Ansible]]:
    """Four bare nodes with two rails."""
    with Lab("full", Shape(nodes=4, rails=2), owner_pid=os.getpid()) as lab:
        yield lab, Ansible(lab, tmp_path_factory.mktemp("full"))


def test_four_nodes_every_pair_and_a_limited_run(four: tuple[Lab, Ansible]) -> None:
    _lab, ansible = four
    first = ansible.playbook("bootstrap", timeout=1800)
    assert first.rc == 0, first.output
    verify = ansible.playbook("verify", timeout=1800, fabric_test_iterations=100)
    assert verify.rc == 0, verify.output
    pairs = {
        (f["observed"]["client"], f["observed"]["server"], f["observed"]["rail"])
        for f in ansible.findings("verify")
        if f["check"] == "ib_write_bw"
    }
    names = [f"node{number}" for number in range(1, 5)]
    assert pairs == {(c, s, rail) for c in names for s in names if c != s for rail in (0, 1)}
    limited = ansible.playbook("drift", "--limit", "node3")
    assert limited.rc == 0, limited.output
    assert {f["host"] for f in ansible.findings("drift")} == {"node3"}


def test_a_node_that_is_gone_is_a_finding_and_the_others_go_on(four: tuple[Lab, Ansible]) -> None:
    lab, ansible = four
    lab.node(4).kill()
    run = ansible.playbook("drift", timeout=1800)
    assert run.rc != 0
    failed = [f for f in ansible.findings("drift") if f["verdict"] == "fail"]
    assert [(f["host"], f["check"]) for f in failed] == [("node4", "reached")]


def test_all_sizes_as_people_run_it(ansible: Ansible, node1: Node, node2: Node) -> None:
    """-a --report_gbits, with iterations that end in time here; ten queue pairs are too much for Soft-RoCE."""
    hosts = [
        {"name": node.name, "ports": [{"name": "ens1np0", "rail": 0, "address": node.address(0)}]}
        for node in (node1, node2)
    ]
    common = {"hosts": hosts, "all_sizes": True, "iterations": 20, "time_limit": 500, "link_gbps": 0.05}
    results: dict[str, dict[str, t.Any]] = {}

    def end(node: Node) -> None:
        arguments = {"name": node.name, "run": "all-sizes", **common}
        results[node.name] = ansible.module(node.name, "fabric_bandwidth", arguments, timeout=1200)

    other = threading.Thread(target=end, args=(node1,))
    other.start()
    end(node2)
    other.join()
    findings = [finding for result in results.values() for finding in result["findings"]]
    assert [(f["verdict"], f["observed"]["size"] >= 65536) for f in findings] == [("pass", True)] * 2, results
