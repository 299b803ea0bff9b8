# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""mlnx_qos in the place of dcb: its output on recorded cases and on garbled ones, and its words for dcb's."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError, Unreadable
from ansible_collections.lossless.roce.plugins.module_utils.node import Options, converge
from ansible_collections.lossless.roce.plugins.module_utils.parsers.mlnx_qos import Qos, parse_mlnx_qos
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.settings.mlnx_qos_tool import as_dcb, in_mlnx_qos
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import SETTINGS, policy_state
from hypothesis import given
from hypothesis import strategies as st
from sim_node import SimNode, SimPort

CASES = Path(__file__).parents[1] / "recorded" / "cases"
C01 = (CASES / "c01-mlnx-qos-vendor-crossed.txt").read_text()
C03 = (CASES / "c03-mlnx-qos-blanks-collapsed.txt").read_text()
# The shape of the newest version: tabs before the rows, blanks behind them.
FULL = """\
****** WARNING: lldpad service is running and may overwrite your settings ******

DCBX mode: Firmware controlled
Priority trust state: pcp
Receive buffer size (bytes): 20016,156096,0,0,0,0,0,0,max_buffer_size=1027728
Cable len: 7
PFC configuration:
  priority    0   1   2   3   4   5   6   7
  enabled     0   0   0   1   0   0   0   0
  buffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: ets, bw: 50%
  priority:  0
  priority:  1
  priority:  2
  priority:  4
  priority:  5
  priority:  7
tc: 3 ratelimit: 10.0 Gbps, tsa: ets, bw: 50%
  priority:  3
tc: 6 ratelimit: unlimited, tsa: strict
  priority:  6
""".replace("\n  ", "\n\t ").replace("0   0\n", "0   0   \n")


def test_c01_the_drivers_crossed_default() -> None:
    qos = parse_mlnx_qos(C01)
    assert (qos.dcbx, qos.trust, qos.enabled_prios, qos.cable_length) == ("host", "dscp", [3], 7)
    assert qos.ets == {"tsa": ["vendor"] * 8, "bw": [0] * 8, "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7]}
    assert qos.dscp_prio == {dscp: dscp >> 3 for dscp in range(64)}
    assert qos.buffer_size is None and qos.prio_buffer is None, "not printed is unknown, not zero"


def test_c03_blanks_collapsed_and_empty_lines() -> None:
    qos = parse_mlnx_qos(C03)
    assert (qos.trust, qos.enabled_prios, qos.cable_length) == ("dscp", [0, 2, 6, 7], 10)
    assert qos.ets is not None and sum(qos.ets["bw"]) == 100
    assert qos.ets["tsa"] == ["ets"] * 6 + ["strict", "ets"] and qos.ets["bw"] == [10] * 6 + [0, 40]
    assert qos.ets["prio_tc"][:2] == [1, 0]


def test_all_lines_of_a_new_version() -> None:
    qos = parse_mlnx_qos(FULL)
    assert qos.lldpad and (qos.dcbx, qos.trust) == ("firmware", "pcp")
    assert qos.buffer_size == [20016, 156096, 0, 0, 0, 0, 0, 0] and qos.total_size == 1027728
    assert qos.prio_buffer == [0, 0, 0, 1, 0, 0, 0, 0]
    assert qos.ets == {
        "tsa": ["ets", "strict", "strict", "ets", "strict", "strict", "strict", "strict"],
        "bw": [50, 0, 0, 50, 0, 0, 0, 0],
        "prio_tc": [0, 0, 0, 3, 0, 0, 6, 0],
    }


def test_colours_are_no_part_of_a_line() -> None:
    assert parse_mlnx_qos(C01.replace("DCBX", "\x1b[1mDCBX").replace("dscp\n", "dscp\x1b[0m\n")) == parse_mlnx_qos(C01)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ETS features are not supported on your system\n",
        'Traceback (most recent call last):\n  File "/usr/bin/mlnx_qos", line 1\nTypeError: can only concatenate str\n',
        C01.replace("tc: 3", "tc: 9"),
        C01.replace("priority:  4", "priority:  5"),
        C01.replace("dscp:15,14", "dscp:07,14"),
    ],
)
def test_what_is_no_listing_is_an_error(text: str) -> None:
    with pytest.raises(ParseError, match="mlnx_qos"):
        parse_mlnx_qos(text)


def test_a_cut_listing_leaves_out_what_it_lost() -> None:
    cut = parse_mlnx_qos(C01[: C01.index("tc: 5")])
    assert cut.ets is None and cut.enabled_prios == [3]
    assert parse_mlnx_qos(C01.replace("0   0   0   1   0   0   0   0", "0 0 0 1 0 0")).enabled_prios is None
    assert parse_mlnx_qos(C01.replace("0   0   0   1   0", "0   0   0   ١   0")).enabled_prios is None


