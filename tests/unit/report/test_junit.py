# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""JUnit XML: valid whatever a finding holds, and with the verdicts that a CI system shall see."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree as ET

from ansible_collections.lossless.roce.plugins.plugin_utils.report.junit import render
from ansible_collections.lossless.roce.plugins.plugin_utils.report.run import VERDICTS, build_run
from hypothesis import given
from hypothesis import strategies as st

Make = t.Callable[..., t.Any]


def _cases(text: str) -> dict[tuple[str | None, str | None], ET.Element]:
    return {(case.get("classname"), case.get("name")): case for case in ET.fromstring(text).iter("testcase")}


def test_every_verdict_is_what_ci_takes_it_for(make_finding: Make, make_run: Make) -> None:
    findings = [
        make_finding(verdict=verdict, port=verdict, cause=f"why {verdict}" if verdict != "pass" else "", remedy="mend")
        for verdict in ("pass", "fail", "pending", "unknown", "skipped")
    ]
    text = "".join(render([make_run(findings)]))
    cases = _cases(text)
    assert list(cases["node1/pass", "pfc"]) == []
    (failure,) = cases["node1/fail", "pfc"]
    assert (failure.tag, failure.get("message"), failure.get("type")) == ("failure", "why fail", "pfc")
    assert "remedy: mend" in str(failure.text)
    for verdict in ("pending", "unknown", "skipped"):
        (skipped,) = cases[f"node1/{verdict}", "pfc"]
        assert (skipped.tag, skipped.get("message")) == ("skipped", f"{verdict}: why {verdict}")
    root = ET.fromstring(text)
    (suite,) = root
    assert (suite.get("name"), suite.get("timestamp")) == ("verify", "2026-12-01T12:00:00")
    for element in (root, suite):
        assert [element.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["5", "1", "0", "3"]


def test_a_suite_a_run(make_finding: Make, make_run: Make) -> None:
    root = ET.fromstring(
        "".join(render([make_run([make_finding()], title="drift"), make_run([make_finding(verdict="fail")])]))
    )
    assert [suite.get("name") for suite in root] == ["drift", "verify"]
    assert (root.get("tests"), root.get("failures")) == ("2", "1")


def test_cases_have_names_of_their_own(make_finding: Make, make_pair: Make, make_run: Make) -> None:
    findings = [
        make_pair("node1", "node2", 190),
        make_pair("node1", "node3", 190),
        make_finding(check="path_mtu", port="", observed={"from": "node1", "to": "node2", "rail": 1}),
        make_finding(),
        make_finding(),
        make_finding(check="fabric", host="", port=""),
    ]
    assert set(_cases("".join(render([make_run(findings)])))) == {
        ("node1/ens1np0", "ib_write_bw to node2 rail 0"),
        ("node1/ens1np0", "ib_write_bw to node3 rail 0"),
        ("node1", "path_mtu to node2 rail 1"),
        ("node1/ens1np0", "pfc"),
        ("node1/ens1np0", "pfc #2"),
        ("fabric", "fabric"),
    }


TEXT = st.text() | st.text(alphabet=st.characters(categories=["Cs", "Cc", "Cn"])) | st.just("]]>&<\"'\x00\x1b\ufffe")


@given(
    st.lists(
        st.fixed_dictionaries(
            {"check": TEXT.filter(bool), "verdict": st.sampled_from(VERDICTS)},
            optional=dict.fromkeys(("host", "port", "cause", "evidence", "remedy", "observed", "expected"), TEXT),
        ),
        max_size=5,
    )
)
def test_whatever_a_finding_holds_the_xml_is_valid(findings: list[dict[str, t.Any]]) -> None:
    run = build_run("verify", findings, [], generated="2026-12-01T12:00:00Z", version="1")
    written = "".join(render([run])).encode("utf-8", "strict")
    root = ET.fromstring(written)
    assert len(list(root.iter("testcase"))) == len(findings)
    assert len(list(root.iter("failure"))) == sum(finding["verdict"] == "fail" for finding in findings)
