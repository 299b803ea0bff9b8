# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Faults in a fabric of four nodes are named, with their place: `make test-full`."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import typing as t

import leaf
import pytest
from roce_lab import Lab
from roce_lab.state import Shape
from run_ansible import Ansible

pytestmark = pytest.mark.full

# Four emulated nodes on two processors reach 50 Mb/s on two pairs at once only while nothing else runs.
MBITS, SLOW_MBITS = 20, 4
POLICY: dict[str, t.Any] = {"roce_policy": {"link_gbps": MBITS / 1000, "mtu": 9000}, "timeout": 1800}
# Short tests and an early end for what hangs: 50 messages of 64 KiB take 1.3 s, and 6.6 s where the link is slow.
QUICK: dict[str, t.Any] = {**POLICY, "fabric_test_iterations": 50, "fabric_test_time_limit": 15}


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[tuple[Lab, Ansible]]:
    """Four nodes with two rails, brought to the policy."""
    with Lab("full", Shape(nodes=4, rails=2, mbits=MBITS), owner_pid=os.getpid()) as lab:
        ansible = Ansible(lab, tmp_path_factory.mktemp("full"))
        run = ansible.playbook("bootstrap", **POLICY)
        assert run.rc == 0, run.output
        yield lab, ansible


@contextlib.contextmanager
def slow(lab: Lab, links: list[tuple[int, int]]) -> t.Iterator[None]:
    """Links, as (node, rail), that are slow towards the node for a while."""
    try:
        for number, rail in links:
            lab.node(number).shape(rail, SLOW_MBITS)
        yield
    finally:
        for number, rail in links:
            lab.node(number).shape(rail, MBITS)


def named(ansible: Ansible) -> list[dict[str, t.Any]]:
    """What the last report says explains the failures."""
    return [finding for finding in ansible.findings("verify") if finding["check"] == "fabric"]


def test_four_nodes_every_pair_and_a_limited_run(four: tuple[Lab, Ansible]) -> None:
    _lab, ansible = four
    verify = ansible.playbook("verify", **POLICY, fabric_test_iterations=100)
    assert verify.rc == 0, verify.output
    pairs = {
        (f["observed"]["client"], f["observed"]["server"], f["observed"]["rail"])
        for f in ansible.findings("verify")
        if f["check"] == "ib_write_bw"
    }
    names = [f"node{number}" for number in range(1, 5)]
    assert pairs == {(c, s, rail) for c in names for s in names if c != s for rail in (0, 1)}
    limited = ansible.drift("--limit", "node3", **POLICY)
    assert limited.rc == 0, limited.output
    assert {f["host"] for f in ansible.findings("drift")} == {"node3"}


def test_one_rail_of_one_node_is_slow(four: tuple[Lab, Ansible]) -> None:
    lab, ansible = four
    with slow(lab, [(3, 1)]):
        run = ansible.playbook("verify", **QUICK)
    assert run.rc != 0
    (finding,) = named(ansible)
    seen = finding["observed"]
    assert (seen["kind"], seen["hosts"], seen["rails"]) == ("port", ["node3"], [1]), finding
    assert seen["confidence"] == "confirmed" and finding["host"] == "node3"
    assert "that it receives fail" in finding["cause"]


def test_all_links_of_one_node_are_slow(four: tuple[Lab, Ansible]) -> None:
    lab, ansible = four
    with slow(lab, [(2, 0), (2, 1)]):
        run = ansible.playbook("verify", **QUICK)
    assert run.rc != 0
    (finding,) = named(ansible)
    seen = finding["observed"]
    assert (seen["kind"], seen["hosts"], seen["rails"]) == ("node", ["node2"], [0, 1]), finding
    assert seen["confidence"] == "confirmed"


def test_a_bad_leaf_is_told_from_bad_nodes_by_what_lldp_says(four: tuple[Lab, Ansible]) -> None:
    lab, ansible = four
    try:
        for node in lab.nodes:
            node.check("apt-get install -y lldpd", timeout=300)
            leaf.announce(node, "leaf1" if node.index < 3 else "leaf2")
        with slow(lab, [(number, rail) for number in (3, 4) for rail in (0, 1)]):
            run = ansible.playbook("verify", **QUICK)
    finally:
        for node in lab.nodes:
            node.check("apt-get purge -y lldpd", timeout=300)
    assert run.rc != 0
    (finding,) = named(ansible)
    seen = finding["observed"]
    assert (seen["kind"], seen["hosts"], seen["rails"]) == ("leaf", ["node3", "node4"], [0, 1]), finding
    assert finding["cause"].startswith("leaf leaf2 (node3, node4;"), finding


