# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Verdicts on bandwidth."""

from __future__ import annotations

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.fabric.verdict import (
    failed,
    failed_latency,
    judge,
    judge_cm,
    judge_latency,
)
from ansible_collections.lossless.roce.plugins.module_utils.parsers.perftest import (
    Failure,
    LatencyRow,
    Measurement,
    Row,
)


def measured(*sizes_and_gbps: tuple[int, float], bidirectional: bool = False) -> Measurement:
    """A measurement with these rows."""
    return Measurement(
        bidirectional=bidirectional, rows=[Row(size, 5000, None, gbps, None) for size, gbps in sizes_and_gbps]
    )


@pytest.mark.parametrize(("gbps", "verdict"), [(180.0, "pass"), (179.9, "fail"), (197.0, "pass"), (0.0, "fail")])
def test_link_rate_times_efficiency(gbps: float, verdict: str) -> None:
    finding = judge(measured((65536, gbps)), 200, 0.9, port="ens1np0", evidence="ib_write_bw", client="a", server="b")
    assert (finding.check, finding.verdict, finding.port) == ("ib_write_bw", verdict, "ens1np0")
    assert finding.expected == {"min_gbps": 180.0, "link_gbps": 200}
    assert finding.observed["client"] == "a" and finding.observed["gbps"] == gbps
    assert bool(finding.cause) == bool(finding.remedy) == (verdict == "fail")


def test_both_directions_are_judged_against_twice_the_rate() -> None:
    assert judge(measured((65536, 190.0), bidirectional=True), 200, 0.9).verdict == "fail"
    both = judge(measured((65536, 380.0), bidirectional=True), 200, 0.9)
    assert both.verdict == "pass" and both.observed["gbps"] == 190.0


def test_a_fast_small_size_does_not_hide_slow_large_ones() -> None:
    finding = judge(measured((32768, 195.0), (65536, 40.0), (1048576, 41.0)), 200, 0.9)
    assert finding.verdict == "fail" and finding.observed["size"] == 1048576


@pytest.mark.parametrize("link_gbps", [None, 0.0, -1.0])
def test_without_a_link_rate_there_is_no_verdict(link_gbps: float | None) -> None:
    assert judge(measured((65536, 97.0)), link_gbps, 0.9).verdict == "unknown"


@pytest.mark.parametrize("size", [2, 8, 65535])
def test_small_messages_decide_nothing(size: int) -> None:
    assert judge(measured((size, 1.0)), 200, 0.9).verdict == "unknown"


def test_more_than_the_link_can_carry_is_no_pass() -> None:
    finding = judge(measured((65536, 102.3)), 100, 0.9)
    assert finding.verdict == "unknown" and "link_gbps" in finding.cause
    assert judge(measured((65536, 101.0)), 100, 0.9).verdict == "pass"


def test_no_row_is_no_bandwidth_of_zero() -> None:
    finding = judge(Measurement(), 200, 0.9)
    assert finding.verdict == "unknown" and finding.observed["gbps"] is None


def test_a_failure_carries_its_line_cause_and_remedy() -> None:
    finding = failed(Failure("no_path", "Failed to modify QP 1 to RTR", "why", "what to do"), None, 0.9, port="p")
    assert (finding.verdict, finding.cause, finding.remedy) == ("fail", "why", "what to do")
    assert finding.observed == {"gbps": None, "failure": "no_path", "line": "Failed to modify QP 1 to RTR"}


@pytest.mark.parametrize(("limit", "verdict"), [(3.0, "pass"), (2.5, "pass"), (2.4, "fail"), (None, "unknown")])
def test_the_median_of_the_smallest_size_against_the_threshold(limit: float | None, verdict: str) -> None:
    rows = [LatencyRow(2, 1000, 9.0, 2.5, p99_usec=30.0), LatencyRow(65536, 1000, 40.0, 40.0)]
    finding = judge_latency(Measurement(latencies=rows), limit, tool="ib_write_lat", client="a", server="b", port="p")
    assert (finding.check, finding.verdict, finding.port) == ("ib_write_lat", verdict, "p")
    assert finding.observed["latency_usec"] == 2.5 and finding.observed["p99_usec"] == 30.0
    assert finding.observed["size"] == 2 and finding.observed["client"] == "a"
    assert (verdict == "fail") == ("2.5 microseconds, at most 2.4" in finding.cause)


def test_a_duration_has_no_median_so_the_average_counts() -> None:
    assert judge_latency(Measurement(latencies=[LatencyRow(2, 1000, 4.0)]), 3.0, tool="ib_read_lat").verdict == "fail"
    assert judge_latency(Measurement(), 3.0, tool="ib_read_lat").verdict == "unknown"


def test_a_failed_latency_test_and_a_failed_connection_keep_their_cause() -> None:
    failure = Failure("no_cm_path", "Unable to connect (retries = 10)", "no way", "look")
    finding = failed_latency(failure, 3.0, tool="ib_send_lat", client="a")
    assert (finding.check, finding.verdict, finding.cause) == ("ib_send_lat", "fail", "no way")
    assert finding.expected == {"max_latency_usec": 3.0} and finding.observed["failure"] == "no_cm_path"
    connection = judge_cm(failure, client="a", server="b", rail=0)
    assert (connection.check, connection.verdict, connection.remedy) == ("rdma_cm", "fail", "look")
    assert judge_cm(None, client="a", server="b", rail=0).verdict == "pass"
