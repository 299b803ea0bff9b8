# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ECN, CNPs, DCQCN, traffic class, cable length and port buffers, on a node of either driver."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError, PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.node import Options, converge
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.settings.buffers import xoff_bytes
from ansible_collections.lossless.roce.plugins.module_utils.settings.dcqcn import (
    PARAMETERS,
    dcqcn_request,
    dcqcn_value,
)
from ansible_collections.lossless.roce.plugins.module_utils.settings.ecn import ecn_value
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import SETTINGS, policy_state
from ansible_collections.lossless.roce.plugins.module_utils.settings.traffic_class import parse_traffic_class
from hypothesis import given
from hypothesis import strategies as st
from sim_node import SimNode, SimPort

ECN = "/sys/class/net/ens1np0/ecn"
CC = "/sys/kernel/debug/mlx5/0000:17:00.0/cc_params"
TCLASS = "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"


def node(flavour: str, **fields: t.Any) -> SimNode:
    """A node with one port, DCB owned by the host already."""
    return SimNode({"ens1np0": SimPort("mlx5_0", host_dcbx=True, flavour=flavour, **fields)})


def only(node_: SimNode, state: t.Any, **options: t.Any) -> dict[str, t.Any]:
    """A run of the settings in ``state`` alone, as a module of its own does it."""
    settings = [setting for setting in SETTINGS if setting.name in state]
    return converge(t.cast("t.Any", node_), ["ens1np0"], settings, state, Options(strict=True, **options)).as_dict()


def whole(node_: SimNode, policy: dict[str, t.Any], **options: t.Any) -> dict[str, t.Any]:
    """A run with a policy."""
    wanted = policy_state(parse_policy(policy))
    return converge(t.cast("t.Any", node_), ["ens1np0"], SETTINGS, wanted, Options(**options)).as_dict()


def verdicts(result: dict[str, t.Any]) -> dict[str, str]:
    """Verdict by check."""
    return {finding["check"]: finding["verdict"] for finding in result["findings"]}


def writes(result: dict[str, t.Any]) -> list[tuple[str, str]]:
    """Files that were written, and what."""
    return [(command[1], command[2]) for command in result["commands"] if command[0] == "write"]


# -- both drivers by one policy ------------------------------------------------------------------


def test_the_default_policy_on_the_driver_of_ofed() -> None:
    ofed = node("ofed")
    ofed.files[f"{ECN}/roce_rp/enable/3"] = "0\n"
    ofed.files[f"{ECN}/roce_np/cnp_dscp"] = "0\n"
    result = whole(ofed, {})
    assert result["failed_ports"] == {}
    ours = [path for path, _text in writes(result) if "/rdma_cm/" not in path]
    assert ours == [f"{ECN}/roce_rp/enable/3", f"{ECN}/roce_np/cnp_dscp", TCLASS]
    assert result["ports"]["ens1np0"]["cnp"] == {"interface": "ofed", "dscp": 48, "prio": 6}
    assert result["ports"]["ens1np0"]["traffic_class"] == {"tclass": 106}
    assert {name: verdicts(result)[name] for name in ("ecn", "cnp", "traffic_class")} == dict.fromkeys(
        ("ecn", "cnp", "traffic_class"), "pass"
    )
    assert "dcqcn" not in result["ports"]["ens1np0"]
    assert whole(ofed, {})["commands"] == []


def test_the_default_policy_on_the_kernels_own_driver() -> None:
    inbox = node("inbox")
    result = whole(inbox, {"cnp_dscp": 4, "dscp_map": {4: 6}})
    assert result["failed_ports"] == {}
    ours = [(path, text) for path, text in writes(result) if "/rdma_cm/" not in path]
    assert ours == [(f"{CC}/np_cnp_dscp", "4"), (f"{CC}/np_cnp_prio", "6")]
    assert inbox.files[f"{CC}/np_cnp_prio_mode"] == "0\n", "the priority that was given counts, not the data packet's"
    assert verdicts(result)["ecn"] == verdicts(result)["traffic_class"] == "skipped"
    reasons = result["not_applicable"]["ens1np0"]
    assert "ROCE_CC_PRIO_MASK" in reasons["ecn"] and "255" in reasons["ecn"]
    assert "NCCL_IB_TC" in reasons["traffic_class"] and "--tclass" in reasons["traffic_class"]
    assert whole(inbox, {"cnp_dscp": 4, "dscp_map": {4: 6}})["commands"] == []


