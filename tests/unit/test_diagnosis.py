# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The diagnosis as a whole: nothing that would only forbid a change may keep it from answering."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils import diagnosis
from ansible_collections.lossless.roce.plugins.module_utils.checks import (
    addresses,
    cable,
    counters,
    firewall,
    firmware,
    neighbours,
    placement,
    registry,
)
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.saved import Declared
from sim_node import SimNode, SimPort

ROUTES = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
DEFAULT = "ens1np0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> SimNode:
    """Two ports as they come from the factory; the checks besides the settings have tests of their own."""
    monkeypatch.setattr(diagnosis, "CHECKS", ())
    node = SimNode({"ens1np0": SimPort("mlx5_0"), "ens2np0": SimPort("mlx5_1")})
    node.files["/proc/self/limits"] = "Max locked memory         unlimited            unlimited            bytes\n"
    return node


def diagnosed(node: SimNode, *names: str) -> dict[tuple[str, str], Finding]:
    """Findings by check and port, with the policy's defaults and two settings more."""
    policy = parse_policy({"nic": {"features": {"rx-gro-hw": False}}, "mqprio": "absent"})
    found = diagnosis.diagnose(node, [{"name": name} for name in names], policy, {})  # type: ignore[arg-type]
    assert node.sets == [], "a diagnosis changes nothing"
    for finding in found:
        assert finding.verdict != "fail" or (finding.cause and finding.remedy), finding
    return {(finding.check, finding.port): finding for finding in found}


def test_a_port_that_carries_the_management_connection_is_diagnosed(node: SimNode) -> None:
    node.files["/proc/net/route"] = ROUTES + DEFAULT
    finding = diagnosed(node, "ens1np0", "ens2np0")["pfc", "ens1np0"]
    assert finding.verdict == "fail" and "RDMA packets are dropped" in finding.cause
    assert "dcb pfc set dev ens1np0" in finding.remedy


def test_a_port_in_use_has_the_same_cause_and_remedy_as_one_that_is_idle(node: SimNode) -> None:
    node.users = [{"ifname": "mlx5_0", "lqpn": 17, "type": "RC", "pid": 4711, "comm": "train.py"}]
    found = diagnosed(node, "ens1np0", "ens2np0")
    assert found["pfc", "ens1np0"].cause == found["pfc", "ens2np0"].cause
    assert "busy" not in found["pfc", "ens1np0"].cause


def test_a_port_that_the_policy_cannot_be_applied_to_keeps_nothing_back(node: SimNode) -> None:
    node.ports["ens1np0"].qdisc = {"kind": "htb", "handle": "1:", "root": True}
    found = diagnosed(node, "ens1np0", "ens2np0")
    assert "the root qdisc is 'htb'" in found["mqprio", "ens1np0"].cause
    assert "dcb pfc set dev ens2np0" in found["pfc", "ens2np0"].remedy
    assert found["pfc", "ens1np0"].verdict == "fail" and found["features", "ens1np0"].verdict == "pass"


def test_a_declared_port_in_infiniband_mode(node: SimNode) -> None:
    node.files["/sys/class/infiniband/mlx5_0/ports/1/link_layer"] = "InfiniBand\n"
    finding = diagnosed(node, "ens1np0", "ens2np0")["port", "ens1np0"]
    assert "is in InfiniBand mode" in finding.cause and "LINK_TYPE_P1" in finding.cause
    assert finding.observed != "not there" and "lspci" not in finding.remedy


def test_without_declared_ports_those_that_roce_can_use_are_looked_at(node: SimNode) -> None:
    node.files["/sys/class/infiniband/mlx5_0/ports/1/link_layer"] = "InfiniBand\n"
    found = diagnosed(node)
    assert found["port", "mlx5_0/ens1np0"].verdict == "skipped"
    assert "is in InfiniBand mode" in found["port", "mlx5_0/ens1np0"].cause
    assert ("pfc", "ens2np0") in found and ("pfc", "ens1np0") not in found


def test_ports_that_differ_from_each_other(node: SimNode) -> None:
    node.ports["ens1np0"].pfc = {3}
    finding = diagnosed(node, "ens1np0", "ens2np0")["pfc_agrees", ""]
    assert finding.verdict == "fail" and "differs from" in finding.cause


@pytest.mark.parametrize(
    ("option", "value", "check"),
    [
        ("tcp_ports", ["ssh"], firewall.diagnose),
        ("minimum_firmware", 28.4, firmware.diagnose),
        ("interval", -1.0, counters.diagnose),
        ("interval", float("nan"), counters.diagnose),
        ("nodes", 0, neighbours.diagnose),
    ],
)
def test_an_option_that_is_wrong_is_an_error_and_no_finding(
    node: SimNode, monkeypatch: pytest.MonkeyPatch, option: str, value: t.Any, check: registry.Check
) -> None:
    monkeypatch.setattr(diagnosis, "CHECKS", (("a check", check),))
    with pytest.raises(PolicyError, match=f"{option}: .* was expected"):
        diagnosis.diagnose(node, [{"name": "ens1np0"}], None, {option: value})  # type: ignore[arg-type]
    node.missing_tools = {"rdma"}
    with pytest.raises(PolicyError, match=f"{option}: .* was expected"):
        diagnosis.diagnose(node, [{"name": "ens1np0"}], None, {option: value})  # type: ignore[arg-type]


