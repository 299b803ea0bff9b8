# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The engine: what it plans, applies, reads back and rolls back."""

from __future__ import annotations

import copy
import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import (
    NotApplicable,
    PolicyError,
    RoceError,
)
from ansible_collections.lossless.roce.plugins.module_utils.node import Options, converge
from ansible_collections.lossless.roce.plugins.module_utils.plan import plan_port, planned_state, read_state
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port, find_ports
from ansible_collections.lossless.roce.plugins.module_utils.settings.ets import Ets
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import SETTINGS, policy_state
from hypothesis import assume, given
from hypothesis import strategies as st
from sim_node import SimNode, SimPort

PORT = Port("mlx5_0", 1, "ens1np0", pci="0000:17:00.0")
CASES = sorted((Path(__file__).parent / "cases" / "plan").glob("*.json"))


def run(node: SimNode, policy: dict[str, t.Any], ports: t.Sequence[str] = ("ens1np0",), **options: t.Any) -> t.Any:
    """A whole run with a policy."""
    return converge(node, list(ports), SETTINGS, policy_state(parse_policy(policy)), Options(**options))


def bare(*names: str) -> SimNode:
    """A node with ports at factory defaults."""
    return SimNode({name: SimPort(f"mlx5_{index}") for index, name in enumerate(names or ("ens1np0",))})


def shown(changes: list[t.Any]) -> list[str]:
    """Command lines of changes."""
    return [" ".join(op.shown()) for change in changes for op in change.operations]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_golden_triple(path: Path) -> None:
    """former + wanted -> commands; and back again by the same planner."""
    case = json.loads(path.read_text())
    there = plan_port(SETTINGS, PORT, case["wanted"], case["former"])
    assert shown(there) == case["commands"]
    back = plan_port(SETTINGS, PORT, case["former"], planned_state(case["former"], there))
    assert shown(back) == case["undo"]
    restored = planned_state(planned_state(case["former"], there), back)
    assert {
        s.name for s in SETTINGS if s.name in restored and not s.equal(case["former"][s.name], restored[s.name])
    } == set()


def test_first_run_changes_and_second_runs_no_set_command() -> None:
    node = bare("ens1np0", "ens2np0")
    first = run(node, {}, node.ports).as_dict()
    assert first["changed"] and first["failed_ports"] == {}
    node.sets.clear()
    second = run(node, {}, node.ports).as_dict()
    assert not second["changed"]
    assert second["commands"] == [] and node.sets == []
    assert {f["check"] for f in second["findings"] if f["verdict"] == "skipped"} == {"ecn", "cnp", "traffic_class"}
    assert {finding["verdict"] for finding in second["findings"]} == {"pass", "skipped"}


def test_check_mode_predicts_what_the_run_does() -> None:
    node = bare()
    predicted = run(node, {}, dry_run=True).as_dict()
    assert node.sets == []
    done = run(node, {}).as_dict()
    for key in ("changed", "diff", "commands", "ports"):
        assert predicted[key] == done[key], key


def test_global_pause_goes_off_before_pfc_goes_on() -> None:
    lines = shown(run(bare(), {}, dry_run=True).runs[0].changes)
    pause = next(i for i, line in enumerate(lines) if line.startswith("ethtool -A"))
    pfc = next(i for i, line in enumerate(lines) if line.startswith("dcb pfc"))
    assert pause < pfc


def test_pfc_never_turns_global_pause_off_behind_the_back_of_its_owner() -> None:
    node = bare()
    only_pfc = {"pfc": {"enabled_prios": [3]}}
    with pytest.raises(PolicyError, match="ens1np0: global pause is on.*ethtool -A ens1np0 rx off tx off"):
        converge(node, ["ens1np0"], SETTINGS, only_pfc, Options())
    with pytest.raises(PolicyError, match="global pause is on"):
        run(node, {"unmanaged": ["pause"]})
    assert node.sets == [] and node.ports["ens1np0"].rx
    node.ports["ens1np0"].rx = node.ports["ens1np0"].tx = False
    assert converge(node, ["ens1np0"], SETTINGS, only_pfc, Options()).as_dict()["changed"]
    assert node.ports["ens1np0"].pfc == {3}


