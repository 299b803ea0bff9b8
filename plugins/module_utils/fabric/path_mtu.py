# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether full-size packets that must not be fragmented reach a peer, and both ends run one RDMA MTU."""

from __future__ import annotations

import re
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..errors import CommandTimeout, HostError, ParseError
from ..findings import FAIL, PASS, UNKNOWN, Finding
from ..parsers.addresses import parse_addresses
from .ends import active_mtus

if t.TYPE_CHECKING:
    from ..host import Host

# IPv4 header 20 and ICMP header 8 bytes.
_HEADERS = 28
_SMALLEST = 576
_LEAST = 68  # RFC 791: every IPv4 link carries that
_COUNT = 3
_WAIT_S = 1
# A size passes when one of this many packets comes back: loss is another fault than size.
_PROBES = 5
# So many peers are tried at the same time, each by one ping after the other.
_AT_ONCE = 32


@dataclass(frozen=True)
class Peer:
    """The other end on one rail: its name, address, MTUs as they run there (None: unknown), and our netdev.

    declared_mtu, declared_rdma_mtu: of our netdev, in bytes, where it has a policy of its own.
    """

    name: str
    address: str
    netdev: str
    rail: int
    mtu: int | None = None
    rdma_mtu: int | None = None
    declared_mtu: int | None = None
    declared_rdma_mtu: int | None = None


def check_peers(
    host: Host, host_name: str, peers: t.Sequence[Peer], declared_mtu: int, declared_rdma_mtu: int | None = None
) -> list[Finding]:
    """Two findings on each peer: ``path_mtu`` by packets, and ``rdma_mtu`` on what both ends run.

    declared_mtu, declared_rdma_mtu: in bytes, for peers that have none of their own.
    """
    own, taken = active_mtus(host), _taken(host, host_name, peers)
    measured: dict[str, int] = {}

    def check(peer: Peer) -> Finding:
        mtu = peer.declared_mtu or declared_mtu
        if peer.address in taken:
            return _duplicate(host_name, peer, mtu, taken[peer.address])
        return check_peer(host, host_name, peer, mtu, measured)

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = list(pool.map(check, peers))
    return found + [
        check_rdma_mtu(host_name, peer, own.get(peer.netdev), peer.declared_rdma_mtu or declared_rdma_mtu)
        for peer in peers
    ]


def _taken(host: Host, host_name: str, peers: t.Sequence[Peer]) -> dict[str, str]:
    """Address of a peer -> on what else it is: packets to it would be answered by another one, or by our own kernel."""
    try:
        here = parse_addresses(host.run("ip", "-j", "address", "show").out)
    except (HostError, ParseError):
        here = {}
    taken = {address: f"{netdev} of {host_name}" for netdev, own in here.items() for address in own}
    for address in {peer.address for peer in peers}:
        names = sorted(f"rail {peer.rail} of {peer.name}" for peer in peers if peer.address == address)
        if len(names) > 1:
            taken.setdefault(address, " and ".join(names))
    return {peer.address: taken[peer.address] for peer in peers if peer.address in taken}


def _duplicate(host_name: str, peer: Peer, declared_mtu: int, where: str) -> Finding:
    return _finding(
        host_name,
        peer,
        declared_mtu,
        observed={"mtu": None},
        evidence="ip -j address show, and the addresses that the other hosts told",
        cause=f"{peer.address} is the address of {peer.name} on rail {peer.rail}, and also on {where}: who answers"
        " would not be known",
        remedy="give each port an address of its own (ip address; address in roce_ports)",
    )


