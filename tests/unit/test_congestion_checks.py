# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of congestion control: cases g01 and g15, the firmware's mask and algorithm, and a whole node."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.checks.congestion import (
    Firmware,
    diagnose,
    judge_algorithm,
    judge_forced_class,
    judge_gpu_made,
    judge_mask,
    judge_virtual_function,
    read_firmware,
)
from ansible_collections.lossless.roce.plugins.module_utils.checks.copied_commands import check_commands
from ansible_collections.lossless.roce.plugins.module_utils.checks.nccl_env import parse_conf
from ansible_collections.lossless.roce.plugins.module_utils.parsers.mlnx_qos import parse_mlnx_qos
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from ansible_collections.lossless.roce.plugins.module_utils.settings.traffic_class import parse_traffic_class
from fake_host import FakeHost

CASES = Path(__file__).parent / "recorded" / "cases"
PORT = Port("mlx5_0", 1, "ens1np0", pci="0000:17:00.0", driver="mlx5_core")
QUERY = """
Device #1:
----------
Device type:        ConnectX7
Configurations:                                      Default             Current             Next Boot
*       ROCE_CC_PRIO_MASK_P1                        255                 247                 255
        ROCE_CC_PRIO_MASK_P2                        255                 255                 255
RO      ROCE_CC_LEGACY_DCQCN                        True(1)             False(0)            False(0)
The '*' shows parameters with next value different from default/current value.
"""


def test_g01_a_class_that_only_some_queue_pairs_get() -> None:
    lines = (CASES / "g01-tclass-only-for-some-qps.txt").read_text().splitlines()
    tclass = parse_traffic_class(lines[1])
    qos = parse_mlnx_qos("\n".join(lines[3:6]))
    env = {setting.name: setting.value for setting in parse_conf("\n".join(lines[7:]), "env")[0]}
    assert tclass == 236 and qos.dscp_prio[59] == 5 and qos.enabled_prios == [5]
    found = {f.check: f for f in judge_forced_class("eth1", tclass, qos.dscp_prio, qos.enabled_prios)}
    assert found["forced_class"].verdict == "pass", "queue pairs that the kernel makes are lossless"
    assert found["forced_class_ecn"].verdict != "pass" and "238" in str(found["forced_class_ecn"].expected)
    gpu = judge_gpu_made("eth1", tclass, env, whole=True)
    assert gpu.verdict == "fail" and "class 0, the lossy default" in gpu.cause and "NCCL_IB_TC=236" in gpu.remedy
    assert judge_gpu_made("eth1", tclass, {**env, "NCCL_IB_TC": "236"}, whole=True).verdict == "pass"
    assert judge_gpu_made("eth1", tclass, {"NCCL_IB_TC": "236", "NCCL_GIN_IB_TC": "0"}, whole=True).verdict == "fail"
    assert judge_gpu_made("eth1", tclass, {}, whole=False).verdict == "unknown"


def test_a_class_in_a_lossy_priority_fails() -> None:
    (finding,) = judge_forced_class("eth1", 106, {26: 0}, [3])
    assert finding.verdict == "fail" and "priority 0, which is lossy" in finding.cause and finding.remedy
    assert judge_forced_class("eth1", None, {26: 0}, [3]) == []
    assert judge_forced_class("eth1", 106, {}, None) == []


def test_g15_commands_that_write_nothing_and_a_virtual_function() -> None:
    findings = check_commands((CASES / "g15-vf-dscp-no-permission.txt").read_text())
    causes = [f.cause for f in findings]
    assert sum("dash of typography" in cause for cause in causes) == 2
    assert sum("nothing is written" in cause for cause in causes) == 2, "106> and 48>"
    assert sum("an empty line" in cause for cause in causes) == 2, "1>, twice"
    assert sum("blank inside the path" in cause for cause in causes) == 3
    assert all(f.verdict == "fail" and f.remedy for f in findings)
    assert findings[0].remedy.startswith("write hyphens: mlnx_qos -i ens12f1 -trust=dscp")
    skipped = judge_virtual_function("ens12f1")
    assert skipped.verdict == "skipped" and "physical function" in skipped.cause


@pytest.mark.parametrize(
    "line",
    [
        "echo 106 > /sys/class/infiniband/mlx5_0/tc/1/traffic_class",
        "echo 1 >/sys/class/net/ens12f1/ecn/roce_np/enable/3",
        "mlnx_qos -i ens12f1 --trust=dscp 2>/dev/null",
        "cat /etc/hosts /etc/fstab",
        "echo abc106> /tmp/x",
    ],
)
def test_right_commands_are_left_alone(line: str) -> None:
    assert check_commands(line) == []


def test_the_mask_in_use_decides_and_not_the_next_boots() -> None:
    firmware = read(QUERY)
    assert firmware.values["ROCE_CC_PRIO_MASK_P1"] == "247" and firmware.values["ROCE_CC_LEGACY_DCQCN"] == "False(0)"
    off = judge_mask(PORT, firmware, 3)
    assert off.verdict == "fail" and off.remedy and "off for priority 3" in off.cause
    for mask in ("255", "8"):
        assert judge_mask(PORT, Firmware({"ROCE_CC_PRIO_MASK_P1": mask}), 3).verdict == "pass"
    for values in ({}, {"ROCE_CC_PRIO_MASK_P1": "N/A"}, {"ROCE_CC_PRIO_MASK_P1": "٣"}):
        unknown = judge_mask(PORT, Firmware(values, "mstconfig is not installed"), 3)
        assert unknown.verdict == "unknown" and "default is 255" in unknown.cause and not unknown.remedy
    one = read("Device #1:\n----------\nConfigurations:   Next Boot\n   ROCE_CC_PRIO_MASK_P1    255\n")
    assert one.values == {} and one.reason, "one column: unknown"


