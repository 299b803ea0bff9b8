# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether a measurement is line rate. Pure."""

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


def failed(failure: Failure, link_gbps: float | None, efficiency: float, **where: t.Any) -> Finding:
    """A finding on a test that gave no result."""
    return _finding(
        FAIL,
        observed={"gbps": None, "failure": failure.kind, "line": failure.line},
        expected={"min_gbps": None if link_gbps is None else round(link_gbps * efficiency, 6), "link_gbps": link_gbps},
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