def test_a_value_that_reads_back_wrong_rolls_that_port_back_and_the_other_goes_on() -> None:
    node = bare("ens1np0", "ens2np0")
    former = copy.deepcopy(node.ports["ens1np0"])
    node.ignore = lambda line: line.startswith("dcb ets set dev ens1np0 tc-tsa 0:ets")
    result = run(node, {"unmanaged": ["dcbx"]}, node.ports).as_dict()
    failure = result["failed_ports"]["ens1np0"]
    assert "ets reads back as" in failure["error"] and "was expected" in failure["error"]
    assert "vendor" in failure["error"] and "'bw': [50, 0, 0, 50" in failure["error"]
    assert failure["rolled_back"] and failure["left_over"] == {}
    now = node.ports["ens1np0"]
    assert (now.mtu, now.app, now.pfc, now.rx, now.tx, now.tos) == (former.mtu, {}, set(), True, True, 0)
    assert set(result["failed_ports"]) == {"ens1np0"}
    assert node.ports["ens2np0"].pfc == {3}


def test_what_cannot_be_restored_is_said_beforehand_and_afterwards() -> None:
    node = bare()
    assert any("dcbx" in note and "cannot be given back" in note for note in run(node, {}, dry_run=True).notes())
    node.fail = lambda line: line.startswith("dcb pfc")
    failure = run(node, {}).as_dict()["failed_ports"]["ens1np0"]
    assert not failure["rolled_back"]
    assert failure["left_over"] == {"dcbx": {"was": {"owner": "firmware"}, "is": {"owner": "host"}}}
    assert failure["not_tried"] == ["cma"]


def test_an_unreadable_port_is_named_and_left_alone_while_others_go_on() -> None:
    node = bare("ens1np0", "ens2np0")
    plain = node._answer

    def answer(argv: list[str]) -> t.Any:
        if argv == ["dcb", "-j", "ets", "show", "dev", "ens1np0"]:
            return (1, "", "Attribute read: Operation not supported")
        return plain(argv)

    node._answer = answer  # type: ignore[method-assign]
    result = run(node, {}, node.ports).as_dict()
    assert "ens1np0: the driver has no DCB ets" in result["failed_ports"]["ens1np0"]["error"]
    assert node.ports["ens1np0"].mtu == 1500
    assert node.ports["ens2np0"].pfc == {3}


def without_ets(node: SimNode, monkeypatch: pytest.MonkeyPatch) -> SimNode:
    """The node's first port is of a kind that has no ETS."""
    plain = Ets.read

    def read(self: Ets, host: t.Any, port: Port) -> t.Any:
        if port.netdev == "ens1np0":
            raise NotApplicable("ens1np0: a virtual function has no ETS of its own")
        return plain(self, host, port)

    monkeypatch.setattr(Ets, "read", read)
    return node


def test_a_setting_that_a_port_does_not_have_is_skipped_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = without_ets(bare("ens1np0", "ens2np0"), monkeypatch)
    result = run(node, {}, node.ports)
    assert result.failed() == {}
    seen = {(f["port"], f["check"]): f for f in result.as_dict()["findings"]}
    assert seen["ens1np0", "ets"]["verdict"] == "skipped"
    assert "virtual function" in seen["ens1np0", "ets"]["cause"]
    assert seen["ens2np0", "ets"]["verdict"] == "pass"
    assert node.ports["ens1np0"].pfc == {3} and node.ports["ens1np0"].tos == 106, "the other settings go on"
    assert result.as_dict()["not_applicable"]["ens1np0"]["ets"] == "ens1np0: a virtual function has no ETS of its own"
    assert "ets" not in result.as_dict()["not_applicable"]["ens2np0"]


def test_a_setting_that_a_port_does_not_have_is_refused_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    node = without_ets(bare("ens1np0", "ens2np0"), monkeypatch)
    result = run(node, {"unmanaged": ["ecn", "cnp", "traffic_class"]}, node.ports, strict=True)
    assert "virtual function" in result.failed()["ens1np0"]["error"]
    assert list(result.failed()) == ["ens1np0"]
    assert node.ports["ens1np0"].mtu == 1500 and node.ports["ens2np0"].pfc == {3}


