# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Congestion control and buffers, on ports of either driver: by modules of their own and by the whole policy."""

from __future__ import annotations

import os
import typing as t

import pytest
import stock
from roce_lab import Lab, LabError, Node
from roce_lab.state import Shape
from run_ansible import Ansible, Bootstrap

PORT = "ens2np0"
ECN = f"/sys/class/net/{PORT}/ecn"
BUFFERS = {"prio_buffer": [0, 0, 0, 1, 0, 0, 0, 0], "buffer_size": [131072, 262144, 0, 0, 0, 0, 0, 0]}


def four_calls(ansible: Ansible, node: Node, name: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
    """Check, real, real, check; the result of the first real one."""
    call = {"ports": [PORT], **arguments}
    results = [ansible.module(node.name, name, call, check=check) for check in (True, False, False, True)]
    for result in results:
        assert not result.get("failed"), result
    assert [result["changed"] for result in results] == [True, True, False, False]
    for key in ("diff", "commands", "ports"):
        assert results[0][key] == results[1][key], key
    assert results[2]["commands"] == []
    return results[1]


def number(node: Node, path: str) -> int:
    """The number in a file."""
    return int(node.check(f"cat {path}"))


def cc_params(node: Node) -> str:
    """The folder of the kernel's own driver."""
    address = node.check(f"basename $(readlink -f /sys/class/net/{PORT}/device)").strip()
    return f"/sys/kernel/debug/mlx5/{address}/cc_params"


@pytest.fixture(scope="module")
def inbox(lab: Lab, bootstrap: Bootstrap, ansible: Ansible) -> t.Iterator[Node]:
    """A node with the kernel's own driver, at the policy; put right when all is done."""
    assert bootstrap.first.rc == 0, bootstrap.first.output
    node = lab.node(2)
    yield node
    node.check(f"echo none > /sys/kernel/debug/mlx5sim/{cc_params(node).split('/')[5]}/fault")
    result = ansible.module(node.name, "roce_node", {"ports": [PORT], "policy": {"dcqcn": "defaults"}})
    assert not result.get("failed"), result


def test_bootstrap_says_what_the_kernels_own_driver_lacks(ansible: Ansible, inbox: Node) -> None:
    result = ansible.module(inbox.name, "roce_node", {"ports": [PORT], "policy": {}})
    assert not result["changed"] and not result.get("failed")
    assert "ROCE_CC_PRIO_MASK" in result["not_applicable"][PORT]["ecn"]
    assert "NCCL_IB_TC" in result["not_applicable"][PORT]["traffic_class"]
    assert result["ports"][PORT]["cnp"] == {"interface": "inbox", "dscp": 48, "prio": 6, "prio_mode": 0}
    refused = ansible.module(inbox.name, "ecn", {"ports": [PORT], "enabled_prios": [3]})
    assert refused["failed"] and "ROCE_CC_PRIO_MASK" in refused["msg"]


def test_cnps_and_dcqcn_in_debugfs(ansible: Ansible, inbox: Node) -> None:
    folder = cc_params(inbox)
    four_calls(ansible, inbox, "ecn", {"cnp_dscp": 4, "cnp_prio": 5})
    assert (number(inbox, f"{folder}/np_cnp_dscp"), number(inbox, f"{folder}/np_cnp_prio")) == (4, 5)
    done = four_calls(ansible, inbox, "dcqcn", {"parameters": {"rpg_ai_rate": 20, "rpg_byte_reset": 4294967295}})
    assert done["ports"][PORT]["dcqcn"]["interface"] == "inbox"
    assert number(inbox, f"{folder}/rp_ai_rate") == 20 and number(inbox, f"{folder}/rp_byte_reset") == 4294967295
    ansible.module(inbox.name, "dcqcn", {"ports": [PORT], "state": "reset"})
    assert number(inbox, f"{folder}/rp_ai_rate") == 5 and number(inbox, f"{folder}/rp_byte_reset") == 32767


def test_cable_and_buffers(ansible: Ansible, inbox: Node) -> None:
    flaps = stock.carrier_changes(inbox, PORT)
    four_calls(ansible, inbox, "dcb_buffer", {"cable_length": 30, **BUFFERS})
    assert stock.dcb(inbox, "pfc", PORT)["delay"] == 30
    assert {key: stock.dcb(inbox, "buffer", PORT)[key] for key in BUFFERS} == BUFFERS
    assert stock.carrier_changes(inbox, PORT) == flaps, "neither of them drops the link"
    small = {**BUFFERS, "buffer_size": [131072, 65536, 0, 0, 0, 0, 0, 0]}
    refused = ansible.module(inbox.name, "dcb_buffer", {"ports": [PORT], **small})
    assert refused["failed"] and "buffer 1 holds lossless priority 3 and has 65536 bytes" in refused["msg"]
    # The way to other buffers for another priority keeps the driver's rules at each step.
    policy = {
        "data_prio": 4,
        "cable_length": 1,
        "buffers": {"prio_buffer": [0, 0, 0, 0, 2, 0, 0, 0], "buffer_size": [131072, 0, 131072, 0, 0, 0, 0, 0]},
    }
    done = ansible.module(inbox.name, "roce_node", {"ports": [PORT], "policy": policy})
    assert not done.get("failed"), done
    assert stock.lossless_prios(inbox, PORT) == [4] and stock.dcb(inbox, "pfc", PORT)["delay"] == 1
    back = ansible.module(inbox.name, "roce_node", {"ports": [PORT], "policy": {"cable_length": 7, "buffers": BUFFERS}})
    assert not back.get("failed"), back


@pytest.mark.parametrize("fault", ["cc=refuse", "cc=ignore", "buffer=ignore"])
def test_a_driver_that_refuses_or_ignores_is_rolled_back(ansible: Ansible, inbox: Node, fault: str) -> None:
    before = picture(inbox)
    knob = f"/sys/kernel/debug/mlx5sim/{cc_params(inbox).split('/')[5]}/fault"
    inbox.check(f"echo {fault} > {knob}")
    policy = {
        "cable_length": 20,
        "buffers": {**BUFFERS, "buffer_size": [131072, 300032, 0, 0, 0, 0, 0, 0]},
        "dcqcn": {"rpg_gd": 9},
    }
    result = ansible.module(inbox.name, "roce_node", {"ports": [PORT], "policy": policy})
    inbox.check(f"echo none > {knob}")
    assert result["failed"]
    failure = result["failed_ports"][PORT]
    assert failure["rolled_back"] and failure["left_over"] == {}, failure
    word = {"cc=refuse": "rp_gd", "cc=ignore": "dcqcn reads back as", "buffer=ignore": "buffers reads back as"}[fault]
    assert word in failure["error"]
    assert picture(inbox) == before


def picture(node: Node) -> dict[str, t.Any]:
    """What the transaction may have touched."""
    return {
        "buffer": stock.dcb(node, "buffer", PORT),
        "pfc": stock.dcb(node, "pfc", PORT)["delay"],
        "cc": node.check(f"cd {cc_params(node)} && grep . *"),
    }


@pytest.fixture(scope="module")
def ofed(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[tuple[Ansible, Node]]:
    """A bare node whose ports look like those of MLNX_OFED."""
    try:
        name = os.environ.get("LAB_NAME_OFED", "ofed")  # as LAB_NAME, for a lab of this flavour
        with Lab(name, Shape(nodes=1, rails=2, flavour="ofed"), owner_pid=os.getpid()) as lab_:
            lab_.up()
            yield Ansible(lab_, tmp_path_factory.mktemp("ofed")), lab_.node(1)
    except LabError as exc:
        pytest.fail(f"the lab cannot run here: {exc}", pytrace=False)


@pytest.mark.full
def test_the_driver_of_ofed(ofed: tuple[Ansible, Node]) -> None:
    ansible, node = ofed
    node.check(f"echo 0 > {ECN}/roce_rp/enable/3")
    policy = {"cnp_dscp": 4, "dscp_map": {"4": 6}, "dcqcn": {"rpg_ai_rate": 20}, "unmanaged": ["cma"]}
    done = ansible.module(node.name, "roce_node", {"ports": [PORT], "policy": policy})
    assert not done.get("failed") and done["changed"] and done["not_applicable"] == {}, done
    assert [number(node, f"{ECN}/roce_{side}/enable/3") for side in ("np", "rp")] == [1, 1]
    assert number(node, f"{ECN}/roce_np/cnp_dscp") == 4 and number(node, f"{ECN}/roce_rp/rpg_ai_rate") == 20
    tclass = "/sys/class/infiniband/mlx5_1/tc/1/traffic_class"
    assert node.check(f"cat {tclass}") == "Global tclass=106\n"
    four_calls(ansible, node, "ecn", {"enabled_prios": [3], "disabled_prios": [0, 5], "cnp_prio": 7})
    files = node.check(f"cat {ECN}/roce_rp/enable/*").split()
    assert files == ["0", "1", "1", "1", "1", "0", "1", "1"] and number(node, f"{ECN}/roce_np/cnp_802p_prio") == 7
    four_calls(ansible, node, "traffic_class", {"state": "absent"})
    assert node.check(f"cat {tclass}") == ""
    ansible.module(node.name, "dcqcn", {"ports": [PORT], "state": "reset"})
    assert number(node, f"{ECN}/roce_rp/rpg_ai_rate") == 5
