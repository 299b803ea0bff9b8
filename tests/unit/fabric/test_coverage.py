# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What can be tested, and what was not."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.lossless.roce.plugins.filter.fabric_ports import FilterModule
from ansible_collections.lossless.roce.plugins.module_utils.fabric.coverage import (
    absent_host,
    broken_pairs,
    lonely_rails,
    matrix_hosts,
    peers_of,
    skipped_tests,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.part import parse
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import parse_hosts
from ansible_collections.lossless.roce.plugins.module_utils.fabric.spec import (
    HOST_SPEC,
    JUDGE_SPEC,
    MATRIX_SPEC,
    PORT_SPEC,
    RUN_SPEC,
)

FILTERS = FilterModule().filters()
fabric_ports = FILTERS["fabric_ports"]


def nodes(count: int, rails: int = 1) -> dict[str, list[dict[str, t.Any]]]:
    """Hosts n0 … with a port on each rail."""
    return {
        f"n{host}": [
            {"name": f"eth{rail}", "rail": rail, "address": f"10.0.{rail}.{host + 1}"} for rail in range(rails)
        ]
        for host in range(count)
    }


BROKEN = {"check": "path_mtu", "verdict": "fail", "observed": {"from": "n0", "to": "n1", "rail": 0}}


def test_a_pair_with_a_broken_path_is_left_out_and_said_to_be() -> None:
    other_way = {**BROKEN, "observed": {"from": "n1", "to": "n0", "rail": 0}}
    right = {**BROKEN, "verdict": "pass", "observed": {}}
    assert broken_pairs([BROKEN, other_way, right]) == [{"hosts": ["n0", "n1"], "rail": 0}]
    (skipped,) = skipped_tests([BROKEN])
    assert skipped["verdict"] == "skipped" and skipped["observed"]["gbps"] is None


def test_peers_with_the_mtu_that_they_run() -> None:
    ports = nodes(2, rails=2)
    ports["n1"][0] |= {"mtu": 9000, "rdma_mtu": 4096}
    peers = peers_of("n0", ports)
    assert [(peer["name"], peer["rail"], peer["mtu"], peer["rdma_mtu"]) for peer in peers] == [
        ("n1", 0, 9000, 4096),
        ("n1", 1, None, None),
    ]
    assert peers_of("stranger", nodes(2)) == []


@pytest.mark.parametrize(
    "options",
    [
        {"scope": "all"},
        {"scope": "ring"},
        {"scope": "reference", "reference": "n3"},
        {"scope": "sample", "samples": "2", "seed": "7"},  # as -e gives them
        {"scope": "all", "duration": 10, "budget": 60, "seed": 3, "size": None},
    ],
)
def test_paths_are_proven_of_the_pairs_that_are_measured(options: dict[str, t.Any]) -> None:
    ports = nodes(8, rails=2)
    known = ArgumentSpecValidator({**MATRIX_SPEC, **RUN_SPEC, **JUDGE_SPEC}).validate(
        {**{key: value for key, value in options.items() if value is not None}, "hosts": matrix_hosts(ports)}
    )
    matrix, _options = parse(known.validated_parameters)
    for host in ports:
        found = {(peer["name"], peer["rail"]) for peer in FILTERS["peers"](host, ports, options)}
        assert found == {(test.peer, test.rail) for test in matrix.tests_of(host)}


def test_each_port_has_the_rate_of_its_own_policy() -> None:
    declared = [
        {"name": "eth0", "rail": 0, "address": "10.0.0.1"},
        {"name": "mlx5_1", "rail": 1, "address": "10.0.1.1", "netdev": "eth1"},
    ]
    own = [(["eth1"], {"mtu": 4200, "rdma_mtu": 4096, "link_gbps": 200})]
    (host,) = matrix_hosts({"n0": fabric_ports(declared, own, 400)})
    assert host["ports"] == [
        {"name": "eth0", "rail": 0, "address": "10.0.0.1", "link_gbps": 400},
        {"name": "eth1", "rail": 1, "address": "10.0.1.1", "link_gbps": 200},
    ]
    (host,) = matrix_hosts({"n0": fabric_ports(declared)})
    assert not any("link_gbps" in port for port in host["ports"])


def test_options_that_say_nothing_of_whom_to_test_with_are_refused() -> None:
    for options, words in (
        ({"scope": "some"}, "scope"),
        ({"samples": "many"}, "many"),
        ({"budget": 1}, "time budget: 1 s"),
        ({"scope": "reference", "reference": "n9"}, "n9"),
    ):
        with pytest.raises(AnsibleFilterError, match=words):
            FILTERS["peers"]("n0", nodes(3), options)
    assert FILTERS["peers"]("n0", nodes(1), {"scope": "ring"}) == []


def test_ports_go_by_their_netdev_whatever_they_were_declared_as() -> None:
    declared = {"name": "mlx5_0", "rail": "1", "address": "10.0.0.1", "netdev": "eth0", "mtu": 9000, "rdma_mtu": 4096}
    missing = {"name": "eth7", "rail": 0, "address": "10.0.1.1", "netdev": "", "ibdev": "", "mtu": None}
    assert fabric_ports([declared, missing]) == [
        {
            "name": "eth7",
            "rail": 0,
            "address": "10.0.1.1",
            "mtu": None,
            "rdma_mtu": None,
            "leaf": None,
            "link_gbps": None,
        },
        {
            "name": "eth0",
            "rail": 1,
            "address": "10.0.0.1",
            "mtu": 9000,
            "rdma_mtu": 4096,
            "leaf": None,
            "link_gbps": None,
        },
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


@pytest.mark.parametrize("rail", [float("inf"), float("nan"), 1.9, True, "1.5", "\u0663", -1, " 3"])
def test_a_rail_is_a_whole_number(rail: t.Any) -> None:
    """What int() would make of it is another rail than was declared."""
    declared = [{**nodes(1)["n0"][0], "netdev": "eth0", "rail": rail}]
    with pytest.raises(AnsibleFilterError, match="port eth0: rail .* is no whole number from 0"):
        fabric_ports(declared)
    ports = {"n0": declared, "n1": nodes(2)["n1"]}
    for name, arguments in (("peers", ("n1", ports)), ("lonely_rails", ("n1", ports)), ("matrix_hosts", (ports,))):
        with pytest.raises(AnsibleFilterError, match="port eth0: rail .* is no whole number from 0"):
            FILTERS[name](*arguments)


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
        FILTERS["peers"]("n0", ports)


@pytest.mark.parametrize("ports", [None, [], {"a": [{}], "b": [{}]}, {"a": [1]}, {"a": [{"rail": "x"}]}])
def test_ports_of_another_form_are_refused(ports: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="was expected"):
        FILTERS["peers"]("a", ports)


def test_the_hosts_are_what_the_matrix_takes() -> None:
    """What peers need to know goes with the ports (mtu); fabric_bandwidth refuses what it does not know."""
    port = {"name": "ens1np0", "rail": 0, "address": "198.51.100.1", "mtu": 9000, "link_gbps": 200}
    hosts = matrix_hosts({"n1": [port], "n0": [port]})
    assert [host["name"] for host in hosts] == ["n0", "n1"]
    for host in hosts:
        assert set(host) == {"name", "ports"} <= set(HOST_SPEC)
        assert set(host["ports"][0]) == set(PORT_SPEC)
    assert len(parse_hosts(hosts)) == 2


def test_the_declared_mtu_of_a_rail_is_that_of_the_policy_which_selects_the_port() -> None:
    info = [
        {"name": name, "rail": rail, "address": f"10.0.{rail}.1", "netdev": f"eth{rail}", "ibdev": f"mlx5_{rail}"}
        for rail, name in enumerate(("eth0", "mlx5_1", "eth2", "eth3"))
    ]
    policies = [(["eth0"], {"mtu": 9000, "rdma_mtu": 4096}), (["eth1", "mlx5_2"], {"mtu": 4200, "rdma_mtu": 2048})]
    ports = {"n0": fabric_ports(info, policies), "n1": fabric_ports(info)}
    assert [(peer["declared_mtu"], peer["declared_rdma_mtu"]) for peer in peers_of("n0", ports)] == [
        (9000, 4096),
        (4200, 2048),
        (4200, 2048),
        (None, None),
    ]
    assert {peer["declared_mtu"] for peer in peers_of("n1", ports)} == {None}