def test_one_pair_is_blocked(four: tuple[Lab, Ansible]) -> None:
    lab, ansible = four
    one, other = lab.node(1), lab.node(4)
    one.check("apt-get install -y nftables", timeout=300)
    addresses = ", ".join(other.address(rail) for rail in (0, 1))
    one.check(
        "nft add table inet fault && nft add chain inet fault in '{ type filter hook input priority 0; }'"
        f" && nft add rule inet fault in ip saddr '{{ {addresses} }}' udp dport 4791 drop"
    )
    try:
        run = ansible.playbook("verify", **QUICK)
    finally:
        one.check("nft delete table inet fault")
    assert run.rc != 0
    (finding,) = named(ansible)
    seen = finding["observed"]
    assert (seen["kind"], seen["hosts"], seen["rails"]) == ("pair", ["node1", "node4"], [0, 1]), finding
    assert seen["confidence"] == "confirmed"


def test_incast_on_a_shaped_port(four: tuple[Lab, Ansible]) -> None:
    """Three senders to one slow port: all of it is real but the counters that the simulated card makes up."""
    lab, ansible = four
    lab.node(1).shape(0, 8)
    try:
        run = ansible.playbook(
            "verify",
            fabric_test_scope="ring",
            fabric_test_iterations=20,
            fabric_test_retest=False,
            fabric_test_qp_timeout=20,
            fabric_test_incast={"receiver": "node1", "rail": 0, "senders": 3},
            fabric_test_incast_duration=8,
            **POLICY,
        )
    finally:
        lab.node(1).shape(0, MBITS)
    (finding,) = [f for f in ansible.findings("verify") if f["check"] == "incast"]
    seen = finding["observed"]
    assert (finding["host"], finding["port"]) == ("node1", "ens1np0"), run.output
    assert seen["senders"] == ["node2", "node3", "node4"]
    # All three share one link of 8 Mb/s, and its port counts no more than that; 5 % are the shaper's burst.
    assert 0.003 <= seen["gbps_received"] <= 0.0084, finding
    assert seen["gbps_total"] >= 0.005, finding
    # Their bytes arrived in the lossless class.
    assert seen["deltas"]["receiver rx_prio3_bytes"] > 4_000_000
    assert {"receiver np_cnp_sent", "senders rp_cnp_handled", "receiver rx_discards_phy"} <= set(seen["simulated"])
    assert not {name for name in seen["simulated"] if name.endswith("_bytes")}
    assert finding["verdict"] in ("unknown", "fail"), "nothing made up is a pass"
    for node in lab.nodes:
        assert node.ssh("pgrep -a ib_write_bw").out == ""


# The last two: the fourth node is off after them.


def test_a_node_powered_off_in_the_middle(four: tuple[Lab, Ansible]) -> None:
    lab, ansible = four
    started = threading.Event()

    def power_off() -> None:
        """As soon as the second round has begun: node4 has done its tests with one partner by then."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            status = lab.node(1).ssh("cat /run/lossless-roce-fabric.json").out
            if '"done": false' in status and any(f'"step": {step},' in status for step in range(4, 12)):
                started.set()
                lab.node(4).kill()
                return
            time.sleep(0.5)

    lab.node(1).check("rm -f /run/lossless-roce-fabric.json")
    thread = threading.Thread(target=power_off)
    thread.start()
    run = ansible.playbook("verify", **POLICY, fabric_test_iterations=200, fabric_test_time_limit=15)
    thread.join()
    assert started.is_set() and run.rc != 0, run.output
    gone = [finding for finding in named(ansible) if finding["observed"]["kind"] == "gone"]
    assert [finding["host"] for finding in gone] == ["node4"], named(ansible)
    assert named(ansible) == gone, "nobody else is blamed"
    seen = gone[0]["observed"]
    assert seen["since_step"] >= 4 and seen["time"].count(":") == 2
    assert f"node4 has not answered since step {seen['since_step']} ({seen['time']})" in gone[0]["cause"]
    others = {
        (f["observed"]["client"], f["observed"]["server"], f["observed"]["rail"])
        for f in ansible.findings("verify")
        if f["check"] == "ib_write_bw" and f["verdict"] == "pass"
    }
    three = [f"node{number}" for number in (1, 2, 3)]
    assert others >= {(c, s, rail) for c in three for s in three if c != s for rail in (0, 1)}, "the others finished"


def test_a_node_that_is_gone_is_a_finding_and_the_others_go_on(four: tuple[Lab, Ansible]) -> None:
    lab, ansible = four
    lab.node(4).kill()  # it may be off already
    run = ansible.drift(**POLICY)
    assert run.rc != 0
    failed = [f for f in ansible.findings("drift") if f["verdict"] == "fail"]
    assert [(f["host"], f["check"]) for f in failed] == [("node4", "reached")]