def test_a_node_without_rdma(node: SimNode) -> None:
    node.missing_tools = {"rdma"}
    node.run = node.__class__.__mro__[1].run.__get__(node)  # type: ignore[method-assign]
    finding = diagnosed(node, "ens1np0")["rdma", ""]
    assert finding.verdict == "fail" and "the-package" in finding.cause


OWN = [
    {"ports": ["ens1np0"], "policy": {"link_gbps": 200}},
    {
        "ports": ["mlx5_1"],
        "policy": {"link_gbps": 100, "mtu": 4200, "rdma_mtu": 2048, "pfc": [4], "data_prio": 4, "data_dscp": 34},
    },
]


def by_own_policies(node: SimNode, names: list[str], groups: t.Any = OWN) -> dict[tuple[str, str], Finding]:
    own = Declared(tuple((tuple(group["ports"]), group["policy"]) for group in groups))
    fabric = parse_policy({"link_gbps": 400})
    found = diagnosis.diagnose(node, [{"name": name} for name in names], fabric, {"interval": 0}, own)  # type: ignore[arg-type]
    assert node.sets == [], "a diagnosis changes nothing"
    return {(finding.check, finding.port): finding for finding in found}


def test_each_port_is_judged_by_the_policy_that_selects_it(node: SimNode) -> None:
    node.ports["ens2np0"].mtu = 4200
    found = by_own_policies(node, ["ens1np0", "ens2np0"])
    assert found["mtu", "ens1np0"].expected == {"mtu": 9000} and found["mtu", "ens1np0"].verdict == "fail"
    assert found["mtu", "ens2np0"].verdict == "pass", found["mtu", "ens2np0"]
    assert found["pfc", "ens2np0"].expected == {"enabled_prios": [4]}
    assert (found["speed", "ens1np0"].expected, found["speed", "ens2np0"].expected) == (200, 100)


def test_checks_beside_the_settings_take_the_ports_own_policy(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> None:
    of_ports = (addresses, cable, counters, placement)
    monkeypatch.setattr(diagnosis, "CHECKS", tuple((check.__name__, check.diagnose) for check in of_ports))
    traffic, answer = iter(range(10**9, 10**11, 10**9)), node._answer

    def answers(argv: list[str]) -> str:
        """Bytes of priority 4 grow on both ports, and the other tools say nothing."""
        if argv[:2] == ["ethtool", "-S"]:
            return f"     rx_prio3_bytes: 0\n     rx_prio4_bytes: {next(traffic)}\n"
        return "" if argv[0] in ("dmesg", "setpci", "nvidia-smi") or argv[:2] == ["ethtool", "-m"] else answer(argv)

    monkeypatch.setattr(node, "_answer", answers)
    found = by_own_policies(node, ["ens1np0", "ens2np0"])
    assert found["rdma_mtu", "ens1np0"].expected == {"rdma_mtu": 4096}
    assert found["rdma_mtu", "ens2np0"].expected == {"rdma_mtu": 2048}
    assert [found["pcie_link", netdev].expected["gbps"] for netdev in ("ens1np0", "ens2np0")] == [200, 100]
    assert [found["cable", netdev].expected["gbps"] for netdev in ("ens1np0", "ens2np0")] == [200, 100]
    assert [found["traffic_prio", netdev].verdict for netdev in ("ens1np0", "ens2np0")] == ["fail", "pass"]


def test_ports_with_different_policies_need_not_agree(node: SimNode) -> None:
    node.ports["ens1np0"].pfc = {3}
    node.ports["ens2np0"].pfc = {4}
    assert ("pfc_agrees", "") not in by_own_policies(node, ["ens1np0", "ens2np0"])
    one = [{"ports": ["ens1np0", "ens2np0"], "policy": {}}]
    assert by_own_policies(node, ["ens1np0", "ens2np0"], one)["pfc_agrees", ""].verdict == "fail"


def test_a_port_of_a_policy_that_is_not_among_the_declared_is_looked_at(node: SimNode) -> None:
    found = by_own_policies(node, ["ens1np0"])
    assert found["mtu", "ens2np0"].expected == {"mtu": 4200} and ("link", "ens2np0") in found
    missing = [{"ports": ["ens9np0"], "policy": {}}]
    assert by_own_policies(node, ["ens1np0"], missing)["port", "ens9np0"].verdict == "fail"


def test_a_port_that_no_policy_selects_is_skipped_by_name(node: SimNode) -> None:
    found = by_own_policies(node, ["ens1np0", "ens2np0"], OWN[:1])
    assert found["policy", "ens2np0"].verdict == "skipped" and "ens2np0" in found["policy", "ens2np0"].cause
    assert ("mtu", "ens2np0") not in found and ("policy", "ens1np0") not in found


def test_two_policies_for_one_port_are_refused(node: SimNode) -> None:
    with pytest.raises(PolicyError, match=r"mlx5_0/ens1np0 is selected by policies\[0\] and by policies\[1\]"):
        by_own_policies(node, [], [{"ports": [name], "policy": {}} for name in ("mlx5_0", "ens1np0")])
