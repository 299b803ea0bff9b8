# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run: validation, order, verdict, hosts that gave no answer, pairs."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.findings import VERDICTS
from ansible_collections.lossless.roce.plugins.plugin_utils.report.run import (
    InputError,
    Run,
    grouped,
    headline,
    overall,
    parse_findings,
    parse_title,
)
from hypothesis import given
from hypothesis import strategies as st

Make = t.Callable[..., t.Any]


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (["pass", "unknown", "pending", "fail"], "fail"),
        (["pass", "unknown", "pending"], "pending"),
        (["pass", "unknown"], "unknown"),
        (["pass", "skipped"], "pass"),
        (["skipped"], "unknown"),
        ([], "unknown"),
    ],
)
def test_overall_verdict(verdicts: list[str], verdict: str) -> None:
    assert overall(verdicts) == verdict


@given(st.lists(st.sampled_from(VERDICTS)))
def test_no_order_of_findings_hides_a_failure(verdicts: list[str]) -> None:
    assert (overall(verdicts) == "fail") == ("fail" in verdicts)


def test_failures_come_first_then_natural_order(make_finding: Make, make_run: Make) -> None:
    run = make_run(
        [
            make_finding(host="node10"),
            make_finding(host="node2", port="ens10np0"),
            make_finding(host="node2", port="ens2np0"),
            make_finding(host="node10", verdict="fail"),
            make_finding(host="node1", verdict="unknown"),
            make_finding(host="node1", verdict="pending"),
        ]
    )
    assert [(f["verdict"], f["host"], f["port"]) for f in run["findings"]] == [
        ("fail", "node10", "ens1np0"),
        ("pending", "node1", "ens1np0"),
        ("unknown", "node1", "ens1np0"),
        ("pass", "node2", "ens2np0"),
        ("pass", "node2", "ens10np0"),
        ("pass", "node10", "ens1np0"),
    ]
    assert run["hosts"] == ["node1", "node2", "node10"]
    assert run["summary"] == {"fail": 1, "pending": 1, "unknown": 1, "skipped": 0, "pass": 3, "total": 6}


def test_a_host_without_findings_fails_as_not_reached(make_finding: Make, make_run: Make) -> None:
    run = make_run([make_finding(host="node1")], hosts=["node1", "node2"])
    missing = run["findings"][0]
    assert (missing["check"], missing["verdict"], missing["host"]) == ("reached", "fail", "node2")
    assert missing["cause"] == "the node gave no answer"
    assert "node2" in missing["remedy"]
    assert run["verdict"] == "fail"


