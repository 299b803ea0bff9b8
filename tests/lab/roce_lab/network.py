"""The fabric: a network namespace, a bridge per rail, a shaped tap per node and rail.

Nothing of it is seen by the host's own network, and deleting the namespace
deletes all of it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import threading
from collections.abc import Sequence

from .errors import LabError
from .host import check_namespaces
from .process import call, run

MTU = 9216  # room for 9000-byte packets, as on a switch
QUEUE_BYTES = 64 * 1024 * 1024  # deep: a lossless link delays, it does not drop
MIN_BURST_BYTES = 64 * 1024
BURST_SECONDS = 0.01

# linux/sched.h, linux/if_tun.h
CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


def bridge_name(rail: int) -> str:
    """The bridge of a rail."""
    return f"rail{rail}"


def tap_name(node: int, rail: int) -> str:
    """The tap at the switch's end of a node's link."""
    return f"n{node}r{rail}"


def address(node: int, rail: int) -> str:
    """The address of a node on a rail, which is a /24."""
    return f"10.{100 + rail}.0.{node}"


def shape_arguments(mbits: float) -> str:
    """The token bucket that holds a link at a rate."""
    if mbits <= 0:
        raise LabError(f"rate {mbits:g}: a link's rate is above 0 Mb/s")
    burst = max(MIN_BURST_BYTES, int(mbits * 1e6 / 8 * BURST_SECONDS))
    return f"root tbf rate {int(mbits * 1e6)}bit burst {burst} limit {QUEUE_BYTES}"


def ip_commands(nodes: int, rails: int) -> str:
    """What `ip -batch` does to make the bridges and taps."""
    lines = []
    for rail in range(rails):
        bridge = bridge_name(rail)
        lines.append(f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0")
        lines.append(f"link set {bridge} mtu {MTU} addrgenmode none up")
        for node in range(1, nodes + 1):
            tap = tap_name(node, rail)
            lines.append(f"tuntap add dev {tap} mode tap vnet_hdr")
            lines.append(f"link set {tap} mtu {MTU} master {bridge} addrgenmode none up")
    return "\n".join(lines) + "\n"


def shape_command(node: int, rail: int, mbits: float) -> str:
    """What `tc -batch` does to shape one link towards the node."""
    return f"qdisc replace dev {tap_name(node, rail)} {shape_arguments(mbits)}\n"


class Fabric:
    """The links of one lab, kept in a named network namespace."""

    def __init__(self, netns: str) -> None:
        self.netns = netns

    def create(self, nodes: int, rails: int, mbits: float) -> None:
        """Make the namespace, the bridges and the taps."""
        check_namespaces(self.netns)
        run(["ip", "-n", self.netns, "-batch", "-"], stdin=ip_commands(nodes, rails))
        links = [(node, rail) for node in range(1, nodes + 1) for rail in range(rails)]
        commands = "".join(shape_command(node, rail, mbits) for node, rail in links)
        run(["tc", "-n", self.netns, "-batch", "-"], stdin=commands)

    def exists(self) -> bool:
        """Whether the namespace is there."""
        return os.path.exists(f"/run/netns/{self.netns}")

    def delete(self) -> None:
        """Delete the namespace and all that is in it; fine when it is gone."""
        done = call(["ip", "netns", "del", self.netns])
        if done.rc and self.exists():
            raise LabError(f"ip netns del {self.netns}: {done.err.strip()}")

    def shape(self, node: int, rail: int, mbits: float) -> None:
        """Hold the link towards a node at a rate in Mb/s."""
        run(["tc", "-n", self.netns, "-batch", "-"], stdin=shape_command(node, rail, mbits))

    def set_tap(self, node: int, rail: int, *, up: bool) -> None:
        """Let frames pass on a link, or not."""
        run(["ip", "-n", self.netns, "link", "set", tap_name(node, rail), "up" if up else "down"])

    def run(self, argv: Sequence[str]) -> str:
        """Run a command inside the namespace."""
        return run(["ip", "netns", "exec", self.netns, *argv])

    def open_tap(self, node: int, rail: int) -> int:
        """A file descriptor of a tap, for QEMU, which itself stays outside."""
        found: list[int | OSError] = []
        thread = threading.Thread(target=self._open_inside, args=(tap_name(node, rail), found))
        thread.start()  # only this thread enters the namespace, and it ends at once
        thread.join()
        if not found or isinstance(found[0], OSError):
            reason = found[0] if found else "no answer"
            raise LabError(f"tap {tap_name(node, rail)} in {self.netns}: {reason}")
        return found[0]

    def _open_inside(self, tap: str, found: list[int | OSError]) -> None:
        try:
            _enter(f"/run/netns/{self.netns}")
            found.append(_attach(tap))
        except OSError as exc:
            found.append(exc)


def _enter(path: str) -> None:
    """Move the calling thread into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns is there from Python 3.12 on
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(namespace, CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(namespace)


def _attach(tap: str) -> int:
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    request = struct.pack("16sH22x", tap.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
    try:
        fcntl.ioctl(tun, TUNSETIFF, request)
    except OSError:
        os.close(tun)
        raise
    return tun
