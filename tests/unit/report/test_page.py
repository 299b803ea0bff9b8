# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page: escapes, sections, heat map, layers."""

from __future__ import annotations

import base64
import re
import struct
import typing as t
import zlib
from html.parser import HTMLParser

import fleet
import pytest
from ansible_collections.lossless.roce.plugins.plugin_utils.report.heat import matrices
from ansible_collections.lossless.roce.plugins.plugin_utils.report.page import grid, nodes, render
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
    many = [make_pair(f"{evil}{n}", evil, 1, rail=1, cause=evil) for n in range(30)]
    incast = make_finding(
        check="incast", observed={"senders": [evil], "port": evil, "deltas": {evil: evil}, "simulated": [evil]}
    )
    run = make_run(
        [*findings, *many, incast, make_pair(evil, evil, 1, rail=evil)],
        hosts=["<i>host"],
        ports={evil: [{"netdev": evil}]},
        timing={"rounds": [{"round": 0, "seconds": 1, evil: evil}], evil: evil},
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


def test_what_does_not_apply_is_no_failure(make_finding: Make, make_run: Make) -> None:
    layers = {"declared": {"enabled_prios": [3]}, "on_disk": {"enabled_prios": []}}
    good = [make_finding(check="mtu", layers={"declared": 9000, "running": 9000})]
    skipped = [make_finding(check=check, verdict="skipped", layers=layers, cause="of mlx5") for check in ("cma", "ecn")]
    page = render(combined([make_run(good + skipped)]))
    assert "What did not pass" not in page and "not as declared" not in page and "differs" not in _body(page)
    assert "of 3 settings, 2 do not apply here" in page
    assert "2 checks that do not apply here" in page and page.count("of mlx5") == 2
    page = render(combined([make_run([*good, skipped[0], make_finding(verdict="fail", layers=layers)])]))
    problems = page[page.index("What did not pass") : page.index("Settings by node")]
    assert "pfc" in problems and "of mlx5" not in problems
    assert "of 3 settings, 1 not as declared, 1 does not apply here" in page
    assert "1 check that does not apply here" in page


def test_settings_that_could_not_be_read_are_undecided(make_finding: Make, make_run: Make) -> None:
    layers = {"declared": 1, "running": 0}
    found = [make_finding(check=check, verdict=check, layers=layers) for check in ("unknown", "pending", "fail")]
    assert nodes(make_run(found))[0]["remark"] == "of 3 settings, 2 not as declared, 1 undecided"


def _body(page: str) -> str:
    return page[page.index("<body") : page.index("<script>")]


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
    assert [row["hosts"] for row in drawn["rows"]] == [["node2"], ["node10"]]
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
    assert matrix["rows"][1]["cells"][1]["shade"] == -1
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


def test_ports_that_are_set_alike_share_a_row(make_run: Make) -> None:
    (node,) = nodes(make_run(fleet.settings("node1", rails=4, bad=True)))
    assert [(row["check"], row["ports"]) for row in node["settings"] if row["check"] in ("mtu", "pfc")] == [
        ("mtu", ["ens1np0", "ens2np0", "ens3np0", "ens4np0"]),
        ("pfc", ["ens1np0"]),
        ("pfc", ["ens2np0", "ens3np0", "ens4np0"]),
    ]
    assert node["remark"] == "of 20 settings, 1 not as declared"


def test_of_many_hosts_those_that_are_alike_share_a_row(make_run: Make) -> None:
    hosts = fleet.names(40)
    run = make_run([finding for host in hosts for finding in fleet.settings(host, 2, bad=host == "node7")])
    for rows in (grid(run["findings"])["rows"], nodes(run)):
        assert [row["hosts"] for row in rows] == [["node7"], [host for host in hosts if host != "node7"]]


def test_a_large_heat_map_keeps_every_pair(make_run: Make) -> None:
    hosts = fleet.names(30)
    findings = [
        {**finding, "expected": None} if finding["host"] == "node3" else finding
        for finding in fleet.all_pairs(hosts, 0, bad=["node7"])
        if finding["host"] != "node9"
    ]
    run = make_run(findings)
    (matrix,) = matrices(run["bandwidth"])
    assert matrix["rows"] == []
    packed = matrix["packed"]
    raw = zlib.decompress(base64.b64decode(packed["cells"]))
    places = struct.unpack(f"<{len(raw) // 4}I", raw)
    assert len(places) == 30 * 29
    drawn = {
        (server, client): packed["kinds"][place - 1]
        for (server, client), place in zip(
            ((server, client) for server in packed["servers"] for client in packed["clients"]), places, strict=True
        )
        if place
    }
    assert {key: (text, verdict) for key, (text, _shade, verdict) in drawn.items()} == {
        (pair["server"], pair["client"]): (
            "none" if pair["gbps"] is None else f"{pair['gbps']:.3g}",
            pair["verdict"],
        )
        for pair in run["bandwidth"]
    }


def test_a_page_of_a_fleet_stays_small(make_run: Make) -> None:
    hosts = fleet.names(64)
    findings = [finding for host in hosts for finding in fleet.settings(host, 8)] + fleet.all_pairs(hosts, 0)
    assert len(render(combined([make_run(findings)]))) < 100_000


def test_a_long_table_is_cut_and_says_so(make_finding: Make, make_run: Make) -> None:
    page = render(combined([make_run([make_finding(verdict="fail", cause=f"number {n}") for n in range(1003)])]))
    assert page.count("<dt>cause</dt>") == 1000
    assert "and 3 more rows" in page


def _text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.partition("<body>")[2]).split())


def test_simulated_counters_are_marked(make_run: Make) -> None:
    text = _text(render(combined([make_run([fleet.incast("node1", ["node2", "node3"])])])))
    assert "node1 ens1np0 node2, node3 187 Gb/s" in text
    assert "rx_prio3_pause 0 tx_prio3_pause +1422 simulated np_cnp_sent +310 simulated out_of_sequence 0" in text
    assert "counters are made up by a simulated card" in text
    assert "that passed" not in text  # it is in one table, not in two


@pytest.mark.parametrize(
    "observed", [None, 3, [], {}, {"deltas": []}, {"deltas": {"a": None}, "senders": 3, "simulated": "a", "port": []}]
)
def test_an_incast_of_another_shape_is_a_page_too(make_finding: Make, make_run: Make, observed: t.Any) -> None:
    assert "incast" in render(combined([make_run([make_finding(check="incast", observed=observed)])]))


def test_rounds_are_drawn_against_the_ideal(make_finding: Make, make_run: Make) -> None:
    rounds = [{"round": 0, "seconds": 12.5, "ideal_s": 10}, {"round": 1, "seconds": 25, "ideal_s": 10}]
    page = render(combined([make_run([make_finding()], timing={"rounds": rounds})]))
    text = _text(page)
    assert "2 rounds took 37.5 s ; 20 s would be ideal: 1.88 times that." in text
    assert "0 12.5 10.0 1.25" in text
    assert re.findall(r'<i class="took" style="width:([0-9.]+)%', page) == ["50.0", "100.0"]


def test_rounds_without_an_ideal_are_drawn_too(make_finding: Make, make_run: Make) -> None:
    page = render(combined([make_run([make_finding()], timing={"rounds": [{"round": 0, "seconds": 0}]})]))
    assert "1 round took 0 s ." in _text(page)


def test_without_rounds_there_is_no_such_section(make_finding: Make, make_run: Make) -> None:
    for timing in (None, {}, {"rounds": []}):
        assert "Time of the rounds" not in render(combined([make_run([make_finding()], timing=timing)]))
