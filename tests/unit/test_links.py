# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Facts on ports, and the findings that follow."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks.links import check_ports, rates_by_netdev
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.info import gather
from sim_node import SimNode, SimPort

GIDS = {
    0: ("fe80:0000:0000:0000:0000:00ff:fe5d:4db8", "IB/RoCE v1"),
    1: ("fe80:0000:0000:0000:0000:00ff:fe5d:4db8", "RoCE v2"),
    2: ("0000:0000:0000:0000:0000:ffff:0a64:0001", "IB/RoCE v1"),
    3: ("0000:0000:0000:0000:0000:ffff:0a64:0001", "RoCE v2"),
}


@pytest.fixture
def node() -> SimNode:
    """One port with four GIDs."""
    node = SimNode({"ens1np0": SimPort("mlx5_0", mtu=9000)})
    node.files["/proc/self/limits"] = "Max locked memory         unlimited            unlimited            bytes\n"
    node.files["/sys/class/net/ens1np0/speed"] = "200000\n"
    node.files["/sys/module/mlx5_core/refcnt"] = "1\n"
    node.files["/sys/bus/pci/devices/0000:1b:00.0/vendor"] = "0x10de\n"
    node.files["/sys/bus/pci/devices/0000:1b:00.0/class"] = "0x030200\n"
    folder = "/sys/class/infiniband/mlx5_0/ports/1"
    for index, (gid, kind) in GIDS.items():
        node.files[f"{folder}/gids/{index}"] = gid + "\n"
        node.files[f"{folder}/gid_attrs/types/{index}"] = kind + "\n"
        node.files[f"{folder}/gid_attrs/ndevs/{index}"] = "ens1np0\n"
    node.files[f"{folder}/gids/4"] = "0000:0000:0000:0000:0000:0000:0000:0000\n"
    node.files[f"{folder}/hw_counters/out_of_sequence"] = "7\n"
    node.files[f"{folder}/hw_counters/lifespan"] = "10\n"
    return node


@pytest.mark.parametrize("address", ["10.100.0.1/24", "ens1np0", "10.100.0.256", "fe80::1", "١٠.0.0.1"])
def test_an_address_that_is_none_is_one_clear_error(node: SimNode, address: str) -> None:
    declared = [{"name": "ens9np0", "address": None}, {"name": "ens1np0", "address": address}]
    with pytest.raises(PolicyError, match=f"ports: ens1np0: address '{address}' … an IPv4 address"):
        check_ports(declared, gather(node), 200)


def verdicts(node: SimNode, address: str = "10.100.0.1", link_gbps: float | None = 200) -> dict[str, str]:
    """Check -> verdict of the port's findings."""
    declared = [{"name": "ens1np0", "address": address}]
    return {finding.check: finding.verdict for finding in check_ports(declared, gather(node), link_gbps)}


def test_a_port_is_held_against_the_rate_of_its_own_policy(node: SimNode) -> None:
    info = gather(node)
    for names in (["ens1np0"], ["mlx5_0"]):
        own = rates_by_netdev(info, [(names, 200), (["ens1np0"], 800)])
        found = check_ports([{"name": "ens1np0"}], info, 400, own)
        assert {f.check: f.verdict for f in found}["speed"] == "pass"
    assert rates_by_netdev(info, [(["ens9np0"], 200)]) == {}


def test_facts_of_a_port(node: SimNode) -> None:
    info = gather(node)
    (port,) = info["ports"]
    assert (port["ibdev"], port["netdev"], port["mtu"], port["rdma_mtu"]) == ("mlx5_0", "ens1np0", 9000, 4096)
    assert port["speed_gbps"] == 200
    assert port["counters"] == {"out_of_sequence": 7}, "lifespan is a control file"
    assert port["settings"]["pfc"] == {"enabled_prios": []}
    assert info["gpus"] == [{"pci": "0000:1b:00.0", "numa_node": None}]
    assert info["driver"] == {"flavour": "inbox", "version": ""}
    assert node.sets == [], "reading changes nothing"


def test_a_good_port_passes(node: SimNode) -> None:
    assert verdicts(node) == {"link": "pass", "speed": "pass", "gid": "pass", "memlock": "pass"}


@pytest.mark.parametrize(
    ("path", "text", "check"),
    [
        ("/sys/class/net/ens1np0/carrier", "0\n", "link"),
        ("/sys/class/net/ens1np0/speed", "100000\n", "speed"),
        ("/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3", "IB/RoCE v1\n", "gid"),
        ("/proc/self/limits", "Max locked memory  65536  8388608  bytes\n", "memlock"),
    ],
)
def test_each_fault_has_its_finding(node: SimNode, path: str, text: str, check: str) -> None:
    node.files[path] = text
    failed = [name for name, verdict in verdicts(node).items() if verdict == "fail"]
    assert failed == [check]


def test_what_is_not_known_is_not_passed(node: SimNode) -> None:
    assert verdicts(node, link_gbps=None)["speed"] == "unknown"
    node.files["/sys/class/net/ens1np0/speed"] = "-1\n"
    assert verdicts(node)["speed"] == "unknown"


def test_failures_carry_cause_and_remedy(node: SimNode) -> None:
    node.files["/sys/class/net/ens1np0/carrier"] = "0\n"
    found: list[t.Any] = check_ports([{"name": "ens1np0", "address": "10.100.0.9"}], gather(node), 400)
    for finding in found:
        if finding.verdict == "fail":
            assert finding.cause and finding.remedy and finding.evidence and finding.port == "ens1np0"
