# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The summary on the terminal: lines of text, each with the verdict that colours it. Pure."""

from __future__ import annotations

import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.findings import PASS, SKIPPED

from .run import ORDER, Run, grouped, headline, worst_of
from .values import count, listed, printable, show

MOST = 50  # rows of a table, and findings in full: past that the report is the better place

Line = tuple[str, "str | None"]
Place = tuple[str, str]


def summary_lines(run: Run) -> list[Line]:
    """Counts by host and port, everything that did not pass in full, and the verdict last."""
    verdict = run["verdict"]
    last: list[Line] = [(f"{run['title']}: {verdict.upper()}: {printable(headline(run))}", verdict)]
    return [*_count_lines(run), *_changed_lines(run), *_finding_lines(run), *last]


def _count_lines(run: Run) -> list[Line]:
    places = _places(run)
    shown = {place: verdicts for place, verdicts in places.items() if not set(verdicts) <= {PASS, SKIPPED}}
    columns = [verdict for verdict in ORDER if run["summary"][verdict]]
    rows = [
        [place[0] or "(fabric)", place[1] or "(node)" if place[0] else "", *_counts(verdicts, columns)]
        for place, verdicts in list(shown.items())[:MOST]
    ]
    lines: list[Line] = []
    if rows:
        header, *body = table([["host", "port", *columns], *rows])
        colours = [worst_of(verdicts) for verdicts in shown.values()]
        lines = [(header, None), *zip(body, colours, strict=False)]
    if len(shown) > MOST:
        lines.append((f"… and {len(shown) - MOST} more of these", None))
    return lines + _folded([place for place in places if place not in shown], places)


def _places(run: Run) -> dict[Place, list[str]]:
    """The verdicts at each host and port, in the order of the findings: worst first."""
    places: dict[Place, list[str]] = {}
    for finding in run["findings"]:
        places.setdefault((finding["host"], finding["port"]), []).append(finding["verdict"])
    return places


def _folded(passed: list[Place], places: dict[Place, list[str]]) -> list[Line]:
    """One line for all hosts and ports where everything passed or was skipped."""
    if not passed:
        return []
    hosts = {host for host, _port in passed if host}
    ports = [place for place in passed if place[1]]
    verdicts = [verdict for place in passed for verdict in places[place]]
    where = f"{count(len(hosts), 'host')}, {count(len(ports), 'port')}"
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in (PASS, SKIPPED) if verdict in verdicts)
    return [(f"in order: {where}, {counts}", PASS if PASS in verdicts else SKIPPED)]


def _counts(verdicts: list[str], columns: list[str]) -> list[str]:
    return [str(verdicts.count(verdict) or "") for verdict in columns]


def table(rows: list[list[str]]) -> list[str]:
    """Rows of cells as lines with aligned columns; figures to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if cell.isdecimal() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _changed_lines(run: Run) -> list[Line]:
    """One line for each check that passes with something to say: what this run put right, and where."""
    places: dict[tuple[str, str], list[str]] = {}
    for finding in run["findings"]:
        if finding["verdict"] == PASS and finding["cause"]:
            where = " ".join(part for part in (finding["host"], finding["port"]) if part)
            places.setdefault((finding["check"], finding["cause"]), []).append(where)
    return [
        (f"{printable(check)}: {printable(cause)}: {printable(listed(where, 6))}", PASS)
        for (check, cause), where in places.items()
    ]


def _finding_lines(run: Run) -> list[Line]:
    groups = grouped(finding for finding in run["findings"] if finding["verdict"] != PASS)
    lines: list[Line] = []
    for group in groups[:MOST]:
        lines += _group_lines(group)
    if len(groups) > MOST:
        lines.append((f"… and {count(len(groups) - MOST, 'more finding')}", None))
    return [*lines, ("", None)] if lines else []


def _group_lines(group: dict[str, t.Any]) -> list[Line]:
    """One finding: a line in its colour, then what is known about it, aligned."""
    where = " ".join(part for part in (listed(group["hosts"], 6), group["port"]) if part) or "(fabric)"
    details = [
        ("observed", "" if group["observed"] is None else show(group["observed"])),
        ("expected", "" if group["expected"] is None else show(group["expected"])),
        *((key, group[key]) for key in ("cause", "evidence", "remedy")),
    ]
    head = "  ".join(printable(part) for part in (group["verdict"], group["check"], where))
    return [
        ("", None),
        (head, group["verdict"]),
        *((f"    {key:<8}  {printable(text)}", None) for key, text in details if text),
    ]
