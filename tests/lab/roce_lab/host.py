"""What the lab needs of the machine it runs on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from .errors import LabError
from .process import call, run

# tool -> Debian package
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ip": "iproute2",
    "tc": "iproute2",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "dpkg-deb": "dpkg",
    "setpriv": "util-linux",
}
FILES = {"/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring"}
SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"

QEMU_OVERHEAD_MIB = 160  # of a node beyond its memory: the translation buffer and QEMU itself
NODE_DISK_MIB = 600  # what a node's overlay may reach
MIB = 1024 * 1024


def find_tool(tool: str) -> str | None:
    """Where a tool is; sbin folders count even when PATH lacks them."""
    return shutil.which(tool, path=SEARCH_PATH)


def missing_packages(
    find: Callable[[str], str | None] = find_tool, exists: Callable[[str], bool] = os.path.exists
) -> dict[str, str]:
    """Tools and files that are not there, with the package of each."""
    tools = {tool: package for tool, package in TOOLS.items() if not find(tool)}
    return tools | {path: package for path, package in FILES.items() if not exists(path)}


def describe_missing(missing: dict[str, str]) -> str:
    """One line that names what is missing and how to get it."""
    packages = " ".join(sorted(set(missing.values())))
    return f"missing on this host: {', '.join(sorted(missing))}; apt-get install {packages}"


def install(missing: dict[str, str]) -> None:
    """Install the packages of what is missing."""
    if os.geteuid():
        raise LabError(f"{describe_missing(missing)} (as root)")
    environment = ["env", "DEBIAN_FRONTEND=noninteractive"]
    run([*environment, "apt-get", "update", "-q"])
    run([*environment, "apt-get", "install", "-q", "-y", "--no-install-recommends", *sorted(set(missing.values()))])


def check_host() -> None:
    """Refuse, in one line, a machine that cannot carry the lab."""
    if os.geteuid():
        raise LabError("the lab needs root: it makes a network namespace, taps and a disk image")
    os.environ["PATH"] = SEARCH_PATH
    missing = missing_packages()
    if missing:
        raise LabError(f"{describe_missing(missing)}, or run `labctl.py deps --install`")
    if not os.path.exists("/dev/net/tun"):
        raise LabError("/dev/net/tun: not there; load the tun module or pass the device in")


def has_virtualisation(cpuinfo: str) -> bool:
    """Whether the processor's flags offer VT-x or AMD-V."""
    return re.search(r"^flags\s*:.*\b(vmx|svm)\b", cpuinfo, re.MULTILINE) is not None


def kvm_usable() -> bool:
    """Whether KVM works: a /dev/kvm alone is no proof."""
    if not has_virtualisation(Path("/proc/cpuinfo").read_text()):
        return False
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def available_memory(meminfo: str) -> int:
    """MiB that can be had without swapping, from the text of /proc/meminfo."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    if not found:
        raise LabError("/proc/meminfo: no MemAvailable line")
    return int(found[1]) // 1024


def check_memory(nodes: int, memory: int, meminfo: str | None = None) -> None:
    """Refuse nodes that do not fit, with the figures."""
    have = available_memory(meminfo or Path("/proc/meminfo").read_text())
    need = nodes * (memory + QEMU_OVERHEAD_MIB)
    if need > have:
        raise LabError(
            f"too little memory: {nodes} nodes of {memory} MiB need {need} MiB, "
            f"{have} MiB are available; use fewer nodes or a smaller --memory"
        )


def check_disk(folder: Path, need: int, what: str) -> None:
    """Refuse to start when a folder's file system lacks that many MiB."""
    have = shutil.disk_usage(folder).free // MIB
    if need > have:
        raise LabError(f"too little disk space: {what} needs {need} MiB in {folder}, {have} MiB are free")


def check_namespaces(probe: str) -> None:
    """Refuse, in one line, a machine without named network namespaces."""
    done = call(["ip", "netns", "add", probe])
    if done.rc:
        raise LabError(
            f"ip netns add: {done.err.strip()}; the lab needs CAP_SYS_ADMIN and "
            "a /run/netns that can be mounted on (in a container: --privileged)"
        )
