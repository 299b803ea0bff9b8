# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Neighbours by lldpcli, in both of its JSON forms, and what a port's peers are told."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.ends import leaves, told_to_peers
from ansible_collections.lossless.roce.plugins.module_utils.parsers.lldp import parse_neighbours
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

ASK = "lldpcli -f json0 show neighbors"


def regular(netdev: str, chassis: str, port: str, kind: str = "ifname", bridge: bool = True) -> dict[str, t.Any]:
    """One neighbour as json0 prints it."""
    return {
        "name": netdev,
        "via": "LLDP",
        "rid": "1",
        "age": "0 day, 00:00:12",
        "chassis": [
            {
                "id": [{"type": "mac", "value": "00:00:00:00:00:02"}],
                "name": [{"value": chassis}],
                "descr": [{"value": "a switch"}],
                "capability": [{"type": "Bridge", "enabled": bridge}, {"type": "Router", "enabled": False}],
            }
        ],
        "port": [
            {"id": [{"type": kind, "value": port}], "descr": [{"value": "Ethernet1/1"}], "ttl": [{"value": "120"}]}
        ],
    }


def short(netdev: str, chassis: str, port: str) -> dict[str, t.Any]:
    """The same as json prints it: the chassis' name is a key."""
    inner = {"id": {"type": "mac", "value": "00:00:00:00:00:02"}, "descr": "a switch"}
    named = {chassis: inner} if chassis else inner
    return {netdev: {"via": "LLDP", "chassis": named, "port": {"id": {"type": "ifname", "value": port}, "ttl": "120"}}}


def regular_text(*neighbours: dict[str, t.Any]) -> str:
    """What lldpcli -f json0 prints."""
    return json.dumps({"lldp": [{"interface": list(neighbours)}]})


WANTED = {"ens1np0": {"chassis": "leaf1", "port": "swp1"}, "ens2np0": {"chassis": "leaf2", "port": "swp7"}}


def test_both_forms_say_the_same() -> None:
    assert (
        parse_neighbours(regular_text(regular("ens1np0", "leaf1", "swp1"), regular("ens2np0", "leaf2", "swp7")))
        == WANTED
    )
    several = [short("ens1np0", "leaf1", "swp1"), short("ens2np0", "leaf2", "swp7")]
    assert parse_neighbours(json.dumps({"lldp": {"interface": several}})) == WANTED
    one = json.dumps({"lldp": {"interface": several[0]}})  # a list of one is left out
    assert parse_neighbours(one) == {"ens1np0": WANTED["ens1np0"]}


def test_no_neighbour_at_all() -> None:
    assert parse_neighbours('{"lldp": [{}]}') == parse_neighbours('{"lldp": {}}') == {}


def test_a_chassis_without_a_name_goes_by_its_id_and_a_port_with_a_mac_by_its_description() -> None:
    told = regular("ens1np0", "leaf1", "00:00:00:00:00:09", kind="mac")
    del told["chassis"][0]["name"]
    assert parse_neighbours(regular_text(told)) == {"ens1np0": {"chassis": "00:00:00:00:00:02", "port": "Ethernet1/1"}}
    plain = json.dumps({"lldp": {"interface": short("ens1np0", "", "swp1")}})
    assert parse_neighbours(plain) == {"ens1np0": {"chassis": "00:00:00:00:00:02", "port": "swp1"}}


def test_of_several_neighbours_the_switch_counts() -> None:
    text = regular_text(regular("ens1np0", "another-host", "eth0", bridge=False), regular("ens1np0", "leaf1", "swp1"))
    assert parse_neighbours(text) == {"ens1np0": WANTED["ens1np0"]}


@pytest.mark.parametrize("text", ["", "[]", "null", '{"lldp": 5}', '{"lldp": [{"interface": ["x"]}]}', "lldpcli: no"])
def test_what_is_no_list_of_neighbours_is_an_error(text: str) -> None:
    with pytest.raises(ParseError):
        parse_neighbours(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["lldp", "interface", "name", "chassis", "port", "id", "value"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_json_gives_texts_or_one_clear_error(data: t.Any) -> None:
    try:
        found = parse_neighbours(json.dumps({"lldp": data}))
    except ParseError:
        return
    assert all(isinstance(text, str) for told in found.values() for text in (told["chassis"], told["port"]))


def test_a_node_without_lldpd_or_where_it_does_not_run_tells_nothing() -> None:
    bare = FakeHost()
    bare.missing_tools = {"lldpcli"}
    assert leaves(bare) == {} and bare.ran == []  # type: ignore[arg-type]
    stopped = FakeHost(outputs={ASK: (1, "", "unable to connect to socket /run/lldpd.socket")})
    assert leaves(stopped) == {}  # type: ignore[arg-type]


def test_declared_ports_carry_their_leaf_and_their_active_rdma_mtu() -> None:
    devinfo = "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tactive_mtu:\t\t4096 (5)\n"
    host = FakeHost(
        outputs={
            ASK: regular_text(regular("ens1np0", "leaf1", "swp1")),
            "ibv_devinfo": devinfo,
            "rdma -j link show": '[{"ifindex":0,"ifname":"mlx5_0","port":1,"state":"ACTIVE","netdev":"ens1np0"}]',
        }
    )
    declared = [{"name": "mlx5_0", "netdev": "ens1np0"}, {"name": "ens9", "netdev": ""}]
    known, missing = told_to_peers(host, declared)  # type: ignore[arg-type]
    assert (known["rdma_mtu"], known["leaf"]) == (4096, WANTED["ens1np0"])
    assert (missing["rdma_mtu"], missing["leaf"]) == (None, None)
