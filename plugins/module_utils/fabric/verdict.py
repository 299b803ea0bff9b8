# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a measurement is line rate, and a latency low enough. Pure."""

from __future__ import annotations

import typing as t

from ..findings import FAIL, PASS, UNKNOWN, Finding
from ..parsers.perftest import Failure, Measurement

# Below this size the message rate is the limit, not the link.
JUDGED_SIZE = 65536
# Payload cannot outrun its link; shapers and clocks let a little more through. Beyond, link_gbps is wrong.
_POSSIBLE_SHARE = 1.02


def judge(measurement: Measurement, link_gbps: float | None, efficiency: float, **where: t.Any) -> Finding:
    """A finding on a bandwidth test: average of the best large size against link rate × efficiency.

    A bidirectional average is a sum: it is judged against twice the link rate. ``where`` goes into the
    finding (port, evidence) and its ``observed`` (peer, rail).
    """
    row = measurement.best(JUDGED_SIZE)
    if row is None:
        return _unknown("the run printed no result row", None, **where)
    ways = 2 if measurement.bidirectional else 1
    gbps = row.average_gbps / ways
    observed = {"gbps": round(gbps, 6), "size": row.size, "rdma_mtu": measurement.rdma_mtu}
    if row.size < JUDGED_SIZE:
        return _unknown(f"messages of {row.size} bytes measure the message rate, not the link", observed, **where)
    if link_gbps is None or link_gbps <= 0:
        return _unknown("the policy declares no link_gbps to judge against", observed, **where)
    minimum = link_gbps * efficiency
    right = gbps >= minimum
    share = gbps / link_gbps
    if share > _POSSIBLE_SHARE:
        return _unknown(f"more than link_gbps {link_gbps:g}, which cannot be this link's rate", observed, **where)
    return _finding(
        PASS if right else FAIL,
        observed={**observed, "share": round(share, 3)},
        expected={"min_gbps": round(minimum, 6), "link_gbps": link_gbps},
        cause="" if right else f"{share:.0%} of the link rate, {efficiency:.0%} was expected",
        remedy=""
        if right
        else (
            "test each end with a third node to find the slow one; then its counters (ethtool -S: discards, pause),"
            " the port's trained rate, PCIe width, and the switch port"
        ),
        **where,
    )


def judge_latency(measurement: Measurement, max_latency_usec: float | None, **where: t.Any) -> Finding:
    """A finding on a latency test: the smallest size's median (with -D its average) against a threshold in usec."""
    row = measurement.latencies[0] if measurement.latencies else None
    if row is None:
        return _unknown("the run printed no result row", None, **where)
    usec = row.average_usec if row.typical_usec is None else row.typical_usec
    observed = {"latency_usec": usec, "p99_usec": row.p99_usec, "size": row.size, "rdma_mtu": measurement.rdma_mtu}
    if max_latency_usec is None:
        return _unknown("no max_latency_usec is given to judge against", observed, **where)
    right = usec <= max_latency_usec
    return _finding(
        PASS if right else FAIL,
        observed=observed,
        expected={"max_latency_usec": max_latency_usec},
        cause="" if right else f"{usec:g} microseconds, at most {max_latency_usec:g} were expected",
        remedy=""
        if right
        else (
            "test each end with a third node to find the slow one; then its power saving (C-states, CPU frequency),"
            " the NUMA node of card and program, interrupt moderation, and what else is on the path"
        ),
        **where,
    )


def failed(failure: Failure, link_gbps: float | None, efficiency: float, **where: t.Any) -> Finding:
    """A finding on a bandwidth test that gave no result."""
    least = None if link_gbps is None else round(link_gbps * efficiency, 6)
    return _failed(failure, {"gbps": None}, {"min_gbps": least, "link_gbps": link_gbps}, **where)


def failed_latency(failure: Failure, max_latency_usec: float | None, **where: t.Any) -> Finding:
    """A finding on a latency test that gave no result."""
    return _failed(failure, {"latency_usec": None}, {"max_latency_usec": max_latency_usec}, **where)


def judge_cm(failure: Failure | None, **where: t.Any) -> Finding:
    """A finding ``rdma_cm`` on whether a connection by rdma_cm carried data."""
    if failure is not None:
        return _failed(failure, {}, "a connection", tool="rdma_cm", **where)
    return _finding(PASS, tool="rdma_cm", observed={"connected": True}, expected="a connection", **where)


def _failed(failure: Failure, observed: dict[str, t.Any], expected: t.Any, **where: t.Any) -> Finding:
    return _finding(
        FAIL,
        observed={**observed, "failure": failure.kind, "line": failure.line},
        expected=expected,
        cause=failure.cause,
        remedy=failure.remedy,
        **where,
    )


def _unknown(cause: str, observed: dict[str, t.Any] | None, **where: t.Any) -> Finding:
    return _finding(UNKNOWN, observed=observed or {"gbps": None}, cause=cause, **where)


def _finding(
    verdict: str,
    *,
    tool: str = "ib_write_bw",
    observed: dict[str, t.Any],
    expected: t.Any = None,
    cause: str = "",
    remedy: str = "",
    port: str = "",
    evidence: str = "",
    **pair: t.Any,
) -> Finding:
    return Finding(
        check=tool,
        verdict=verdict,
        observed={**pair, **observed},
        expected=expected,
        evidence=evidence,
        cause=cause,
        remedy=remedy,
        port=port,
    )
