# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The simulated cards answer as cards do: what the other tests stand on."""

from __future__ import annotations

import json
import time

import pytest
import stock
from roce_lab import LabError, Node

PORT, IBDEV, BDF = "ens2np0", "mlx5_1", "0000:31:00.0"
KNOBS = f"/sys/kernel/debug/mlx5sim/{BDF}"
SYSFS = f"/sys/bus/pci/devices/{BDF}"


def counters(node: Node) -> dict[str, int]:
    """`ethtool -S`."""
    lines = [line.rpartition(":") for line in node.check(f"ethtool -S {PORT}").splitlines()]
    return {name.strip(): int(value) for name, _, value in lines if value.strip()}


def onoff(features: dict[str, bool]) -> str:
    """Words for `ethtool -K`."""
    return " ".join(f"{name} {'on' if value else 'off'}" for name, value in features.items())


def wait_for_rdma(node: Node) -> None:
    """Until the RDMA device of a port that came back is up."""
    for _ in range(60):
        done = node.ssh(f"rdma -j link show {IBDEV}/1")
        if done.rc == 0 and json.loads(done.out)[0]["state"] == "ACTIVE":
            return
        time.sleep(1)
    raise AssertionError(f"{IBDEV} did not come back")


def test_ports_are_pci_functions_below_root_ports(node2: Node) -> None:
    device = node2.check(f"readlink -f /sys/class/net/{PORT}/device").strip()
    assert device == f"/sys/devices/pci0000:30/0000:30:00.0/{BDF}"
    assert node2.check(f"readlink {SYSFS}/driver").strip().endswith("/bus/pci/drivers/mlx5_core")
    files = "vendor numa_node current_link_speed max_link_speed current_link_width"
    told = node2.check(f"cd {SYSFS}; cat {files}").splitlines()
    assert told == ["0x15b3", "1", "16.0 GT/s PCIe", "16.0 GT/s PCIe", "16"]
    assert node2.check("cat /sys/devices/system/node/online").strip() == "0-1"
    node2.check(f"echo 8 4 >{KNOBS}/pcie_link")
    assert node2.check(f"cat {SYSFS}/current_link_width").strip() == "4"
    assert "Speed 8GT/s (downgraded), Width x4 (downgraded)" in node2.check(f"lspci -vv -s {BDF}")
    node2.check(f"echo 16 16 >{KNOBS}/pcie_link")


@pytest.mark.parametrize(
    ("function", "register", "value", "shown"),
    [(BDF, "CAP_EXP+8.w", "5930", "MaxReadReq 4096 bytes"), ("0000:30:00.0", "ECAP_ACS+6.w", "001d", "SrcValid+")],
)
def test_registers_change_and_can_be_told_not_to(
    node2: Node, function: str, register: str, value: str, shown: str
) -> None:
    before = node2.check(f"setpci -s {function} {register}").strip()
    node2.check(f"echo pci=ignore >{KNOBS}/fault; setpci -s {function} {register}={value}; echo none >{KNOBS}/fault")
    assert node2.check(f"setpci -s {function} {register}").strip() == before
    node2.check(f"setpci -s {function} {register}={value}")
    told = node2.check(f"lspci -vvv -s {function} | grep -E 'MaxReadReq|ACSCtl'")
    node2.check(f"setpci -s {function} {register}={before}")
    assert shown in told
    assert before != value


def test_devlink_tells_versions_and_takes_parameters(node2: Node) -> None:
    handle = f"pci/{BDF}"
    node2.check(f"echo 22.40.1000 >{KNOBS}/fw_stored")
    info = json.loads(node2.check(f"devlink -j dev info {handle}"))["info"][handle]
    node2.check(f"echo 22.39.1002 >{KNOBS}/fw_stored")
    assert info["driver"] == "mlx5_core"
    assert info["versions"]["running"]["fw"] == "22.39.1002"
    assert info["versions"]["stored"]["fw"] == "22.40.1000"
    steering = f"devlink dev param set {handle} name flow_steering_mode cmode runtime value"
    node2.check(f"{steering} smfs")
    assert "smfs" in node2.check(f"devlink dev param show {handle} name flow_steering_mode")
    with pytest.raises(LabError, match="supported values"):
        node2.check(f"{steering} other")
    node2.check(f"{steering} dmfs")


@pytest.mark.usefixtures("restored")
def test_a_reload_loses_the_drivers_settings_and_keeps_the_firmwares(node2: Node) -> None:
    node2.check(f"dcb pfc set dev {PORT} prio-pfc 0:off 1:off 2:on 3:off 4:off 5:off 6:off 7:off delay 30")
    node2.check(f"ethtool -G {PORT} rx 4096")
    node2.check(f"devlink dev reload pci/{BDF} action driver_reinit", timeout=120)
    wait_for_rdma(node2)
    pfc = stock.dcb(node2, "pfc", PORT)
    assert (stock.lossless_prios(node2, PORT), pfc["delay"]) == ([2], 30)
    assert json.loads(node2.check(f"ethtool --json -g {PORT}"))[0]["rx"] == 1024
    assert stock.dcb(node2, "ets", PORT)["prio_tc"][:2] == [1, 0]
    assert stock.mtu(node2, PORT) == 1500
    assert node2.address(1) in node2.check(f"ip -br address show {PORT}")


def test_offloads_and_coalescing_really_change(node2: Node) -> None:
    names = {"rx": "rx-checksumming", "gro": "generic-receive-offload", "tso": "tcp-segmentation-offload"}
    names |= {"lro": "large-receive-offload", "ntuple": "ntuple-filters"}
    show = f"ethtool --json -k {PORT}"
    before = {word: json.loads(node2.check(show))[0][name]["active"] for word, name in names.items()}
    node2.check(f"ethtool -K {PORT} {onoff({word: not was for word, was in before.items()})}")
    after = {word: json.loads(node2.check(show))[0][name]["active"] for word, name in names.items()}
    node2.check(f"ethtool -K {PORT} {onoff(before)}")
    assert after == {word: not was for word, was in before.items()}
    with pytest.raises(LabError, match="out of range"):
        node2.check(f"ethtool -C {PORT} rx-usecs 5000")


def test_counters_move_with_traffic_and_by_the_knob(node1: Node, node2: Node) -> None:
    before = counters(node2)
    node1.check(f"ping -q -c 5 -i 0.2 -Q {26 << 2} {node2.address(1)}")
    after = counters(node2)
    assert after["rx_prio3_packets"] >= before["rx_prio3_packets"] + 5
    node2.check(f"echo rx_discards_phy=7 out_of_sequence=9 >{KNOBS}/counters")
    path = f"/sys/class/infiniband/{IBDEV}/ports/1/hw_counters"
    assert counters(node2)["rx_discards_phy"] == 7
    assert node2.check(f"cat {path}/out_of_sequence").strip() == "9"
    node2.check(f"echo rx_discards_phy=0 out_of_sequence=0 >{KNOBS}/counters")


@pytest.mark.full
@pytest.mark.usefixtures("restored")
def test_a_reboot_keeps_the_disk_and_the_address(node2: Node) -> None:
    before = node2.boot_id()
    node2.check("touch /root/kept")
    node2.reboot()
    assert node2.boot_id() not in (None, before)
    node2.check("rm /root/kept")
    wait_for_rdma(node2)
