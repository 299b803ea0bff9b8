# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Path MTU: what is concluded from pings over a path that carries so much and no more."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import CommandTimeout
from ansible_collections.lossless.roce.plugins.module_utils.fabric.path_mtu import (
    Peer,
    check_peer,
    check_peers,
    check_rdma_mtu,
)
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.host import Done
from fake_host import FakeHost

PEER = Peer("node2", "198.51.100.2", "ens1np0", 0)


class Path(FakeHost):
    """A node whose pings come back up to ``carries`` bytes; larger ones are answered by ``words``."""

    def __init__(self, own: int, carries: int, words: str = "") -> None:
        super().__init__({"/sys/class/net/ens1np0/mtu": f"{own}\n"})
        self.carries = carries
        self.words = words

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        assert argv[0] == "ping" and argv[argv.index("-M") + 1] == "do" and argv[argv.index("-I") + 1] == "ens1np0"
        assert "-c" in argv and "-W" in argv and timeout <= 60, "bounded"
        self.ran.append(argv)
        if int(argv[argv.index("-s") + 1]) + 28 <= self.carries:
            return Done(argv, 0, "3 packets transmitted, 3 received, 0% packet loss, time 400ms\n", "")
        return Done(argv, 1, "3 packets transmitted, 0 received, 100% packet loss, time 400ms\n", self.words)


class Lossy(Path):
    """A path whose packets come back one by one as ``fates`` say, and then all of them."""

    def __init__(self, fates: list[bool]) -> None:
        super().__init__(9000, 9000)
        self.fates = fates

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        self.ran.append(argv)
        count = int(argv[argv.index("-c") + 1])
        back = sum(self.fates.pop(0) if self.fates else True for _packet in range(count))
        lost = f"{round(100 - 100 * back / count)}% packet loss"
        return Done(argv, 0 if back else 1, f"{count} packets transmitted, {back} received, {lost}, time 400ms\n", "")


def check(host: FakeHost, peer: Peer = PEER, mtu: int = 9000) -> Finding:
    """The finding of node1."""
    return check_peer(host, "node1", peer, mtu)  # type: ignore[arg-type]


def test_full_size_packets_pass_at_once() -> None:
    host = Path(9000, 9000)
    finding = check(host)
    assert (finding.check, finding.verdict, finding.cause) == ("path_mtu", "pass", "")
    assert finding.observed == {"mtu": 9000, "from": "node1", "to": "node2", "rail": 0}
    assert len(host.ran) == 1 and "-s 8972" in finding.evidence


@pytest.mark.parametrize("carries", [576, 577, 1500, 3000, 4200, 8999])
def test_a_silent_hole_is_measured_to_the_byte(carries: int) -> None:
    host = Path(9000, carries)
    finding = check(host)
    assert finding.verdict == "fail" and finding.observed["mtu"] == carries
    assert f"up to {carries} bytes" in finding.cause and "without a word" in finding.cause
    assert len(host.ran) < 20


def test_a_hop_that_names_its_mtu() -> None:
    finding = check(Path(9000, 1500, "From 198.51.100.9 icmp_seq=1 Frag needed and DF set (mtu = 1500)"))
    assert "a hop says its MTU is 1500" in finding.cause


def test_the_own_port_is_smaller_than_declared() -> None:
    finding = check(Path(1500, 1500, "ping: local error: message too long, mtu=1500"))
    assert finding.verdict == "fail" and finding.cause == "ens1np0 has MTU 1500, and 9000 is declared"


def test_ends_that_differ_are_named_before_any_packet() -> None:
    host = Path(9000, 9000)
    finding = check(host, Peer("node2", "198.51.100.2", "ens1np0", 0, mtu=4200))
    assert finding.verdict == "fail" and host.ran == []
    for word in ("node1", "9000", "node2", "4200"):
        assert word in finding.cause
    assert finding.observed["mtu"] == {"node1": 9000, "node2": 4200}


