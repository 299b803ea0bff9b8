# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every module by four calls: check, real, real, check report changed, changed, unchanged, unchanged."""

from __future__ import annotations

import typing as t

import pytest
import stock
from roce_lab import Lab, Node
from run_ansible import Ansible, Bootstrap

PORT = "ens2np0"
HW0 = {"num_tc": 3, "map": [2, 2, 1, 0, 2, 2, 2, 2], "queues": ["1@0", "1@1", "8@2"]}


def four_calls(ansible: Ansible, name: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
    """Make the four calls and return the result of the real one."""
    call = {"ports": [PORT], **arguments}
    results = [ansible.module("node2", name, call, check=check) for check in (True, False, False, True)]
    for result in results:
        assert not result.get("failed"), result
    assert [result["changed"] for result in results] == [True, True, False, False]
    predicted, done, again, _last = results
    for key in ("diff", "commands", "ports"):
        assert predicted[key] == done[key], key
    assert again["commands"] == []
    return done


@pytest.fixture(scope="module")
def port(lab: Lab, bootstrap: Bootstrap, ansible: Ansible) -> t.Iterator[Node]:
    """The node whose second port these tests change; it is put right when all are done."""
    assert bootstrap.first.rc == 0, bootstrap.first.output
    yield lab.node(2)
    repair = ansible.drift(enforce=True)
    assert repair.rc == 0, repair.output


def test_port_mtu(ansible: Ansible, port: Node) -> None:
    four_calls(ansible, "port_mtu", {"mtu": 4200})
    assert stock.mtu(port, PORT) == 4200


def test_pfc(ansible: Ansible, port: Node) -> None:
    four_calls(ansible, "pfc", {"enabled_prios": [2, 4]})
    assert stock.lossless_prios(port, PORT) == [2, 4]


def test_ets(ansible: Ansible, port: Node) -> None:
    classes = [{"tc": 0, "prios": [0, 1, 2, 3], "bw": 30}, {"tc": 1, "prios": [4, 5, 6, 7], "bw": 70}]
    four_calls(ansible, "ets", {"classes": classes})
    ets = stock.dcb(port, "ets", PORT)
    assert ets["prio_tc"] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert ets["tc_bw"] == [30, 70, 0, 0, 0, 0, 0, 0]


def test_trust_dscp_with_another_map_and_back_to_pcp(ansible: Ansible, port: Node) -> None:
    four_calls(ansible, "trust", {"dscp_map": {"10": 5}})
    mapping = stock.dscp_map(port, PORT)
    assert len(mapping) == 64 and mapping[10] == 5 and mapping[48] == 6
    four_calls(ansible, "trust", {"trust": "pcp"})
    assert stock.dscp_map(port, PORT) == {}


def test_cma_roce(ansible: Ansible, port: Node) -> None:
    four_calls(ansible, "cma_roce", {"tos": 98})
    assert stock.cma_tos(port, "mlx5_1") == 98


def test_dcbx_is_taken_once(ansible: Ansible, port: Node) -> None:
    # mlx5 cannot be given back by dcb: the module finds it right already.
    assert ansible.module("node2", "dcbx", {"ports": [PORT]})["changed"] is False


def test_mqprio_both_ways_that_work(ansible: Ansible, port: Node) -> None:
    """hw 0; then channel mode with ten channels; then none: each by del and add."""
    try:
        port.check(f"ethtool -L {PORT} combined 10")
        four_calls(ansible, "mqprio", HW0)
        assert stock.root_qdisc(port, PORT)["options"]["queues"] == [[0, 0], [1, 1], [2, 9]]
        done = four_calls(ansible, "mqprio", {**HW0, "hw": True, "mode": "channel"})
        assert [command[2] for command in done["commands"]] == ["del", "add"]
        assert stock.root_qdisc(port, PORT)["options"]["mode"] == "channel"
        eight = {"ports": [PORT], "num_tc": 8, "map": [0, 1, 2, 3, 4, 5, 6, 7], "hw": True}
        assert ansible.module("node2", "mqprio", eight)["changed"]
        assert not ansible.module("node2", "mqprio", eight)["changed"]
        assert stock.root_qdisc(port, PORT)["options"]["tc"] == 8
        four_calls(ansible, "mqprio", {"state": "absent"})
        assert stock.root_qdisc(port, PORT).get("kind") != "mqprio"
    finally:
        port.ssh(f"tc qdisc del dev {PORT} root; ethtool -L {PORT} combined 8")


def test_the_copied_mqprio_line_is_refused_by_driver_and_module(ansible: Ansible, port: Node) -> None:
    line = f"tc qdisc add dev {PORT} root mqprio num_tc 3 map 2 2 1 0 2 2 2 2 queues 1@0 1@1 8@2 hw 1"
    assert port.ssh(line).rc != 0
    before = stock.root_qdisc(port, PORT)
    result = ansible.module("node2", "mqprio", {"ports": [PORT], **HW0, "hw": True})
    assert result["failed"]
    assert "hw 0" in result["msg"] and "mode channel" in result["msg"] and "combined channels" in result["msg"]
    assert stock.root_qdisc(port, PORT) == before


def test_roce_node_on_a_port_at_factory_defaults(ansible: Ansible, lab: Lab, port: Node) -> None:
    port.check(f"dcb pfc set dev {PORT} prio-pfc all:off; dcb app flush dev {PORT}; ethtool -A {PORT} rx on tx on")
    port.check(f"ip link set dev {PORT} mtu 1500")
    four_calls(ansible, "roce_node", {"policy": {"link_gbps": 0.05}})
    assert stock.lossless_prios(port, PORT) == [3]
    assert stock.pause(port, PORT) == (False, False)
