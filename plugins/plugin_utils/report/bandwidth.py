# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Pairs of nodes and what was measured between them, from findings. Pure.

A pair is ``{client, server, rail, port, gbps, min_gbps, verdict}``, rates in Gb/s.
"""

from __future__ import annotations

import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.findings import FAIL, PASS, UNKNOWN

from .values import listed, natural, number, rate

CHECKS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
MANY = 8  # failed pairs of one rail are listed one by one below this

Pair = dict[str, t.Any]


def pairs(findings: t.Iterable[dict[str, t.Any]], extra: t.Iterable[dict[str, t.Any]]) -> list[Pair]:
    """All pairs by rail, server and client. Of several measurements of one pair the worst stands."""
    found: dict[tuple[str, str, str], Pair] = {}
    given = [_of_extra(item) for item in extra]
    for pair in [*(_of_finding(finding) for finding in findings if places(finding)), *given]:
        key = (pair["rail"], pair["server"], pair["client"])
        if key not in found or _badness(pair) < _badness(found[key]):
            found[key] = pair
    return [found[key] for key in sorted(found, key=lambda key: tuple(natural(part) for part in key))]


def places(finding: dict[str, t.Any]) -> bool:
    """Whether the finding says between which two nodes it measured."""
    observed = finding["observed"]
    return finding["check"] in CHECKS and isinstance(observed, dict) and bool(_client(finding) and _server(finding))


def path(finding: dict[str, t.Any]) -> str:
    """``to node2 rail 0`` for a finding on the way to another host; empty for others."""
    observed = finding["observed"]
    if not isinstance(observed, dict):
        return ""
    server = observed.get("server") or observed.get("to")
    if not isinstance(server, str):
        return ""
    client = _client(finding)
    start = f"from {client} " if client and client != finding["host"] else ""
    return f"{start}to {server} rail {_rail(observed.get('rail'), finding['port'])}"


def folded(findings: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Findings with the pairs of a rail that say the same joined to one at the end, where they are many.

    One bad node spoils two pairs with every other node; the heat map shows each of them.
    """
    kept = [(_sameness(finding), finding) for finding in findings]
    alike: dict[str, list[dict[str, t.Any]]] = {}
    for key, finding in kept:
        alike.setdefault(key, []).append(finding)
    many = {key for key, group in alike.items() if key and len(group) >= MANY}
    result = [finding for key, finding in kept if key not in many]
    return result + [_joined(alike[key]) for key in alike if key in many]


def _sameness(finding: dict[str, t.Any]) -> str:
    """What findings on pairs share to be joined; empty for other findings."""
    if not places(finding):
        return ""
    rail = _rail(finding["observed"].get("rail"), finding["port"])
    return repr([rail, *(finding[key] for key in ("check", "verdict", "port", "expected", "cause", "remedy"))])


def _joined(group: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    rates = [gbps for finding in group if (gbps := number(finding["observed"].get("gbps"))) is not None]
    clients = sorted({_client(finding) for finding in group}, key=natural)
    servers = sorted({_server(finding) for finding in group}, key=natural)
    observed = {
        "pairs": len(group),
        "rail": group[0]["observed"].get("rail"),
        "gbps": f"{rate(min(rates))} to {rate(max(rates))}" if rates else None,
        "servers": f"{len(servers)} ({listed(servers)})",
    }
    evidence = f"{group[0]['evidence']} and {len(group) - 1} more like it"
    return {**group[0], "host": "", "hosts": clients, "observed": observed, "evidence": evidence}


def _client(finding: dict[str, t.Any]) -> str:
    return str(finding["observed"].get("client") or finding["host"])


def _server(finding: dict[str, t.Any]) -> str:
    return str(finding["observed"].get("server") or "")


def _of_finding(finding: dict[str, t.Any]) -> Pair:
    observed = finding["observed"]
    return {
        "client": _client(finding),
        "server": _server(finding),
        "rail": _rail(observed.get("rail"), finding["port"]),
        "port": finding["port"],
        "gbps": number(observed.get("gbps")),
        "min_gbps": _expected(finding["expected"]),
        "verdict": finding["verdict"],
    }


def _of_extra(item: dict[str, t.Any]) -> Pair:
    gbps, least = number(item.get("gbps")), number(item.get("min_gbps"))
    judged = UNKNOWN if gbps is None or least is None else PASS if gbps >= least else FAIL
    port = str(item.get("port") or "")
    return {
        "client": str(item["client"]),
        "server": str(item["server"]),
        "rail": _rail(item.get("rail"), port),
        "port": port,
        "gbps": gbps,
        "min_gbps": least,
        "verdict": item.get("verdict") if item.get("verdict") in (PASS, FAIL, UNKNOWN) else judged,
    }


def _rail(rail: t.Any, port: str) -> str:
    """The rail's number as text; the port stands in for a rail that has none."""
    return (port or "0") if rail is None else str(rail)


def _expected(expected: t.Any) -> float | None:
    """The least rate, from a number or from a mapping with min_gbps or gbps."""
    if isinstance(expected, dict):
        return number(expected.get("min_gbps", expected.get("gbps")))
    return number(expected)


def _badness(pair: Pair) -> tuple[int, float]:
    """Smaller is worse: failed before undecided before passed, then the lower rate."""
    return (_BADNESS.get(pair["verdict"], 1), -1.0 if pair["gbps"] is None else pair["gbps"])


_BADNESS = {FAIL: 0, PASS: 2}
