# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Prometheus text file, read back by Prometheus' own client."""

from __future__ import annotations

import re
import typing as t

import fleet
import pytest
from ansible_collections.lossless.roce.plugins.plugin_utils.report import prometheus
from ansible_collections.lossless.roce.plugins.plugin_utils.report.run import VERDICTS, build_run
from ansible_collections.lossless.roce.plugins.plugin_utils.report.store import combined
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

Make = t.Callable[..., t.Any]
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def _samples(text: str) -> Samples:
    """All samples; each may be there once, as the collector demands."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge" and family.documentation
        for sample in family.samples:
            assert sample.timestamp is None
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def _of(samples: Samples, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted(labels)): value for (found, labels), value in samples.items() if found == f"lossless_roce_{name}"
    }


@pytest.fixture(name="samples")
def _samples_of_a_run(make_finding: Make, make_pair: Make, make_run: Make) -> Samples:
    findings = [
        make_finding(),
        make_finding(),
        make_finding(verdict="fail", host="node2", port=""),
        make_pair("node1", "node2", 190.25),
        make_pair("node2", "node1", 20),
        make_pair("node1", "node2", None, rail=1),
    ]
    timing = {"rounds": [{"round": 0, "seconds": 11, "ideal_s": 10}]}
    return _samples(prometheus.render(combined([make_run(findings, timing=timing)])))


def test_findings_are_counted_by_place_check_and_verdict(samples: Samples) -> None:
    found = _of(samples, "findings")
    assert found[("check", "pfc"), ("host", "node1"), ("port", "ens1np0"), ("run", "verify"), ("verdict", "pass")] == 2
    assert found[("check", "pfc"), ("host", "node2"), ("port", ""), ("run", "verify"), ("verdict", "fail")] == 1
    assert sum(found.values()) == 6


def test_pairs_rails_verdict_time_and_ratio(samples: Samples) -> None:
    run = ("run", "verify")
    assert _of(samples, "bandwidth_gbps") == {
        (("client", "node1"), ("rail", "0"), run, ("server", "node2")): 190.25,
        (("client", "node2"), ("rail", "0"), run, ("server", "node1")): 20,
    }
    assert _of(samples, "rail_bandwidth_min_gbps") == {(("rail", "0"), run): 20}
    assert _of(samples, "rail_pairs") == {
        (("rail", "0"), run, ("verdict", "pass")): 1,
        (("rail", "0"), run, ("verdict", "fail")): 1,
        (("rail", "1"), run, ("verdict", "fail")): 1,
    }
    assert _of(samples, "run_timestamp_seconds") == {(run,): 1796126400}
    assert _of(samples, "run_verdict") == {(run, ("verdict", verdict)): verdict == "fail" for verdict in VERDICTS}
    assert _of(samples, "round_wall_ratio") == {(run,): 1.1}


def test_names_and_comments_are_as_prometheus_wants_them(make_finding: Make, make_run: Make) -> None:
    text = prometheus.render(combined([make_run([make_finding()])]))
    assert text.endswith("\n")
    for line in text.splitlines():
        assert re.fullmatch(
            r'# (HELP \w+ .+\.|TYPE \w+ gauge)|lossless_roce_[a-z_]+\{(\w+="[^"]*",?)+\} [0-9.e+-]+', line
        )
    assert "bandwidth" not in text  # no family without samples


def test_of_very_many_pairs_those_that_did_not_pass_are_kept(monkeypatch: pytest.MonkeyPatch, make_run: Make) -> None:
    monkeypatch.setattr(prometheus, "MOST_PAIRS", 50)
    run = make_run(fleet.all_pairs(fleet.names(10), 0, bad=["node3"]))
    samples = _samples(prometheus.render(combined([run])))
    kept = _of(samples, "bandwidth_gbps")
    assert 0 < len(kept) <= 18
    assert all("node3" in dict(labels).values() for labels in kept)
    assert sum(_of(samples, "rail_pairs").values()) == 90


TEXT = st.text() | st.text(alphabet='\\"\n\r\t {}=,#\udcffé\x00', max_size=8)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT.filter(bool), st.sampled_from(VERDICTS)), max_size=6))
def test_whatever_a_finding_holds_every_label_is_read_back(rows: list[tuple[str, str, str, str]]) -> None:
    findings = [dict(zip(("host", "port", "check", "verdict"), row, strict=True)) for row in rows]
    run = build_run("verify", findings, [], generated="2026-12-01T12:00:00Z", version="1")
    text = prometheus.render(combined([run])).encode("utf-8", "strict").decode()
    found = _of(_samples(text), "findings")
    seen = {tuple(dict(labels)[key] for key in ("host", "port", "check", "verdict")) for labels in found}
    assert seen == {tuple(part.encode("utf-8", "backslashreplace").decode() for part in row) for row in rows}
