# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page: escapes, sections, heat map, layers."""

from __future__ import annotations

import re
import typing as t
from html.parser import HTMLParser

import pytest
from ansible_collections.lossless.roce.plugins.plugin_utils.report.page import grid, matrices, nodes, render
from ansible_collections.lossless.roce.plugins.plugin_utils.report.store import combined

Make = t.Callable[..., t.Any]
VOID = {"meta", "br", "input"}


class Balance(HTMLParser):
    """Fails on an element that is closed in the wrong place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()


@pytest.fixture(name="evil_page")
def _evil_page(make_finding: Make, make_pair: Make, make_run: Make) -> str:
    """A page where every text is an attack."""
    evil = "<script>alert(1)</script>\"'&"
    texts = dict.fromkeys(("check", "evidence", "cause", "remedy", "host", "port"), evil)
    findings = [
        make_finding(**texts, verdict=verdict, observed={evil: [evil]}, expected=evil, layers=layers)
        for verdict in ("fail", "pass")
        for layers in ({"declared": evil, "running": {evil: 1}}, {})
    ]
    run = make_run(
        [*findings, make_pair(evil, evil, 1, rail=evil)], hosts=["<i>host"], ports={evil: [{"netdev": evil}]}
    )
    return render(combined([run]))


def test_every_value_is_escaped(evil_page: str) -> None:
    assert evil_page.count("<script>") == 1
    assert "alert(1)</script>" not in evil_page
    assert "&lt;script&gt;alert(1)" in evil_page
    assert "<i>host" not in evil_page


def test_elements_are_balanced_and_nothing_is_loaded(evil_page: str) -> None:
    parser = Balance()
    parser.feed(evil_page)
    assert parser.open == []
    assert not re.search(r"https?:|\bsrc=|<link|@import|url\(", evil_page)


def test_the_verdict_comes_first(make_finding: Make, make_run: Make) -> None:
    page = render(combined([make_run([make_finding(verdict="fail")])]))
    assert "<title>FAIL – RoCE report</title>" in page
    assert page.index("<strong>FAIL</strong>") < page.index("<table")


def test_a_good_run_has_no_list_of_problems(make_finding: Make, make_run: Make) -> None:
    page = render(combined([make_run([make_finding()])]))
    assert "What did not pass" not in page
    assert "<strong>PASS</strong>" in page


def test_an_empty_run_is_a_page_too(make_run: Make) -> None:
    page = render(combined([make_run([])]))
    assert "nothing was checked" in page
    assert "<strong>UNKNOWN</strong>" in page


def test_runs_are_sections_the_newest_first(make_finding: Make, make_run: Make) -> None:
    old = make_run([make_finding(verdict="fail")], title="bootstrap", generated="2026-11-01T12:00:00Z")
    page = render(combined([old, make_run([make_finding()])]))
    assert page.index('id="run-verify" open') < page.index('id="run-bootstrap">')
    assert "old: not counted" in page
    assert "<strong>PASS</strong>" in page


def test_grid_has_the_worst_verdict_of_each_host_and_check(make_finding: Make) -> None:
    drawn = grid(
        [
            make_finding(host="node10"),
            make_finding(host="node2", verdict="fail"),
            make_finding(host="node2"),
            make_finding(host="node2", check="mtu"),
        ]
    )
    assert drawn["checks"] == ["mtu", "pfc"]
    assert [row["host"] for row in drawn["rows"]] == ["node2", "node10"]
    assert drawn["rows"][0]["cells"][1] == {"verdict": "fail", "count": 1, "total": 2}
    assert drawn["rows"][1]["cells"][0] is None


def test_heat_map_has_servers_in_rows_and_clients_in_columns(make_pair: Make, make_run: Make) -> None:
    run = make_run(
        [make_pair("node2", "node1", 50), make_pair("node10", "node1", 195), make_pair("node10", "node2", None)]
    )
    (matrix,) = matrices(run["bandwidth"])
    assert matrix["clients"] == ["node2", "node10"]
    assert [row["server"] for row in matrix["rows"]] == ["node1", "node2"]
    assert [cell and cell["text"] for row in matrix["rows"] for cell in row["cells"]] == ["50", "195", None, "none"]
    assert [cell["shade"] for cell in matrix["rows"][0]["cells"]] == [0, 4]
    assert matrix["rows"][1]["cells"][1]["shade"] is None
    assert (matrix["failed"], matrix["least"], matrix["most"], matrix["wanted"]) == (2, "50", "195", "180")


def test_without_a_least_rate_the_best_pair_is_the_measure(make_pair: Make, make_run: Make) -> None:
    findings = [make_pair("a", "b", 100, expected=None), make_pair("b", "a", 30, expected=None)]
    (matrix,) = matrices(make_run(findings)["bandwidth"])
    assert [cell["shade"] for row in matrix["rows"] for cell in row["cells"] if cell] == [0, 4]
    assert matrix["wanted"] == ""


def test_layers_are_marked_where_they_differ(make_finding: Make, make_run: Make) -> None:
    layers = {"declared": 1, "running": 0, "next_boot": 1}
    run = make_run(
        [
            make_finding(check="nv", verdict="pending", layers=layers),
            make_finding(check="mtu", verdict="pass", layers={"declared": 9000, "running": 9216}),
        ]
    )
    mtu, firmware = nodes(run)[0]["settings"]
    assert [layer["differs"] for layer in firmware["layers"]] == [False, True, False, False]
    assert [layer["known"] for layer in firmware["layers"]] == [True, True, True, False]
    assert not any(layer["differs"] for layer in mtu["layers"])


def test_a_page_of_a_fleet_stays_small(make_pair: Make, make_run: Make) -> None:
    hosts = [f"node{number}" for number in range(1, 65)]
    findings = [make_pair(client, server, 190) for client in hosts for server in hosts if client != server]
    assert len(render(combined([make_run(findings)]))) < 400_000