def check_rdma_mtu(host_name: str, peer: Peer, own: int | None, declared: int | None) -> Finding:
    """A finding on the active RDMA MTU of both ends: one and the same, and at least the declared one."""
    ends = {host_name: own, peer.name: peer.rdma_mtu}
    lacking = [name for name, mtu in ends.items() if mtu is None]
    if lacking:
        verdict, cause = UNKNOWN, f"the active RDMA MTU of {' and '.join(lacking)} is not known"
        remedy = "ibv_devinfo (package ibverbs-utils) tells it; look at the port's state"
    elif own != peer.rdma_mtu:
        verdict = FAIL
        cause = (
            f"the two ends differ: {host_name} runs RDMA MTU {own} on {peer.netdev}, {peer.name} ({peer.address}) runs"
            f" {peer.rdma_mtu}"
        )
        remedy = "run playbook lossless.roce.bootstrap on both; RDMA takes its MTU from the netdev's"
    elif declared is not None and own is not None and own < declared:
        verdict, cause = FAIL, f"both ends run RDMA MTU {own}, and {declared} is declared"
        remedy = "raise the MTU of the ports (policy: mtu), or declare what the ports can do (rdma_mtu)"
    else:
        verdict, cause, remedy = PASS, "", ""
    return Finding(
        check="rdma_mtu",
        verdict=verdict,
        observed={"rdma_mtu": ends, "from": host_name, "to": peer.name, "rail": peer.rail},
        expected={"rdma_mtu": declared} if declared is not None else "one RDMA MTU on both ends",
        evidence="ibv_devinfo on both",
        cause=cause,
        remedy=remedy,
        port=peer.netdev,
    )


def check_peer(
    host: Host, host_name: str, peer: Peer, declared_mtu: int, measured: dict[str, int] | None = None
) -> Finding:
    """A finding on the path to one peer: both MTUs first, then packets of the declared MTU.

    measured: netdev -> what a smaller path carried that was found there, tried first on the next one and noted
    """
    file = f"/sys/class/net/{peer.netdev}/mtu"
    text = host.read_optional(file)
    if text is None:
        return _finding(
            host_name,
            peer,
            declared_mtu,
            observed={"mtu": None},
            evidence=file,
            cause=f"{peer.netdev} is declared and is no network device of {host_name}",
            remedy="look for the card, its driver and the name in roce_ports",
        )
    own = int(text)
    if peer.mtu is not None and peer.mtu != own:
        return _finding(
            host_name,
            peer,
            declared_mtu,
            observed={"mtu": {host_name: own, peer.name: peer.mtu}},
            evidence=f"/sys/class/net/{peer.netdev}/mtu on both",
            cause=f"the two ends differ: {host_name} has MTU {own} on {peer.netdev}, {peer.name} has {peer.mtu}",
            remedy="run playbook lossless.roce.bootstrap on both; the switch port needs 9216",
        )
    # A path smaller than the declared MTU is found by packets of the MTU that both ends run.
    return _by_packets(host, host_name, peer, declared_mtu, own, {} if measured is None else measured)


def _by_packets(
    host: Host, host_name: str, peer: Peer, declared_mtu: int, own: int, measured: dict[str, int]
) -> Finding:
    argv = _argv(peer, declared_mtu)
    reply = _ping(host, argv)
    if reply.came_back == reply.sent:
        return _finding(host_name, peer, declared_mtu, observed={"mtu": declared_mtu}, evidence=" ".join(argv))
    if reply.came_back or _passes(host, peer, declared_mtu):
        return _lossy(host_name, peer, declared_mtu, reply, argv)
    cause, remedy, passing = _explain(host, peer, declared_mtu, own, reply.text, measured)
    return _finding(
        host_name, peer, declared_mtu, observed={"mtu": passing}, evidence=" ".join(argv), cause=cause, remedy=remedy
    )


def _lossy(host_name: str, peer: Peer, declared_mtu: int, reply: Reply, argv: list[str]) -> Finding:
    """Full-size packets pass, and not all of them: the MTU is right, and something loses packets."""
    return _finding(
        host_name,
        peer,
        declared_mtu,
        observed={"mtu": declared_mtu, "lost": reply.sent - reply.came_back, "sent": reply.sent},
        evidence=" ".join(argv),
        cause=f"packets of {declared_mtu} bytes pass, and {reply.sent - reply.came_back} of {reply.sent} were lost",
        remedy="look at the error and discard counters of both ports and of the switch (ethtool -S), cable and optics",
    )


