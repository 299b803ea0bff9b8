# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Known pitfalls, made to happen on a node: each is named with cause and remedy, and a right node has none."""

from __future__ import annotations

import typing as t

import pytest
from roce_lab import Node
from run_ansible import Ansible

Found = dict[tuple[str, str], dict[str, t.Any]]

JOB = r"""#!/bin/sh
export NCCL_IB_TC=26
export NCCL_IB_HCA=mlx5_1
echo 1 > /sys/class/net/ens1np0/queues/tx-0/pfc_enable
echo 106> /sys/class/infiniband/mlx5_0/tc/1/traffic_class
nethogs ens1np0
"""
COUNTERS = "/sys/kernel/debug/mlx5sim/0000:17:00.0/counters"
# Growing for as long as the file is there.
GROWING = "/run/growing"
COUNT = (
    f"value=0; while [ -e {GROWING} ]; do value=$((value + 1));"
    f" echo rx_discards_phy=$value out_of_sequence=$value > {COUNTERS}; sleep 0.5; done"
)
DROP = (
    "nft add table inet fault && nft add chain inet fault in '{ type filter hook input priority 0; }'"
    " && nft add rule inet fault in udp dport 4791 drop"
)


def diagnosed(ansible: Ansible, node: Node, *paths: str) -> Found:
    """Failed findings of one node, by check and port."""
    ports = [{"name": f"ens{rail + 1}np0", "rail": rail, "address": node.address(rail)} for rail in (0, 1)]
    arguments = {"ports": ports, "policy": {"link_gbps": 0.05}, "review": list(paths), "interval": 3}
    result = ansible.module(node.name, "roce_diagnose", arguments)
    assert "findings" in result, result
    failed = [finding for finding in result["findings"] if finding["verdict"] == "fail"]
    for finding in failed:
        assert finding["cause"] and finding["remedy"], finding
    return {(finding["check"], finding["port"]): finding for finding in failed}


def test_a_right_node_has_no_failed_finding_and_nothing_is_touched(ansible: Ansible, node1: Node, node2: Node) -> None:
    carrier = node1.check("cat /sys/class/net/ens*np0/carrier_changes")
    run = ansible.playbook("diagnose")
    assert run.rc == 0 and run.recap("changed") == 0, run.output
    found = ansible.findings("diagnose")
    assert [f for f in found if f["verdict"] == "fail"] == []
    assert {"pfc", "pfc_agrees", "counters", "gid", "iommu", "firmware_reset", "memlock", "firewall"} <= {
        f["check"] for f in found if f["verdict"] == "pass"
    }
    assert node1.check("cat /sys/class/net/ens*np0/carrier_changes") == carrier


def test_many_pitfalls_at_once(ansible: Ansible, node1: Node, restored: None) -> None:
    node1.check(f"cat > /root/job.sh << 'END'\n{JOB}END")
    node1.check("printf 'NCCL_NTHREADS=4\\n' > /etc/nccl.conf")
    node1.check("ip link set dev ens1np0 mtu 1500 && dcb pfc set dev ens1np0 prio-pfc all:off")
    node1.check("dcb app del dev ens2np0 dscp-prio 26:3")
    node1.check(DROP)
    node1.check(f"touch {GROWING}; ({COUNT}) > /dev/null 2>&1 < /dev/null &")
    try:
        found = diagnosed(ansible, node1, "/root/job.sh")
    finally:
        node1.check(f"rm -f {GROWING} /root/job.sh /etc/nccl.conf; nft delete table inet fault")
    assert {
        ("mtu", "ens1np0"),
        ("rdma_mtu", "ens1np0"),
        ("pfc", "ens1np0"),
        ("pfc_agrees", ""),
        ("trust", "ens2np0"),
        ("trust_agrees", ""),
        ("counters", "ens1np0"),
    } <= set(found)
    assert "rx_discards_phy" in found["counters", "ens1np0"]["cause"]
    assert "not lossless" in found["counters", "ens1np0"]["cause"]
    firewall = next(finding for (check, _port), finding in found.items() if check == "firewall")
    assert "4791" in str(firewall) and "fault" in str(firewall)
    texts = " | ".join(str(finding) for finding in found.values())
    assert "pfc_enable" in str(found["advice", ""]) or "nethogs" in str(found["advice", ""])
    assert "/root/job.sh" in texts


def test_pitfalls_of_variables_and_scripts_are_all_named(ansible: Ansible, node1: Node) -> None:
    node1.check(f"cat > /root/job.sh << 'END'\n{JOB}END")
    node1.check("printf 'NCCL_NTHREADS=4\\n' > /etc/nccl.conf")
    try:
        arguments = {"ports": [], "policy": {}, "review": ["/root/job.sh"], "interval": 0}
        result = ansible.module("node1", "roce_diagnose", arguments)
    finally:
        node1.check("rm -f /root/job.sh /etc/nccl.conf")
    causes = " | ".join(finding["cause"] for finding in result["findings"] if finding["verdict"] == "fail")
    for words in (
        "NCCL does not take NCCL_NTHREADS=4",
        "it is the whole byte, DSCP * 4, and not the DSCP",
        "the kernel has no such file",
        "RDMA traffic bypasses the kernel's network stack",
        "nothing is written into the file",
    ):
        assert words in causes, causes


@pytest.mark.full
def test_a_lost_address_and_a_lost_device(ansible: Ansible, node1: Node) -> None:
    address = node1.address(0)
    node1.check(f"ip address del {address}/24 dev ens1np0 && ip address add 169.254.7.7/16 dev ens1np0")
    node1.check("rdma link delete mlx5_1")
    try:
        found = diagnosed(ansible, node1)
    finally:
        node1.check(f"ip address del 169.254.7.7/16 dev ens1np0; ip address add {address}/24 dev ens1np0")
        node1.check("rdma link add mlx5_1 type rxe netdev ens2np0")
        node1.check("mkdir -p /sys/kernel/config/rdma_cm/mlx5_1")
    assert "169.254.7.7 (autoconfiguration)" in found["address", "ens1np0"]["cause"]
    assert f"no RoCE v2 GID stands for {address}" in found["gid", "ens1np0"]["cause"]
    assert "is no RDMA port of this node" in found["port", "ens2np0"]["cause"]
    run = ansible.drift(enforce=True)
    assert run.rc == 0, run.output
