# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Firmware parameters by layer, on the lab's stand-in for mstconfig (image/rootfs/usr/local/bin)."""

from __future__ import annotations

import re
import typing as t

import pytest
from roce_lab import Node
from run_ansible import Ansible

FIRST, SECOND = "0000:17:00.0", "0000:31:00.0"
STATE = "/var/lib/lab-mstconfig"
JOB = "setsid ib_write_bw -d mlx5_0 --run_infinitely -F {} >/dev/null 2>&1 </dev/null &"


@pytest.fixture
def node(node2: Node) -> t.Iterator[Node]:
    """A node whose cards are at factory defaults before and after."""
    node2.check(f"rm -rf {STATE} /run/lossless-roce; mkdir -p {STATE}")
    yield node2
    node2.check(f"rm -rf {STATE} /run/lossless-roce")


def layers(node: Node, pci: str, name: str) -> list[str]:
    """Default, current and next boot, by the tool itself."""
    row = re.search(rf"^.*\b{name}\b(.*)$", node.check(f"mstconfig -d {pci} -e query {name}"), re.MULTILINE)
    assert row, name
    return row.group(1).split()


def verdicts(result: dict[str, t.Any], check: str = "firmware_parameter") -> dict[str, str]:
    """Port -> verdict."""
    return {finding["port"]: finding["verdict"] for finding in result["findings"] if finding["check"] == check}


def test_written_for_the_next_boot_and_loaded_by_a_reset(ansible: Ansible, node: Node) -> None:
    call: dict[str, t.Any] = {"parameters": {"CNP_DSCP_P1": 46, "LINK_TYPE_P1": "ETH"}, "minimum_version": "22.39.1002"}
    planned, done, again = (
        ansible.module("node2", "mlx5_firmware", call, check=check) for check in (True, False, False)
    )
    assert [result["changed"] for result in (planned, done, again)] == [True, True, False]
    assert planned["commands"] == done["commands"] and planned["diff"] == done["diff"]
    assert done["commands"][0] == ["mstconfig", "-d", FIRST, "-y", "set", "CNP_DSCP_P1=46"]
    assert layers(node, SECOND, "CNP_DSCP_P1") == ["48", "48", "46"]
    assert again["reset_pending"] == [FIRST, SECOND]
    assert set(verdicts(again, "firmware_version").values()) == {"pass"}
    pending = next(finding for finding in again["findings"] if finding["verdict"] == "pending")
    assert (pending["layers"]["running"], pending["layers"]["next_boot"]) == ("48", "46")

    reset = ansible.module("node2", "mlx5_firmware", {**call, "devices": ["mlx5_0"], "reset": "if_pending"})
    assert reset["commands"] == [["mstfwreset", "-d", FIRST, "-y", "reset"]]
    assert layers(node, FIRST, "CNP_DSCP_P1") == ["48", "46", "46"]
    assert layers(node, SECOND, "CNP_DSCP_P1") == ["48", "48", "46"]
    assert verdicts(reset) == {"ens1np0": "pass"}


def test_what_is_refused_and_what_goes_on(ansible: Ansible, node: Node) -> None:
    call = {"parameters": {"CNP_DSCP_P1": 46, "NO_SUCH_P1": 1}}
    result = ansible.module("node2", "mlx5_firmware", call)
    assert result["failed"] and "NO_SUCH_P1" in result["msg"] and FIRST in result["msg"]
    result = ansible.module("node2", "mlx5_firmware", {"parameters": {"CNP_DSCP_P1": 46, "NUM_OF_PLANES_P1": 2}})
    assert result["failed"] and "read only" in result["msg"]
    assert layers(node, FIRST, "CNP_DSCP_P1") == ["48", "48", "48"]

    node.check(f"echo unsupported > {STATE}/{FIRST}.fault")
    result = ansible.module("node2", "mlx5_firmware", {"parameters": {"CNP_DSCP_P1": 46}})
    assert "Unsupported device" in result["skipped_devices"][FIRST]
    assert verdicts(result) == {"ens2np0": "pending"}
    node.check(f"echo refuse > {STATE}/{FIRST}.fault")
    result = ansible.module("node2", "mlx5_firmware", {"parameters": {"CNP_DSCP_P1": 45}})
    assert result["failed"] and "BAD_PARAM" in result["msg"]
    assert layers(node, SECOND, "CNP_DSCP_P1") == ["48", "48", "45"]


def test_a_reset_is_refused_under_a_job_and_below_the_management_connection(
    ansible: Ansible, node: Node, node1: Node
) -> None:
    call = {"parameters": {"CNP_DSCP_P1": 46}, "reset": "if_pending"}
    node.check(JOB.format(""))
    node1.check(f"sleep 3; {JOB.format(node.address())} sleep 6")
    node.check("ip route add default via 10.101.0.1 dev ens2np0 metric 5000")
    try:
        result = ansible.module("node2", "mlx5_firmware", call)
    finally:
        node.check("ip route del default via 10.101.0.1 dev ens2np0 metric 5000")
        for host in (node1, node):
            host.ssh("pkill ib_write_bw")
    assert not any(command[0] == "mstfwreset" for command in result["commands"])
    causes = {finding["port"]: finding["cause"] for finding in result["findings"]}
    assert "ib_write_bw" in causes["ens1np0"] and "management connection" in causes["ens2np0"]
    assert layers(node, FIRST, "CNP_DSCP_P1") == ["48", "48", "46"]


@pytest.mark.full
def test_a_reboot_loads_what_was_pending(ansible: Ansible, node: Node) -> None:
    call = {"parameters": {"CNP_DSCP_P1": 46}}
    assert ansible.module("node2", "mlx5_firmware", call)["reset_pending"] == [FIRST, SECOND]
    node.reboot()
    result = ansible.module("node2", "mlx5_firmware", call)
    assert not result["changed"] and result["reset_pending"] == []
    assert set(verdicts(result).values()) == {"pass"}
    run = ansible.drift(enforce=True)
    assert run.rc == 0, run.output
