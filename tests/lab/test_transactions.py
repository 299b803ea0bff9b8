# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""When a driver ignores or refuses a change: that port is as it was, the others go on."""

from __future__ import annotations

import re
import typing as t

import pytest
import stock
from roce_lab import Node
from run_ansible import PORTS, Ansible

FAULT = "/sys/kernel/debug/mlx5sim/{}/fault"


@pytest.fixture
def broken(node1: Node, restored: None) -> t.Iterator[t.Callable[[str], None]]:
    """Sets a fault on the first port of node1; all faults are cleared at the end."""
    address = node1.check("basename $(readlink -f /sys/class/net/ens1np0/device)").strip()

    def set_fault(fault: str) -> None:
        node1.check(f"echo {fault} > {FAULT.format(address)}")

    yield set_fault
    set_fault("none")


@pytest.mark.parametrize("fault", ["pfc=ignore", "pfc=refuse", "ets=ignore", "ets=refuse", "app=ignore"])
def test_the_port_is_as_it_was_and_the_other_goes_on(
    ansible: Ansible, node1: Node, broken: t.Callable[[str], None], fault: str
) -> None:
    setting = {"pfc": "pfc", "ets": "ets", "app": "trust"}[fault.partition("=")[0]]
    before = _picture(node1)
    broken(fault)
    policy = {
        "data_prio": 4,
        "data_dscp": 27,
        "ets": [{"tc": 0, "prios": [0, 1, 2, 3, 5, 6, 7], "bw": 40}, {"tc": 4, "prios": [4], "bw": 60}],
    }
    result = ansible.module("node1", "roce_node", {"ports": PORTS, "policy": policy})
    assert result["failed"]
    assert list(result["failed_ports"]) == ["ens1np0"]
    failure = result["failed_ports"]["ens1np0"]
    assert failure["rolled_back"] and failure["left_over"] == {}, failure
    if fault.endswith("ignore"):
        assert f"{setting} reads back as" in failure["error"] and "was expected" in failure["error"]
    else:
        assert "Invalid argument" in failure["error"]
    assert _picture(node1) == before
    assert stock.lossless_prios(node1, "ens2np0") == [4]


def _picture(node: Node) -> dict[str, t.Any]:
    """What the transaction may have touched on the first port."""
    ets = stock.dcb(node, "ets", "ens1np0")
    return {
        "pfc": stock.lossless_prios(node, "ens1np0"),
        "dscp": stock.dscp_map(node, "ens1np0"),
        "ets": {key: ets[key] for key in ("tc_bw", "tc_tsa", "prio_tc")},
        "tos": stock.cma_tos(node, "mlx5_0"),
        "mtu": stock.mtu(node, "ens1np0"),
        "pause": stock.pause(node, "ens1np0"),
    }


def test_a_running_job_is_not_disturbed(ansible: Ansible, node1: Node, node2: Node, restored: None) -> None:
    job = "setsid ib_write_bw -d mlx5_0 --run_infinitely -F {} >/dev/null 2>&1 </dev/null &"
    node1.check(job.format(""))
    node2.check(f"sleep 3; {job.format(node1.address())} sleep 8")
    try:
        result = ansible.module("node1", "pfc", {"ports": PORTS, "enabled_prios": [1]})
        assert result["failed"]
        assert "busy" in result["failed_ports"]["ens1np0"]["error"]
        assert list(result["busy"]) == ["ens1np0"]
        assert re.search(r"mlx5_0 belong to ib_write_bw \(pid \d+\)", result["busy"]["ens1np0"])
        assert stock.lossless_prios(node1, "ens1np0") == [3]
        assert stock.lossless_prios(node1, "ens2np0") == [1]
        by_name = {"ports": PORTS, "enabled_prios": [2], "allow_busy": ["ens1np0"]}
        assert not ansible.module("node1", "pfc", by_name).get("failed")
        assert stock.lossless_prios(node1, "ens1np0") == [2]
        forced = ansible.module("node1", "pfc", {"ports": PORTS, "enabled_prios": [1], "when_busy": "force"})
        assert not forced.get("failed"), forced
        assert stock.lossless_prios(node1, "ens1np0") == [1]
    finally:
        for node in (node1, node2):
            node.ssh("pkill -9 ib_write_bw")


# Waits until a run holds the node's lock, and a moment longer; then kills the process that holds it.
KILLER = """
rm -f /run/killed
inode=$(stat -c %i /run/lossless-roce.lock)
for i in $(seq 600); do
  pid=$(awk -v end=":$inode" 'substr($6, length($6) - length(end) + 1) == end {print $5}' /proc/locks)
  [ -n "$pid" ] && break
  sleep 0.05
done
sleep DELAY
kill -9 $pid && touch /run/killed
"""


@pytest.mark.full
def test_a_killed_run_leaves_old_or_new_values_only(ansible: Ansible, node1: Node, restored: None) -> None:
    """Kill the module at several moments; each setting is at its former or its wanted value."""
    former, wanted = _picture(node1), {"pfc": [5], "tos": 170, "mtu": 8000}
    policy = {"data_prio": 5, "data_dscp": 42, "mtu": 8000}
    changed_and_killed = 0
    for delay in ("0.3", "0.7", "1.1", "1.5"):
        node1.ssh(
            "cat > /run/killer; setsid sh /run/killer >/dev/null 2>&1 </dev/null &",
            stdin=KILLER.replace("DELAY", delay),
        )
        ansible.module_that_may_die("node1", "roce_node", {"ports": ["ens1np0"], "policy": policy})
        seen = _picture(node1)
        for key, new in wanted.items():
            assert seen[key] in (former[key], new), (delay, key, seen[key])
        assert node1.ssh("ls /run/.lossless-roce* /etc/.lossless-roce* 2>/dev/null").out == ""
        changed_and_killed += node1.ssh("test -e /run/killed").rc == 0
        # The next run finds no lock in its way and brings the port to the policy.
        again = ansible.module("node1", "roce_node", {"ports": ["ens1np0"], "policy": {"link_gbps": 0.05}})
        assert not again.get("failed"), again
    assert changed_and_killed >= 2, "the runs were over before they were killed"
