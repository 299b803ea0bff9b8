# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ib_write_bw: recorded cases with their verdicts, failures of several versions, garbled input."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.verdict import judge
from ansible_collections.lossless.roce.plugins.module_utils.parsers.perftest import (
    LatencyRow,
    Measurement,
    Row,
    addresses_exchanged,
    classify,
    parse_json,
    parse_text,
)
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"
HEADER = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"


def case(name: str) -> str:
    """Text of a recorded case."""
    return (CASES / name).read_text()


def verdict(measurement: Measurement, link_gbps: float | None) -> str:
    """What the measurement says of a link."""
    return judge(measurement, link_gbps, 0.9).verdict


def kind(text: str) -> str:
    """The kind of failure that a text shows."""
    failure = classify(text)
    assert failure is not None, text
    assert failure.line in " ".join(text.split()) and failure.cause and failure.remedy
    return failure.kind


def test_a01_both_directions_are_a_sum_and_a_warning_is_no_row() -> None:
    found = parse_text(case("a01-bidir-cpu-freq.txt"))
    assert found.bidirectional and found.test == "RDMA_Write Bidirectional BW Test"
    assert (found.device, found.qps, found.rdma_mtu, found.gid_index) == ("mlx5_0", 1, 4096, 4)
    assert (found.link_type, found.relaxed_ordering) == ("Ethernet", "ON")
    assert found.rows == [Row(65536, 560845, None, 98.02, 0.18695)]
    finding = judge(found, 100, 0.9)
    assert finding.verdict == "fail" and finding.observed["gbps"] == pytest.approx(49.01)
    assert "49%" in finding.cause and "CPU" not in finding.cause


def test_a03_a_sweep_is_judged_by_its_best_large_size() -> None:
    found = parse_text(case("a03-bidir-sweep-gpu-memory.txt"))
    assert len(found.rows) == 23
    assert found.rows[0] == Row(2, 5000, 0.142947, 0.012281, 0.767588)
    best = found.best()
    assert best is not None and (best.size, best.average_gbps) == (2097152, 204.59)
    assert verdict(found, 200) == "fail"
    assert verdict(found, None) == "unknown"
    assert verdict(found, 100) == "unknown", "102 Gb/s each way: the link is faster than 100"


def test_a05_no_server_is_no_slow_link() -> None:
    text = case("a05-connect-refused-run-on.txt")
    assert kind(text) == "no_server" and parse_text(text).rows == []


def test_a06_the_client_has_the_root_and_the_server_the_consequence() -> None:
    client, server = (case(f"a06-gdr-one-direction-fails.{end}.txt") for end in ("client", "server"))
    assert kind(client) == "gpu_memory" and kind(server) == "peer_gone"
    failure = classify(client)
    assert failure is not None and "status 4" in failure.line and "0x51" in failure.line
    assert kind(server + client) == "gpu_memory"


@pytest.mark.parametrize(
    ("name", "expected", "in_remedy"),
    [
        ("a07-status-12-first-packets.txt", "data_path", "4791"),
        ("a10-status-10-flags-differ.txt", "flags_differ", "same size"),
        ("a12-mr-fails-host-memory.txt", "memlock", "ulimit -l unlimited"),
        ("a14-rtr-fails-after-handshake.txt", "no_path", "GID index"),
        ("a23-no-device-in-container.txt", "no_device", "/dev/infiniband"),
        ("a25-dmabuf-93.txt", "no_dmabuf", "nvidia_peermem"),
    ],
)
def test_recorded_failures_name_their_class(name: str, expected: str, in_remedy: str) -> None:
    assert kind(case(name)) == expected
    failure = classify(case(name))
    assert failure is not None and in_remedy in failure.remedy
    assert parse_text(case(name)).rows == []


def test_a14_addresses_were_exchanged_before_it_failed() -> None:
    text = case("a14-rtr-fails-after-handshake.txt")
    assert addresses_exchanged(text) and parse_text(text).rdma_mtu == 1024
    assert not addresses_exchanged(case("a05-connect-refused-run-on.txt"))


def test_a17_small_messages_do_not_measure_the_link() -> None:
    found = parse_text(case("a17-small-message-post-list.txt"))
    assert (found.test, found.relaxed_ordering) == ("RDMA_Write Post List BW Test", "Unsupported")
    assert found.rows == [Row(8, 224958464, None, 0.48, 7.498617)]
    assert verdict(found, 100) == "unknown"


def test_a19_mib_by_the_header_and_both_ways_by_the_flag() -> None:
    found = parse_text(case("a19-mib-label-bidir.txt"), bidirectional=True)
    assert found.rows[0].average_gbps == pytest.approx(48.91, abs=0.01)
    assert found.rows[0].peak_gbps is None
    assert verdict(found, 25) == "pass"
    without_title = parse_text(case("a19-mib-label-bidir.txt"))
    assert verdict(without_title, 25) == "unknown", "taken as one way it is more than the link carries: no pass"


