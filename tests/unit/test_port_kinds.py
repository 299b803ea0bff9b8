# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every kind of port is supported, skipped or refused by name, with the reason."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import port_kinds
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.node import Options, converge
from ansible_collections.lossless.roce.plugins.module_utils.parsers.ib_tools import parse_ibstat
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port, find_ports, select_ports
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import SETTINGS, policy_state
from sim_node import SimNode, SimPort

CASES = Path(__file__).parent / "recorded" / "cases"
NET = "/sys/class/net"
# The simulated ports have no congestion control of any flavour here.
ABSENT = {"ecn", "cnp", "traffic_class"}


def node_with(*names: str) -> SimNode:
    """A node with RDMA ports that are real functions."""
    node = SimNode({name: SimPort(f"mlx5_{index}", host_dcbx=True) for index, name in enumerate(names)})
    for name in names:
        node.files[f"{NET}/{name}/device/vendor"] = "0x15b3\n"
    return node


def bond(node: SimNode, *names: str) -> None:
    """Put netdevs into bond0."""
    node.files[f"{NET}/bond0/uevent"] = "DEVTYPE=bond\nINTERFACE=bond0\n"
    for name in names:
        node.links[f"{NET}/{name}/upper_bond0"] = f"{NET}/bond0"
        node.links[f"{NET}/bond0/lower_{name}"] = f"{NET}/{name}"


def lag(**listed: str) -> SimNode:
    """A RoCE LAG: two ports in bond0 and one RDMA device, listed with this netdev."""
    node = node_with("ens1np0", "ens2np0")
    bond(node, "ens1np0", "ens2np0")
    plain = node._answer
    shown = f'[{{"ifname":"mlx5_bond_0","port":1,"state":"ACTIVE","netdev":"{listed["netdev"]}"}}]'
    node._answer = lambda argv: shown if argv[:4] == ["rdma", "-j", "link", "show"] else plain(argv)  # type: ignore[method-assign]
    node.ports["bond0"] = SimPort("mlx5_bond_0")
    return node


def run(node: SimNode, names: list[str], policy: dict[str, t.Any] | None = None, **options: t.Any) -> t.Any:
    """A whole run with a policy."""
    return converge(node, names, SETTINGS, policy_state(parse_policy(policy or {})), Options(**options))


@pytest.mark.parametrize("netdev", ["bond0", "ens1np0"])
@pytest.mark.parametrize("name", ["bond0", "mlx5_bond_0"])
def test_a_bond_is_set_port_by_port(netdev: str, name: str) -> None:
    node = lag(netdev=netdev)
    (port,) = find_ports(node)  # type: ignore[arg-type]
    assert (port.kind, port.netdev, port.related) == ("bond", "bond0", ("ens1np0", "ens2np0"))
    result = run(node, [name])
    assert result.failed() == {}
    ports = result.as_dict()["ports"]
    assert set(ports["bond0"]) == {"mtu", "cma"}
    assert set(ports["ens1np0"]) == set(ports["ens2np0"]) == {"dcbx", "trust", "ets", "pfc", "pause"}
    assert node.ports["ens2np0"].pfc == {3} and node.ports["bond0"].mtu == 9000
    found = result.as_dict()["findings"]
    assert {finding["verdict"] for finding in found if finding["check"] not in ABSENT} == {"pass"}
    assert not run(node, [name]).as_dict()["changed"]


def test_a_bonded_port_with_its_own_rdma_device_leaves_the_mtu_to_the_bond() -> None:
    node = node_with("ens1np0", "ens2np0")
    bond(node, "ens1np0", "ens2np0")
    result = run(node, ["ens1np0"]).as_dict()
    assert result["failed_ports"] == {}
    assert "is in the bond bond0" in result["not_applicable"]["ens1np0"]["mtu"]
    assert node.ports["ens1np0"].mtu == 1500 and node.ports["ens1np0"].pfc == {3}


def test_g15_a_virtual_function_is_skipped_and_its_owner_named() -> None:
    node = node_with("ens1np0", "ens1v0")
    node.files[f"{NET}/ens1v0/device/physfn/net/ens1np0/mtu"] = "9000\n"
    result = run(node, ["ens1np0", "ens1v0"]).as_dict()
    assert result["failed_ports"] == {}
    assert set(result["not_applicable"]["ens1v0"]) == {"dcbx", "trust", "ets", "pfc", "pause", *ABSENT}
    assert "belongs to the physical function (ens1np0)" in result["not_applicable"]["ens1v0"]["pfc"]
    verdicts = {f["check"]: f["verdict"] for f in result["findings"] if f["port"] == "ens1v0"}
    assert verdicts["pfc"] == "skipped" and verdicts["mtu"] == "pass"
    assert node.ports["ens1v0"].pfc == set() and node.ports["ens1v0"].mtu == 9000