@pytest.mark.parametrize(
    ("links", "files", "reason"),
    [
        ("mlx5_core", {}, "debugfs is not mounted"),
        ("mlx5_core", {"/sys/kernel/debug/tracing": ""}, "lets the driver query and modify"),
        ("virtio_net", {}, "the driver is virtio_net, and only mlx5_core"),
    ],
)
def test_a_port_without_an_interface_says_why(links: str, files: dict[str, str], reason: str) -> None:
    bare = node("")
    bare.files.update(files)
    bare.links["/sys/class/net/ens1np0/device/driver"] = f"/sys/bus/pci/drivers/{links}"
    result = whole(bare, {})
    assert result["failed_ports"] == {} and verdicts(result)["cnp"] == "skipped"
    assert reason in result["not_applicable"]["ens1np0"]["cnp"]


def test_a_locked_down_kernel_is_named() -> None:
    locked = node("inbox")
    plain = locked.read

    def read(path: str) -> str:
        return plain("/nowhere") if path.startswith(CC) else plain(path)

    locked.read = read  # type: ignore[method-assign]
    locked.files["/sys/kernel/security/lockdown"] = "none [integrity] confidentiality\n"
    assert "Secure Boot" in whole(locked, {})["not_applicable"]["ens1np0"]["cnp"]


def test_a_module_of_its_own_is_refused_where_the_policy_skips() -> None:
    for name, value in (("ecn", ecn_value({3: True})), ("traffic_class", {"tclass": 106})):
        result = only(node("inbox"), {name: value})
        assert "ens1np0" in result["failed_ports"] and result["commands"] == [], name


def test_a_file_with_rubbish_leaves_the_port_alone() -> None:
    ofed = node("ofed")
    ofed.files[f"{ECN}/roce_np/enable/5"] = "2\n"
    result = whole(ofed, {})
    assert "roce_np/enable/5: 2, 0 or 1 was expected" in result["failed_ports"]["ens1np0"]["error"]
    assert ofed.sets == []


def test_ecn_of_unnamed_priorities_is_left_alone() -> None:
    ofed = node("ofed")
    ofed.files[f"{ECN}/roce_np/enable/0"] = "0\n"
    result = whole(ofed, {"ecn": {3: True, 5: False}})
    paths = [path for path, _text in writes(result) if "/enable/" in path]
    assert paths == [f"{ECN}/roce_np/enable/5", f"{ECN}/roce_rp/enable/5"]
    assert ofed.files[f"{ECN}/roce_np/enable/0"] == "0\n"


def test_cnps_that_take_the_data_packets_priority_come_back_to_that() -> None:
    inbox = node("inbox")
    inbox.fail = lambda line: line.endswith("rp_gd")
    result = whole(inbox, {"dcqcn": {"rpg_gd": 10}})
    assert result["failed_ports"]["ens1np0"]["rolled_back"], result["failed_ports"]
    assert inbox.files[f"{CC}/np_cnp_prio_mode"] == "1\n"


# -- DCQCN ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("flavour", ["ofed", "inbox"])
def test_every_parameter_reaches_its_file_and_reset_brings_all_back(flavour: str) -> None:
    sim = node(flavour)
    former = dict(sim.files)
    other = {name: p.low if p.default != p.low else p.high for name, p in PARAMETERS.items()} | {"rpg_max_rate": 0}
    result = only(sim, {"dcqcn": dcqcn_value(other)})
    assert result["failed_ports"] == {}
    assert result["ports"]["ens1np0"]["dcqcn"] == {"interface": flavour, "params": other}
    written = writes(result)
    assert len(written) == len(PARAMETERS) - 1
    for name, parameter in PARAMETERS.items():
        path = f"{ECN}/roce_{parameter.side}/{name}" if flavour == "ofed" else f"{CC}/{parameter.inbox}"
        assert sim.files[path].strip() == str(other[name]), name
    assert all(len(text) <= 11 for _path, text in written), "debugfs takes no more in one write"
    assert only(sim, {"dcqcn": dcqcn_request("reset", None)})["failed_ports"] == {}
    assert sim.files == former
    assert only(sim, {"dcqcn": dcqcn_request("reset", None)})["commands"] == []


def test_reset_takes_what_the_driver_has_and_a_named_one_must_be_there() -> None:
    sim = node("ofed")
    del sim.files[f"{ECN}/roce_rp/rpg_max_rate"]
    assert only(sim, {"dcqcn": dcqcn_value("defaults")})["failed_ports"] == {}
    with pytest.raises(PolicyError, match="this driver has no rpg_max_rate"):
        only(sim, {"dcqcn": dcqcn_value({"rpg_max_rate": 100})})