def _argv(peer: Peer, mtu: int, count: int = _COUNT) -> list[str]:
    size = str(mtu - _HEADERS)
    limits = ["-c", str(count), "-i", "0.2", "-W", str(_WAIT_S)]
    return ["ping", "-n", *limits, "-M", "do", "-s", size, "-I", peer.netdev, peer.address]


@dataclass(frozen=True)
class Reply:
    """How many packets ping sent and got back, and what it said."""

    sent: int
    came_back: int
    text: str


def _ping(host: Host, argv: list[str]) -> Reply:
    """Ping once, in bounded time."""
    count = int(argv[argv.index("-c") + 1])
    try:
        done = host.run(*argv, check=False, timeout=30)
    except CommandTimeout as exc:
        return Reply(count, 0, str(exc))
    found = re.search(r"(\d+) packets transmitted, (\d+) received", done.out)
    return Reply(count, min(int(found.group(2)), count) if found else 0, (done.out + done.err).strip() or "no answer")


def _passes(host: Host, peer: Peer, mtu: int) -> bool:
    """Whether any packet of this size comes back."""
    return _ping(host, _argv(peer, mtu, _PROBES)).came_back > 0


def _explain(
    host: Host, peer: Peer, declared_mtu: int, own: int, reply: str, measured: dict[str, int]
) -> tuple[str, str, int | None]:
    """Cause, remedy, and the largest MTU that passes (None: nothing does)."""
    if own < declared_mtu:
        return (
            f"{peer.netdev} has MTU {own}, and {declared_mtu} is declared",
            "run playbook lossless.roce.bootstrap",
            own,
        )
    passing = _largest(host, peer, declared_mtu, measured)
    if passing is None:
        # ping's own trouble (no permission, no route) is another thing than silence.
        words = re.search(r"^ping: .*", reply, re.MULTILINE)
        return (
            f"{peer.name} ({peer.address}) does not answer on {peer.netdev} at all"
            + (f" ({words.group()})" if words else ""),
            "check the peer's port and address, cable, VLAN and switch port; ip neighbour show",
            None,
        )
    told = re.search(r"mtu ?= ?(\d+)", reply)
    where = (
        f"a hop says its MTU is {told.group(1)}" if told else "something on the way drops larger packets without a word"
    )
    return (
        f"packets of up to {passing} bytes pass, larger ones do not: {where}",
        "raise the MTU of the switch ports to 9216",
        passing,
    )


def _largest(host: Host, peer: Peer, failing: int, measured: dict[str, int]) -> int | None:
    """The largest MTU below ``failing`` that passes; None when not even a small packet does.

    A switch that is set wrongly is so for many peers: what was found for another one is tried before the search.
    """
    low, high = _SMALLEST if failing > _SMALLEST else _LEAST, failing
    if not _passes(host, peer, low):
        return None
    known = measured.get(peer.netdev, low)
    likely = [known, known + 1]
    while high - low > 1:
        size = likely.pop(0) if likely else (low + high) // 2
        if not low < size < high:
            continue
        if _passes(host, peer, size):
            low = size
        else:
            high = size
    measured[peer.netdev] = low
    return low


def _finding(
    host_name: str,
    peer: Peer,
    declared_mtu: int,
    *,
    observed: dict[str, t.Any],
    evidence: str,
    cause: str = "",
    remedy: str = "",
) -> Finding:
    return Finding(
        check="path_mtu",
        verdict=FAIL if cause else PASS,
        observed={**observed, "from": host_name, "to": peer.name, "rail": peer.rail},
        expected={"mtu": declared_mtu},
        evidence=evidence,
        cause=cause,
        remedy=remedy,
        port=peer.netdev,
    )
