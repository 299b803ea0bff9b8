# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page: from a report to one HTML file that needs nothing else. Pure, but for reading its template."""

from __future__ import annotations

import typing as t
from collections import Counter
from pathlib import Path

import jinja2
from ansible_collections.lossless.roce.plugins.module_utils.findings import (
    FAIL,
    PASS,
    PENDING,
    SKIPPED,
    UNKNOWN,
)

from .bandwidth import places
from .heat import SHADES, matrices
from .incast import incasts, is_incast
from .run import ORDER, Run, grouped, headline, worst_of
from .values import count, natural, show

LAYERS = ("declared", "running", "next_boot", "on_disk")
PORT_FACTS = ("netdev", "ibdev", "pci", "numa_node", "driver", "state", "speed_gbps")
SYMBOLS = {"fail": "✗", "pending": "↻", "unknown": "?", "skipped": "–", "pass": "✓"}
MOST_ROWS = 1000  # of a table of findings; the page stays one that a browser opens at once
MANY_HOSTS = 32  # from here on hosts that look the same share a row

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
    problems = grouped(finding for finding in findings if finding["verdict"] not in (PASS, SKIPPED))
    skipped = [finding for finding in findings if finding["verdict"] == SKIPPED]
    passed = [finding for finding in findings if finding["verdict"] == PASS and not _shown_elsewhere(finding)]
    return {
        **{key: run[key] for key in ("title", "generated", "verdict", "summary", "hosts")},
        "stale": stale,
        "headline": headline(run),
        "problems": problems[:MOST_ROWS],
        "more_problems": len(problems[MOST_ROWS:]),
        "grid": grid(findings),
        "matrices": matrices(run["bandwidth"]),
        "incasts": incasts(findings),
        "timing": timing_view(run.get("timing")),
        "nodes": nodes(run),
        **_rows_view("skipped", skipped),
        **_rows_view("passed", passed),
    }


def _shown_elsewhere(finding: dict[str, t.Any]) -> bool:
    return bool(finding["layers"]) or places(finding) or is_incast(finding)


def _rows_view(name: str, findings: list[dict[str, t.Any]]) -> View:
    """A closed table of findings, one row each; what many hosts say alike is one row."""
    rows = grouped(findings)
    return {name: rows[:MOST_ROWS], f"more_{name}": len(rows[MOST_ROWS:]), f"{name}_total": len(findings)}


def timing_view(timing: dict[str, t.Any] | None) -> View | None:
    """The rounds with their bars: widths in percent of the longest of all bars. None where nothing was timed."""
    if not timing or not timing["rounds"]:
        return None
    longest = max(max(item["seconds"], item["ideal_s"] or 0.0) for item in timing["rounds"]) or 1.0
    return {
        **{key: timing[key] for key in ("wall_s", "ideal_s", "ratio")},
        "rounds": [
            {
                **item,
                "ratio": item["seconds"] / item["ideal_s"] if item["ideal_s"] else None,
                "width": 100 * item["seconds"] / longest,
                "ideal_width": 100 * (item["ideal_s"] or 0.0) / longest,
            }
            for item in timing["rounds"]
        ],
    }


def grid(findings: list[dict[str, t.Any]]) -> View:
    """Hosts × checks: the worst verdict of each, and how many of how many stand at it.

    Of many hosts those with the same cells share a row.
    """
    cells: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        cells.setdefault((finding["host"], finding["check"]), []).append(finding["verdict"])
    checks = sorted({check for _host, check in cells}, key=natural)
    hosts = sorted({host for host, _check in cells}, key=natural)
    rows = [
        {
            "hosts": [host],
            "verdict": worst_of(verdict for check in checks for verdict in cells.get((host, check), ())),
            "cells": [_cell(cells.get((host, check), [])) for check in checks],
        }
        for host in hosts
    ]
    return {"checks": checks, "rows": _joined(rows) if len(hosts) >= MANY_HOSTS else rows}


def _joined(rows: list[View]) -> list[View]:
    """Rows that differ in nothing but their hosts as one each, the worst first."""
    found: dict[str, View] = {}
    for row in rows:
        same = found.setdefault(repr({**row, "hosts": None}), {**row, "hosts": []})
        same["hosts"] += row["hosts"]
    return sorted(found.values(), key=lambda row: ORDER.index(row["verdict"]))


def _cell(verdicts: list[str]) -> View | None:
    if not verdicts:
        return None
    worst = worst_of(verdicts)
    return {"verdict": worst, "count": verdicts.count(worst), "total": len(verdicts)}


def nodes(run: Run) -> list[View]:
    """Every host's ports, and its settings with the layers that are known of them. Many alike are one."""
    by_host: dict[str, list[dict[str, t.Any]]] = {}
    for finding in run["findings"]:
        if finding["layers"]:
            by_host.setdefault(finding["host"], []).append(finding)
    hosts = sorted({*by_host, *run["ports"]}, key=natural)
    views = [_node(host, by_host.get(host, []), run["ports"].get(host, [])) for host in hosts]
    return _joined(views) if len(hosts) >= MANY_HOSTS else views


def _node(host: str, findings: list[dict[str, t.Any]], ports: list[dict[str, t.Any]]) -> View:
    facts = [fact for fact in PORT_FACTS if any(fact in port for port in ports)]
    ordered = sorted(findings, key=lambda finding: (natural(finding["port"]), natural(finding["check"])))
    return {
        "hosts": [host],
        "verdict": worst_of([finding["verdict"] for finding in findings] or [PASS]),
        "remark": _remark(findings),
        "facts": facts,
        "ports": [[port.get(fact) for fact in facts] for port in ports],
        "settings": _by_ports([_setting(finding) for finding in ordered]),
    }


def _remark(findings: list[dict[str, t.Any]]) -> str:
    """How many settings of a host did not pass, and in what way; empty where all did."""
    numbers = Counter(finding["verdict"] for finding in findings)
    amounts = {
        "not as declared": numbers[FAIL] + numbers[PENDING],
        "undecided": numbers[UNKNOWN],
        "does not apply here" if numbers[SKIPPED] == 1 else "do not apply here": numbers[SKIPPED],
    }
    said = [f"{amount} {what}" for what, amount in amounts.items() if amount]
    return f"of {count(len(findings), 'setting')}, {', '.join(said)}" if said else ""


def _by_ports(settings: list[View]) -> list[View]:
    """Rows that differ in nothing but the port as one each, with ``ports``."""
    found: dict[str, View] = {}
    for row in settings:
        same = found.setdefault(repr({**row, "ports": None}), {**row, "ports": []})
        same["ports"] += row["ports"]
    return list(found.values())


def _setting(finding: dict[str, t.Any]) -> View:
    """A row of the settings table. A layer is marked where the setting is wrong and it is not as declared."""
    layers = finding["layers"]
    judged = finding["verdict"] not in (PASS, SKIPPED) and "declared" in layers
    return {
        "ports": [finding["port"]] if finding["port"] else [],
        **{key: finding[key] for key in ("check", "verdict")},
        "layers": [
            {
                "known": layer in layers,
                "value": layers.get(layer),
                "differs": judged and layer in layers and layers[layer] != layers["declared"],
            }
            for layer in LAYERS
        ],
    }
