# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The policy: defaults, contradictions, derived values."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy, rdma_mtu
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import policy_state
from hypothesis import given
from hypothesis import strategies as st


def test_an_empty_policy_is_the_usual_lossless_one() -> None:
    policy = parse_policy({})
    state = policy_state(policy)
    assert state["pfc"] == {"enabled_prios": [3]}
    assert state["pause"] == {"rx": False, "tx": False}
    assert state["trust"]["dscp_prio"]["26"] == 3 and state["trust"]["dscp_prio"]["48"] == 6
    assert len(state["trust"]["dscp_prio"]) == 64
    assert state["ets"]["prio_tc"] == [0, 0, 0, 3, 0, 0, 6, 0]
    assert state["ets"]["bw"] == [50, 0, 0, 50, 0, 0, 0, 0]
    assert state["cma"] == {"mode": "RoCE v2", "tos": 106, "exposed": True}
    assert "mqprio" not in state
    assert policy.derived()["nccl"] == {"NCCL_IB_TC": "106", "NCCL_IB_FIFO_TC": "106", "NCCL_GIN_IB_TC": "106"}
    assert policy.warnings == ()


def test_everything_follows_from_one_dscp() -> None:
    policy = parse_policy({"data_dscp": 24, "data_prio": 5, "link_gbps": 200})
    assert policy.tos == 98
    assert policy_state(policy)["trust"]["dscp_prio"]["24"] == 5
    assert policy_state(policy)["pfc"] == {"enabled_prios": [5]}
    assert policy.derived()["min_gbps"] == 180


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"data_prio": 6}, ["data_prio and cnp_prio are both 6"]),
        ({"pfc": [3, 6]}, ["cnp_prio 6 is in pfc [3, 6]"]),
        ({"pfc": [2]}, ["data_prio 3 is not in pfc [2]"]),
        ({"pause": True}, ["pause is on and pfc is [3]"]),
        ({"mtu": 4000}, ["mtu 4000 is too small for rdma_mtu 4096", "4192"]),
        ({"dscp_map": {26: 5}}, ["DSCP 26 (data_dscp) to priority 5", "data_prio is 3"]),
        ({"dscp_map": {48: 0}}, ["DSCP 48 (cnp_dscp) to priority 0", "cnp_prio is 6"]),
        ({"tos": 96}, ["tos 96 stands for DSCP 24", "data_dscp is 26"]),
        ({"data_dscp": 48, "tos": 194}, ["data_dscp and cnp_dscp are both 48"]),
        ({"ets": [{"tc": 0, "prios": [0, 1, 2, 3, 4, 5, 6, 7], "bw": 90}]}, ["[90]", "add up to 90, 100 was expected"]),
        (
            {"ets": [{"tc": 0, "prios": list(range(8)), "bw": 50}, {"tc": 3, "prios": [], "bw": 50}]},
            ["tc 3 has bw 50 and no priority maps to it"],
        ),
        ({"ets": [{"tc": 0, "prios": [0, 1], "bw": 100}]}, ["priorities [2, 3, 4, 5, 6, 7] are in no class"]),
        (
            {"ets": [{"tc": 0, "prios": list(range(8)), "bw": 100}, {"tc": 1, "prios": [3], "tsa": "strict"}]},
            ["priority 3 is listed twice"],
        ),
        ({"mtu": "jumbo"}, ["mtu: 'jumbo' … 68 to 9978 was expected"]),
        ({"mtu": True}, ["mtu: True"]),
        ({"data_prio": 8, "efficiency": 90}, ["data_prio: 8 … 0 to 7", "efficiency: 90"]),
        ({"pfc": 3}, ["pfc: 3 … a list of priorities"]),
        ({"unmanaged": ["qos"]}, ["unmanaged: ['qos']", "pfc"]),
        ({"mqprio": {"num_tc": 2, "map": [5]}}, ["map sends a priority to class 5", "num_tc 2"]),
        ({"mqprio": {"num_tc": 2, "map": [1], "queues": ["1@0"]}}, ["1 queue ranges for num_tc 2"]),
        ({"mqprio": {"num_tc": 2, "map": [1], "queues": ["2@0", "2@1"]}}, ["2@1 of class 1 are empty or overlap"]),
        ({"mqprio": {"queue": 1}}, ["mqprio: {'queue': 1}"]),
        ({"mqprio": {"num_tc": 2, "map": "0101"}}, ["mqprio: {'num_tc': 2, 'map': '0101'}"]),
        ({"mqprio": {"num_tc": 1, "map": [0], "queues": ["9999999999999@0"]}}, ["9999999999999@0"]),
        ({"rdma_mtu": "4097"}, ["rdma_mtu: '4097' … 256, 512"]),
        ({"link_gbps": 10**400}, ["link_gbps: 1000"]),
        ({"mtu": 10**5000}, ["mtu: a number of thousands of digits"]),
        ({"nic": 10**5000}, ["nic: a number of thousands of digits"]),
        ({"nic": {"rings": 10**5000}}, ["nic.rings: a number of thousands of digits"]),
        ({"nic": {"rings": {"rx": 10**5000}}}, ["nic.rings.rx: a number of thousands of digits"]),
        ({"nic": {"features": {"lro": 10**5000}}}, ["nic.features.lro: a number of thousands of digits"]),
        ({"dcqcn": 10**5000}, ["dcqcn: a number of thousands of digits"]),
        ({"dcqcn": {"rpg_gd": 10**5000}}, ["dcqcn: rpg_gd: a number of thousands of digits"]),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_a_contradiction_names_both_sides(raw: dict[str, t.Any], names: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(raw)
    for name in names:
        assert name in str(caught.value)


def test_an_unknown_field_names_the_known_ones() -> None:
    with pytest.raises(PolicyError, match="unknown field 'mtuu'.*mtu"):
        parse_policy({"mtuu": 9000})


def test_tos_without_ecn_bits_is_only_a_warning() -> None:
    policy = parse_policy({"tos": 104})
    assert "104 has no ECN bits (106 has)" in policy.warnings[0]


def test_numbers_given_as_text_are_numbers() -> None:
    assert parse_policy({"mtu": "9000", "link_gbps": "200"}).mtu == 9000
    assert parse_policy({"rdma_mtu": "2048"}).rdma_mtu == 2048
    assert parse_policy({"efficiency": ".85"}).efficiency == 0.85


@pytest.mark.parametrize("field", ["mtu", "link_gbps", "efficiency", "data_prio", "tos"])
@pytest.mark.parametrize("text", [" 3 ", "٣", "9_000", "1e2", "+3", "0x3", "3\n", "nan", "inf", "-1", ""])
def test_text_that_only_python_reads_as_a_number_is_refused(field: str, text: str) -> None:
    with pytest.raises(PolicyError, match=f"^roce_policy: {field}: "):
        parse_policy({field: text})


@pytest.mark.parametrize(
    ("netdev", "rdma"), [(1500, 1024), (4191, 2048), (4192, 4096), (9000, 4096), (351, 0), (352, 256)]
)
def test_rdma_mtu_follows_the_netdev(netdev: int, rdma: int) -> None:
    assert rdma_mtu(netdev) == rdma


def test_a_policy_that_is_no_mapping() -> None:
    for raw in (10**5000, [], "mtu: 9000", None):
        with pytest.raises(PolicyError, match="a mapping was expected"):
            parse_policy(raw)  # type: ignore[arg-type]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
FIELDS = [
    "nic",
    "dcqcn",
    "ecn",
    "buffers",
    "cable_length",
    "mtu",
    "pfc",
    "ets",
    "trust",
    "dscp_map",
    "mqprio",
    "tos",
    "pause",
    "efficiency",
    "link_gbps",
    "unmanaged",
]


@given(st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES, max_size=3))
def test_no_value_ends_in_a_traceback(raw: dict[str, t.Any]) -> None:
    try:
        policy_state(parse_policy(raw))
    except PolicyError as exc:
        assert "\n" not in str(exc) or "\n" in repr(raw)