def test_declared_dcqcn_without_an_interface_is_an_error_and_not_skipped() -> None:
    result = whole(node(""), {"dcqcn": {"rpg_gd": 10}})
    assert verdicts(result)["dcqcn"] == "unknown"
    assert "no congestion control parameters" in result["failed_ports"]["ens1np0"]["error"]
    assert result["commands"] == []


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"rpg_gd": 16}, "rpg_gd: 16 … 0 to 15 (binary logarithm) was expected"),
        ({"rpg_min_dec_fac": 0}, "rpg_min_dec_fac: 0 … 1 to 100 percent was expected"),
        ({"dce_tcp_rtt": 131072}, "1 to 131071 microseconds"),
        ({"rpg_ai_rate": -1}, "rpg_ai_rate: -1"),
        ({"rpg_ai_rate": 5.5}, "rpg_ai_rate: 5.5"),
        ({"rpg_ai_rate": "٣"}, "rpg_ai_rate: '٣'"),
        ({"rpg_threshold": True}, "rpg_threshold: True"),
        ({"clamp_tgt_rate": 2}, "clamp_tgt_rate: 2 … 0 to 1 was expected"),
        ({"rp_gd": 11}, "unknown parameter 'rp_gd' … one of clamp_tgt_rate"),
        ({"cnp_dscp": 48}, "cnp_dscp is given by the policy's field cnp_dscp"),
        ({"cnp_802p_prio": 6}, "cnp_802p_prio is given by the policy's field cnp_prio"),
        ({"rpg_min_rate": 200, "rpg_max_rate": 100}, "rpg_min_rate 200 is above rpg_max_rate 100"),
        ("default", "'default' … a mapping of parameters to numbers, or 'defaults'"),
        ([1], "[1] …"),
    ],
)
def test_wrong_parameters_are_named_with_what_is_allowed(raw: t.Any, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy({"dcqcn": raw})
    assert message in str(caught.value) and "dcqcn" in str(caught.value)


def test_reset_takes_no_parameters() -> None:
    with pytest.raises(PolicyError, match="none were expected with state reset"):
        dcqcn_request("reset", {"rpg_gd": 1})


def test_switches_and_text_are_numbers() -> None:
    value = dcqcn_value({"clamp_tgt_rate": True, "rpg_max_rate": "0", "rpg_byte_reset": 2**32 - 1})
    assert value["params"] == {"clamp_tgt_rate": 1, "rpg_byte_reset": 2**32 - 1, "rpg_max_rate": 0}


# -- traffic class -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tclass"),
    [
        ("Global tclass=106\n", 106),
        ("106\n", 106),
        ("", None),
        ("\n", None),
        ("Global tclass=106\nsrc_ip=10.0.0.1/32,dst_ip=10.0.0.0/24,tclass=5\n", 106),
        ("dst_ip6=fe80::1,tclass=5\n", None),
    ],
)
def test_a_rule_for_one_address_is_not_the_ports_class(text: str, tclass: int | None) -> None:
    assert parse_traffic_class(text) == tclass


@pytest.mark.parametrize("text", ["Global tclass=256\n", "Global tclass=\n", "off\n", "Global tclass=1 0 6\n"])
def test_an_unknown_text_is_no_class(text: str) -> None:
    with pytest.raises(ParseError, match="traffic_class"):
        parse_traffic_class(text)


@given(st.text(alphabet="Global tclas=,0123456789٣\n -", max_size=40))
def test_any_text_is_a_class_none_or_an_error(text: str) -> None:
    try:
        tclass = parse_traffic_class(text)
    except ParseError:
        return
    assert tclass is None or 0 <= tclass <= 255


def test_a_port_that_forced_nothing_forces_nothing_again() -> None:
    ofed = node("ofed")
    assert only(ofed, {"traffic_class": {"tclass": 106}})["failed_ports"] == {}
    assert ofed.files[TCLASS] == "Global tclass=106\n"
    result = only(ofed, {"traffic_class": {"tclass": None}})
    assert writes(result) == [(TCLASS, "-1")] and ofed.files[TCLASS] == ""


def test_nccl_variables_follow_from_the_policy() -> None:
    assert parse_policy({"data_dscp": 24}).nccl() == dict.fromkeys(
        ("NCCL_IB_TC", "NCCL_IB_FIFO_TC", "NCCL_GIN_IB_TC"), "98"
    )
    assert parse_policy({"trust": "pcp", "data_prio": 5}).nccl()["NCCL_IB_SL"] == "5"


# -- cable and buffers ---------------------------------------------------------------------------

TWO = {"prio_buffer": [0, 0, 0, 1, 0, 0, 0, 0], "buffer_size": [131072, 262144, 0, 0, 0, 0, 0, 0]}