def test_a21_the_unit_follows_from_the_message_rate() -> None:
    for gbits in (True, False):
        found = parse_json(case("a21-json-no-unit.json"), gbits=gbits)
        assert found.rows[0].average_gbps == pytest.approx(18.70, abs=0.01)
        assert (found.rdma_mtu, found.gid_index, found.relaxed_ordering) == (1024, 1, "ON")
        assert verdict(found, 100) == "fail"


def report(**results: t.Any) -> str:
    """A file of --out_json."""
    whole = {"MsgSize": 65536, "n_iterations": 5000, "BW_average": 98.0, **results}
    return json.dumps({"test_info": {"test": "RDMA_Write_BW_Test"}, "results": whole})


def test_json_unit_by_flags_where_there_is_no_message_rate() -> None:
    assert parse_json(report()).rows[0].average_gbps == 98.0
    assert parse_json(report(), gbits=False).rows[0].average_gbps == pytest.approx(98 * 8.388608 / 1000, abs=1e-6)
    assert parse_json(report(BW_peak=0)).rows[0].peak_gbps is None


def test_json_names_both_directions_in_the_test() -> None:
    text = report().replace("Write_BW", "Write_Bidirectional_BW")
    assert parse_json(text).bidirectional and not parse_json(report()).bidirectional
    assert parse_json(report(), bidirectional=True).bidirectional


@pytest.mark.parametrize("unit", ["MiB/sec", "MB/sec"])
def test_mb_and_mib_are_both_2_to_the_20(unit: str) -> None:
    text = HEADER.replace("Gb/sec", unit) + " 65536 5000 1000.00 1000.00 0.016000\n"
    assert parse_text(text).rows[0].average_gbps == pytest.approx(8.388608)


def test_more_columns_and_lines_between_the_rows() -> None:
    text = HEADER.rstrip() + "    CPU_Util[%]\nsome warning 1 2 3\n 65536 5000 97.0 96.5 0.184 3.12\n"
    assert parse_text(text).rows == [Row(65536, 5000, 97.0, 96.5, 0.184)]


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ParseError, match="'KB/sec'"):
        parse_text(HEADER.replace("Gb/sec", "KB/sec") + " 65536 5000 1.0 1.0 0.1\n")


@pytest.mark.parametrize("end", range(1, 18))
def test_a_row_that_was_cut_gives_no_smaller_figure(end: int) -> None:
    row = " 65536      5000             389.12             388.97      0.741902"
    assert {found.average_gbps for found in parse_text(HEADER + row[:-end]).rows} <= {388.97}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # 4.5, and what followed it
        (" Failed status 5: wr_id 0 syndrom 0xf9", "flushed"),
        (" Failed status-Work Request Flushed Error (5): wr_id 0 syndrom 0xf9", "flushed"),
        (" Failed status-local protection error (4): wr_id 0 syndrom 0x51", "gpu_memory"),
        (" Failed status-remote access error (10): wr_id 0 syndrom 0x88", "flags_differ"),
        (" Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81", "data_path"),
        (" Failed status-RNR retry counter exceeded (13): wr_id 0 syndrom 0x87", "receiver_not_ready"),
        (" Failed status 22: wr_id 0 syndrom 0x0", "completion"),
        ("Couldn't allocate MR with error=12\nfailed to create mr", "memlock"),
        ("Couldn't allocate MR with error=14\nfailed to create mr", "no_peermem"),
        ("Couldn't allocate MR with error=93\nfailed to create mr", "no_dmabuf"),
        ("Couldn't allocate MR with error=95\nfailed to create mr", "no_dmabuf"),
        ("Couldn't allocate MR with error=22\nfailed to create mr", "registration"),
        (" OFED stack does not support DMA-BUF\n", "no_dmabuf"),
        (" DMABUF requested but not supported in this build\n", "unknown_option"),
        # Before errors had numbers
        ("Couldn't allocate MR\nfailed to create mr", "memlock"),
        ("initializing CUDA\ncuMemAlloc() of a 131072 bytes GPU buffer\nCouldn't allocate MR\n", "no_peermem"),
        (" Port number 1 state is Down\n Couldn't set the link layer", "port_down"),
        ("IB device mlx5_7 not found\n Unable to find the Infiniband/RoCE device", "wrong_device"),
        ("ib_write_bw: unrecognized option '--use_cuda=0'\n Invalid Command or flag.", "unknown_option"),
        # 25.01 as Debian 13 builds it, without CUDA
        (" Parser function exited with Error\n Unsupported memory type", "unknown_option"),
        (" Gid index should be between 0 and 64\n Parser function exited with Error", "unknown_option"),
        ("Unexpected CM event bl blka 3", "no_cm_path"),
        ("Couldn't connect to 192.0.2.1:18515\n Unable to init the socket connection", "no_server"),
        (" Failed to exchange data between server and clients", "peer_gone"),
    ],
)
def test_failures_of_several_versions(text: str, expected: str) -> None:
    assert kind(text) == expected


