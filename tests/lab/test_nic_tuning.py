# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NIC tuning by four calls, and ports of other kinds: a VLAN and a bond, both made for real."""

from __future__ import annotations

import typing as t

import pytest
import stock
from roce_lab import Lab, Node
from run_ansible import PORTS, Ansible, Bootstrap

PORT = "ens1np0"
TUNING = {
    "rings": {"rx": 4096, "tx": 2048},
    "channels": {"combined": 12},
    "coalesce": {"adaptive_rx": False, "rx_usecs": 3, "rx_frames": 16},
    "features": {"generic-receive-offload": False, "rx-gro-list": True},
    "priv_flags": {"rx_cqe_compress": True, "skb_tx_mpwqe": False},
    "pause": True,
}
BEFORE = {
    "rings": {"rx": 1024, "tx": 1024},
    "channels": {"combined": 8},
    "coalesce": {"adaptive_rx": True},
    "features": {"generic-receive-offload": True, "rx-gro-list": False},
    "priv_flags": {"rx_cqe_compress": False, "skb_tx_mpwqe": True},
    "pause": False,
}


@pytest.fixture(scope="module")
def port(lab: Lab, bootstrap: Bootstrap, ansible: Ansible) -> t.Iterator[Node]:
    """The node whose ports these tests change; it is put right afterwards."""
    assert bootstrap.first.rc == 0, bootstrap.first.output
    yield lab.node(1)
    repair = ansible.drift(enforce=True)
    assert repair.rc == 0, repair.output


def text(node: Node, option: str) -> str:
    """What ethtool prints, as words."""
    return " ".join(node.check(f"ethtool {option} {PORT}").split())


def test_all_of_it_by_four_calls(ansible: Ansible, port: Node) -> None:
    """PFC has to go first: a port does one or the other."""
    assert ansible.module("node1", "pfc", {"ports": [PORT], "enabled_prios": []})["changed"]
    try:
        call = {"ports": [PORT], **TUNING}
        results = [ansible.module("node1", "nic_tuning", call, check=check) for check in (True, False, False, True)]
        assert [result["changed"] for result in results] == [True, True, False, False], results
        predicted, done, again, _last = results
        for key in ("diff", "commands", "ports"):
            assert predicted[key] == done[key], key
        assert again["commands"] == []
        judged = [finding for finding in again["findings"] if finding["check"] != "on_disk"]
        assert [finding["verdict"] for finding in judged] == ["pass"] * 6
        assert "RX: 4096" in text(port, "-g") and "TX: 2048" in text(port, "-g")
        assert text(port, "-l").endswith("Combined: 12")
        assert "Adaptive RX: off" in text(port, "-c") and "rx-usecs: 3 rx-frames: 16" in text(port, "-c")
        assert "generic-receive-offload: off" in text(port, "-k") and "rx-gro-list: on" in text(port, "-k")
        assert "rx_cqe_compress : on" in text(port, "--show-priv-flags")
        assert stock.pause(port, PORT) == (True, True)
    finally:
        back = ansible.module("node1", "nic_tuning", {"ports": [PORT], **BEFORE})
    assert not back.get("failed") and back["changed"], back


def test_what_the_device_cannot_do_is_refused_before_anything_is_applied(ansible: Ansible, port: Node) -> None:
    before = text(port, "-g") + text(port, "-l") + text(port, "-k")
    for wrong, said in (
        ({"rings": {"rx": 16384}}, "rings: rx is 16384 … at most 8192 was expected"),
        ({"features": {"rx-vlan-filter": True}}, "rx-vlan-filter is fixed off by the driver"),
    ):
        result = ansible.module("node1", "nic_tuning", {"ports": PORTS, "rings": {"tx": 4096}, **wrong})
        assert result["failed"] and said in result["msg"], result["msg"]
    assert text(port, "-g") + text(port, "-l") + text(port, "-k") == before


def test_channels_while_mqprio_holds_them(ansible: Ansible, port: Node) -> None:
    """Alone refused; in one policy mqprio lets go, the channels change, and mqprio comes back."""
    policy: dict[str, t.Any] = {"link_gbps": 0.05, "mqprio": _two_classes(4), "nic": {"channels": {"combined": 8}}}
    call = {"ports": [PORT], "policy": policy}
    try:
        assert not ansible.module("node1", "roce_node", call).get("failed")
        alone = ansible.module("node1", "nic_tuning", {"ports": [PORT], "channels": {"combined": 10}})
        assert alone["failed"] and "mqprio holds the present 8" in alone["msg"]
        policy |= {"mqprio": _two_classes(5), "nic": {"channels": {"combined": 10}}}
        results = [ansible.module("node1", "roce_node", call, check=check) for check in (True, False, True)]
        assert [result["changed"] for result in results] == [True, True, False], results
        assert results[0]["commands"] == results[1]["commands"]
        assert [words[0] for words in results[1]["commands"]] == ["tc", "ethtool", "tc"]
        assert stock.root_qdisc(port, PORT)["options"]["queues"] == [[0, 4], [5, 9]]
    finally:
        port.check(f"tc qdisc del dev {PORT} root; ethtool -L {PORT} combined 8")


def _two_classes(each: int) -> dict[str, t.Any]:
    queues = [f"{each}@0", f"{each}@{each}"]
    return {"num_tc": 2, "map": [0, 1], "queues": queues, "hw": True, "mode": "channel"}


def test_a_vlan_is_refused_by_name_and_a_bond_is_set_port_by_port(ansible: Ansible, port: Node) -> None:
    port.check(f"ip link add {PORT}.100 link {PORT} type vlan id 100")
    try:
        result = ansible.module("node1", "roce_node", {"ports": [f"{PORT}.100"], "policy": {}})
        assert result["failed"] and f"is a VLAN on {PORT}; QoS belongs to the port: declare {PORT}" in result["msg"]
    finally:
        port.check(f"ip link del {PORT}.100")
    try:
        port.check(
            "rdma link del mlx5_0; rdma link del mlx5_1; ip link add bond0 type bond mode active-backup miimon 100;"
            f" for p in {' '.join(PORTS)}; do ip link set $p down; ip link set $p master bond0; done;"
            " ip link set bond0 up; rdma link add mlx5_bond_0 type rxe netdev bond0;"
            f" dcb pfc set dev {PORTS[1]} prio-pfc all:off; ip link set bond0 mtu 4200"
        )
        call = {"ports": ["mlx5_bond_0"], "policy": {"link_gbps": 0.05}}
        results = [ansible.module("node1", "roce_node", call, check=check) for check in (True, False, True)]
        assert [result["changed"] for result in results] == [True, True, False], results
        done = results[1]
        assert {name: sorted(state) for name, state in done["ports"].items()}["bond0"] == ["cma", "mtu"]
        assert stock.lossless_prios(port, PORTS[1]) == [3]
        assert [stock.mtu(port, name) for name in ("bond0", *PORTS)] == [9000] * 3
        not_of_the_bond = ("lldpad", "on_disk", "ecn", "traffic_class")
        assert {f["verdict"] for f in done["findings"] if f["check"] not in not_of_the_bond} == {"pass"}
    finally:
        port.ssh("rdma link del mlx5_bond_0; ip link del bond0")
        port.check("systemctl restart lab-hardware")  # the two RDMA devices, as the node had them
