# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What can be tested, and what was not: ports of hosts, broken paths, lonely rails, absent hosts. Pure."""

from __future__ import annotations

import typing as t

from ..errors import brief
from ..findings import FAIL, SKIPPED, Finding
from ..values import integer

Ports = t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]
# Names of ports, and their policy as the filter policy gives it back.
Policies = t.Sequence[tuple[t.Sequence[str], t.Mapping[str, t.Any]]]


def rail_number(value: t.Any) -> int:
    """The number of a rail. Raises ValueError for what int() would round, or take for another one."""
    try:
        return integer(value, 0, 999_999_999)
    except ValueError:
        raise ValueError(f"rail {brief(value)} is no whole number from 0") from None


def _rail_of(port: t.Mapping[str, t.Any]) -> int:
    try:
        return rail_number(port["rail"])
    except ValueError as exc:
        raise ValueError(f"port {port['name']}: {exc}") from None


def _by_rail(ports: Ports) -> dict[str, dict[int, t.Mapping[str, t.Any]]]:
    by_rail = {host: {_rail_of(port): port for port in own} for host, own in ports.items()}
    for host, own in ports.items():
        if len(by_rail[host]) != len(own):
            raise ValueError(f"{host} has two ports on one rail")
    return by_rail


def _failed_paths(findings: t.Iterable[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    return [f["observed"] for f in findings if f["check"] == "path_mtu" and f["verdict"] == FAIL]


def broken_pairs(findings: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The pairs whose path failed, as {hosts: [a, b], rail}, each once."""
    pairs = {(*sorted((path["from"], path["to"])), path["rail"]) for path in _failed_paths(findings)}
    return [{"hosts": [one, other], "rail": rail} for one, other, rail in sorted(pairs)]


def peers_of(host: str, ports: Ports) -> list[dict[str, t.Any]]:
    """The other ends of a host's rails, as path_mtu takes them.

    Each is {name, address, netdev, rail, mtu, rdma_mtu, declared_mtu, declared_rdma_mtu}: MTUs are the peer's, declared
    ones are of this host's port, or None where the port has no policy of its own.
    """
    by_rail = _by_rail(ports)
    return [
        {
            "name": peer,
            "address": by_rail[peer][rail]["address"],
            "netdev": own["name"],
            "rail": rail,
            "mtu": by_rail[peer][rail].get("mtu"),
            "rdma_mtu": by_rail[peer][rail].get("rdma_mtu"),
            "declared_mtu": own.get("declared_mtu"),
            "declared_rdma_mtu": own.get("declared_rdma_mtu"),
        }
        for rail, own in sorted(by_rail.get(host, {}).items())
        for peer in sorted(ports)
        if peer != host and rail in by_rail[peer]
    ]


def fabric_ports(
    declared: t.Sequence[t.Mapping[str, t.Any]], policies: Policies = (), link_gbps: float | None = None
) -> list[dict[str, t.Any]]:
    """The ports of one host as its peers need to know them.

    Each is {name (the netdev), rail, address, mtu, rdma_mtu, leaf, link_gbps}. ``declared`` is what roce_info found out
    on them, or what is declared where no host was looked at. ``policies`` are those of single ports: a port that one
    selects has declared_mtu, declared_rdma_mtu and its link_gbps. Raises ValueError naming the port that cannot take
    part.
    """
    for port in declared:
        lacking = [key for key in ("rail", "address") if port.get(key) in (None, "")]
        if lacking:
            raise ValueError(f"port {port['name']} has no {' and no '.join(lacking)}")
    by_rail: dict[int, t.Any] = {}
    for port in declared:
        other = by_rail.setdefault(_rail_of(port), port)
        if other is not port:
            raise ValueError(f"ports {other['name']} and {port['name']} are both on rail {port['rail']}")
    return [
        {
            "name": port.get("netdev") or port["name"],
            "rail": rail,
            "address": port["address"],
            **{key: port.get(key) for key in ("mtu", "rdma_mtu", "leaf")},
            "link_gbps": link_gbps,
            **_own_policy(port, policies),
        }
        for rail, port in sorted(by_rail.items())
    ]


def _own_policy(port: t.Mapping[str, t.Any], policies: Policies) -> dict[str, t.Any]:
    """What the policy declares that selects the port by netdev or RDMA device."""
    names = {port["name"], port.get("netdev"), port.get("ibdev")}
    own = next((policy for ports, policy in policies if names & set(ports)), None)
    if own is None:
        return {}
    return {"declared_mtu": own["mtu"], "declared_rdma_mtu": own["rdma_mtu"], "link_gbps": own.get("link_gbps")}


def matrix_hosts(ports: Ports) -> list[dict[str, t.Any]]:
    """The hosts as fabric_bandwidth takes them: {name, ports: [{name, rail, address, link_gbps}]}, by name."""
    return [{"name": host, "ports": [_matrix_port(port) for port in own]} for host, own in sorted(ports.items())]


def _matrix_port(port: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    rate = {} if port.get("link_gbps") is None else {"link_gbps": port["link_gbps"]}
    return {"name": port["name"], "rail": _rail_of(port), "address": port["address"], **rate}


def lonely_rails(host: str, ports: Ports) -> list[dict[str, t.Any]]:
    """A failed finding for each rail of a host that no other host has: nothing was proven there."""
    by_rail = _by_rail(ports)
    others = sorted(set(ports) - {host})
    shared = {rail for other in others for rail in by_rail[other]}
    return [
        _untested(
            f"no other host took part that has rail {rail}"
            + (f" (there were {', '.join(others)})" if others else " (no other host took part at all)"),
            "a test needs two hosts: look at --limit, and at rail in roce_ports of all hosts",
            client=host,
            server="",
            rail=rail,
            port=port["name"],
        )
        for rail, port in sorted(by_rail.get(host, {}).items())
        if rail not in shared
    ]


def absent_host(host: str) -> list[dict[str, t.Any]]:
    """A failed finding for a host that was meant to take part and did not get that far."""
    return [
        _untested(
            f"{host} did not take part in the tests: it failed before them, or could not be reached",
            f"see its other findings, and how the run went on {host}; then run the tests again",
            client=host,
            server="",
            rail=None,
        )
    ]


def _untested(cause: str, remedy: str, port: str = "", **pair: t.Any) -> dict[str, t.Any]:
    return Finding(
        check="ib_write_bw",
        verdict=FAIL,
        observed={**pair, "gbps": None},
        expected="a measurement",
        evidence="the hosts of this run and their roce_ports",
        cause=cause,
        remedy=remedy,
        port=port,
    ).as_dict()


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
