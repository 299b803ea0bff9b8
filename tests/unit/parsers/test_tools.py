# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parsers of dcb, ethtool, tc, rdma and ip, on recorded outputs and on garbled ones."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.parsers import addresses, dcb, ethtool, rdma, tc
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"


def case(name: str) -> str:
    """Text of a recorded case."""
    return (CASES / name).read_text()


def test_c05_pfc_text_of_the_manual_page() -> None:
    assert dcb.parse_pfc(case("c05-dcb-two-prios.txt")) == {"enabled_prios": [6, 7], "pfc_cap": 8, "delay": 4096}


def test_c06_mqprio_text_with_dev_inside_the_line() -> None:
    root = tc.parse_root_qdisc(case("c06-tc-mqprio-16-classes.txt"))
    assert root["kind"] == "mqprio" and root["num_tc"] == 16
    assert root["map"] == list(range(16))
    assert root["queues"] == [[4, 4 * class_] for class_ in range(16)]
    assert root["offload"] == "channel"


def test_c12_global_pause_on() -> None:
    assert ethtool.parse_pause(case("c12-pause-params-on.txt")) == {"rx": True, "tx": True}


def test_c14_no_channels_in_a_ring_listing() -> None:
    with pytest.raises(ParseError, match="with 'Combined:' was expected"):
        ethtool.parse_channels(case("c14-rings-na-and-cut.txt"))


def test_d01_netdev_names_of_any_form() -> None:
    links = rdma.parse_links(case("d01-rdma-link-p1p1.txt"))
    assert [(link["ibdev"], link["netdev"], link["state"]) for link in links] == [
        ("mlx5_0", "p1p1", "ACTIVE"),
        ("mlx5_1", "p1p2", "ACTIVE"),
    ]


def test_natural_order_of_devices() -> None:
    assert sorted(["mlx5_10", "mlx5_9", "mlx5_1"], key=rdma.natural) == ["mlx5_1", "mlx5_9", "mlx5_10"]
    assert rdma.natural("a²") > rdma.natural("9"), "not every digit is a number"


def test_mqprio_with_a_number_of_thousands_of_digits() -> None:
    with pytest.raises(ParseError):
        tc.parse_root_qdisc(f"qdisc mqprio 8001: root tc {'9' * 5000} map 0\n")


def test_pfc_json() -> None:
    text = '{"pfc_cap":8,"macsec_bypass":false,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}'
    assert dcb.parse_pfc(text)["enabled_prios"] == [3]


@pytest.mark.parametrize("text", ['{"dscp_prio":[[26,3," "],[48,6," "]]}', '{"dscp_prio":[[48,6],[26,3]]}'])
def test_app_entries_with_and_without_the_stray_element(text: str) -> None:
    assert dcb.parse_app_dscp(text) == {26: 3, 48: 6}


@pytest.mark.parametrize("text", ["{}", "", "{ }\n"])
def test_an_empty_app_table(text: str) -> None:
    assert dcb.parse_app_dscp(text) == {}


def test_dcbx_prints_only_flags_that_are_set() -> None:
    flags = dcb.parse_dcbx('{"host":true,"ieee":true}')
    assert flags == {"host": True, "lld_managed": False, "cee": False, "ieee": True, "static": False}


def mqprio(queues: list[list[int]], **options: t.Any) -> str:
    """JSON as tc prints it."""
    inner = {"tc": len(queues), "map": [0] * 16, "queues": queues, **options}
    return json.dumps([{"kind": "mqprio", "handle": "8001:", "root": True, "refcnt": 2, "options": inner}])


def test_offload_is_told_from_mode_and_queues() -> None:
    assert tc.parse_root_qdisc(mqprio([[0, 0], [1, 1], [2, 9]]))["offload"] == "off"
    assert tc.parse_root_qdisc(mqprio([[0, 0], [1, 1], [2, 9]], mode="dcb", shaper="dcb"))["offload"] == "off"
    assert tc.parse_root_qdisc(mqprio([[0, 7]] * 8, mode="dcb"))["offload"] == "dcb"
    assert tc.parse_root_qdisc(mqprio([[0, 3], [4, 7]], mode="channel"))["offload"] == "channel"


def test_the_kernels_own_root_qdisc_is_the_default() -> None:
    own = '[{"kind":"mq","handle":"0:","root":true,"options":{}},{"kind":"fq_codel","handle":"0:","parent":":1"}]'
    assert tc.parse_root_qdisc(own) == {"kind": "default", "qdisc": "mq"}
    set_by_hand = '[{"kind":"htb","handle":"1:","root":true,"options":{}}]'
    assert tc.parse_root_qdisc(set_by_hand) == {"kind": "other", "qdisc": "htb"}


