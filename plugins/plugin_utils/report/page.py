# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page: from a report to one HTML file that needs nothing else. Pure, but for reading its template."""

from __future__ import annotations

import typing as t
from pathlib import Path

import jinja2
from ansible_collections.lossless.roce.plugins.module_utils.findings import FAIL, PASS

from .bandwidth import Pair, places
from .run import ORDER, Run, grouped, headline, worst_of
from .values import natural, rate, show

LAYERS = ("declared", "running", "next_boot", "on_disk")
PORT_FACTS = ("netdev", "ibdev", "pci", "numa_node", "driver", "state", "speed_gbps")
SYMBOLS = {"fail": "✗", "pending": "↻", "unknown": "?", "skipped": "–", "pass": "✓"}

# Shades of the heat map: least share of the reference, and what the legend says.
SHADES = ((0.0, "under 50 %"), (0.5, "50 to 80 %"), (0.8, "80 to 100 %"), (1.0, "100 to 105 %"), (1.05, "over 105 %"))
_GUESSED_SHARE = 0.9  # where no least rate is known, this share of the best pair is the reference

View = dict[str, t.Any]


def render(report: dict[str, t.Any]) -> str:
    """The whole page of a report as HTML. Every value is escaped by the template engine."""
    return _environment().get_template("report.html.j2").render(page=page_view(report))


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["show"] = show
    environment.globals["symbols"] = SYMBOLS
    return environment


def page_view(report: dict[str, t.Any]) -> View:
    """All that the template draws: runs with the newest first."""
    runs = [run_view(run, stale=run["title"] in report["stale"]) for run in reversed(report["runs"].values())]
    return {
        "verdict": report["verdict"],
        "generated": report["generated"],
        "collection_version": report["collection_version"],
        "runs": runs,
        "verdicts": [verdict for verdict in ORDER if any(run["summary"][verdict] for run in runs)],
        "shades": [label for _share, label in SHADES],
    }


def run_view(run: Run, *, stale: bool) -> View:
    """One run's section."""
    findings = run["findings"]
    return {
        **{key: run[key] for key in ("title", "generated", "verdict", "summary", "hosts")},
        "stale": stale,
        "headline": headline(run),
        "problems": grouped(finding for finding in findings if finding["verdict"] != PASS),
        "grid": grid(findings),
        "matrices": matrices(run["bandwidth"]),
        "nodes": nodes(run),
        "passed": [
            finding
            for finding in findings
            if finding["verdict"] == PASS and not finding["layers"] and not places(finding)
        ],
    }


def grid(findings: list[dict[str, t.Any]]) -> View:
    """Hosts × checks: the worst verdict of each, and how many of how many stand at it."""
    cells: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        cells.setdefault((finding["host"], finding["check"]), []).append(finding["verdict"])
    checks = sorted({check for _host, check in cells}, key=natural)
    hosts = sorted({host for host, _check in cells}, key=natural)
    return {
        "checks": checks,
        "rows": [
            {
                "host": host,
                "verdict": worst_of(verdict for check in checks for verdict in cells.get((host, check), ())),
                "cells": [_cell(cells.get((host, check), [])) for check in checks],
            }
            for host in hosts
        ],
    }


def _cell(verdicts: list[str]) -> View | None:
    if not verdicts:
        return None
    worst = worst_of(verdicts)
    return {"verdict": worst, "count": verdicts.count(worst), "total": len(verdicts)}


def matrices(pairs: list[Pair]) -> list[View]:
    """One heat map a rail: a row a server, a column a client."""
    rails: dict[str, list[Pair]] = {}
    for pair in pairs:
        rails.setdefault(pair["rail"], []).append(pair)
    return [_matrix(rail, rails[rail]) for rail in sorted(rails, key=natural)]


def _matrix(rail: str, pairs: list[Pair]) -> View:
    at = {(pair["server"], pair["client"]): pair for pair in pairs}
    servers = sorted({pair["server"] for pair in pairs}, key=natural)
    clients = sorted({pair["client"] for pair in pairs}, key=natural)
    rates = [pair["gbps"] for pair in pairs if pair["gbps"] is not None]
    wanted = {pair["min_gbps"] for pair in pairs if pair["min_gbps"] is not None}
    return {
        "rail": rail,
        "clients": clients,
        "rows": [
            {"server": server, "cells": [_shade(at.get((server, client)), rates) for client in clients]}
            for server in servers
        ],
        "failed": sum(pair["verdict"] == FAIL for pair in pairs),
        "total": len(pairs),
        "least": rate(min(rates)) if rates else "",
        "most": rate(max(rates)) if rates else "",
        "wanted": " to ".join(rate(edge) for edge in sorted({min(wanted), max(wanted)})) if wanted else "",
    }


def _shade(pair: Pair | None, rates: list[float]) -> View | None:
    """A pair's text, verdict and shade (a number of SHADES; none where nothing was measured)."""
    if pair is None:
        return None
    gbps = pair["gbps"]
    text = "none" if gbps is None else rate(gbps)
    return {"text": text, "verdict": pair["verdict"], "shade": _level(gbps, pair["min_gbps"], rates)}


def _level(gbps: float | None, least: float | None, rates: list[float]) -> int | None:
    reference = least or _GUESSED_SHARE * max(rates, default=0.0)
    if gbps is None or reference <= 0:
        return None
    return sum(gbps / reference >= share for share, _label in SHADES[1:])


def nodes(run: Run) -> list[View]:
    """Every host's ports, and its settings with the layers that are known of them."""
    by_host: dict[str, list[dict[str, t.Any]]] = {}
    for finding in run["findings"]:
        if finding["layers"]:
            by_host.setdefault(finding["host"], []).append(finding)
    hosts = sorted({*by_host, *run["ports"]}, key=natural)
    return [_node(host, by_host.get(host, []), run["ports"].get(host, [])) for host in hosts]


def _node(host: str, findings: list[dict[str, t.Any]], ports: list[dict[str, t.Any]]) -> View:
    facts = [fact for fact in PORT_FACTS if any(fact in port for port in ports)]
    ordered = sorted(findings, key=lambda finding: (natural(finding["port"]), natural(finding["check"])))
    return {
        "host": host,
        "verdict": worst_of([finding["verdict"] for finding in findings] or [PASS]),
        "differing": sum(finding["verdict"] != PASS for finding in findings),
        "facts": facts,
        "ports": [[port.get(fact) for fact in facts] for port in ports],
        "settings": [_setting(finding) for finding in ordered],
    }


def _setting(finding: dict[str, t.Any]) -> View:
    """A row of the settings table. A layer is marked where the setting did not pass and it is not as declared."""
    layers = finding["layers"]
    judged = finding["verdict"] != PASS and "declared" in layers
    return {
        **{key: finding[key] for key in ("port", "check", "verdict")},
        "layers": [
            {
                "known": layer in layers,
                "value": layers.get(layer),
                "differs": judged and layer in layers and layers[layer] != layers["declared"],
            }
            for layer in LAYERS
        ],
    }
