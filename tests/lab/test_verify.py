# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Proof by packets: a good pair passes, and each fault is named with its place."""

from __future__ import annotations

import json
import typing as t
from xml.etree import ElementTree

import pytest
from roce_lab import Lab, Node
from run_ansible import Ansible

DROP = (
    "nft add table inet fault && nft add chain inet fault in '{ type filter hook input priority 0; }'"
    " && nft add rule inet fault in udp dport 4791 drop"
)
UNDO = "nft delete table inet fault"


@pytest.fixture(autouse=True)
def nothing_left(lab: Lab, node1: Node, node2: Node) -> t.Iterator[None]:
    """No test leaves a process of perftest behind."""
    yield
    for node in lab.nodes:
        assert node.ssh("pgrep -a ib_write_bw").out == ""


def bandwidth(ansible: Ansible, verdict: str) -> list[dict[str, t.Any]]:
    """Findings on bandwidth with a verdict, in the last report."""
    return [f for f in ansible.findings("verify") if f["check"] == "ib_write_bw" and f["verdict"] == verdict]


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.full)])
def test_a_good_pair_passes_each_time(ansible: Ansible, node1: Node, times: int) -> None:
    for _run in range(times):
        run = ansible.playbook("verify")
        assert run.rc == 0, run.output
        passed = bandwidth(ansible, "pass")
        # Two rails, both directions.
        assert sorted((f["observed"]["client"], f["observed"]["rail"]) for f in passed) == [
            ("node1", 0),
            ("node1", 1),
            ("node2", 0),
            ("node2", 1),
        ]
        for finding in passed:
            assert 0.045 <= finding["observed"]["gbps"] <= 0.0525
            assert finding["observed"]["rdma_mtu"] == 4096
            assert "--tclass=106" in finding["evidence"]
        assert {f["check"] for f in ansible.findings("verify")} >= {"path_mtu", "gid", "link", "pfc", "memlock"}
        mtus = [f for f in ansible.findings("verify") if f["check"] == "rdma_mtu" and "from" in f["observed"]]
        assert [(f["verdict"], f["observed"]["rdma_mtu"]) for f in mtus] == [
            ("pass", {"node1": 4096, "node2": 4096})
        ] * 4
        # One round of four steps, against the bytes of each at the link's rate.
        timing = json.loads((ansible.report / "report.json").read_text())["runs"]["verify"]["timing"]
        assert [one["round"] for one in timing["rounds"]] == [0]
        assert 0 < timing["ideal_s"] < timing["wall_s"] and timing["ratio"] > 1
    # The same for CI and monitoring.
    assert ElementTree.parse(ansible.report / "verify.junit.xml").getroot().get("failures") == "0"
    metrics = (ansible.report / "lossless_roce.prom").read_text()
    assert metrics.count('lossless_roce_bandwidth_gbps{run="verify",') == 4


def test_a_slow_link_fails_with_observed_and_expected(ansible: Ansible, node2: Node) -> None:
    node2.shape(0, 5)
    try:
        run = ansible.playbook("verify", fabric_test_iterations=50)
        assert run.rc != 0
        (slow,) = bandwidth(ansible, "fail")
        # What goes towards node2 on rail 0 is slow; the other way and the other rail are not.
        assert (slow["observed"]["client"], slow["observed"]["server"], slow["observed"]["rail"]) == (
            "node1",
            "node2",
            0,
        )
        assert slow["observed"]["gbps"] < 0.01
        assert slow["expected"] == {"min_gbps": 0.045, "link_gbps": 0.05}
        assert "of the link rate, 90% was expected" in slow["cause"]
        assert len(bandwidth(ansible, "pass")) == 3
    finally:
        node2.shape(0, 50)


def test_udp_4791_dropped_names_the_data_path_and_ends_in_time(ansible: Ansible, node2: Node) -> None:
    node2.check("apt-get install -y nftables", timeout=300)
    node2.check(DROP)
    try:
        run = ansible.playbook("verify", fabric_test_time_limit=8)
        assert run.rc != 0
        failed = bandwidth(ansible, "fail")
        assert len(failed) == 4
        for finding in failed:
            assert "the TCP exchange" in finding["cause"] and "RoCE" in finding["cause"]
            assert "4791" in finding["remedy"] and "ens" in finding["port"]
    finally:
        node2.check(UNDO)


def test_an_mtu_mismatch_is_named_before_any_bandwidth_test(ansible: Ansible, node2: Node, restored: None) -> None:
    node2.check("ip link set dev ens1np0 mtu 4200")
    run = ansible.playbook("verify")
    assert run.rc != 0
    paths = [f for f in ansible.findings("verify") if f["check"] == "path_mtu" and f["verdict"] == "fail"]
    assert len(paths) == 2
    for finding in paths:
        assert "9000" in finding["cause"] and "4200" in finding["cause"]
        assert "node1" in finding["cause"] and "node2" in finding["cause"]
    skipped = bandwidth(ansible, "skipped")
    assert {f["observed"]["rail"] for f in skipped} == {0}
    assert len(bandwidth(ansible, "pass")) == 2, "the other rail is tested all the same"


