# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PCIe link, nearest GPU, interrupts and cable."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import cable, placement
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.parsers.dmesg import parse_pcie_limits
from ansible_collections.lossless.roce.plugins.module_utils.parsers.ethtool import parse_module
from ansible_collections.lossless.roce.plugins.module_utils.parsers.lspci import parse_lspci
from ansible_collections.lossless.roce.plugins.module_utils.parsers.nvidia_topo import parse_topology
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from fake_host import FakeHost

CASES = Path(__file__).parent / "recorded" / "cases"
NIC, BRIDGE = "0000:1a:00.0", "0000:19:00.0"
PORT = Port("mlx5_0", 1, "ens1np0", pci=NIC, numa_node=0)
ROOT = "/sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0"
PLAIN = f"/sys/devices/pci0000:16/0000:16:02.0/{NIC}"
OTHER_ROOT = "/sys/devices/pci0000:30/0000:30:01.0/0000:31:00.0"
X16_GEN4, X8_GEN4, X16_GEN3 = (16.0, 16), (16.0, 8), (8.0, 16)


def case(name: str) -> str:
    """Text of a recorded case."""
    return (CASES / name).read_text()


@pytest.mark.parametrize(
    ("link", "most", "link_gbps", "verdict"),
    [
        (X16_GEN4, X16_GEN4, 200, "pass"),
        (X8_GEN4, X16_GEN4, 200, "fail"),
        (X16_GEN3, X16_GEN4, 200, "fail"),
        (X16_GEN3, X16_GEN4, 100, "pass"),
        (X8_GEN4, X16_GEN4, None, "fail"),
        (X16_GEN4, X16_GEN4, None, "pass"),
        (X16_GEN4, None, None, "unknown"),
        ((64.0, 16), (64.0, 16), 800, "pass"),
        ((1.0, 16), X16_GEN4, 200, "unknown"),
    ],
)
def test_pcie_link_against_network_link_and_card(link: t.Any, most: t.Any, link_gbps: t.Any, verdict: str) -> None:
    found = placement.check_link(PORT, {NIC: link}, most, link_gbps)
    assert found.verdict == verdict
    assert bool(found.remedy) == (verdict == "fail") and bool(found.cause) >= (verdict in ("fail", "unknown"))


def test_the_narrowest_link_on_the_way_counts_and_is_named() -> None:
    found = placement.check_link(PORT, {NIC: X16_GEN4, BRIDGE: X8_GEN4}, X16_GEN4, 200)
    assert found.verdict == "fail" and f"at the bridge {BRIDGE} above the card" in found.cause
    assert found.observed == {"gbps": 126.024, "at": BRIDGE}


def test_d15_what_the_driver_logged_where_sysfs_says_nothing() -> None:
    card = "0001:43:00.0"
    limit = parse_pcie_limits(case("d15-dmesg-pcie-limited.txt"))[card]
    found = placement.check_link(Port("mlx5_0", 1, "x", pci=card), {}, None, 100, limit)
    assert found.verdict == "fail"
    assert "63.008 Gb/s, at the bridge 0001:42:01.0 above the card" in found.cause


def test_an_unstated_link_is_unknown_and_not_passed() -> None:
    assert placement.check_link(PORT, {}, X16_GEN4, 200).verdict == "unknown"


@pytest.mark.parametrize(
    ("nic", "gpu", "nodes", "expected"),
    [
        (f"{ROOT}/0000:18:00.0/{NIC}", f"{ROOT}/0000:18:01.0/0000:1b:00.0", (0, 0), "PIX"),
        (f"{ROOT}/0000:18:00.0/0000:1c:00.0/0000:1d:00.0/{NIC}", f"{ROOT}/0000:18:01.0/0000:1b:00.0", (0, 0), "PXB"),
        (PLAIN, "/sys/devices/pci0000:16/0000:16:03.0/0000:1b:00.0", (0, 0), "PHB"),
        (PLAIN, OTHER_ROOT, (0, 0), "NODE"),
        (PLAIN, OTHER_ROOT, (0, 1), "SYS"),
        (PLAIN, OTHER_ROOT, (-1, 1), None),
        ("/sys/devices/platform/0000:17:00.0", OTHER_ROOT, (0, None), None),
    ],
)
def test_distance_by_path(nic: str, gpu: str, nodes: tuple[t.Any, t.Any], expected: str | None) -> None:
    assert placement.distance((nic, nodes[0]), (gpu, nodes[1])) == expected


@pytest.mark.parametrize(
    ("name", "verdict", "no_rail"),
    [
        ("e01-hgx-b300-escape-codes.txt", "pass", ["mlx5_bond_0"]),
        ("e02-four-gpu-two-nic.txt", "pass", []),
        ("e04-hgx-h100-reversed.txt", "pass", ["NIC0"]),
        ("e06-dgx2-old-layout.txt", "pass", []),
        ("e08-two-hosts-other-names.host-a.txt", "fail", []),
        ("e08-two-hosts-other-names.host-b.txt", "fail", []),
    ],
)
def test_recorded_topologies(name: str, verdict: str, no_rail: list[str]) -> None:
    found = placement.check_topology(parse_topology(case(name)))
    assert (found.verdict, found.observed["no_rail"]) == (verdict, no_rail)
    assert ("GPU0, GPU1" in found.cause and "host bridge" in found.cause) == (verdict == "fail")