def test_a_peer_that_does_not_answer() -> None:
    finding = check(Path(9000, 0))
    assert finding.observed["mtu"] is None and "does not answer on ens1np0 at all" in finding.cause


def test_ping_that_cannot_work_says_why() -> None:
    finding = check(Path(9000, 0, "ping: socktype: SOCK_RAW\nping: socket: Operation not permitted"))
    assert "ping: socktype: SOCK_RAW" in finding.cause


def test_a_missing_netdev_fails_its_own_path_only() -> None:
    finding = check(FakeHost())
    assert finding.verdict == "fail" and "no network device of node1" in finding.cause


def test_a_ping_that_hangs() -> None:
    class Hanging(Path):
        def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
            raise CommandTimeout("ping: still running after 30 s, ended")

    assert check(Hanging(9000, 9000)).verdict == "fail"


@pytest.mark.parametrize("fates", [[True, False, True], [False] * 3, [False] * 5], ids=["one", "three", "more"])
def test_lost_packets_are_loss_and_not_a_limit_of_the_mtu(fates: list[bool]) -> None:
    lost = min(fates.count(False), 3)
    finding = check(Lossy(list(fates)))
    assert finding.verdict == "fail" and finding.observed["mtu"] == 9000
    assert f"packets of 9000 bytes pass, and {lost} of 3 were lost" in finding.cause
    assert "counters" in finding.remedy


@pytest.mark.parametrize("carries", [0, 300, 399])
def test_a_declared_mtu_below_576_is_never_answered_by_a_larger_one(carries: int) -> None:
    finding = check(Path(400, carries), mtu=400)
    assert finding.verdict == "fail"
    assert finding.observed["mtu"] == (carries or None)


@pytest.mark.parametrize(
    ("own", "peers", "declared", "verdict", "words"),
    [
        (4096, 4096, 4096, "pass", ""),
        (4096, 4096, None, "pass", ""),
        (4096, 4096, 2048, "pass", ""),
        (1024, 4096, 4096, "fail", "node1 runs RDMA MTU 1024 on ens1np0, node2 (198.51.100.2) runs 4096"),
        (1024, 1024, 4096, "fail", "both ends run RDMA MTU 1024, and 4096 is declared"),
        (None, 4096, 4096, "unknown", "of node1 is not known"),
        (None, None, None, "unknown", "of node1 and node2 is not known"),
    ],
)
def test_the_active_rdma_mtu_of_both_ends(
    own: int | None, peers: int | None, declared: int | None, verdict: str, words: str
) -> None:
    finding = check_rdma_mtu("node1", Peer("node2", "198.51.100.2", "ens1np0", 0, rdma_mtu=peers), own, declared)
    assert (finding.check, finding.verdict, finding.port) == ("rdma_mtu", verdict, "ens1np0")
    assert finding.observed["rdma_mtu"] == {"node1": own, "node2": peers} and finding.observed["rail"] == 0
    assert words in finding.cause and bool(finding.cause) == bool(words) == bool(finding.remedy)


DEVINFO = (
    "hca_id:\tmlx5_0\n\ttransport:\t\t\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n"
    "\t\t\tmax_mtu:\t\t4096 (5)\n\t\t\tactive_mtu:\t\t1024 (3)\n\t\t\tlink_layer:\t\tEthernet\n"
)


ADDRESSES = '[{"ifname":"ens1np0","addr_info":[{"family":"inet","local":"198.51.100.1","prefixlen":24}]}]'


class Devices(Path):
    """A path, and the tools that tell of RDMA devices."""

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        if argv[0] == "ping":
            return super().run(*argv, check=check, timeout=timeout)
        link = '[{"ifindex":0,"ifname":"mlx5_0","port":1,"state":"ACTIVE","netdev":"ens1np0"}]'
        return Done(argv, 0, {"rdma": link, "ibv_devinfo": DEVINFO, "ip": ADDRESSES}[argv[0]], "")


