# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What must not be touched: the port of the management connection, whichever way it is found."""

from __future__ import annotations

import json

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.guards import busy_ports, management_netdevs
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from fake_host import FakeHost

ADDRESSES = {
    "ip -j address show": json.dumps(
        [
            {"ifname": "bond0", "addr_info": [{"local": "192.0.2.5"}]},
            {"ifname": "ens1np0", "addr_info": [{"local": "198.51.100.1"}]},
        ]
    )
}
SSH = "192.0.2.9 50000 192.0.2.5 22"


def test_the_connection_is_found_behind_sudo_and_below_a_bond() -> None:
    files = {
        "/proc/1000/environ": "PATH=/bin\0",
        "/proc/1000/stat": "1000 (python3 (x) y) S 900 1 1",
        "/proc/900/environ": f"HOME=/root\0SSH_CONNECTION={SSH}\0",
        "/sys/class/net/bond0/lower_ens9np0/mtu": "1500",
    }
    reasons = management_netdevs(FakeHost(files, ADDRESSES))
    assert set(reasons) == {"bond0", "ens9np0"}
    assert "192.0.2.5" in reasons["bond0"]
    assert "bond0 is on top of it" in reasons["ens9np0"]


def test_the_connection_in_the_own_environment() -> None:
    host = FakeHost({}, ADDRESSES)
    host.environment["SSH_CONNECTION"] = SSH.replace("192.0.2.5", "198.51.100.1")
    assert set(management_netdevs(host)) == {"ens1np0"}


def test_only_the_default_route_counts_among_routes() -> None:
    route = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eno1\t00000000\t010200C0\t3\t0\t0\t0\t00000000\n"
        "ens1np0\t006433C6\t00000000\t1\t0\t0\t0\t00FFFFFF\n"
    )
    assert management_netdevs(FakeHost({"/proc/net/route": route})) == {"eno1": "the default route uses it"}


def test_a_console_without_routes_reserves_nothing() -> None:
    assert management_netdevs(FakeHost()) == {}


def port_with_devices() -> FakeHost:
    """ens1np0 with a virtual function whose slot is another one (mlx5_9), a subfunction (mlx5_2), and a stranger."""
    host = FakeHost(outputs={"rdma -j resource show qp": "[]"})
    bus = "/sys/devices/pci0000:16"
    host.links = {
        "/sys/class/infiniband/mlx5_0/device": f"{bus}/0000:17:00.0",
        "/sys/class/infiniband/mlx5_1/device": f"{bus}/0000:18:00.0",
        "/sys/class/infiniband/mlx5_2/device": f"{bus}/0000:17:00.0/mlx5_core.sf.4",
        "/sys/class/infiniband/mlx5_9/device": f"{bus}/0000:17:01.2",
        "/sys/class/infiniband/mlx5_9/device/physfn": f"{bus}/0000:17:00.0",
    }
    return host


PORT = Port("mlx5_0", 1, "ens1np0", pci="0000:17:00.0")


@pytest.mark.parametrize("ibdev", ["mlx5_0", "mlx5_2", "mlx5_9"])
def test_a_job_on_a_virtual_function_or_subfunction_makes_the_port_busy(ibdev: str) -> None:
    host = port_with_devices()
    host.outputs["rdma -j resource show qp"] = json.dumps([{"ifname": ibdev, "lqpn": 18, "pid": 7, "comm": "train"}])
    assert busy_ports(host, [PORT]) == {"ens1np0": f"busy: RDMA queue pairs on {ibdev} belong to train (pid 7)"}


def test_a_process_that_holds_the_verbs_device_makes_the_port_busy() -> None:
    host = port_with_devices()
    host.files |= {f"/sys/class/infiniband_verbs/uverbs{n}/ibdev": f"mlx5_{n}\n" for n in (0, 1)}
    host.opened = [("/dev/infiniband/rdma_cm", "x", 1), ("/dev/infiniband/uverbs1", "other", 5)]
    assert busy_ports(host, [PORT]) == {}
    host.opened.append(("/dev/infiniband/uverbs0", "python3", 7))
    assert busy_ports(host, [PORT]) == {"ens1np0": "busy: the verbs device of mlx5_0 is held open by python3 (pid 7)"}
    host.outputs["rdma -j resource show qp"] = json.dumps([{"ifname": "mlx5_0", "pid": 7, "comm": "python3"}])
    assert busy_ports(host, [PORT]) == {"ens1np0": "busy: RDMA queue pairs on mlx5_0 belong to python3 (pid 7)"}


def test_a_job_on_another_card_makes_no_port_busy() -> None:
    host = port_with_devices()
    host.outputs["rdma -j resource show qp"] = json.dumps([{"ifname": "mlx5_1", "lqpn": 18, "pid": 7, "comm": "x"}])
    assert busy_ports(host, [PORT]) == {}


def with_handed_over_function() -> FakeHost:
    """The port has a virtual function that belongs to vfio-pci, in IOMMU group 42 and as vfio3."""
    host = port_with_devices()
    function = "/sys/bus/pci/devices/0000:17:00.0/virtfn8"
    host.links |= {
        function: "/sys/devices/pci0000:16/0000:17:01.2",
        f"{function}/driver": "/sys/bus/pci/drivers/vfio-pci",
        f"{function}/iommu_group": "/sys/kernel/iommu_groups/42",
    }
    host.files |= {f"{function}/vfio-dev/vfio3/dev": "511:3\n", "/dev/vfio/vfio": ""}
    return host


@pytest.mark.parametrize("node", ["/dev/vfio/42", "/dev/vfio/noiommu-42", "/dev/vfio/devices/vfio3"])
def test_a_virtual_machine_that_runs_makes_the_port_busy(node: str) -> None:
    host = with_handed_over_function()
    host.opened = [(node, "qemu-system-x86", 9)]
    assert busy_ports(host, [PORT]) == {
        "ens1np0": "busy: virtual function 0000:17:01.2 (vfio-pci) is held open by qemu-system-x86 (pid 9)"
    }


def test_a_function_for_virtual_machines_that_none_uses_leaves_the_port_free() -> None:
    """Such a port has to be set at boot as well."""
    host = with_handed_over_function()
    host.opened = [("/dev/vfio/vfio", "qemu", 9), ("/dev/vfio/4", "qemu", 9), ("/dev/vfio/devices/vfio30", "qemu", 9)]
    assert busy_ports(host, [PORT]) == {}
    host.links["/sys/bus/pci/devices/0000:17:00.0/virtfn8/driver"] = "/sys/bus/pci/drivers/mlx5_core"
    host.opened = [("/dev/vfio/42", "qemu", 9)]
    assert busy_ports(host, [PORT]) == {}


def test_a_function_for_virtual_machines_whose_node_is_not_known_counts_as_busy() -> None:
    host = with_handed_over_function()
    del host.links["/sys/bus/pci/devices/0000:17:00.0/virtfn8/iommu_group"]
    del host.files["/sys/bus/pci/devices/0000:17:00.0/virtfn8/vfio-dev/vfio3/dev"]
    told = busy_ports(host, [PORT])["ens1np0"]
    assert "could not be found out" in told and "0000:17:01.2 belongs to vfio-pci" in told


def test_what_cannot_be_found_out_counts_as_busy() -> None:
    host = FakeHost(outputs={"rdma -j resource show qp": (1, "", "Operation not supported")})
    assert "could not be found out" in busy_ports(host, [Port("mlx5_0", 1, "ens1np0")])["ens1np0"]