def test_a_refusal_that_nothing_explains_names_its_number() -> None:
    failure = classify("initializing CUDA\nCouldn't allocate MR with error=22\nfailed to create mr")
    assert failure is not None and "error 22" in failure.cause and "error=22" in failure.line


def test_what_is_no_failure() -> None:
    assert classify("") is None
    assert classify(case("a01-bidir-cpu-freq.txt")) is None
    assert classify(case("a03-bidir-sweep-gpu-memory.txt")) is None


TEXTS = [path.read_text() for path in sorted(CASES.glob("a*"))]
GARBLED_JSON = [
    "null",
    "[1]",
    "[" * 100_000,
    '{"test_info":[],"results":{}}',
    '{"test_info":[1],"results":{"MsgSize":1,"n_iterations":1,"BW_average":1}}',
    '{"test_info":"x","results":{"MsgSize":1,"n_iterations":1,"BW_average":1}}',
    report(BW_average="fast"),
    report(BW_average=-1),
    report().replace("98.0", "1e999"),
    report().replace("98.0", "NaN"),
    report().replace("65536", "Infinity"),
]


@pytest.mark.parametrize("text", GARBLED_JSON, ids=range(len(GARBLED_JSON)))
def test_garbled_json_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="not understood"):
        parse_json(text)


def harmless(text: str) -> None:
    """No parser raises anything but ParseError, and no verdict comes from numbers that are none."""
    classify(text)
    for parse in (parse_text, parse_json):
        try:
            found = parse(text)
        except ParseError as exc:
            assert str(exc)
        else:
            judge(found, 100, 0.9)


@given(text=st.sampled_from([*TEXTS, report()]), cut=st.integers(0, 3000), noise=st.text(max_size=6))
def test_truncated_and_garbled_output(text: str, cut: int, noise: str) -> None:
    harmless(text[:cut])
    harmless(text[:cut] + noise + text[cut + len(noise) :])
    harmless(text[cut:])


@given(words=st.lists(st.one_of(st.text(max_size=8), st.floats().map(str), st.integers().map(str)), max_size=8))
def test_any_words_below_a_header(words: list[str]) -> None:
    harmless(HEADER + " ".join(words) + "\n")


def test_numbers_beyond_reason() -> None:
    long = "9" * 5000
    harmless(f"{HEADER} {long} {long} {long} {long} {long}\n Mtu : {long}[B]\n Failed status {long}: x\n")


LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
)
LATENCY_ROW = (
    " 2       1000          0.95           6.91         1.01     \t       1.02        \t0.10\t\t1.25    \t\t6.91   \n"
)


def test_latency_as_text() -> None:
    text = (
        " Mtu             : 4096[B]\n" + LATENCY + "Conflicting CPU frequency values detected: 1 != 2\n" + LATENCY_ROW
    )
    measurement = parse_text(text)
    assert measurement.rows == [] and measurement.rdma_mtu == 4096
    assert measurement.latencies == [LatencyRow(2, 1000, 1.02, 1.01, 0.95, 6.91, 0.1, 1.25, 6.91)]
    assert measurement.results() == measurement.latencies


def test_latency_by_duration_has_an_average_alone() -> None:
    text = " #bytes  #iterations   t_avg[usec]    tps average\n 2         61234       1.20         416666.67\n"
    assert parse_text(text).latencies == [LatencyRow(2, 61234, 1.2)]


def test_latency_as_json() -> None:
    results = {"MsgSize": 2, "n_iterations": 1000, "t_min": 0.95, "t_max": 6.91, "t_typical": 1.01, "t_avg": 1.02}
    results |= {"t_stdev": 0.1, "percentile_99": 1.25, "percentile_99.9": 6.91}
    measurement = parse_json(json.dumps({"test_info": {"Mtu": 1024}, "results": results}))
    assert measurement.latencies == [LatencyRow(2, 1000, 1.02, 1.01, 0.95, 6.91, 0.1, 1.25, 6.91)]
    assert measurement.rows == [] and measurement.rdma_mtu == 1024
    with pytest.raises(ParseError):
        parse_json(json.dumps({"test_info": {}, "results": {**results, "t_avg": float("nan")}}))


def test_a_deviation_that_is_no_number_was_not_measured_and_a_cut_line_is_no_row() -> None:
    (row,) = parse_text(LATENCY + LATENCY_ROW.replace("0.10", "-nan")).latencies
    assert row.stdev_usec is None and row.typical_usec == 1.01
    assert parse_text(LATENCY + " 2       1000          0.95           6.91         1.01\n").latencies == []


@given(st.text(alphabet=" 0123456789.ab-\t\n", max_size=200))
def test_garbled_latencies_give_rows_of_numbers_or_none(text: str) -> None:
    for row in parse_text(LATENCY + text).latencies:
        assert row.size >= 0 and row.average_usec >= 0