def test_a_missing_tool_names_the_package_and_is_unknown_in_check_mode() -> None:
    node = bare()
    node.missing_tools = {"dcb", "mlnx_qos"}
    result = run(node, {}, dry_run=True).as_dict()
    assert set(result["unknown"]["ens1np0"]) == {"dcbx", "trust", "ets", "pfc"}
    assert "install package" in result["unknown"]["ens1np0"]["pfc"]
    assert result["failed_ports"] == {}
    assert {f["verdict"] for f in result["findings"] if f["check"] == "pfc"} == {"unknown"}


def test_a_port_with_a_running_job_is_refused_unless_forced() -> None:
    node = bare("ens1np0", "ens2np0")
    node.users = [{"ifname": "mlx5_0", "lqpn": 18, "pid": 4711, "comm": "python3"}]
    result = run(node, {}, node.ports).as_dict()
    assert "belong to python3 (pid 4711)" in result["failed_ports"]["ens1np0"]["error"]
    assert node.ports["ens1np0"].mtu == 1500 and node.ports["ens2np0"].mtu == 9000
    assert run(node, {}, node.ports, when_busy="force").failed() == {}
    assert node.ports["ens1np0"].mtu == 9000


@pytest.mark.parametrize("name", ["ens1np0", "mlx5_0"])
def test_a_port_with_a_running_job_is_forced_by_its_name_alone(name: str) -> None:
    node = bare("ens1np0", "ens2np0")
    node.users = [{"ifname": ibdev, "lqpn": 18, "pid": 4711, "comm": "python3"} for ibdev in ("mlx5_0", "mlx5_1")]
    result = run(node, {}, node.ports, allow_busy=(name,)).as_dict()
    assert result["busy"] == {"ens2np0": "busy: RDMA queue pairs on mlx5_1 belong to python3 (pid 4711)"}
    assert list(result["failed_ports"]) == ["ens2np0"]
    assert node.ports["ens1np0"].mtu == 9000 and node.ports["ens2np0"].mtu == 1500


def test_kernel_queue_pairs_are_no_job() -> None:
    node = bare()
    node.users = [{"ifname": "mlx5_0", "lqpn": 1, "comm": "[ib_core]"}]
    assert run(node, {}).failed() == {}


def test_the_management_port_is_refused_before_anything_is_touched() -> None:
    node = bare("ens1np0", "ens2np0")
    node.files["/proc/net/route"] = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\nens2np0\t00000000\t0100000A\t3\t0\t0\t0\t00000000\n"
    )
    with pytest.raises(RoceError, match="ens2np0: carries the management connection"):
        run(node, {}, node.ports)
    assert node.sets == []
    assert run(node, {}, node.ports, allow_management=("ens2np0",)).failed() == {}


def test_a_running_lldpad_is_a_finding_with_a_remedy() -> None:
    node = bare()
    node.processes = ["systemd", "lldpad"]
    found = [finding for finding in run(node, {}).as_dict()["findings"] if finding["check"] == "lldpad"]
    assert [finding["verdict"] for finding in found] == ["fail"]
    assert "overwrite" in found[0]["cause"] and "lldpad.socket" in found[0]["remedy"]


@pytest.mark.parametrize(
    ("running", "verdicts"),
    [
        ([], ["pass", "pass"]),
        (["lldpd", "lldpd"], ["pass", "pass"]),
        (["lldpad"], ["fail", "pass"]),
        (["lldpad", "lldpd"], ["fail", "fail"]),
        (["lldpd-monitor", "lldpadx"], ["pass", "pass"]),
    ],
)
def test_lldpd_is_harmless_alone_and_fights_with_lldpad(running: list[str], verdicts: list[str]) -> None:
    node = bare()
    node.processes = ["systemd", *running]
    found = {f["check"]: f for f in run(node, {}).as_dict()["findings"] if f["check"].startswith("lldp")}
    assert [found[name]["verdict"] for name in ("lldpad", "lldpd")] == verdicts
    assert all(f["cause"] and f["remedy"] for f in found.values() if f["verdict"] == "fail")


