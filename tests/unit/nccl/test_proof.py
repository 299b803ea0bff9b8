# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL's logs prove: every recorded case has its verdict, with the cause and what to do."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.nccl.proof import Expected, Inside, prove
from ansible_collections.lossless.roce.plugins.module_utils.parsers.nccl_log import parse_log

RECORDED = Path(__file__).parents[1] / "recorded"
IB_USING = "n:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:192.0.2.1<0>\n"


def case(name: str, **expected: t.Any) -> list[Finding]:
    """Findings on a recorded log."""
    (path,) = RECORDED.glob(f"*/{name}*")
    return prove(parse_log(path.read_text()), Expected(**expected))


def channels(via: str, *ways: str) -> str:
    """Channel lines of one rank, one for each way."""
    return "".join(
        f"n:1:2 [0] NCCL INFO Channel {n:02d}/0 : 0[0] -> 1[0] [{way}] via {via}\n" for n, way in enumerate(ways)
    )


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    """Findings by check; there is one of each."""
    found = {finding.check: finding for finding in findings}
    assert len(found) == len(findings), findings
    return found


def rank_log(host: str, rank: int, *ways: str, ibdev: str = "mlx5_0", nranks: int = 2, end: bool = True) -> str:
    """A whole log of one rank: its port, its channels to the rank nranks / 2 further on, and that all are connected."""
    peer = (rank + nranks // 2) % nranks
    ends = {"send": f"{rank}[0] -> {peer}[0]", "receive": f"{peer}[0] -> {rank}[0]"}
    lines = [
        f"NET/IB : Using [0]{ibdev}:1/RoCE [RO]; OOB eth0:192.0.2.1<0>",
        f"ncclCommInitRank comm 0x1 rank {rank} nranks {nranks} cudaDev 0 busId 60 commId 0x2 - Init COMPLETE",
        *(f"Channel 00/0 : {ends[way]} [{way}] via NET/IB/0/GDRDMA" for way in ways),
        *(["Connected all rings, use ring PXN 0 GDR 1"] if end else []),
    ]
    return "".join(f"{host}:{rank + 100}:7 [0] NCCL INFO {line}\n" for line in lines)


BOTH = ("send", "receive")
PROVEN = {"nccl_path": "pass", "nccl_hca": "pass", "nccl_gdr": "pass"}
UNPROVEN = {"nccl_path": "unknown", "nccl_hca": "unknown", "nccl_gdr": "unknown"}


def verdicts(findings: list[Finding]) -> dict[str, str]:
    return {check: finding.verdict for check, finding in by_check(findings).items()}


def test_b01_a_plugin_that_replaces_ib_is_proven() -> None:
    assert verdicts(case("b01")) == {"nccl_path": "pass", "nccl_gdr": "pass"}


def test_b02_rdma_without_gpudirect() -> None:
    found = by_check(case("b02"))
    assert found["nccl_path"].verdict == "pass" and found["nccl_gdr"].verdict == "fail"
    assert "no module" in found["nccl_gdr"].cause and "nvidia_peermem" in found["nccl_gdr"].remedy


def test_b04_no_device_and_too_many_interfaces() -> None:
    (found,) = case("b04")
    assert found.verdict == "fail" and found.cause.startswith("fell back to Socket: NCCL found no RDMA device")
    assert "NCCL_SOCKET_IFNAME" in found.remedy and "virbr0" in found.remedy and "192.0.2.201" in found.remedy
    assert found.observed["version"] == "2.17.1"


def test_b06_one_cause_that_names_both_gids() -> None:
    (found,) = case("b06")
    assert found.verdict == "fail" and "status 12" in found.cause
    assert "::ffff:198.51.100.182" in found.cause and "::ffff:198.51.100.221" in found.cause


def test_b08_init_alone_proves_nothing() -> None:
    (found,) = case("b08")
    assert (found.check, found.verdict) == ("nccl_path", "unknown")
    assert "InfiniBand" in found.cause and "not proven" in found.cause


def test_b10_gpudirect_is_off_although_the_module_is_loaded() -> None:
    found = by_check(case("b10-roce-gdr-disabled-peermem-loaded.nccl"))
    assert found["nccl_path"].verdict == "unknown" and found["nccl_gdr"].verdict == "fail"
    assert "mlx5_0, mlx5_1" in found["nccl_gdr"].cause and "loaded is no proof" in found["nccl_gdr"].remedy


def test_b12_one_direction_and_no_gpudirect() -> None:
    found = by_check(case("b12"))
    assert found["nccl_path"].verdict == "unknown" and "receives" in found["nccl_path"].cause
    assert found["nccl_gdr"].verdict == "fail"
    assert verdicts(case("b12", gdr=False))["nccl_gdr"] == "skipped", "GPU and processor share their memory"


def test_b14_no_route_between_rails() -> None:
    (found,) = case("b14")
    assert found.verdict == "fail" and "mlx5_1:1" in found.cause and "::ffff:198.51.100.37" in found.cause
    assert "NCCL_CROSS_NIC=0" in found.remedy


def test_b16_no_libibverbs_and_no_word_on_gpudirect() -> None:
    (found,) = case("b16")
    assert found.verdict == "fail" and "libibverbs is missing" in found.cause and "image" in found.remedy


@pytest.mark.parametrize(
    "name",
    [
        "nccl-2node-1gpu-socket-rank0",
        "nccl-2node-1gpu-socket-rank1",
        "h200-2.28.9-fallback-host-a",
        "h200-2.28.9-fallback-host-b",
        "h200-2.28.9-accepted-host-a",
    ],
)
def test_a_real_gpu_without_rdma_fell_back_and_may_be_accepted(name: str) -> None:
    (found,) = case(name, inside=Inside(ibdevs=()))
    assert found.verdict == "fail" and found.cause.startswith("fell back to Socket: no RDMA device")
    (accepted,) = case(name, accept_socket=True)
    assert accepted.verdict == "pass" and "declared acceptable" in accepted.cause


@pytest.mark.parametrize(
    ("line", "inside", "cause"),
    [
        ("NCCL_IB_DISABLE set by environment to 1.", Inside(), "NCCL_IB_DISABLE"),
        ("NCCL_NET set by environment to Socket", Inside(), "NCCL_NET=Socket"),
        ("Failed to open libibverbs.so[.1]", Inside(), "libibverbs is missing"),
        ("NET/IB : No device found.", Inside(libibverbs=False), "libibverbs is missing"),
        ("NET/IB : No device found.", Inside(ibdevs=()), "no RDMA device"),
        ("NET/IB : No device found.", Inside(ibdevs=("mlx5_0",), uverbs=()), "/dev/infiniband"),
        (
            "libibverbs: Warning: no userspace device-specific driver found for /sys/class/infiniband_verbs/uverbs0",
            Inside(ibdevs=("mlx5_0",), uverbs=("uverbs0",)),
            "no provider",
        ),
        (
            "NCCL_IB_HCA set by environment to =mlx5_7:1",
            Inside(ibdevs=("mlx5_0",), uverbs=("uverbs0",)),
            "NCCL_IB_HCA==mlx5_7:1 names no active port",
        ),
        ("nothing", Inside(), "does not say why"),
    ],
)
def test_why_sockets(line: str, inside: Inside, cause: str) -> None:
    text = f"n:1:2 [0] NCCL INFO {line}\nn:1:2 [0] NCCL INFO Using network Socket\n"
    (found,) = prove(parse_log(text), Expected(inside=inside))
    assert found.verdict == "fail" and found.cause.startswith("fell back to Socket: ") and cause in found.cause
    assert found.remedy


@pytest.mark.parametrize("words", ["Failed to initialize any NET plugin", "Error: network IB not found."])
def test_a_network_that_was_asked_for_and_is_not_there(words: str) -> None:
    text = "n:1:2 [0] NCCL INFO NET/IB : No device found.\n"
    text += f"n:1:2 [0] x.cc:1 NCCL WARN {words}\n"
    (found,) = prove(parse_log(text), Expected(inside=Inside(ibdevs=())))
    assert found.verdict == "fail" and "did not fall back to Socket: no RDMA device" in found.cause


def test_a_fallback_in_part_fails_where_bandwidth_might_pass() -> None:
    text = IB_USING + channels("NET/IB/0/GDRDMA", "send", "receive") + channels("NET/Socket/0", "send")
    found = by_check(prove(parse_log(text), Expected()))
    assert found["nccl_path"].verdict == "fail" and "1 of 3 channels" in found["nccl_path"].cause


def test_ports_of_the_policy_and_others() -> None:
    text = IB_USING + channels("NET/IB/0/GDRDMA", "send") + channels("NET/IB/1/GDRDMA", "receive")
    assert verdicts(prove(parse_log(text), Expected(ibdevs=("mlx5_0", "mlx5_1")))) == {
        "nccl_path": "pass",
        "nccl_hca": "pass",
        "nccl_gdr": "pass",
    }
    found = by_check(prove(parse_log(text), Expected(ibdevs=("mlx5_0",))))["nccl_hca"]
    assert found.verdict == "fail" and "mlx5_1" in found.cause and "NCCL_IB_HCA==mlx5_0" in found.remedy
    unnamed = text.replace(IB_USING, "")
    assert verdicts(prove(parse_log(unnamed), Expected(ibdevs=("mlx5_0",))))["nccl_hca"] == "unknown"


def eight_ports(*without: int) -> str:
    """A node of eight ports, of which NCCL does not use those of ``without``."""
    used = [f"mlx5_{number}" for number in range(8) if number not in without]
    using = " ".join(f"[{index}]{ibdev}:1/RoCE" for index, ibdev in enumerate(used))
    text = "".join(rank_log("a", rank, *BOTH, nranks=16) for rank in range(8))
    return text.replace("[0]mlx5_0:1/RoCE", using)


def test_a_declared_port_that_nccl_does_not_use_fails() -> None:
    declared = tuple(f"mlx5_{number}" for number in range(8))
    assert verdicts(prove(parse_log(eight_ports()), Expected(ibdevs=declared, ranks=8))) == PROVEN, "listed is enough"
    found = by_check(prove(parse_log(eight_ports(3)), Expected(ibdevs=declared, ranks=8)))["nccl_hca"]
    assert found.verdict == "fail" and "NCCL does not use it: mlx5_3 (a): its port is not active" in found.cause
    assert found.observed == [name for name in declared if name != "mlx5_3"] and "PORT_ACTIVE" in found.remedy


def test_eight_ranks_on_eight_ports_with_pxn() -> None:
    """Each rank sends by its own port, and rank 3 by that of rank 5, whose proxy it uses."""
    declared = tuple(f"mlx5_{number}" for number in range(8))
    text = "".join(
        line.replace("NET/IB/0", f"NET/IB/{int(line.partition(':')[2][:3]) - 100}")
        for line in eight_ports().splitlines(keepends=True)
    )
    text += "a:103:7 [3] NCCL INFO Channel 01/0 : 3[3] -> 13[5] [send] via NET/IB/5(5)/GDRDMA\n"
    found = by_check(prove(parse_log(text), Expected(ibdevs=declared, ranks=8)))
    assert {check: finding.verdict for check, finding in found.items()} == PROVEN
    assert found["nccl_hca"].observed == list(declared)
    elsewhere = text.replace("NET/IB/5(5)", "Socket/5")
    assert verdicts(prove(parse_log(elsewhere), Expected(ibdevs=declared, ranks=8)))["nccl_path"] != "pass"


def test_a_bond_is_one_port() -> None:
    text = rank_log("a", 0, *BOTH, ibdev="mlx5_bond_0")
    assert verdicts(prove(parse_log(text), Expected(ibdevs=("mlx5_bond_0",), ranks=1))) == PROVEN


def test_a_port_that_one_host_lacks_is_told_with_that_host() -> None:
    text = rank_log("a", 0, *BOTH).replace("[0]mlx5_0:1/RoCE", "[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE")
    text += rank_log("b", 1, *BOTH)
    found = by_check(prove(parse_log(text), Expected(ibdevs=("mlx5_0", "mlx5_1"))))["nccl_hca"]
    assert found.verdict == "fail" and "mlx5_1 (b)" in found.cause


def test_a_torn_line_of_ports_does_not_say_that_one_is_missing() -> None:
    text = IB_USING.partition(" [1]")[0] + "\n" + channels("NET/IB/0/GDRDMA", *BOTH)
    found = by_check(prove(parse_log(text), Expected(ibdevs=("mlx5_0", "mlx5_1"))))["nccl_hca"]
    assert found.verdict == "unknown" and "torn" in found.cause


def test_ports_merged_into_one_are_all_used() -> None:
    made = "n:1:2 [0] NCCL INFO NET/IB : Made virtual device [0] name=mlx5_0+mlx5_1 speed=400000 ndevs=2\n"
    text = IB_USING + made + channels("NET/IB/0/GDRDMA", *BOTH)
    assert verdicts(prove(parse_log(text), Expected(ibdevs=("mlx5_0", "mlx5_1")))) == PROVEN


@pytest.mark.parametrize(
    ("device", "used"), [(0, ["mlx5_0", "mlx5_1"]), (1, ["mlx5_2"]), (2, ["mlx5_3", "mlx5_4"]), (3, None)]
)
def test_merged_ports_beside_single_ones_are_numbered_as_channels_do(device: int, used: list[str] | None) -> None:
    """2.21 and 2.22: the numbers in the line are those of ports, and channels count devices."""
    merged = "[0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_2:1/RoCE [2]={[3] mlx5_3:1/RoCE, [4] mlx5_4:1/RoCE}"
    text = IB_USING.replace("[0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE", merged) + channels(f"NET/IB/{device}/GDRDMA", *BOTH)
    declared = tuple(f"mlx5_{number}" for number in range(5))
    found = by_check(prove(parse_log(text), Expected(ibdevs=declared)))["nccl_hca"]
    assert (found.verdict, found.observed) == (("pass", used) if used else ("unknown", found.observed))
    assert by_check(prove(parse_log(text), Expected()))["nccl_path"].observed["hcas"] == [
        f"{ibdev}:1/RoCE" for ibdev in declared
    ]


def test_gpudirect_in_one_direction_only_fails() -> None:
    text = IB_USING + channels("NET/IB/0/GDRDMA", "send") + channels("NET/IB/0", "receive")
    found = by_check(prove(parse_log(text), Expected()))
    assert found["nccl_path"].verdict == "pass"
    assert found["nccl_gdr"].verdict == "fail" and "1 of 2 channels" in found["nccl_gdr"].cause


@pytest.mark.parametrize("via", ["NET/AWSLibfabric/0", "NET/Foo/1"])
def test_another_network_is_not_ib(via: str) -> None:
    found = by_check(prove(parse_log(channels(via, "send", "receive")), Expected()))
    assert found["nccl_path"].verdict == "fail" and "not NET/IB" in found["nccl_path"].cause


def test_channels_that_could_not_be_read_leave_the_path_unproven() -> None:
    text = IB_USING + channels("NET/IB/0/GDRDMA", "send", "receive")
    text += "n:1:2 [0] NCCL INFO Channel 02/0 : 0[0] -> 1[0] [send] via NET/So\n"
    found = by_check(prove(parse_log(text), Expected()))
    assert found["nccl_path"].verdict == "unknown" and "1 channels could not be read" in found["nccl_path"].cause


def test_one_host() -> None:
    inside = "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    (found,) = prove(parse_log(inside), Expected(one_host=True))
    assert found.verdict == "pass" and "nothing on the fabric" in found.cause
    assert found.observed["channels"] == {"P2P/CUMEM": 1}
    (found,) = prove(parse_log(inside + channels("NET/Socket/0", "send")), Expected(one_host=True))
    assert found.verdict == "fail" and "NCCL_HOSTID" in found.remedy
    assert verdicts(prove(parse_log(""), Expected(one_host=True))) == {"nccl_path": "unknown"}


def beside(text: str, host: str, rank: int, other: int, via: str) -> str:
    """The log with a channel more that does not go over the network."""
    return text + f"{host}:{rank + 100}:7 [0] NCCL INFO Channel 01/0 : {rank}[0] -> {other}[0] via {via}\n"


@pytest.mark.parametrize("via", ["P2P/CUMEM", "SHM/direct/direct"])
def test_a_channel_to_another_host_that_does_not_leave_this_one(via: str) -> None:
    """Beside channels that are right, and to a rank whose log is there or is not."""
    own = "".join(rank_log("a", rank, *BOTH, nranks=16) for rank in range(8))
    assert verdicts(proven(beside(own, "a", 0, 1, via), ranks=8)) == PROVEN
    both = own + "".join(rank_log("b", rank, *BOTH, nranks=16) for rank in range(8, 16))
    for text, ranks in ((own, 8), (both, 16), (both, None)):
        found = by_check(proven(beside(text, "a", 0, 8, via), ranks=ranks))["nccl_path"]
        assert found.verdict == "fail" and f"channel 01 0->8, {via}" in found.cause and "NCCL_HOSTID" in found.remedy
    found = by_check(proven(beside(rank_log("a", 0, *BOTH, nranks=16), "a", 0, 1, via), ranks=8))["nccl_path"]
    assert found.verdict == "unknown", "rank 1 may well be one of this host"
    excerpt = beside(channels("NET/IB/0/GDRDMA", *BOTH), "n", 0, 7, via)
    assert by_check(prove(parse_log(excerpt), Expected()))["nccl_path"].verdict == "pass", "and so may rank 7"


def test_multi_node_nvlink_says_nothing_on_roce() -> None:
    text = "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL\n"
    (found,) = prove(parse_log(text), Expected())
    assert found.verdict == "fail" and "NCCL_MNNVL_ENABLE=0" in found.remedy


def test_memlock_and_a_wrong_gid_are_named() -> None:
    warn = "n:1:2 [0] ibvwrap.c:1 NCCL WARN Call to "
    (memlock,) = prove(parse_log(f"{warn}ibv_reg_mr failed with error Cannot allocate memory"), Expected())
    assert "locked memory" in memlock.cause and "memlock" in memlock.remedy
    (gid,) = prove(parse_log(f"{warn}ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1"), Expected())
    assert "wrong GID index" in gid.cause and "mlx5_0:1" in gid.cause


def unopened(ibdev: str) -> str:
    """What NCCL prints of a device whose node is not in the container."""
    warn = "a:100:7 [0] x.cc:1 NCCL WARN "
    return f"{warn}Call to ibv_open_device failed\n{warn}NET/IB : Unable to open device {ibdev}\n"


def test_a_device_that_is_not_declared_need_not_be_in_the_container() -> None:
    text = unopened("mlx5_7") + rank_log("a", 0, *BOTH)
    assert verdicts(proven(text, ranks=1)) == PROVEN
    assert "nccl_error" not in verdicts(prove(parse_log(text), Expected(ranks=1))), "none is declared, and it works"


def test_a_declared_device_that_cannot_be_opened_is_one_cause() -> None:
    for text in (unopened("mlx5_7") + unopened("mlx5_0"), unopened("mlx5_0") + rank_log("a", 0, *BOTH)):
        (found,) = [finding for finding in proven(text, ranks=1) if finding.check == "nccl_error"]
        assert found.verdict == "fail" and found.cause.startswith("mlx5_0 could not be opened")
        assert "/dev/infiniband" in found.remedy
    (found,) = prove(parse_log(unopened("mlx5_7")), Expected())
    assert found.cause.startswith("mlx5_7 could not be opened")
    (found,) = prove(parse_log(unopened("mlx5_7").splitlines()[0]), Expected())
    assert found.cause.startswith("an RDMA device could not be opened")


def test_another_cause_is_not_hidden_by_a_device_that_is_not_declared() -> None:
    text = unopened("mlx5_7") + "a:100:7 [0] x.cc:1 NCCL WARN Failed to initialize any NET plugin\n"
    text += "a:100:7 [0] NCCL INFO NET/IB : No device found.\n"
    (found,) = proven(text)
    assert found.check == "nccl_path" and "NCCL has no network" in found.cause


def test_a_consequence_is_told_only_when_nothing_else_is() -> None:
    gone = "n:1:2 [0] socket.c:1 NCCL WARN Connection closed by remote peer node-b\n"
    (alone,) = prove(parse_log(gone), Expected())
    assert alone.verdict == "fail" and "first rank that failed" in alone.remedy
    cause = "n:3:4 [0] x.cc:1 NCCL WARN Mismatched NCCL version detected\n"
    (named,) = prove(parse_log(gone + cause), Expected())
    assert "different versions" in named.cause


# -- a log that does not hold the whole job ---------------------------------------------------------


def proven(text: str, **expected: t.Any) -> list[Finding]:
    return prove(parse_log(text), Expected(ibdevs=("mlx5_0",), **expected))


def test_a_rank_of_its_own_host_is_enough_where_the_others_have_logs_of_their_own() -> None:
    one = rank_log("a", 0, *BOTH, nranks=16)
    assert verdicts(proven(one, ranks=1)) == PROVEN
    assert verdicts(proven(one)) == UNPROVEN, "nobody said that the other ranks are told of elsewhere"
    assert verdicts(proven(rank_log("a", 0, *BOTH) + rank_log("b", 1, *BOTH))) == PROVEN


@pytest.mark.parametrize("ranks", [None, 8, 16])
def test_ranks_that_the_log_does_not_show_may_have_gone_over_anything(ranks: int | None) -> None:
    found = by_check(proven("".join(rank_log("a", rank, *BOTH, nranks=16) for rank in range(7)), ranks=ranks))
    assert {check: finding.verdict for check, finding in found.items()} == UNPROVEN
    assert f"7 of {ranks or 16} ranks" in found["nccl_path"].cause
    assert all(finding.cause == found["nccl_path"].cause and finding.remedy for finding in found.values())


def test_a_rank_whose_channels_are_not_there_is_not_shown_by_its_start() -> None:
    text = rank_log("a", 0, *BOTH) + rank_log("a", 1)
    assert "1 of 2 ranks" in by_check(proven(text, ranks=2))["nccl_path"].cause


@pytest.mark.parametrize("last", ["", "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE"])
def test_a_log_that_is_cut_before_its_ranks_are_connected(last: str) -> None:
    text = rank_log("a", 0, *BOTH) + rank_log("b", 1, *BOTH, end=False)
    text += f"b:101:7 [0] NCCL INFO {last}\n" if last else ""
    assert verdicts(proven(text)) == (PROVEN if last else UNPROVEN)
    if not last:
        assert "rank 1 (b)" in by_check(proven(text))["nccl_path"].cause


def test_an_old_release_connects_before_its_start_is_complete() -> None:
    """2.5 has no line on rings; its Init COMPLETE comes after the channels, and that of 2.22 before them."""
    text = rank_log("a", 0, *BOTH, end=False)
    assert verdicts(proven(text, ranks=1)) == UNPROVEN
    done = next(line for line in text.splitlines(keepends=True) if "Init COMPLETE" in line)
    assert verdicts(proven(text.replace(done, "") + done, ranks=1)) == PROVEN


def test_each_host_shows_both_directions() -> None:
    found = by_check(proven(rank_log("a", 0, *BOTH) + rank_log("b", 1, "send")))
    assert {check: finding.verdict for check, finding in found.items()} == UNPROVEN
    assert "nothing shows how b receives" in found["nccl_path"].cause


def test_a_port_is_named_by_the_rank_that_uses_it() -> None:
    own, other = rank_log("a", 0, *BOTH), rank_log("b", 1, *BOTH, ibdev="mlx5_9")
    for text in (own + other, other + own):
        found = by_check(proven(text))["nccl_hca"]
        assert found.verdict == "fail" and "mlx5_9" in found.cause and found.observed == ["mlx5_0", "mlx5_9"]
    unnamed = "".join(line for line in other.splitlines(keepends=True) if "Using" not in line)
    assert by_check(proven(own + unnamed))["nccl_hca"].verdict == "unknown", "a's names say nothing on b"


def test_the_same_port_of_many_ranks_is_told_once() -> None:
    path = by_check(proven(rank_log("a", 0, *BOTH) + rank_log("b", 1, *BOTH)))["nccl_path"]
    assert path.observed["hcas"] == ["mlx5_0:1/RoCE"]


@pytest.mark.parametrize("torn", ["", "n:1:2 [0] NCCL INFO Channel 02/0 : 0[0] -> 1[0] [send] via NET/So\n"])
def test_ports_and_gpudirect_pass_only_where_the_path_is_proven(torn: str) -> None:
    text = rank_log("a", 0, *(BOTH if torn else ("send",)), nranks=2) + torn
    assert verdicts(proven(text, ranks=1)) == UNPROVEN


def test_one_host_shows_all_its_ranks() -> None:
    text = "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 60 commId 0x2 - Init COMPLETE\n"
    text += "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    text += "n:1:2 [0] NCCL INFO Connected all rings\n"
    (found,) = prove(parse_log(text), Expected(one_host=True))
    assert found.verdict == "unknown" and "1 of 2 ranks" in found.cause
    both = text + text.replace("n:1", "n:2").replace("rank 0", "rank 1").replace("0[0] -> 1[1]", "1[1] -> 0[0]")
    (found,) = prove(parse_log(both), Expected(one_host=True))
    assert found.verdict == "pass"
    (found,) = prove(
        parse_log(both + "n:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/So\n"), Expected(one_host=True)
    )
    assert found.verdict == "unknown" and "could not be read" in found.cause