def test_what_one_path_carries_is_tried_first_on_the_others() -> None:
    host, measured = Path(9000, 4200), {}  # type: ignore[var-annotated]
    first = check_peer(host, "node1", PEER, 9000, measured)  # type: ignore[arg-type]
    asked = len(host.ran)
    second = check_peer(host, "node1", PEER, 9000, measured)  # type: ignore[arg-type]
    assert first.observed["mtu"] == second.observed["mtu"] == 4200
    assert len(host.ran) - asked == 5, "full size twice, the smallest, 4200 and 4201"


@pytest.mark.parametrize("carries", [576, 577, 3000, 5000, 8999])
@pytest.mark.parametrize("of_another", [68, 577, 4200, 8999, 12000])
def test_a_path_that_carries_something_else_is_measured_for_itself(carries: int, of_another: int) -> None:
    host = Path(9000, carries)
    finding = check_peer(host, "node1", PEER, 9000, {"ens1np0": of_another})  # type: ignore[arg-type]
    assert finding.observed["mtu"] == carries


def test_peers_are_tried_at_the_same_time() -> None:
    class Together(Devices):
        """A path on which nothing comes back before all peers were tried."""

        all_there = threading.Barrier(20, timeout=30)

        def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
            if argv[0] == "ping":
                self.all_there.wait()
            return super().run(*argv, check=check, timeout=timeout)

    peers = [Peer(f"node{number}", f"198.51.100.{number}", "ens1np0", 0) for number in range(2, 22)]
    found = check_peers(Together(9000, 9000), "node1", peers, 9000)  # type: ignore[arg-type]
    paths = [finding for finding in found if finding.check == "path_mtu"]
    assert [finding.observed["to"] for finding in paths] == [peer.name for peer in peers]
    assert {finding.verdict for finding in paths} == {"pass"}


def test_every_peer_gets_both_findings_and_the_drivers_word_counts() -> None:
    peer = Peer("node2", "198.51.100.2", "ens1np0", 0, mtu=9000, rdma_mtu=4096)
    found = check_peers(Devices(9000, 9000), "node1", [peer], 9000, 4096)  # type: ignore[arg-type]
    assert [(f.check, f.verdict) for f in found] == [("path_mtu", "pass"), ("rdma_mtu", "fail")]
    assert "1024" in found[1].cause, "though the netdev's 9000 would give 4096"


@pytest.mark.parametrize(
    ("addresses", "on"),
    [
        (["198.51.100.1"], "also on ens1np0 of node1"),  # our own kernel would answer, whatever the MTU of the path
        (["198.51.100.3", "198.51.100.3"], "also on rail 0 of node2 and rail 0 of node3"),
    ],
)
def test_an_address_that_two_have_proves_nothing(addresses: list[str], on: str) -> None:
    peers = [Peer(f"node{number}", address, "ens1np0", 0) for number, address in enumerate(addresses, 2)]
    found = check_peers(Devices(9000, 9000), "node1", peers, 9000)  # type: ignore[arg-type]
    paths = [finding for finding in found if finding.check == "path_mtu"]
    assert [finding.verdict for finding in paths] == ["fail"] * len(peers)
    assert all(on in finding.cause and finding.remedy for finding in paths)


def test_a_peer_is_held_against_what_the_own_ports_policy_declares() -> None:
    own = Peer("node2", "198.51.100.2", "ens1np0", 0, 4200, 1024, declared_mtu=4200, declared_rdma_mtu=1024)
    found = check_peers(Devices(4200, 4200), "node1", [own], 9000, 4096)  # type: ignore[arg-type]
    assert [(f.check, f.verdict) for f in found] == [("path_mtu", "pass"), ("rdma_mtu", "pass")], found
    assert [f.expected for f in found] == [{"mtu": 4200}, {"rdma_mtu": 1024}]
