"""Argument vectors, shapes, state and marks of the lab's nodes."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from roce_lab import network
from roce_lab.errors import LabError
from roce_lab.image import Image
from roce_lab.node import last_boot
from roce_lab.process import Identity, has_marker, identity
from roce_lab.qemu import CARD_BUSES, Machine, kernel_arguments, machine_id, qemu_argv
from roce_lab.state import Paths, Shape, State

MACHINE = Machine(
    marker="lrlab-x-abc123",
    index=2,
    rails=2,
    memory=768,
    ssh_port=2222,
    flavour="inbox",
    image=Image(Path("/cache/0123")),
    kvm=False,
)


def option(argv: list[str], flag: str) -> list[str]:
    """All values of an option."""
    return [value for name, value in itertools.pairwise(argv) if name == flag]


def test_qemu_without_kvm() -> None:
    argv = qemu_argv(MACHINE, [7, 8])
    assert option(argv, "-name") == ["lrlab-x-abc123-node2"]
    assert option(argv, "-accel")[0].startswith("tcg,thread=multi")
    assert option(argv, "-m") == ["768"]
    assert option(argv, "-kernel") == ["/cache/0123/vmlinuz"]


def test_qemu_with_kvm() -> None:
    argv = qemu_argv(replace(MACHINE, kvm=True), [7, 8])
    assert option(argv, "-accel") == ["kvm"]
    assert option(argv, "-cpu") == ["host"]


def test_qemu_networks() -> None:
    argv = qemu_argv(MACHINE, [7, 8])
    assert option(argv, "-netdev") == [
        "user,id=mgmt,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:2222-:22",
        "tap,id=rail0,fd=7",
        "tap,id=rail1,fd=8",
    ]
    slots = [value for value in option(argv, "-device") if value.startswith("virtio-net")]
    assert [slot.split("addr=")[1].split(",")[0] for slot in slots] == ["0x3", "0x4", "0x5"]
    assert [slot.split("mac=")[1].split(",")[0] for slot in slots] == [
        "52:54:00:7a:02:00",
        "52:54:00:7a:02:01",
        "52:54:00:7a:02:02",
    ]


def test_kernel_arguments_tell_the_hardware() -> None:
    words = kernel_arguments(MACHINE).split()
    assert {"lab.node=2", "lab.rails=2", "lab.flavour=inbox", "systemd.hostname=node2"} <= set(words)


def test_the_cards_are_on_the_kernels_command_line() -> None:
    words = kernel_arguments(replace(MACHINE, gpus=1)).split()
    assert [word for word in words if word.startswith("mlx5sim.")] == [
        "mlx5sim.lower=ens4,ens5",
        "mlx5sim.name=ens1np0,ens2np0",
        "mlx5sim.bdf=0000:17:00.0,0000:31:00.0",
        "mlx5sim.numa=0,1",
        "mlx5sim.gpu=1,0",
        "mlx5sim.flavour=inbox",
    ]


def test_eight_rails_have_eight_cards() -> None:
    words = dict(word.split("=", 1) for word in kernel_arguments(replace(MACHINE, rails=8)).split() if "=" in word)
    assert len(set(words["mlx5sim.bdf"].split(","))) == 8
    assert words["mlx5sim.bdf"].startswith("0000:17:00.0,0000:31:00.0,0000:b1:00.0,0000:ca:00.0,")
    assert words["mlx5sim.numa"] == "0,0,0,0,1,1,1,1"
    devices = option(qemu_argv(replace(MACHINE, rails=8), list(range(7, 15))), "-device")
    slots = [value.split("addr=")[1].split(",")[0] for value in devices if "addr=" in value]
    assert len(slots) == len(set(slots)) >= 11


def test_no_two_cards_share_a_bus() -> None:
    taken = [bus + offset for bus in CARD_BUSES for offset in (-1, 0, 1)]  # root, card, GPU
    assert len(taken) == len(set(taken))
    assert all(0 < bus < 256 for bus in taken)


@pytest.mark.parametrize(
    ("iommu", "arguments", "device"),
    [
        ("off", set(), False),
        ("on", {"intel_iommu=on", "iommu=nopt"}, True),
        ("pt", {"intel_iommu=on", "iommu=pt"}, True),
    ],
)
def test_iommu(iommu: str, arguments: set[str], device: bool) -> None:
    machine = replace(MACHINE, iommu=iommu)
    assert {word for word in kernel_arguments(machine).split() if "iommu" in word} == arguments
    devices = option(qemu_argv(machine, [7, 8]), "-device")
    assert ("intel-iommu" in devices) is device
    assert any("bus-reserve=240" in value for value in devices) is device


def test_machine_ids_differ_and_stay() -> None:
    assert machine_id("a", 1) == machine_id("a", 1)
    assert len({machine_id("a", 1), machine_id("a", 2), machine_id("b", 1)}) == 3


def test_fabric_commands() -> None:
    lines = network.ip_commands(2, 2).splitlines()
    assert sum("type bridge" in line for line in lines) == 2
    assert [line for line in lines if "tuntap" in line] == [
        f"tuntap add dev n{node}r{rail} mode tap vnet_hdr" for rail in (0, 1) for node in (1, 2)
    ]
    assert all("mtu 9216" in line for line in lines if line.startswith("link set"))


@pytest.mark.parametrize(
    ("mbits", "rate", "burst"),
    [
        (100, "100000000bit", 125000),
        (1, "1000000bit", 65536),
        (0.5, "500000bit", 65536),
    ],
)
def test_shape(mbits: float, rate: str, burst: int) -> None:
    assert network.shape_arguments(mbits) == (f"root tbf rate {rate} burst {burst} limit 67108864")


def test_shape_refuses_no_rate() -> None:
    with pytest.raises(LabError, match="rate 0"):
        network.shape_arguments(0)


def test_addresses() -> None:
    assert network.address(3, 1) == "10.101.0.3"


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": 0},
        {"nodes": 5},
        {"rails": 0},
        {"rails": 9},
        {"memory": 64},
        {"flavour": "doca"},
        {"iommu": "amd"},
        {"gpus": 2},
        {"gpus": -1},
        {"mbits": 0},
    ],
)
def test_shape_of_a_lab_is_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(LabError, match=str(next(iter(wrong.values())))):
        Shape(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argv", "ours"),
    [
        (["qemu", "-name", "lrlab-x-abc123-node1", "-m", "9"], True),
        (["python3", "labctl.py", "watch", "--marker", "lrlab-x-abc123-watch", "1"], True),
        (["qemu", "-name", "lrlab-x-abc124-node1"], False),
        (["qemu", "-name", "lrlab-x-abc123-y-def456-node1"], False),  # lab "x-abc123-y"
        (["vi", "lrlab-x-abc123-node1"], False),
        ([], False),
    ],
)
def test_marks(argv: list[str], ours: bool) -> None:
    assert has_marker(argv, "lrlab-x-abc123") is ours


def test_state_survives_the_file(tmp_path: Path) -> None:
    state = State(Shape(nodes=1), "/cache/0123", "up", [2222], {"node1": Identity(1, 2)})
    state.save(tmp_path / "state.json")
    assert State.load(tmp_path / "state.json") == state


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"shape": {"nodes": 1}}'])
def test_broken_state_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert State.load(tmp_path / "state.json") is None


def test_missing_state_is_none(tmp_path: Path) -> None:
    assert State.load(tmp_path / "state.json") is None


def test_paths(tmp_path: Path) -> None:
    default, other = Paths("default", tmp_path), Paths("mine", tmp_path)
    assert default.inventory == tmp_path / "inventories/lab/hosts.yml"
    assert other.inventory == tmp_path / "build/lab/mine/inventory/hosts.yml"
    assert default.id != Paths("default", tmp_path / "elsewhere").id
    with pytest.raises(LabError, match="name"):
        Paths("../x", tmp_path)


def test_last_boot_on_the_console() -> None:
    console = "\x1b[!plab: boot aa hardware failed\r\nBIOS\x1b[?7hlab: boot bb hardware active\r\n"
    assert last_boot(console) == ("bb", "active")
    assert last_boot("lab: boot aa hard") is None
    assert last_boot("lab: boot aa hardware act") is None  # still being written


def test_identity_of_a_process() -> None:

    own = identity(os.getpid())
    assert own is not None and own.pid == os.getpid() and own.start > 0
    assert identity(2**22 + 1) is None
