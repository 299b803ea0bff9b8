# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NCCL's logs of many versions: recorded ones, interleaved ones, garbled ones."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.nccl.proof import Expected, prove
from ansible_collections.lossless.roce.plugins.module_utils.parsers.nccl_log import Hca, parse_log
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parents[1] / "recorded"
SOCKET = [(RECORDED / "nccl" / f"nccl-2node-1gpu-socket-rank{rank}.log").read_text() for rank in (0, 1)]
GDR = "\n".join(
    f"n{host}:1{host}:2 [0] NCCL INFO Channel {number:02d}/0 : {source}[0] -> {1 - source}[0] [{way}]"
    " via NET/IB/0/GDRDMA"
    for host in (0, 1)
    for number in range(2)
    for way, source in (("send", host), ("receive", 1 - host))
)


def test_a_whole_log_of_two_nodes() -> None:
    log = parse_log(SOCKET[0])
    assert log.version == "2.28.9" and log.release == (2, 28, 9)
    assert log.ranks == {"node-a:499": 0} and (log.nranks, log.nnodes) == (2, 2)
    assert log.networks == ["Socket"] and log.interfaces == [("eth0", "192.0.2.2")]
    assert log.settings == {"NCCL_HOSTID": "a", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}
    assert [(c.number, c.source, c.target, c.direction, c.network, c.device, c.gdr) for c in log.channels] == [
        (0, 1, 0, "receive", "Socket", 0, False),
        (1, 1, 0, "receive", "Socket", 0, False),
        (0, 0, 1, "send", "Socket", 0, False),
        (1, 0, 1, "send", "Socket", 0, False),
    ]
    assert log.signs == {"no_device", "ib_not_initialised"}
    assert log.gdr == {}, "a line of NET/Socket on GPUDirect says nothing on GPUDirect"
    assert log.troubles == [] and log.garbled == 0


@pytest.mark.parametrize(
    ("line", "network", "device", "gdr"),
    [
        ("Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/7/GDRDMA", "IBext_v8", 7, True),
        ("Channel 00 : 0[1a000] -> 1[1a000] [receive] via NET/IB/0", "IB", 0, False),
        ("Channel 03/0 : 3[3] -> 8[0] [send] via NET/IB/2(1)/GDRDMA", "IB", 2, True),
        ("Channel 03/0 : 3[3] -> 8[0] [send] via NET/IB/2/GDRDMA(PCI)/Shared", "IB", 2, True),
        ("Channel 03/0 : 3[3] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA", "AWS Libfabric", 0, True),
        ("Channel 03/0 : 3[3] -> 8[0] [send] via NET/So Channel 01/0", None, None, False),
        ("Channel 03/0 : 3[3] -> 8[0] [send] via NET/IB/0/GD", None, None, False),
        ("Ring 00 : 0[1a000] -> 1[1a000] [send] via NET/IB/0/GDRDMA", "IB", 0, True),
        ("Ring 01 : 0[1a000] -> 2[1b000] via direct shared memory", "", None, False),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "", None, False),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer", "", None, False),
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]", "", None, False),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "", None, False),
        ("Channel 00 : 0[0] -> 1[1] via SHM/direct", "", None, False),
    ],
)
def test_channels_of_all_versions(line: str, network: str | None, device: int | None, gdr: bool) -> None:
    log = parse_log(f"[0] node-1:497888:498098 [0] NCCL INFO {line}\n")
    if network is None:
        assert log.channels == [] and log.garbled == 1, "what is not understood is counted"
        return
    (channel,) = log.channels
    assert (channel.network, channel.device, channel.gdr, log.garbled) == (network, device, gdr, 0)


@pytest.mark.parametrize(
    ("line", "hcas"),
    [
        (
            "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_10:2/RoCE [RO]; OOB eth0:192.0.2.1<0>",
            [(0, "mlx5_0"), (1, "mlx5_10")],
        ),
        ("NET/IB : Using [0]mlx5_0:1/IB/SHARP ; OOB ib0:192.0.2.1<0>", [(0, "mlx5_0")]),
        ("NET/IB : Using [RO]; OOB eth0:192.0.2.2<0>", []),
        (
            "NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_2:1/RoCE [RO]; OOB eth0:192.0.2.1<0>",
            [(-1, "mlx5_0"), (-1, "mlx5_1"), (-1, "mlx5_2"), (0, "mlx5_0+mlx5_1"), (1, "mlx5_2")],
        ),
        ("NET/IB : Using [0]mlx5_bond_0:1/RoCE [RO]; OOB bond0:192.0.2.1<0>", [(0, "mlx5_bond_0")]),
        ("NET/IB : Made virtual device [0] name=mlx5_0+mlx5_1 speed=400000 ndevs=2", [(0, "mlx5_0+mlx5_1")]),
    ],
)
def test_hcas(line: str, hcas: list[tuple[int, str]]) -> None:
    found: list[Hca] = parse_log(f"n:1:2 [0] NCCL INFO {line}").hcas
    assert [(hca.index, hca.ibdev) for hca in found] == hcas