@given(st.sampled_from([C01, C03, FULL]), st.data())
def test_garbled_text_is_a_sane_value_or_an_error(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    junk = data.draw(
        st.text(max_size=6) | st.sampled_from(["\n", "٣", "tc: 9", "\x1b[31m", "priority: 12345678901234"])
    )
    drop = data.draw(st.integers(0, 30))
    try:
        qos = parse_mlnx_qos(text[:at] + junk + text[at + drop :])
    except ParseError:
        return
    assert _sane(qos)


@given(st.text(max_size=300))
def test_any_text_is_a_sane_value_or_an_error(text: str) -> None:
    with contextlib.suppress(ParseError):
        assert _sane(parse_mlnx_qos(text))


def _sane(qos: Qos) -> bool:
    lists = [qos.prio_buffer or [], *([qos.ets["prio_tc"]] if qos.ets else [])]
    return (
        all(0 <= prio < 8 for prio in [*(qos.enabled_prios or []), *qos.dscp_prio.values()])
        and all(0 <= dscp < 64 for dscp in qos.dscp_prio)
        and all(len(list_) in (0, 8) and all(0 <= item < 8 for item in list_) for list_ in lists)
        and (qos.ets is None or all(0 <= share <= 100 for share in qos.ets["bw"]))
    )


# -- in the place of dcb -------------------------------------------------------------------------


def node(text: str, dcb: bool = False) -> SimNode:
    """A node with mlnx_qos, whose output is this text."""
    sim = SimNode({"ens1np0": SimPort("mlx5_0")})
    sim.missing_tools = set() if dcb else {"dcb"}
    plain = sim._answer
    sim._answer = lambda argv: text if argv[0] == "mlnx_qos" else plain(argv)  # type: ignore[method-assign]
    return sim


def judge(sim: SimNode, policy: dict[str, t.Any]) -> t.Any:
    """A dry run with a policy."""
    wanted = policy_state(parse_policy(policy))
    return converge(t.cast("t.Any", sim), ["ens1np0"], SETTINGS, wanted, Options(dry_run=True)).as_dict()


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        (C01, {"dcbx": "pass", "trust": "pass", "pfc": "pass", "ets": "fail"}),
        (C03, {"dcbx": "pass", "trust": "pass", "pfc": "fail", "ets": "fail"}),
        (FULL, {"dcbx": "fail", "trust": "fail", "pfc": "pass", "ets": "pass"}),
    ],
)
def test_a_node_without_dcb_is_judged_by_mlnx_qos(text: str, verdicts: dict[str, str]) -> None:
    found = {f["check"]: f for f in judge(node(text), {})["findings"]}
    assert {name: found[name]["verdict"] for name in verdicts} == verdicts
    if text == C03:
        assert found["pfc"]["observed"] == {"enabled_prios": [0, 2, 6, 7]}


def test_c01_says_nothing_of_buffers() -> None:
    policy = {"buffers": {"prio_buffer": [0, 0, 0, 1, 0, 0, 0, 0], "buffer_size": [131072, 262144, 0, 0, 0, 0, 0, 0]}}
    result = judge(node(C01), policy)
    assert "prints no buffer settings" in result["not_applicable"]["ens1np0"]["buffers"]
    with pytest.raises(Unreadable):
        as_dcb("buffer", "ens1np0", C01)
    assert json.loads(as_dcb("buffer", "ens1np0", FULL))["total_size"] == 1027728


def test_planned_commands_are_in_the_words_of_the_tool_that_is_there() -> None:
    commands = [" ".join(command) for command in judge(node(FULL), {})["commands"] if command[0] != "write"]
    assert [line for line in commands if line.startswith("dcb")] == []
    assert "mlnx_qos -i ens1np0 -d os" in commands and "mlnx_qos -i ens1np0 --trust dscp" in commands
    assert all(line.startswith("dcb ") or "mlnx_qos" not in line for line in _commands(node(FULL, dcb=True)))


def _commands(sim: SimNode) -> list[str]:
    return [" ".join(command) for command in judge(sim, {})["commands"]]


def _pairs(values: str) -> str:
    return " ".join(f"{index}:{value}" for index, value in enumerate(values.split()))


TSA = _pairs("ets strict strict ets strict strict strict strict")
ETS = f"ets set dev X tc-tsa {TSA} tc-bw {_pairs('50 0 0 50 0 0 0 0')} prio-tc {_pairs('0 0 0 3 0 0 6 0')}"
PRIO_TC = "--prio_tc 0,0,0,3,0,0,6,0"


@pytest.mark.parametrize(
    ("dcb", "mlnx_qos"),
    [
        ("dcbx set dev X host ieee", ["-d os"]),
        ("pfc set dev X prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off", ["--pfc 0,0,0,1,0,0,0,0"]),
        ("pfc set dev X delay 30", ["--cable_len 30"]),
        ("app flush dev X dscp-prio", ["--trust pcp"]),
        ("app add dev X dscp-prio 4:6 26:3", ["--dscp2prio set,4,6 --dscp2prio set,26,3"]),
        (ETS, ["--tsa ets,strict,strict,ets,strict,strict,strict,strict --tcbw 50,0,0,50,0,0,0,0 " + PRIO_TC]),
        (
            "buffer set dev X prio-buffer 0:0 1:0 2:0 3:1 4:0 5:0 6:0 7:0 buffer-size 0:9 1:8 2:7 3:0 4:0 5:0 6:0 7:0",
            ["--prio2buffer 0,0,0,1,0,0,0,0 --buffer_size 9,8,7,0,0,0,0,0"],
        ),
    ],
)
def test_each_command_of_dcb_has_its_words(dcb: str, mlnx_qos: list[str]) -> None:
    assert [" ".join(argv) for argv in in_mlnx_qos(("dcb", *dcb.split()))] == [f"mlnx_qos -i X {w}" for w in mlnx_qos]


def test_the_whole_map_is_trust_and_what_differs_from_it() -> None:
    pairs = [f"{dscp}:{6 if dscp == 4 else dscp >> 3}" for dscp in range(64)]
    commands = in_mlnx_qos(("dcb", "app", "add", "dev", "X", "dscp-prio", *pairs))
    assert [" ".join(argv) for argv in commands] == [
        "mlnx_qos -i X --trust dscp",
        "mlnx_qos -i X --dscp2prio set,4,6",
    ], "--trust and --dscp2prio in one call are an error of mlnx_qos"
