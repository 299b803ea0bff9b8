# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Findings of a fabric of any size, as `verify` leaves them: for tests of the page and for the benchmark."""

from __future__ import annotations

import random
import typing as t

Finding = dict[str, t.Any]
LINK_GBPS = 200
LEAST_GBPS = 180
SETTINGS: dict[str, tuple[t.Any, t.Any]] = {
    "mtu": (9000, 1500),
    "pfc": ({"enabled_prios": [3]}, {"enabled_prios": []}),
    "trust": ({"mode": "dscp", "map": {str(dscp): dscp >> 3 for dscp in range(64)}}, {"mode": "pcp"}),
    "ets": ({"tc": {"0": 20, "3": 80}}, {"tc": {}}),
    "ecn": ({"enabled_prios": [3]}, {"enabled_prios": []}),
}


def names(nodes: int) -> list[str]:
    """node1, node2 and so on."""
    return [f"node{number}" for number in range(1, nodes + 1)]


def settings(host: str, rails: int, bad: bool = False) -> list[Finding]:
    """Settings of all ports and two checks of the node; the first port of a bad one lost its PFC."""
    found: list[Finding] = [
        {"check": "memlock", "verdict": "pass", "host": host, "observed": "unlimited", "evidence": "ulimit -l"},
        {"check": "iommu", "verdict": "unknown" if bad else "pass", "host": host, "observed": {"mode": "pt"}},
    ]
    for rail in range(rails):
        for check, (declared, other) in SETTINGS.items():
            wrong = bad and rail == 0 and check == "pfc"
            running = other if wrong else declared
            found.append(
                {
                    "check": check,
                    "verdict": "fail" if wrong else "pass",
                    "host": host,
                    "port": f"ens{rail + 1}np0",
                    "observed": running,
                    "expected": declared,
                    "evidence": f"dcb -j {check} show dev ens{rail + 1}np0",
                    "cause": "the port does not run what the policy declares" if wrong else "",
                    "remedy": "run playbook lossless.roce.bootstrap, or drift with enforce=true" if wrong else "",
                    "layers": {"declared": declared, "running": running, "on_disk": declared},
                }
            )
    return found


def pair(client: str, server: str, rail: int, gbps: float | None) -> Finding:
    """One bandwidth test."""
    passed = gbps is not None and gbps >= LEAST_GBPS
    return {
        "check": "ib_write_bw",
        "verdict": "pass" if passed else "fail",
        "host": client,
        "port": f"ens{rail + 1}np0",
        "observed": {"client": client, "server": server, "rail": rail, "gbps": gbps, "rdma_mtu": 4096, "size": 65536},
        "expected": {"min_gbps": LEAST_GBPS, "link_gbps": LINK_GBPS},
        "evidence": f"ib_write_bw -d mlx5_{rail} -x 3 --tclass=106 -q 10 -n 5000 --report_gbits 198.51.100.1",
        "cause": "" if passed else "below the rate asked for",
        "remedy": "" if passed else "see the finding fabric for the part to blame",
    }


def all_pairs(hosts: t.Sequence[str], rail: int, bad: t.Collection[str] = (), seed: int = 1) -> list[Finding]:
    """Every host to every other; what goes to or from a bad host is slow."""
    draw = random.Random(seed)
    return [
        pair(client, server, rail, _rate(draw, client in bad or server in bad))
        for server in hosts
        for client in hosts
        if client != server
    ]


def ring(hosts: t.Sequence[str], rails: int, seed: int = 1) -> list[Finding]:
    """Every host with the next one, both ways, on every rail."""
    draw = random.Random(seed)
    following = [*hosts[1:], hosts[0]]
    return [
        pair(*ends, rail, _rate(draw, False))
        for rail in range(rails)
        for one, other in zip(hosts, following, strict=True)
        for ends in ((one, other), (other, one))
    ]


def _rate(draw: random.Random, bad: bool) -> float | None:
    if bad:
        return draw.choice([None, round(draw.gauss(21, 1), 2), round(draw.gauss(21, 1), 2)])
    return round(max(181.0, draw.gauss(193, 2)), 2)


def incast(receiver: str, senders: t.Sequence[str]) -> Finding:
    """Many senders to one port: two counters are real, two are made up."""
    return {
        "check": "incast",
        "verdict": "pass",
        "host": receiver,
        "port": "ens1np0",
        "observed": {
            "senders": list(senders),
            "port": "ens1np0",
            "gbps_total": 187.25,
            "deltas": {"rx_prio3_pause": 0, "tx_prio3_pause": 1422, "np_cnp_sent": 310, "out_of_sequence": 0},
            "simulated": ["np_cnp_sent", "tx_prio3_pause"],
        },
    }


def timing(rounds: int) -> dict[str, t.Any]:
    """Rounds of two steps of ten seconds; every fifth one was held up."""
    return {"rounds": [{"round": n, "seconds": 21.5 + 9 * (n % 5 == 4), "ideal_s": 20.0} for n in range(rounds)]}