def test_a_virtual_function_refuses_what_it_is_asked_for_by_name() -> None:
    node = node_with("ens1v0")
    node.files[f"{NET}/ens1v0/device/device"] = "0x101e\n"  # in a virtual machine: no physfn
    result = converge(node, ["ens1v0"], SETTINGS, {"pfc": {"enabled_prios": [3]}}, Options(strict=True))  # type: ignore[arg-type]
    assert "belongs to the physical function on the host that owns the card" in result.message()
    assert node.sets == []


def test_a_subfunction_and_a_stack() -> None:
    node = node_with("ens1s0")
    node.links[f"{NET}/ens1s0/device"] = "/sys/devices/pci0000:16/0000:17:00.0/mlx5_core.sf.4"
    assert "subfunction has none of its own" in run(node, ["ens1s0"]).as_dict()["not_applicable"]["ens1s0"]["pfc"]
    stacked = SimNode({"br0": SimPort("rxe0")})
    del stacked.links[f"{NET}/br0/device"]
    stacked.links[f"{NET}/br0/lower_eth0"] = f"{NET}/eth0"
    (reason,) = run(stacked, ["br0"]).missing.values()
    assert "is a virtual network device on top of eth0" in reason


def test_a_vlan_is_refused_by_name_with_the_port_that_counts() -> None:
    node = node_with("ens1np0")
    node.links[f"{NET}/ens1np0/upper_ens1np0.100"] = f"{NET}/ens1np0.100"
    node.files[f"{NET}/ens1np0.100/uevent"] = "DEVTYPE=vlan\n"
    (port,) = find_ports(node)  # type: ignore[arg-type]
    assert (port.kind, port.vlans) == ("physical", ("ens1np0.100",))
    _ports, missing = select_ports([port], ["ens1np0.100"])
    assert "is a VLAN on ens1np0; QoS belongs to the port: declare ens1np0" in missing["ens1np0.100"]
    own = SimNode({"ens1np0.100": SimPort("siw0")})
    del own.links[f"{NET}/ens1np0.100/device"]
    own.files[f"{NET}/ens1np0.100/uevent"] = "DEVTYPE=vlan\n"
    own.links[f"{NET}/ens1np0.100/lower_ens1np0"] = f"{NET}/ens1np0"
    assert "declare ens1np0" in run(own, ["siw0"]).missing["siw0"]


def test_a_priority_from_the_tag_needs_a_tag() -> None:
    plain, tagged = Port("mlx5_0", 1, "ens1np0"), Port("mlx5_0", 1, "ens1np0", vlans=("ens1np0.100",))
    assert port_kinds.check_vlan(plain, "dscp") is None
    verdicts = [
        port_kinds.check_vlan(port, trust) for port, trust in ((plain, "pcp"), (tagged, "pcp"), (tagged, "dscp"))
    ]
    assert [finding.verdict for finding in verdicts if finding] == ["fail", "unknown", "pass"]
    assert verdicts[0] and verdicts[0].cause and verdicts[0].remedy


def test_d07_a_node_guid_of_zero_fails_rdma_cm() -> None:
    (device,) = parse_ibstat((CASES / "d07-ibstat-vf-node-guid-zero.txt").read_text())
    found = port_kinds.check_guid(device["ibdev"], device["node_guid"], "ibstat")
    assert found.verdict == "fail" and "rdma_cm" in found.cause and "mac ADDRESS" in found.remedy
    assert port_kinds.check_guid("x", "0200:00ff:fef9:4234", "").verdict == "pass"
    assert port_kinds.check_guid("x", "", "").verdict == "unknown"


def test_diagnose_reads_the_guid_of_each_port() -> None:
    node = node_with("ens1np0")
    node.files["/sys/class/infiniband/mlx5_0/node_guid"] = "0000:0000:0000:0000\n"
    context = Context(tuple(find_ports(node)), parse_policy({}), {})  # type: ignore[arg-type]
    found = {finding.check: finding.verdict for finding in port_kinds.diagnose(node, context)}  # type: ignore[arg-type]
    assert found == {"port_kind": "pass", "node_guid": "fail"}
