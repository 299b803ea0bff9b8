# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The summary on the terminal."""

from __future__ import annotations

import typing as t

from ansible_collections.lossless.roce.plugins.plugin_utils.report.terminal import summary_lines, table

Make = t.Callable[..., t.Any]


def test_everything_passed_is_two_lines(make_finding: Make, make_run: Make) -> None:
    run = make_run([make_finding(), make_finding(port="ens2np0"), make_finding(host="node2", verdict="skipped")])
    lines = summary_lines(run)
    assert lines[0] == ("in order: 2 hosts, 3 ports, 2 pass, 1 skipped", "pass")
    assert lines[-1] == ("verify: PASS: 2 checks passed on 2 hosts", "pass")


def test_what_was_repaired_is_named_with_its_places(make_finding: Make, make_run: Make) -> None:
    places = [("node1", "ens1np0"), ("node2", "ens1np0")]
    run = make_run([make_finding(host=host, port=port, cause="repaired by this run") for host, port in places])
    assert ("pfc: repaired by this run: node1 ens1np0, node2 ens1np0", "pass") in summary_lines(run)


def test_a_failure_is_shown_in_full_and_passes_are_counted(make_finding: Make, make_run: Make) -> None:
    failure = make_finding(
        host="node2",
        verdict="fail",
        observed={"enabled_prios": []},
        expected={"enabled_prios": [3]},
        cause="the mask was reset",
        evidence="dcb -j pfc show dev ens1np0",
        remedy="run drift with enforce=true",
    )
    passes = [make_finding(host=host, check="mtu") for host in ("node1", "node2")]
    lines = summary_lines(make_run([failure, *passes]))
    assert lines == [
        ("host   port     fail  pass", None),
        ("node2  ens1np0     1     1", "fail"),
        ("in order: 1 host, 1 port, 1 pass", "pass"),
        ("", None),
        ("fail  pfc  node2 ens1np0", "fail"),
        ("    observed  enabled_prios: none", None),
        ("    expected  enabled_prios: [3]", None),
        ("    cause     the mask was reset", None),
        ("    evidence  dcb -j pfc show dev ens1np0", None),
        ("    remedy    run drift with enforce=true", None),
        ("", None),
        ("verify: FAIL: 1 of 3 checks failed on node2 (pfc 1)", "fail"),
    ]


def test_whole_nodes_and_the_fabric_have_a_place(make_finding: Make, make_run: Make) -> None:
    run = make_run([make_finding(port="", verdict="fail"), make_finding(host="", port="", verdict="fail")])
    texts = [text for text, _verdict in summary_lines(run)]
    assert texts[1:3] == ["(fabric)             1", "node1     (node)     1"]


def test_a_fleet_does_not_flood_the_terminal(make_finding: Make, make_run: Make) -> None:
    run = make_run([make_finding(host=f"node{n}", observed=n, verdict="fail") for n in range(500)])
    texts = [text for text, _verdict in summary_lines(run)]
    assert len(texts) < 300
    assert "… and 450 more of these" in texts
    assert "… and 450 more findings" in texts


def test_no_value_reaches_the_terminal_raw(make_finding: Make, make_run: Make) -> None:
    evil = "\x1b[2J\nline"
    texts = dict.fromkeys(("check", "host", "port", "cause", "evidence", "remedy", "observed"), evil)
    run = make_run([make_finding(**texts, verdict="fail")], hosts=[evil, "node2\x07"])
    assert all(text.isprintable() for text, _verdict in summary_lines(run))


def test_columns_are_aligned() -> None:
    assert table([["a", "count"], ["long name", "7"], ["b", ""]]) == ["a          count", "long name      7", "b"]