@pytest.mark.parametrize(
    "text",
    ["", "\n", "garbage", "Cannot find device", "null", "{}", "qdisc mqprio 8001", '[{"kind":"mqprio"}]', "[1]",
     '[{"root":true}]', '[{"kind":"mqprio","handle":"8001:","options":{"tc":3}}]'],
)  # fmt: skip
def test_what_is_no_list_of_qdiscs_is_not_the_default(text: str) -> None:
    with pytest.raises(ParseError, match="tc: "):
        tc.parse_root_qdisc(text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",  # a link that was never up: the kernel does not list its noop
        "[ ]\n",
        '[{"kind":"clsact","handle":"ffff:","parent":"ffff:fff1","options":{}}]',
        "qdisc clsact ffff: dev ens1np0 parent ffff:fff1 \n",
    ],
)
def test_a_link_without_root_qdisc_has_the_default(text: str) -> None:
    assert tc.parse_root_qdisc(text) == {"kind": "default", "qdisc": ""}


@pytest.mark.parametrize("text", ["garbage", "null", "{}", "1/1: mlx5_0/1: state ACTIVE", "link mlx5_0/x state ACTIVE"])
def test_what_names_no_link_is_not_a_node_without_devices(text: str) -> None:
    with pytest.raises(ParseError, match="rdma link: "):
        rdma.parse_links(text)


@pytest.mark.parametrize("text", ["[]", "[ ]\n", ""])
def test_a_node_without_devices_has_no_links(text: str) -> None:
    assert rdma.parse_links(text) == []


@pytest.mark.parametrize("text", ["{}", '{"ifname":"lo"}', "null", "garbage", '"ifname"'])
def test_what_is_no_list_of_addresses_is_not_a_node_without_addresses(text: str) -> None:
    for parse in (addresses.parse_addresses, addresses.parse_networks):
        with pytest.raises(ParseError, match="ip address: "):
            parse(text)


def test_combined_channels_in_both_forms() -> None:
    text = "Channel parameters for x:\nPre-set maximums:\nCombined:\t63\nCurrent hardware settings:\nCombined:\t8\n"
    expected = {"combined": 8, "max": {"combined": 63}}
    assert ethtool.parse_channels(text) == expected
    assert ethtool.parse_channels('[{"ifname":"ens1np0","combined-max":63,"combined":8}]') == expected


def test_user_queue_pairs_without_those_of_the_kernel() -> None:
    text = (
        '[{"ifname":"mlx5_0","lqpn":1,"comm":"[ib_core]"},{"ifname":"mlx5_0","lqpn":18,"pid":77,"comm":"ib_write_bw"}]'
    )
    assert rdma.parse_user_qps(text) == [{"ibdev": "mlx5_0", "pid": 77, "comm": "ib_write_bw"}]


SEEDS = [
    '{"pfc_cap":8,"delay":0,"prio_pfc":[false,false,false,true,false,false,false,false]}',
    '{"tc_bw":[0,0,0,0,0,0,0,0],"tc_tsa":["ets","strict","strict","strict","strict","strict","strict","strict"],"prio_tc":[0,1,2,3,4,5,6,7]}',
    '{"dscp_prio":[[26,3," "]],"port_prio":[[4791,3," "]]}',
    '[{"ifname":"ens1np0","autonegotiate":false,"rx":true,"tx":true,"combined":8}]',
    '[{"ifname":"mlx5_0","port":1,"state":"ACTIVE","netdev":"p1p1","pid":1,"comm":"x"}]',
    '[{"ifname":"lo","addr_info":[{"local":"127.0.0.1"}]}]',
    mqprio([[0, 3], [4, 7]], mode="channel"),
    case("c06-tc-mqprio-16-classes.txt"),
    case("c12-pause-params-on.txt"),
    case("c05-dcb-two-prios.txt"),
    case("d01-rdma-link-p1p1.txt"),
]
PARSERS = [
    dcb.parse_pfc,
    dcb.parse_ets,
    dcb.parse_app_dscp,
    dcb.parse_dcbx,
    ethtool.parse_pause,
    ethtool.parse_channels,
    tc.parse_root_qdisc,
    rdma.parse_links,
    rdma.parse_user_qps,
    addresses.parse_addresses,
]


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
@given(text=st.one_of(st.sampled_from(SEEDS), st.text()), cut=st.integers(0, 400), noise=st.text(max_size=4))
def test_garbled_output_is_a_parse_error_at_worst(
    parse: t.Callable[[str], t.Any], text: str, cut: int, noise: str
) -> None:
    garbled = text[:cut] + noise + text[cut + len(noise) :]
    for candidate in (garbled, text[:cut], text.replace("[", "{").replace("]", "}"), "null", "[1]", '[{"root":true}]'):
        try:
            parse(candidate)
        except ParseError as exc:
            assert str(exc)
