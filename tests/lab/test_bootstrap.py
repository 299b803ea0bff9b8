# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A bare node becomes a node of the fabric; the stock tools are the judges."""

from __future__ import annotations

import pytest
import stock
from roce_lab import Lab
from run_ansible import PORTS, Ansible, Bootstrap


def test_check_mode_on_an_untouched_node_works_and_tells(bootstrap: Bootstrap) -> None:
    assert bootstrap.check.rc == 0, bootstrap.check.output
    assert bootstrap.check.recap("changed") > 0


def test_the_first_run_changes_and_passes(bootstrap: Bootstrap) -> None:
    assert bootstrap.first.rc == 0, bootstrap.first.output
    assert bootstrap.first.recap("changed") > 0


def test_the_second_run_changes_nothing(bootstrap: Bootstrap) -> None:
    assert bootstrap.second.rc == 0, bootstrap.second.output
    assert bootstrap.second.recap("changed") == 0, bootstrap.second.output


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("rail", [0, 1])
def test_the_stock_tools_agree(lab: Lab, bootstrap: Bootstrap, number: int, rail: int) -> None:
    assert bootstrap.first.rc == 0, bootstrap.first.output
    node, netdev = lab.node(number), PORTS[rail]
    assert stock.mtu(node, netdev) == 9000
    assert stock.dcb(node, "dcbx", netdev).get("host") is True
    assert stock.pause(node, netdev) == (False, False)
    mapping = stock.dscp_map(node, netdev)
    assert len(mapping) == 64 and mapping[26] == 3 and mapping[48] == 6
    ets = stock.dcb(node, "ets", netdev)
    assert ets["prio_tc"] == [0, 0, 0, 3, 0, 0, 6, 0]
    assert (ets["tc_bw"][0], ets["tc_bw"][3], ets["tc_tsa"][6]) == (50, 50, "strict")
    assert stock.lossless_prios(node, netdev) == [3]
    assert stock.cma_tos(node, f"mlx5_{rail}") == 106
    assert node.check("ulimit -l -H").strip() == "unlimited"


def test_a_right_node_gets_no_command(ansible: Ansible, bootstrap: Bootstrap) -> None:
    result = ansible.module("node1", "roce_node", {"ports": PORTS, "policy": {"link_gbps": 0.05}})
    assert result["changed"] is False
    assert result["commands"] == []