def test_a_silent_mtu_hole_is_measured(ansible: Ansible, lab: Lab, node1: Node) -> None:
    """Both ends have 9000 and something between them drops large frames."""
    node1.check("apt-get install -y nftables", timeout=300)
    node1.check(DROP.replace("udp dport 4791", "iifname ens1np0 meta length gt 3000"))
    try:
        peer = {"name": "node2", "address": lab.node(2).address(0), "netdev": "ens1np0", "rail": 0}
        result = ansible.module("node1", "path_mtu", {"name": "node1", "mtu": 9000, "peers": [peer]})
        finding = next(f for f in result["findings"] if f["check"] == "path_mtu")
        assert finding["verdict"] == "fail"
        assert 2900 <= finding["observed"]["mtu"] <= 3000
        assert "without a word" in finding["cause"]
    finally:
        node1.check(UNDO)


def test_one_host_alone_proves_nothing_and_says_so(ansible: Ansible, node1: Node) -> None:
    run = ansible.playbook("verify", "--limit", "node1")
    assert run.rc != 0
    failed = [f for f in ansible.findings("verify") if f["verdict"] == "fail"]
    assert [(f["host"], f["check"], f["port"]) for f in failed] == [
        ("node1", "ib_write_bw", "ens1np0"),
        ("node1", "ib_write_bw", "ens2np0"),
    ]
    assert "no other host took part at all" in failed[0]["cause"] and "--limit" in failed[0]["remedy"]


@pytest.mark.full
def test_ports_declared_by_their_rdma_device(ansible: Ansible, node1: Node) -> None:
    only = "{{ [roce_ports[0] | combine({'name': 'mlx5_0'})] }}"
    run = ansible.playbook("verify", fabric_test_ports=only, fabric_test_iterations=50)
    assert run.rc == 0, run.output
    assert len(bandwidth(ansible, "pass")) == 2


def test_a_host_that_cannot_take_part_is_named_and_nobody_waits_for_it(ansible: Ansible, node2: Node) -> None:
    """A port without an address on one host: that host fails by itself, and the other says that it was alone."""
    ports = (
        "{{ [roce_ports[0] | combine({'address': '' if inventory_hostname == 'node2' else roce_ports[0].address})] }}"
    )
    run = ansible.playbook("verify", fabric_test_ports=ports)
    assert run.rc != 0
    causes = {f["host"]: f["cause"] for f in ansible.findings("verify") if f["verdict"] == "fail"}
    assert "port ens1np0 has no address" in str(
        [f["cause"] for f in ansible.findings("verify") if f["host"] == "node2"]
    )
    assert "no other host took part" in causes["node1"]


def test_a_peer_that_is_not_there(ansible: Ansible, node1: Node) -> None:
    peer = {"name": "node9", "address": "10.100.0.99", "netdev": "ens1np0", "rail": 0}
    result = ansible.module("node1", "path_mtu", {"name": "node1", "mtu": 9000, "peers": [peer]})
    assert "does not answer" in result["findings"][0]["cause"]


@pytest.mark.full
def test_incast_is_collected_and_what_is_made_up_is_said_to_be(ansible: Ansible, node1: Node, node2: Node) -> None:
    """One sender is no incast, and proves nothing; launch, collection and differences are real."""
    incast = {"receiver": "node1", "rail": 1, "senders": ["node2"]}
    run = ansible.playbook(
        "verify", fabric_test_incast=incast, fabric_test_incast_duration=4, fabric_test_iterations=20
    )
    assert run.rc == 0, run.output
    (finding,) = [f for f in ansible.findings("verify") if f["check"] == "incast"]
    assert (finding["verdict"], finding["host"], finding["port"]) == ("unknown", "node1", "ens2np0")
    assert finding["observed"]["gbps"]["node2"] == pytest.approx(0.048, abs=0.01)
    assert finding["observed"]["deltas"]["receiver rx_prio3_bytes"] > 10_000_000
    assert "receiver np_cnp_sent" in finding["observed"]["simulated"]
    assert "made up by the simulated card" in finding["cause"]


def test_all_sizes_as_people_run_it(ansible: Ansible, lab: Lab, node1: Node) -> None:
    """-a -q 10 --report_gbits is among what can be asked for."""
    hosts = [
        {"name": node.name, "ports": [{"name": "ens1np0", "rail": 0, "address": node.address(0)}]} for node in lab.nodes
    ]
    arguments = {"name": "node1", "hosts": hosts, "qps": 10, "all_sizes": True, "iterations": 5, "time_limit": 120}
    for outcome in ansible.module("node1", "fabric_bandwidth", arguments, check=True)["outcomes"]:
        words = " ".join(outcome["command"])
        assert "ib_write_bw -d mlx5_0 -i 1" in words
        assert " -a " in words and " -q 10 " in words and "--report_gbits" in words


@pytest.mark.full
def test_rdma_cm_and_latency(ansible: Ansible, node1: Node) -> None:
    """A connection by rdma_cm before each test, and microseconds in place of Gb/s."""
    run = ansible.playbook(
        "verify",
        fabric_test_tool="ib_write_lat",
        fabric_test_iterations=50,
        fabric_test_rdma_cm=True,
        fabric_test_max_latency_usec=1e6,
    )
    assert run.rc == 0, run.output
    found = ansible.findings("verify")
    for check in ("rdma_cm", "ib_write_lat"):
        passed = [f["observed"] for f in found if f["check"] == check and f["verdict"] == "pass"]
        assert sorted((one["client"], one["rail"]) for one in passed) == [
            ("node1", 0),
            ("node1", 1),
            ("node2", 0),
            ("node2", 1),
        ]
    assert all(f["observed"]["latency_usec"] > 0 for f in found if f["check"] == "ib_write_lat")
