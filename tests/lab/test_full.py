# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What needs a bigger lab or more time: `make test-full`."""

from __future__ import annotations

import threading
import typing as t

import pytest
from roce_lab import Node
from run_ansible import Ansible

pytestmark = pytest.mark.full


def test_all_sizes_as_people_run_it(ansible: Ansible, node1: Node, node2: Node) -> None:
    """-a --report_gbits, with iterations that end in time here; ten queue pairs are too much for Soft-RoCE.

    With fewer iterations the burst that the shaper lets through would be a part of 64 KiB messages that shows.
    """
    hosts = [
        {"name": node.name, "ports": [{"name": "ens1np0", "rail": 0, "address": node.address(0)}]}
        for node in (node1, node2)
    ]
    common = {"hosts": hosts, "all_sizes": True, "iterations": 60, "time_limit": 900, "link_gbps": 0.05}
    results: dict[str, dict[str, t.Any]] = {}

    def end(node: Node) -> None:
        arguments = {"name": node.name, "run": "all-sizes", **common}
        results[node.name] = ansible.module(node.name, "fabric_bandwidth", arguments, timeout=2000)

    other = threading.Thread(target=end, args=(node1,))
    other.start()
    end(node2)
    other.join()
    findings = [finding for result in results.values() for finding in result["findings"]]
    assert [(f["verdict"], f["observed"]["size"] >= 65536) for f in findings] == [("pass", True)] * 2, results