def test_unknown_and_doubled_ports_are_refused() -> None:
    node = bare()
    result = run(node, {}, ["ens9np0", "ens1np0"])
    assert re.search("'ens9np0' is declared and is no RDMA port.*mlx5_0/ens1np0", result.message())
    assert list(result.failed()) == ["ens9np0"]
    assert [f["verdict"] for f in result.as_dict()["findings"] if f["check"] == "port"] == ["fail"]
    assert node.ports["ens1np0"].pfc == {3}, "the other port goes on"
    with pytest.raises(PolicyError, match="one and the same port"):
        run(bare(), {}, ["ens1np0", "mlx5_0"])


def test_the_copied_mqprio_line_is_refused_before_anything_is_touched() -> None:
    node = bare()
    copied = {"num_tc": 3, "map": [2, 2, 1, 0, 2, 2, 2, 2], "queues": ["1@0", "1@1", "8@2"], "hw": True}
    with pytest.raises(PolicyError, match="8 classes only; two ways work: hw 0 .*mode channel"):
        run(node, {"mqprio": copied})
    assert node.sets == []
    with pytest.raises(PolicyError, match="10 queues, and the port has 8 combined channels"):
        run(node, {"mqprio": {**copied, "mode": "channel"}})
    assert run(node, {"mqprio": {**copied, "hw": False}}).failed() == {}
    assert node.ports["ens1np0"].qdisc["options"]["queues"] == [[0, 0], [1, 1], [2, 9]]


def test_a_root_qdisc_of_unknown_kind_is_refused() -> None:
    node = bare()
    node.ports["ens1np0"].qdisc = {"kind": "htb", "handle": "1:", "root": True}
    with pytest.raises(PolicyError, match="root qdisc is 'htb'"):
        run(node, {"mqprio": "absent"})
    assert run(node, {}).failed() == {}  # unmanaged by default


# -- random former and wanted states ------------------------------------------------------------

QDISCS: list[t.Any] = [
    None,
    {"num_tc": 3, "map": [2, 2, 1, 0], "queues": ["1@0", "1@1", "8@2"], "hw": False},
    {"num_tc": 8, "map": [0, 1, 2, 3, 4, 5, 6, 7], "hw": True},
    {"num_tc": 2, "map": [0, 1], "queues": ["4@0", "4@4"], "hw": True, "mode": "channel"},
]


@st.composite
def sim_ports(draw: st.DrawFn) -> SimPort:
    """A port in any state that an administrator may have left it in."""
    port = SimPort("mlx5_0", mtu=draw(st.sampled_from([1500, 4200, 9000])), host_dcbx=True)
    port.app = draw(st.dictionaries(st.integers(0, 63), st.integers(0, 7), max_size=5))
    port.pfc = draw(st.sets(st.integers(0, 7), max_size=3))
    port.rx = port.tx = draw(st.booleans()) and not port.pfc
    port.prio_tc = draw(st.lists(st.integers(0, 7), min_size=8, max_size=8))
    port.flavour = draw(st.sampled_from(["", "inbox", "ofed"]))
    port.cable = draw(st.sampled_from([1, 7, 100]))
    port.tos, port.exposed = draw(st.sampled_from([(0, False), (0, True), (106, True)]))
    return port


NICS: list[t.Any] = [
    None,
    {"rings": {"rx": 8192}, "channels": {"combined": 8}, "priv_flags": {"rx_cqe_moder": False}},
    {"channels": {"combined": 10}, "coalesce": {"adaptive_rx": False, "rx_usecs": 3, "rx_frames": 8, "tx_usecs": 1}},
    {"rings": {"rx": 512, "tx": 512}, "coalesce": {"adaptive_rx": True}, "features": {"rx-gro-hw": True}},
]


