# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What must not be done is refused by one clear message, and nothing has changed."""

from __future__ import annotations

import typing as t

import pytest
from roce_lab import Node
from run_ansible import PORTS, Ansible

PICTURE = (
    "for p in ens1np0 ens2np0; do for o in pfc ets app dcbx; do dcb -j $o show dev $p; done; ethtool -a $p; done;"
    " ip link"
)


@pytest.fixture
def untouched(node1: Node) -> t.Iterator[None]:
    """The node looks the same before and after."""
    before = node1.check(PICTURE)
    yield
    assert node1.check(PICTURE) == before


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ({"data_prio": 6}, "data_prio and cnp_prio are both 6"),
        ({"pause": True}, "pause is on and pfc is [3]"),
        ({"ets": [{"tc": 0, "prios": [0, 1, 2, 3, 4, 5, 6, 7], "bw": 90}]}, "add up to 90"),
        ({"dscp_map": {"26": 5}}, "sends DSCP 26 (data_dscp) to priority 5, and data_prio is 3"),
        ({"mtu": 1500}, "mtu 1500 is too small for rdma_mtu 4096"),
    ],
)
def test_a_policy_that_contradicts_itself(
    ansible: Ansible, untouched: None, policy: dict[str, t.Any], names: str
) -> None:
    result = ansible.module("node1", "roce_node", {"ports": PORTS, "policy": policy})
    assert result["failed"] and names in result["msg"]
    run = ansible.playbook("bootstrap", roce_policy=policy)
    assert run.rc != 0 and names in run.output.replace("\n", " ")
    assert "Install the RDMA tools" not in run.output, "refused before any host is touched"


def test_a_policy_with_nothing_in_it_is_the_usual_one(ansible: Ansible, untouched: None) -> None:
    for name, run in (
        ("drift", ansible.drift(roce_policy=None)),
        ("diagnose", ansible.playbook("diagnose", roce_policy=None)),
    ):
        assert "a mapping was expected" not in run.output, run.output
        mtus = [f for f in ansible.findings(name) if f["check"] == "mtu"]
        assert mtus and all(f["expected"] == {"mtu": 9000} for f in mtus), (name, run.output)


def test_an_unknown_port(ansible: Ansible, untouched: None) -> None:
    result = ansible.module("node1", "pfc", {"ports": ["ens9np0"], "enabled_prios": [3]})
    assert result["failed"] and "'ens9np0' is declared and is no RDMA port of this node" in result["msg"]
    assert "mlx5_0/ens1np0" in result["msg"]


@pytest.mark.parametrize("second", ["ens1np0", "mlx5_0"])
def test_two_policies_that_select_one_port(ansible: Ansible, untouched: None, second: str) -> None:
    groups = [{"ports": PORTS, "policy": {}}, {"ports": [second], "policy": {"mtu": 4200}}]
    result = ansible.module("node1", "roce_node", {"policies": groups})
    assert result["failed"]
    assert "mlx5_0/ens1np0 is selected by policies[0] and by policies[1]" in result["msg"]
    result = ansible.module("node1", "roce_node", {"policies": None})
    assert result["msg"] == "policies: null … ports and policy, or policies were expected"


def test_the_port_that_carries_the_management_connection(ansible: Ansible, node1: Node, untouched: None) -> None:
    node1.check("ip route add default via 10.100.0.2 dev ens1np0 metric 5000")
    try:
        result = ansible.module("node1", "pfc", {"ports": PORTS, "enabled_prios": [1]})
        assert result["failed"]
        assert "ens1np0: carries the management connection" in result["msg"]
        assert "allow_management" in result["msg"]
    finally:
        node1.check("ip route del default via 10.100.0.2 dev ens1np0 metric 5000")


def test_a_bandwidth_table_that_does_not_add_up(ansible: Ansible, untouched: None) -> None:
    result = ansible.module("node1", "ets", {"ports": PORTS, "classes": [{"tc": 0, "prios": list(range(8)), "bw": 99}]})
    assert result["failed"] and "add up to 99, 100 was expected" in result["msg"]