def test_xoff_of_the_known_example() -> None:
    assert xoff_bytes(400, 7, 9000) == 150880
    assert xoff_bytes(10, 7, 1500) == xoff_bytes(40, 7, 1500)


def test_buffers_and_cable_come_before_pfc_and_are_cut_to_cells() -> None:
    sim = node("", rx=False, tx=False)
    policy = {"cable_length": 30, "buffers": {**TWO, "buffer_size": [131100, 262200, 0, 0, 0, 0, 0, 0]}}
    predicted, done = whole(sim, policy, dry_run=True), whole(sim, policy)
    assert done["failed_ports"] == {} and predicted["diff"] == done["diff"]
    dcb = [command[1] + (" delay" if "delay" in command else "") for command in done["commands"] if command[0] == "dcb"]
    assert dcb == ["app", "ets", "buffer", "pfc delay", "pfc"]
    assert sim.ports["ens1np0"].buffer_size[:2] == [131072, 262144] and sim.ports["ens1np0"].cable == 30
    assert done["ports"]["ens1np0"]["buffers"] == {**TWO, "total_size": 1027072}
    assert whole(sim, policy)["commands"] == []


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([131072, 90112], "buffer 1 holds lossless priority 3 and has 90112 bytes … at least 97786 was expected"),
        ([900000, 200000], "add up to 1100000, at most 1027072 was expected"),
    ],
)
def test_buffers_that_the_driver_would_refuse_touch_nothing(sizes: list[int], message: str) -> None:
    sim = node("")
    policy = {"buffers": {**TWO, "buffer_size": [*sizes, 0, 0, 0, 0, 0, 0]}}
    with pytest.raises(PolicyError) as caught:
        whole(sim, policy)
    assert message in str(caught.value), str(caught.value)
    assert sim.sets == []


def test_a_longer_cable_that_no_longer_fits_is_refused() -> None:
    sim = node("")
    sizes = [131072, 97792, 0, 0, 0, 0, 0, 0]
    assert whole(sim, {"buffers": {**TWO, "buffer_size": sizes}})["failed_ports"] == {}
    with pytest.raises(PolicyError, match="100 m"):
        whole(sim, {"buffers": {**TWO, "buffer_size": sizes}, "cable_length": 100})


def test_a_card_without_port_buffers_leaves_both_out() -> None:
    sim = node("", cable=0)
    plain = sim._answer

    def answer(argv: list[str]) -> t.Any:
        if argv[:3] == ["dcb", "-j", "buffer"]:
            return (1, "", "Attribute not found: Success")
        return plain(argv)

    sim._answer = answer  # type: ignore[method-assign]
    result = whole(sim, {"cable_length": 7, "buffers": TWO})
    assert result["failed_ports"] == {}
    assert verdicts(result)["buffers"] == verdicts(result)["cable_length"] == "skipped"
    assert "reads as 0" in result["not_applicable"]["ens1np0"]["cable_length"]


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (
            {"buffers": {**TWO, "buffer_size": [1, 0, 0, 0, 0, 0, 0, 0]}},
            ["priority 3 is in pfc", "buffer 1 has no size"],
        ),
        ({"buffers": {"prio_buffer": [0] * 8}}, ["buffers: {'prio_buffer'", "8 sizes in bytes"]),
        ({"buffers": {**TWO, "prio_buffer": [8] * 8}}, ["8 buffers 0 to 7"]),
        ({"cable_length": 0}, ["cable_length: 0 … 1 to 999 metres was expected"]),
        ({"cable_length": 7.5}, ["cable_length: 7.5"]),
        ({"ecn": {8: True}}, ["ecn: {8: True} … a list of priorities 0 to 7, or a mapping"]),
        ({"ecn": {3: "maybe"}}, ["ecn:"]),
        ({"ecn": 3}, ["ecn: 3"]),
    ],
)
def test_wrong_fields_are_named(raw: dict[str, t.Any], names: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(raw)
    for name in names:
        assert name in str(caught.value), str(caught.value)


def test_what_is_odd_and_harmless_is_a_warning() -> None:
    assert "data_prio 3 is not on" in parse_policy({"ecn": {3: False}}).warnings[0]
    assert "data_prio 4 is not on" in parse_policy({"data_prio": 4, "ecn": [3]}).warnings[0]
    assert parse_policy({"data_prio": 4}).warnings == ()
    shared = parse_policy({"buffers": {"prio_buffer": [0] * 8, "buffer_size": [262144] + [0] * 7}})
    assert "share a buffer with pfc [3]" in shared.warnings[0]