@st.composite
def policies(draw: st.DrawFn) -> dict[str, t.Any]:
    """A valid policy."""
    data, cnp = draw(st.permutations(range(8)))[:2]
    policy: dict[str, t.Any] = {
        "data_prio": data,
        "cnp_prio": cnp,
        "mqprio": draw(st.sampled_from([*QDISCS, "absent"])),
        "nic": draw(st.sampled_from(NICS)),
    }
    if policy["nic"] and "channels" in policy["nic"]:
        policy["mqprio"] = policy["mqprio"] or "absent"  # one that is not managed may hold the channels
    if isinstance(policy["mqprio"], dict) and "queues" in policy["mqprio"]:
        needed = sum(int(pair.split("@")[0]) for pair in policy["mqprio"]["queues"])
        policy["nic"] = {**(policy["nic"] or {}), "channels": {"combined": needed}}
    if draw(st.booleans()):
        policy |= {"pause": True, "pfc": []}
    if draw(st.booleans()):
        policy["trust"] = "pcp"
    return policy | draw(congestion(data, cnp, policy.get("pfc", [data])))


@st.composite
def congestion(draw: st.DrawFn, data: int, cnp: int, pfc: list[int]) -> dict[str, t.Any]:
    """ECN, CNPs, cable and buffers."""
    fields: dict[str, t.Any] = {"cnp_dscp": draw(st.sampled_from([48, 4]))}
    if fields["cnp_dscp"] == 4:
        fields["dscp_map"] = {4: cnp}
    if draw(st.booleans()):
        fields["ecn"] = draw(st.dictionaries(st.integers(0, 7), st.booleans(), max_size=3))
    cable, size = draw(st.sampled_from([(None, 262016), (1, 95232), (30, 107648), (100, 138112)]))
    if cable:
        fields["cable_length"] = cable
    if draw(st.booleans()):
        # Sizes that just fit that cable: any other order of the steps breaks the driver's rules in between.
        lossless = draw(st.integers(1, 7))
        fields["buffers"] = {
            "prio_buffer": [lossless if prio in pfc else 0 for prio in range(8)],
            "buffer_size": [20096 if pfc else 262016] + [size if buffer == lossless else 0 for buffer in range(1, 8)],
        }
    return fields


@given(sim_ports(), policies())
def test_any_port_reaches_any_policy_and_stays_there(port: SimPort, policy: dict[str, t.Any]) -> None:
    node = SimNode({"ens1np0": port})
    predicted = run(node, policy, dry_run=True).as_dict()
    done = run(node, policy)
    assert done.failed() == {}
    assert done.as_dict()["diff"] == predicted["diff"]
    node.sets.clear()
    assert not run(node, policy).as_dict()["changed"]
    assert node.sets == []


@given(sim_ports(), policies(), policies(), st.data())
def test_a_failure_anywhere_ends_in_the_former_state(
    port: SimPort, first: dict[str, t.Any], second: dict[str, t.Any], data: st.DataObject
) -> None:
    # The driver refuses PFC on buffers that were set before and that nobody manages now.
    assume("buffers" not in first or "buffers" in second)
    node = SimNode({"ens1np0": port})
    assert run(node, first).failed() == {}
    real = find_ports(t.cast("t.Any", node))[0]
    # What is not named is not put back: mlx5 itself may have changed it along.
    wanted = policy_state(parse_policy(second))
    managed = [s for s in SETTINGS if s.name in wanted]
    former = read_state(managed, t.cast("t.Any", node), real, wanted).state
    steps = [line for run_ in run(node, second, dry_run=True).runs for line in shown(run_.changes)]
    if not steps:
        return
    broken = data.draw(st.sampled_from(steps))
    pending = [broken]

    def once(line: str) -> bool:
        return bool(pending) and broken.startswith(line) and bool(pending.pop())

    node.fail = once
    failure = run(node, second).as_dict()["failed_ports"]["ens1np0"]
    assert failure["rolled_back"], failure
    after = read_state(managed, t.cast("t.Any", node), real, wanted).state
    assert set(former) == set(after)
    assert [s.name for s in managed if s.name in former and not s.equal(former[s.name], after[s.name])] == []
