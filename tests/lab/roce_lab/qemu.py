"""QEMU: the argument vector of a node, and its control socket."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import LabError
from .image import Image
from .process import run

FIRST_SLOT = 3  # PCI slot of the management device, the rails follow: ens3, ens4, ...
# Of each rail's card, made by the kernel module mlx5sim: each has a root bus of its own, the number before.
CARD_BUSES = (0x17, 0x31, 0xB1, 0xCA, 0x4D, 0x5E, 0x86, 0xD8)
NUMA_NODES = 2
IOMMU_ARGUMENTS = {"off": "", "on": "intel_iommu=on iommu=nopt", "pt": "intel_iommu=on iommu=pt"}


@dataclass(frozen=True)
class Machine:
    """What one node's QEMU is started with."""

    marker: str  # of the lab
    index: int  # 1, 2, ...
    rails: int
    memory: int  # MiB
    ssh_port: int
    flavour: str
    image: Image
    kvm: bool
    iommu: str = "off"
    gpus: int = 0


def mac(index: int, device: int) -> str:
    """The address of a node's network device: 0 is management, then the rails."""
    return f"52:54:00:7a:{index:02x}:{device:02x}"


def machine_id(marker: str, index: int) -> str:
    """A machine id that a node keeps over reboots and shares with no other."""
    return hashlib.sha256(f"{marker} {index}".encode()).hexdigest()[:32]


def card_arguments(machine: Machine) -> str:
    """What mlx5sim is to make, whenever it is loaded: modprobe reads the kernel's command line."""
    rails = range(machine.rails)
    lists = {
        "lower": [f"ens{FIRST_SLOT + 1 + rail}" for rail in rails],
        "name": [f"ens{rail + 1}np0" for rail in rails],
        "bdf": [f"0000:{CARD_BUSES[rail]:02x}:00.0" for rail in rails],
        "numa": [str(rail * NUMA_NODES // machine.rails) for rail in rails],
        "gpu": [str(int(rail < machine.gpus)) for rail in rails],
        "flavour": [machine.flavour],
    }
    return " ".join(f"mlx5sim.{name}={','.join(values)}" for name, values in lists.items())


def kernel_arguments(machine: Machine) -> str:
    """The kernel's command line, which also tells the node what hardware it has."""
    return " ".join(
        word
        for word in (
            "console=ttyS0 quiet loglevel=4 panic=5",
            "mitigations=off apparmor=0 selinux=0 audit=0 no_timer_check tsc=reliable",
            "systemd.show_status=no systemd.getty_auto=no",
            f"systemd.hostname=node{machine.index}",
            f"systemd.machine_id={machine_id(machine.marker, machine.index)}",
            f"lab.node={machine.index} lab.rails={machine.rails} lab.flavour={machine.flavour}",
            f"numa=fake={NUMA_NODES}",
            IOMMU_ARGUMENTS[machine.iommu],
            card_arguments(machine),
        )
        if word
    )


def _network_arguments(machine: Machine, taps: Sequence[int]) -> list[str]:
    forward = f"hostfwd=tcp:127.0.0.1:{machine.ssh_port}-:22"
    argv = ["-netdev", f"user,id=mgmt,restrict=on,ipv6=off,{forward}", "-device", _nic(machine, "mgmt", 0)]
    for rail, descriptor in enumerate(taps):
        argv += [
            "-netdev",
            f"tap,id=rail{rail},fd={descriptor}",
            "-device",
            _nic(machine, f"rail{rail}", rail + 1) + ",host_mtu=9216",
        ]
    return argv


def _iommu_arguments(machine: Machine) -> list[str]:
    """An IOMMU, and an empty bridge with all bus numbers: by these the IOMMU is told to serve the cards as well."""
    if machine.iommu == "off":
        return []
    return ["-device", "intel-iommu", "-device", "pcie-root-port,id=rest,chassis=9,addr=0x1e,bus-reserve=240"]


def _nic(machine: Machine, netdev: str, device: int) -> str:
    return (
        f"virtio-net-pci,netdev={netdev},id=nic{device},addr={FIRST_SLOT + device:#x},"
        f"mac={mac(machine.index, device)},romfile="
    )


def qemu_argv(machine: Machine, taps: Sequence[int]) -> list[str]:
    """The command of a node; relative paths are in the node's folder."""
    accelerator = (
        ["-accel", "kvm", "-cpu", "host"]
        if machine.kvm
        else ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "Nehalem"]
    )
    return [
        "qemu-system-x86_64",
        "-name",
        f"{machine.marker}-node{machine.index}",
        "-machine",
        "q35,usb=off,vmport=off,smbus=off",
        *accelerator,
        "-smp",
        "1",
        "-m",
        str(machine.memory),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-serial",
        "file:serial.log",
        "-qmp",
        "unix:qmp.sock,server=on,wait=off",
        "-kernel",
        str(machine.image.kernel),
        "-initrd",
        str(machine.image.initrd),
        "-append",
        kernel_arguments(machine),
        "-drive",
        "file=disk.qcow2,format=qcow2,if=none,id=disk,cache=unsafe,discard=unmap",
        *_iommu_arguments(machine),
        "-device",
        "virtio-blk-pci,drive=disk,addr=0x2",
        "-device",
        "virtio-rng-pci,addr=0x10",
        "-device",
        "pcie-root-port,id=acs0,bus=pcie.0,chassis=1,slot=1,addr=0x12",
        "-device",
        "edu,bus=acs0",
        *_network_arguments(machine, taps),
    ]


def create_overlay(folder: Path, image: Image) -> None:
    """A node's own disk: what it changes of the image."""

    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image.disk), str(folder / "disk.qcow2")])


def start(machine: Machine, taps: Sequence[int], folder: Path) -> subprocess.Popen[bytes]:
    """Start a node's QEMU, apart from our terminal; it goes on when we end."""
    (folder / "qmp.sock").unlink(missing_ok=True)
    with (folder / "qemu.log").open("ab") as log:
        return subprocess.Popen(
            qemu_argv(machine, taps),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=tuple(taps),
            start_new_session=True,
        )


def control(folder: Path, command: str, **arguments: Any) -> Any:
    """Send one command to a node's QEMU and return its answer."""
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            # By way of /proc: a socket's own path may not exceed 107 characters.
            sock.connect(f"/proc/self/fd/{descriptor}/qmp.sock")
            with sock.makefile("rw", encoding="utf-8") as stream:
                stream.readline()  # the greeting
                _ask(stream, "qmp_capabilities", {})
                return _ask(stream, command, arguments)
    except OSError as exc:
        raise LabError(f"{folder.name}: its QEMU does not answer: {exc}") from exc
    finally:
        os.close(descriptor)


def _ask(stream: Any, command: str, arguments: dict[str, Any]) -> Any:
    stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    stream.flush()
    for line in stream:
        answer = json.loads(line)
        if "return" in answer:
            return answer["return"]
        if "error" in answer:
            raise LabError(f"QEMU refuses {command}: {answer['error']['desc']}")
    raise LabError(f"QEMU ended while {command} was asked of it")