@pytest.mark.parametrize(
    ("affinity", "local", "verdict"),
    [
        ({"66": "0-3", "67": "2"}, "0-7", "pass"),
        ({"66": "0-3", "67": "8"}, "0-7", "fail"),
        ({"66": "0-15"}, "0-7", "fail"),
        ({}, "0-7", "unknown"),
        ({"66": "0"}, "", "unknown"),
    ],
)
def test_interrupts_on_the_ports_own_node(affinity: dict[str, str], local: str, verdict: str) -> None:
    found = placement.check_interrupts(PORT, affinity, local, balanced=True)
    assert found.verdict == verdict
    assert ("irqbalance is running" in found.cause) == (verdict == "fail")


def test_diagnose_on_a_node_with_a_switch_a_gpu_and_a_stray_interrupt() -> None:
    nic_path, gpu = f"{ROOT}/0000:18:00.0/{NIC}", "0000:1b:00.0"
    host = FakeHost(outputs={"dmesg": ""})
    host.missing_tools = {"nvidia-smi"}
    host.links |= {
        "/sys/class/net/ens1np0/device": nic_path,
        f"/sys/bus/pci/devices/{gpu}": f"{ROOT}/0000:18:01.0/{gpu}",
    }
    for at, width in ((nic_path, "16"), (f"{ROOT}/0000:18:00.0", "16"), (ROOT, "8"), (ROOT.rpartition("/")[0], "8")):
        host.files |= {f"{at}/current_link_speed": "16.0 GT/s PCIe\n", f"{at}/current_link_width": f"{width}\n"}
    host.files |= {f"{nic_path}/max_link_speed": "16.0 GT/s PCIe\n", f"{nic_path}/max_link_width": "16\n"}
    device = "/sys/class/net/ens1np0/device"
    host.files |= {
        f"{device}/local_cpulist": "0-7\n",
        f"{device}/msi_irqs/66": "msix\n",
        f"{device}/msi_irqs/67": "msix\n",
    }
    host.files |= {"/proc/irq/66/smp_affinity_list": "0-15\n", "/proc/irq/66/mlx5_async0@pci/x": ""}
    host.files |= {"/proc/irq/67/smp_affinity_list": "0-15\n", "/proc/irq/67/effective_affinity_list": "9\n"}
    context = Context((PORT,), parse_policy({"link_gbps": 200}), {"gpus": [{"pci": gpu, "numa_node": 0}]})
    found = {finding.check: finding for finding in placement.diagnose(host, context)}  # type: ignore[arg-type]
    assert {check: finding.verdict for check, finding in found.items()} == {
        "pcie_link": "fail",
        "max_read_request": "skipped",
        "nearest_gpu": "pass",
        "irq_affinity": "fail",
    }
    assert found["nearest_gpu"].observed == {"gpu": gpu, "distance": "PIX", "numa_node": 0}
    assert found["irq_affinity"].observed["away"] == {"67": "9"}
    assert "126.024" in found["pcie_link"].cause
    without = placement.diagnose(host, Context((PORT,), None, {}))  # type: ignore[arg-type]
    assert {finding.check: finding.verdict for finding in without}["nearest_gpu"] == "skipped"


def test_c16_a_cable_for_less_than_the_declared_rate() -> None:
    module = parse_module(case("c16-cable-too-slow.txt"))
    found = cable.check_cable("ens1np0", module, 100, 0.0)
    assert found.verdict == "fail" and "made for 40 Gb/s" in found.cause and "for 100 Gb/s" in found.remedy
    assert cable.check_cable("ens1np0", module, 100, 100.0).verdict == "pass", "the link runs at its rate"
    assert cable.check_cable("ens1np0", module, 40, 0.0).verdict == "pass"
    assert cable.check_cable("ens1np0", module, None, 0.0).verdict == "unknown"


def test_d17_the_read_request_passes_and_the_link_is_unknown() -> None:
    (card,) = parse_lspci(case("d17-lspci-mrrs.txt")).values()
    assert placement.check_read_request(PORT, card["max_read_request"], None).verdict == "pass"
    assert (
        placement.check_link(PORT, {NIC: card["link"]} if card["link"] else {}, card["capable"], 100).verdict
        == "unknown"
    )
    sizes = ((512, None), (512, 512), (512, 4096), (None, 4096))
    verdicts = [placement.check_read_request(PORT, size, declared).verdict for size, declared in sizes]
    assert verdicts == ["skipped", "pass", "fail", "unknown"]


def test_a_port_without_a_module_is_skipped() -> None:
    host = FakeHost(outputs={"ethtool -m ens1np0": (1, "", "netlink error: Operation not supported")})
    (found,) = cable.diagnose(host, Context((PORT,), parse_policy({"link_gbps": 100}), {}))  # type: ignore[arg-type]
    assert found.verdict == "skipped"