@pytest.mark.parametrize(
    ("line", "kind", "facts"),
    [
        (
            (
                "NET/IB : Got completion from peer 192.0.2.9<4> with error 12, opcode 0, len 0, vendor err 129 (Send)"
                " localGid ::ffff:192.0.2.1 remoteGid ::ffff:192.0.2.9"
            ),
            "completion",
            {"peer": "192.0.2.9", "status": 12, "local_gid": "::ffff:192.0.2.1", "remote_gid": "::ffff:192.0.2.9"},
        ),
        (
            (
                "NET/IB: Got completion from peer 192.0.2.9<4> with status=IBV_WC_RETRY_EXC_ERR(12)"
                " opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send hca mlx5_0"
            ),
            "completion",
            {"peer": "192.0.2.9", "status": 12, "device": "mlx5_0"},
        ),
        ("Call to ibv_modify_qp failed with error Connection timed out errno 110", "modify_qp", {"errno": 110}),
        ("Call to ibv_modify_qp failed with error Connection timed out", "modify_qp", {"errno": 110}),
        ("Call to ibv_modify_qp failed with error No such device", "modify_qp", {"errno": 19}),
        (
            "Call to ibv_modify_qp failed with 110 Connection timed out, on dev a:1",
            "modify_qp",
            {"errno": 110, "device": "a:1"},
        ),
        ("NET/IB : Remote RoCE device is incompatible with the local [0]mlx5_0:1/IB.", "link_types", {}),
        ("NET/IB : Attempted to merge incompatible devices", "link_types", {}),
        ("NET/Socket : no interface found", "no_interface", {}),
        ("NET/IB : mlx5_0:1 Got async event : port active", "other", {}),
        ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "memlock", {}),
        ("Call to ibv_create_cq failed with error Cannot allocate memory", "memlock", {}),
        ("Call to ibv_reg_mr failed with error Bad address", "register", {}),
        ("NET/IB : mlx5_0:1 async fatal event: port error", "async_event", {}),
        ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60", "same_gpu", {}),
        ("something that nobody has seen yet", "other", {}),
    ],
)
def test_warnings(line: str, kind: str, facts: dict[str, t.Any]) -> None:
    (trouble,) = parse_log(f"[2026-03-13 22:26:02] n-1:7:8 [5] ibvwrap.c:262 NCCL WARN {line}").troubles
    assert (trouble.kind, trouble.facts) == (kind, facts)


@pytest.mark.parametrize(
    "place", ["transport/net_ib/p2p.cc:688 (ncclIbTest) ", "/root/nccl++/src/init.cc:1 (f) ", "<unknown>:0 (f) "]
)
def test_a_warning_names_its_function_since_2_30(place: str) -> None:
    (trouble,) = parse_log(f"n1:10:11 [0] {place}NCCL WARN Call to ibv_modify_qp failed").troubles
    assert (trouble.kind, trouble.process) == ("modify_qp", "n1:10")


@pytest.mark.parametrize(("cut", "channels"), [(0, 1), (1, 1), (2, 0), (4, 0), (8, 0), (9, 0), (11, 0)])
def test_a_log_that_is_cut_in_its_last_line_gives_no_wrong_channel(cut: int, channels: int) -> None:
    text = "n1:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/12/GDRDMA\n"
    log = parse_log(text[: len(text) - cut])
    assert (len(log.channels), log.garbled) == (channels, 1 - channels)


def test_two_records_in_one_line() -> None:
    text = (
        "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0n:3:4 [0] NCCL INFO Using network IB\n"
        "n:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/Soc\n"
    )
    log = parse_log(text)
    assert log.channels == [] and log.garbled == 2, "a number that runs into a host name may have lost a digit"
    assert log.networks == ["IB"]


@st.composite
def interleaved(draw: st.DrawFn, texts: list[str]) -> str:
    """The lines of all texts, each text's in its own order."""
    queues = [text.splitlines() for text in texts]
    merged = []
    while any(queues):
        index = draw(st.sampled_from([number for number, queue in enumerate(queues) if queue]))
        count = draw(st.integers(1, 20))
        merged += queues[index][:count]
        del queues[index][:count]
    return "\n".join(merged)


@given(interleaved(SOCKET))
def test_interleaved_ranks_give_all_channels(text: str) -> None:
    log, apart = parse_log(text), [parse_log(one) for one in SOCKET]
    assert sorted(map(str, log.channels)) == sorted(str(c) for one in apart for c in one.channels)
    assert log.ranks == {"node-a:499": 0, "node-b:498": 1} and log.garbled == 0


cuts = st.lists(st.tuples(st.integers(0, 20000), st.integers(0, 400)), max_size=8)


@given(st.sampled_from(SOCKET), cuts)
def test_a_torn_log_of_sockets_never_passes(text: str, holes: list[tuple[int, int]]) -> None:
    for start, length in holes:
        text = text[:start] + text[start + length :]
    assert "pass" not in {finding.verdict for finding in prove(parse_log(text), Expected())}


@given(st.integers(0, len(GDR)), st.sampled_from(["n9:5:6 [0] NCCL INFO x", "\n", " "]))
def test_a_record_that_is_cut_by_another_is_seen(place: int, other: str) -> None:
    """Never a channel that nobody wrote: what is torn is counted, or the record was whole."""
    log = parse_log(GDR[:place] + other + GDR[place:])
    assert {(c.network, c.device) for c in log.channels} <= {("IB", 0)}
    assert len(log.channels) + log.garbled >= 7


@given(st.text(max_size=300) | st.text("NCLIFOWARNvia[]0123:/ ->", max_size=300))
def test_no_text_raises(text: str) -> None:
    for line in (text, f"n:1:2 [0] NCCL INFO {text}", f"n:1:2 [0] x.cc:1 NCCL WARN {text}"):
        prove(parse_log(line), Expected())