def test_null_fields_are_left_to_their_defaults(make_finding: Make, make_run: Make) -> None:
    run = make_run([make_finding(port=None, layers=None, observed=None)])
    assert (run["findings"][0]["port"], run["findings"][0]["layers"]) == ("", {})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("text", "findings: str … a list was expected"),
        (["text"], r"findings\[0\]: 'text' … a mapping with check and verdict was expected"),
        ([{"check": "pfc"}], r"findings\[0\]\.verdict: missing"),
        ([{"check": "pfc", "verdict": "ok"}], r"findings\[0\]\.verdict: 'ok' … one of pass, fail, .* was expected"),
        ([{"check": 5, "verdict": "pass"}], r"findings\[0\]\.check: 5 … text was expected"),
        ([{"check": "a", "verdict": ["pass"]}], r"findings\[0\]\.verdict: \['pass'\] … text was expected"),
        ([{"check": "a", "verdict": "pass", "layers": [1]}], r"findings\[0\]\.layers: \[1\] … a mapping was expected"),
        ([{"check": "a", "verdict": "pass", "seen": 1}], r"findings\[0\]\.seen: not a field of a finding … check, "),
        ([{"check": "a", "verdict": "pass", "observed": {1, 2}}], r"findings\[0\]: not plain JSON"),
        ([{"check": "a", "verdict": "pass", "observed": float("nan")}], r"findings\[0\]: not plain JSON"),
    ],
)
def test_bad_findings_are_refused_by_place(raw: t.Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_findings(raw)


def test_many_bad_findings_make_one_short_message() -> None:
    with pytest.raises(InputError, match=r"findings\[4\]: None .*; and 95 more$"):
        parse_findings([None] * 100)


@pytest.mark.parametrize("title", ["report", "", "a b", "../x", ".hidden", "a/b", "a\n", None, "x" * 65])
def test_a_title_that_cannot_name_files_is_refused(title: t.Any) -> None:
    with pytest.raises(InputError, match="title: "):
        parse_title(title)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"hosts": ["a", 1]}, "hosts: "),
        ({"ports": ["a"]}, "ports: "),
        ({"ports": {"a": ["b"]}}, "ports: "),
        ({"ports": {"a": [{"b": {1}}]}}, "ports: not plain JSON"),
        ({"bandwidth": {"a": 1}}, "bandwidth: "),
        ({"bandwidth": [{"client": "a"}]}, "bandwidth: "),
        ({"bandwidth": [{"client": "a", "server": "b", "x": {1}}]}, "bandwidth: not plain JSON"),
    ],
)
def test_other_bad_input_is_refused(make_run: Make, parts: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_run([], **parts)


def test_the_same_finding_on_many_hosts_is_one(make_finding: Make, make_run: Make) -> None:
    findings = [make_finding(host=f"node{n}", verdict="fail", layers={"running": n}) for n in (10, 2, 1)]
    groups = grouped(make_run([*findings, make_finding(host="node3", verdict="fail", observed=1)])["findings"])
    assert [group["hosts"] for group in groups] == [["node1", "node2", "node10"], ["node3"]]


def test_many_failed_pairs_of_one_rail_are_one(make_pair: Make, make_run: Make) -> None:
    few = [make_pair("node1", f"node{n}", 20.0) for n in range(2, 5)]
    assert len(grouped(make_run(few)["findings"])) == 3
    many = [make_pair(f"node{n}", "node1", 20.0 + n) for n in range(2, 20)] + [make_pair("node2", "node3", 9.0, rail=1)]
    single, joined = grouped(make_run(many)["findings"])
    assert single["observed"]["gbps"] == 9
    assert joined["observed"] == {"pairs": 18, "rail": 0, "gbps": "22 to 39", "servers": "1 (node1)"}
    assert joined["hosts"] == [f"node{n}" for n in range(2, 20)]


def test_pairs_come_from_findings_whatever_else_these_hold(make_pair: Make, make_finding: Make, make_run: Make) -> None:
    run = make_run(
        [
            make_pair("node2", "node1", 190),
            make_pair("node1", "node10", None, expected=None),
            make_pair("node1", "node2", 20, expected={"min_gbps": 180.0}),
            make_finding(check="ib_write_bw", observed={"server": "node9", "gbps": "fast"}, expected=5, port="ens3"),
            make_finding(check="ib_write_bw", observed={"gbps": 4}),
            make_finding(check="ib_write_bw", observed="timed out"),
        ],
        bandwidth=[{"client": "node3", "server": "node1", "rail": 0, "gbps": 7, "min_gbps": 5}],
    )
    assert [
        (p["rail"], p["client"], p["server"], p["gbps"], p["min_gbps"], p["verdict"]) for p in run["bandwidth"]
    ] == [
        ("0", "node2", "node1", 190, 180, "pass"),
        ("0", "node3", "node1", 7, 5, "pass"),
        ("0", "node1", "node2", 20, 180, "fail"),
        ("0", "node1", "node10", None, None, "fail"),
        ("ens3", "node1", "node9", None, 5, "pass"),
    ]


def test_of_two_measurements_of_a_pair_the_worse_stands(make_pair: Make, make_run: Make) -> None:
    findings = [make_pair("node1", "node2", 190), make_pair("node1", "node2", 20), make_pair("node1", "node2", 185)]
    assert [pair["gbps"] for pair in make_run(findings)["bandwidth"]] == [20]


def test_a_pair_outside_findings_has_no_say(make_finding: Make, make_run: Make) -> None:
    run = make_run([make_finding()], bandwidth=[{"client": "a", "server": "b", "gbps": 1, "min_gbps": 5}])
    assert run["bandwidth"][0]["verdict"] == "fail"
    assert run["verdict"] == "pass"


def test_a_run_is_plain_json(make_pair: Make, make_run: Make) -> None:
    run: Run = make_run([make_pair("a", "b", 1)], hosts=["c"], ports={"a": [{"netdev": "x"}]})
    assert json.loads(json.dumps(run)) == run


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ([], "nothing was checked"),
        (["pass", "pass", "skipped"], "2 checks passed on 1 host"),
        (["skipped"], "1 check skipped, and none passed"),
        (["fail", "pass"], "1 of 2 checks failed on node1 (pfc 1)"),
        (["pending"], "1 of 1 check pending a reset or restart on node1 (pfc 1)"),
    ],
)
def test_headline(make_finding: Make, make_run: Make, verdicts: list[str], text: str) -> None:
    assert headline(make_run([make_finding(verdict=verdict) for verdict in verdicts])) == text
