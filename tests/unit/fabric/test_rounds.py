# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Who tests with whom: rounds, roles and TCP ports."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.pairs import FilterModule
from ansible_collections.lossless.roce.plugins.module_utils.fabric.rounds import (
    absent_host,
    lonely_rails,
    peers_of,
    rounds,
    skipped_tests,
)
from hypothesis import given
from hypothesis import strategies as st

pairs = FilterModule().filters()["pairs"]
fabric_ports = FilterModule().filters()["fabric_ports"]


def nodes(count: int, rails: int = 1) -> dict[str, list[dict[str, t.Any]]]:
    """Hosts n0 … with a port on each rail."""
    return {
        f"n{host}": [
            {"name": f"eth{rail}", "rail": rail, "address": f"10.0.{rail}.{host + 1}"} for rail in range(rails)
        ]
        for host in range(count)
    }


def test_two_nodes_both_ways_on_each_rail() -> None:
    tests = pairs(nodes(2, rails=2))
    first = tests["n0"][0]
    assert first == {
        "role": "server",
        "peer": "n1",
        "peer_address": "10.0.0.2",
        "netdev": "eth0",
        "address": "10.0.0.1",
        "rail": 0,
        "tcp_port": 18515,
    }
    assert [test["role"] for test in tests["n0"]] == ["server", "client", "server", "client"]
    assert [test["role"] for test in tests["n1"]] == ["client", "server", "client", "server"]
    for own, other in zip(tests["n0"], tests["n1"], strict=True):
        assert (own["tcp_port"], own["rail"]) == (other["tcp_port"], other["rail"])
    assert len({test["tcp_port"] for test in tests["n0"]}) == 4


@given(count=st.integers(0, 17))
def test_every_pair_meets_once_and_nobody_twice_in_a_round(count: int) -> None:
    schedule = rounds(count)
    met = [frozenset(pair) for round_ in schedule for pair in round_]
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    for round_ in schedule:
        present = [host for pair in round_ for host in pair]
        assert len(present) == len(set(present))


@given(count=st.integers(2, 7), rails=st.integers(1, 3))
def test_lists_that_hosts_run_by_themselves_never_wait_for_each_other_in_a_circle(count: int, rails: int) -> None:
    tests = pairs(nodes(count, rails))
    heads = dict.fromkeys(tests, 0)
    left = sum(map(len, tests.values()))
    assert left == count * (count - 1) * rails * 2
    while left:
        ready = [
            (host, test["peer"])
            for host, test in ((host, tests[host][at]) for host, at in heads.items() if at < len(tests[host]))
            if test["role"] == "server"
            and heads[test["peer"]] < len(tests[test["peer"]])
            and tests[test["peer"]][heads[test["peer"]]]["tcp_port"] == test["tcp_port"]
        ]
        assert ready, "every host waits for another"
        for server, client in ready:
            heads[server] += 1
            heads[client] += 1
            left -= 2


def test_a_rail_that_one_end_lacks_is_left_out() -> None:
    ports = nodes(2, rails=2)
    ports["n1"].pop()
    assert {test["rail"] for test in pairs(ports)["n0"]} == {0}
    assert pairs({"alone": nodes(1)["n0"]}) == {"alone": []}


BROKEN = {"check": "path_mtu", "verdict": "fail", "observed": {"from": "n0", "to": "n1", "rail": 0}}


def test_a_pair_with_a_broken_path_is_left_out_and_said_to_be() -> None:
    tests = pairs(nodes(3, rails=2), [BROKEN, {**BROKEN, "verdict": "pass", "observed": {}}])
    assert {test["rail"] for test in tests["n0"] if test["peer"] == "n1"} == {1}
    assert {test["rail"] for test in tests["n0"] if test["peer"] == "n2"} == {0, 1}
    (skipped,) = skipped_tests([BROKEN])
    assert skipped["verdict"] == "skipped" and skipped["observed"]["gbps"] is None


def test_peers_with_the_mtu_that_they_run() -> None:
    ports = nodes(2, rails=2)
    ports["n1"][0]["mtu"] = 9000
    peers = peers_of("n0", ports)
    assert [(peer["name"], peer["rail"], peer["mtu"]) for peer in peers] == [("n1", 0, 9000), ("n1", 1, None)]
    assert peers_of("stranger", nodes(2)) == []


def test_ports_go_by_their_netdev_whatever_they_were_declared_as() -> None:
    declared = {"name": "mlx5_0", "rail": "1", "address": "10.0.0.1", "netdev": "eth0", "ibdev": "mlx5_0", "mtu": 9000}
    missing = {"name": "eth7", "rail": 0, "address": "10.0.1.1", "netdev": "", "ibdev": "", "mtu": None}
    assert fabric_ports([declared, missing]) == [
        {"name": "eth7", "rail": 0, "address": "10.0.1.1", "mtu": None},
        {"name": "eth0", "rail": 1, "address": "10.0.0.1", "mtu": 9000},
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rail": None}, "port eth1 has no rail"),
        ({"address": ""}, "port eth1 has no address"),
        ({"rail": 0}, "ports eth0 and eth1 are both on rail 0"),
    ],
)
def test_a_port_that_cannot_take_part_is_named(change: dict[str, t.Any], words: str) -> None:
    declared = [{**port, "netdev": port["name"], "mtu": 9000} for port in nodes(1, rails=2)["n0"]]
    with pytest.raises(AnsibleFilterError, match=words):
        fabric_ports([declared[0], {**declared[1], **change}])


def test_a_rail_without_any_other_host_is_a_failure() -> None:
    ports = nodes(3, rails=2)
    assert lonely_rails("n0", ports) == []
    del ports["n1"][1], ports["n2"][1]
    (finding,) = lonely_rails("n0", ports)
    assert finding["verdict"] == "fail" and finding["port"] == "eth1"
    assert "no other host took part that has rail 1 (there were n1, n2)" in finding["cause"]
    assert [f["verdict"] for f in lonely_rails("n0", {"n0": ports["n0"]})] == ["fail", "fail"]
    assert "no other host took part at all" in lonely_rails("n0", {"n0": ports["n0"]})[0]["cause"]


def test_an_absent_host_is_a_failure_of_its_own() -> None:
    (finding,) = absent_host("n3")
    assert finding["verdict"] == "fail" and "n3 did not take part" in finding["cause"]


def test_two_ports_on_one_rail_are_refused() -> None:
    ports = nodes(2)
    ports["n0"].append({**ports["n0"][0], "name": "eth9"})
    with pytest.raises(AnsibleFilterError, match="n0 has two ports on one rail"):
        pairs(ports)


@pytest.mark.parametrize("ports", [None, [], {"a": [{}], "b": [{}]}, {"a": [1]}, {"a": [{"rail": "x"}]}])
def test_ports_of_another_form_are_refused(ports: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="was expected"):
        pairs(ports)