def read(text: str) -> Firmware:
    """What a card is known for by this output."""
    return read_firmware(t.cast("t.Any", FakeHost(outputs={"mstconfig -d 0000:17:00.0 -e query": text})), PORT.pci)


def test_the_second_port_of_a_card_is_judged_by_its_own_mask_and_the_card_is_asked_once() -> None:
    ports = (PORT, Port("mlx5_1", 1, "ens1f1np1", pci="0000:17:00.1", driver="mlx5_core"))
    host = FakeHost(outputs={"mlxconfig -d 0000:17:00.0 -e query": QUERY})
    host.missing_tools = {"mstconfig"}
    found = [
        f for f in diagnose(t.cast("t.Any", host), Context(ports, parse_policy({}), {})) if f.check == "ecn_firmware"
    ]
    assert {f.port: f.verdict for f in found} == {"ens1np0": "fail", "ens1f1np1": "pass"}
    assert found[1].evidence == "mlxconfig -d 0000:17:00.1 -e query ROCE_CC_PRIO_MASK_P2 (current)"
    assert len(host.ran) == 1


def test_another_algorithm_is_possible_or_ruled_out() -> None:
    maybe = judge_algorithm(PORT, Firmware({"ROCE_CC_LEGACY_DCQCN": "False(0)"}))
    assert maybe.verdict == "unknown" and "RTT-based" in maybe.cause and "PPCC" in maybe.remedy
    assert judge_algorithm(PORT, Firmware({"ROCE_CC_LEGACY_DCQCN": "True(1)"})).verdict == "pass"


def findings(host: FakeHost) -> dict[str, str]:
    """Verdict by check on the default policy."""
    trust = {"trust": "dscp", "dscp_prio": {"26": 3}}
    facts = {"ports": [{"netdev": "ens1np0", "settings": {"trust": trust, "pfc": {"enabled_prios": [3]}}}]}
    context = Context((PORT,), parse_policy({}), facts)
    return {f.check: f.verdict for f in diagnose(t.cast("t.Any", host), context)}


def test_a_node_with_the_kernels_own_driver() -> None:
    query = "mstconfig -d 0000:17:00.0 -e query"
    assert findings(FakeHost(outputs={query: QUERY})) == {"ecn_firmware": "fail", "congestion_algorithm": "unknown"}
    refused = (3, "-E- Failed to open the device\n", "")
    assert findings(FakeHost(outputs={query: refused})) == {"ecn_firmware": "unknown"}
    without = FakeHost()
    without.missing_tools = {"mstconfig", "mlxconfig"}
    assert findings(without) == {"ecn_firmware": "unknown"}


def test_a_node_with_the_driver_of_ofed() -> None:
    host = FakeHost(
        {
            "/sys/class/net/ens1np0/ecn/roce_np/enable/3": "1\n",
            "/sys/class/infiniband/mlx5_0/tc/1/traffic_class": "Global tclass=106\n",
            "/etc/nccl.conf": "# ours\nNCCL_IB_TC=106\n",
        }
    )
    host.missing_tools = {"mstconfig", "mlxconfig"}
    assert findings(host) == {"forced_class": "pass", "nccl_traffic_class": "pass"}
    host.files["/root/.nccl.conf"] = "NCCL_IB_TC=0\n"
    assert findings(host) == {"forced_class": "pass", "nccl_traffic_class": "fail"}, "root's own file goes first"


def test_a_virtual_function_is_skipped() -> None:
    host = FakeHost()
    host.links["/sys/class/net/ens1np0/device/physfn"] = "/sys/devices/pci0000:00/0000:17:00.0"
    assert findings(host) == {"ecn": "skipped"}


def test_of_a_bond_the_firmware_of_each_port_is_judged_and_the_class_of_the_whole() -> None:
    member = Port("mlx5_bond_0", 1, "ens1np0", pci="0000:17:00.0", driver="mlx5_core", kind="port of a RoCE LAG")
    host = FakeHost(
        {"/sys/class/infiniband/mlx5_bond_0/tc/1/traffic_class": "Global tclass=104\n"},
        {"mstconfig -d 0000:17:00.0 -e query": QUERY},
    )
    context = Context((Port("mlx5_bond_0", 1, "bond0", kind="bond", members=(member,)),), parse_policy({}), {})
    found = {(f.check, f.port): f.verdict for f in diagnose(t.cast("t.Any", host), context)}
    assert found == {
        ("ecn_firmware", "ens1np0"): "fail",
        ("congestion_algorithm", "ens1np0"): "unknown",
        ("forced_class_ecn", "bond0"): "unknown",
        ("nccl_traffic_class", "bond0"): "unknown",
    }
