# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rounds of disjoint pairs, by the circle method. Pure."""

from __future__ import annotations

import typing as t

from ..findings import FAIL, SKIPPED, Finding

_FIRST_TCP_PORT = 18515


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Every pair of 0 … count-1 once, nobody twice in a round; with an odd count one rests in each."""
    ring: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    half = len(ring) // 2
    schedule = []
    for _round in range(max(len(ring) - 1, 0)):
        pairs = zip(ring[:half], reversed(ring[half:]))
        schedule.append([(one, other) for one, other in pairs if one is not None and other is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return schedule


Ports = t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]


def pair_tests(ports: Ports, broken: t.Iterable[t.Mapping[str, t.Any]] = ()) -> dict[str, list[dict[str, t.Any]]]:
    """Each host's tests in order, from host -> [{name, rail, address}]: all pairs, rails and both directions.

    ``broken`` are findings on paths: a pair with a failed one is left out on that rail.
    """
    hosts = sorted(ports)
    by_rail = _by_rail(ports)
    left_out = {(frozenset((path["from"], path["to"])), path["rail"]) for path in _failed_paths(broken)}
    tests: dict[str, list[dict[str, t.Any]]] = {host: [] for host in hosts}
    step = 0
    for round_ in rounds(len(hosts)):
        for one, other in ((hosts[first], hosts[second]) for first, second in round_):
            for rail in sorted(set(by_rail[one]) & set(by_rail[other])):
                if (frozenset((one, other)), rail) in left_out:
                    continue
                for server, client in ((one, other), (other, one)):
                    # A port of its own for each run: the one before may still be in TIME_WAIT.
                    tcp_port = _FIRST_TCP_PORT + step % 1000
                    step += 1
                    tests[server].append(
                        _test("server", by_rail[server][rail], client, by_rail[client][rail], tcp_port)
                    )
                    tests[client].append(
                        _test("client", by_rail[client][rail], server, by_rail[server][rail], tcp_port)
                    )
    return tests


def _test(
    role: str, own: t.Mapping[str, t.Any], peer: str, others: t.Mapping[str, t.Any], tcp_port: int
) -> dict[str, t.Any]:
    return {
        "role": role,
        "peer": peer,
        "peer_address": others["address"],
        "netdev": own["name"],
        "address": own["address"],
        "rail": int(own["rail"]),
        "tcp_port": tcp_port,
    }


def _by_rail(ports: Ports) -> dict[str, dict[int, t.Mapping[str, t.Any]]]:
    by_rail = {host: {int(port["rail"]): port for port in own} for host, own in ports.items()}
    for host, own in ports.items():
        if len(by_rail[host]) != len(own):
            raise ValueError(f"{host} has two ports on one rail")
    return by_rail


def _failed_paths(findings: t.Iterable[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    return [f["observed"] for f in findings if f["check"] == "path_mtu" and f["verdict"] == FAIL]


def peers_of(host: str, ports: Ports, mtus: t.Mapping[str, t.Mapping[str, int]]) -> list[dict[str, t.Any]]:
    """The other ends of a host's rails: {name, address, netdev, rail, mtu}, from the MTUs that ports run."""
    by_rail = _by_rail(ports)
    return [
        {
            "name": peer,
            "address": by_rail[peer][rail]["address"],
            "netdev": own["name"],
            "rail": rail,
            "mtu": mtus.get(peer, {}).get(by_rail[peer][rail]["name"]),
        }
        for rail, own in sorted(by_rail.get(host, {}).items())
        for peer in sorted(ports)
        if peer != host and rail in by_rail[peer]
    ]


def skipped_tests(findings: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """A finding for each bandwidth test that was not run, since its path had failed before."""
    return [
        Finding(
            check="ib_write_bw",
            verdict=SKIPPED,
            observed={"client": path["from"], "server": path["to"], "rail": path["rail"], "gbps": None},
            cause="the path MTU check of this pair failed; bandwidth would say nothing",
            remedy="see the finding on path_mtu",
        ).as_dict()
        for path in _failed_paths(findings)
    ]
