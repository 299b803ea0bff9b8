# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run: the findings of one playbook, judged and in order. Pure.

A run is plain JSON; docs/report.md has its schema.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from collections.abc import Mapping
from dataclasses import fields

from ansible_collections.lossless.roce.plugins.module_utils.findings import (
    FAIL,
    PASS,
    PENDING,
    SKIPPED,
    UNKNOWN,
    VERDICTS,
    Finding,
)

from .bandwidth import folded, pairs
from .timing import parse_timing
from .values import InputError, brief, count, listed, natural, plain

SCHEMA = 1
ORDER = (FAIL, PENDING, UNKNOWN, SKIPPED, PASS)  # worst first, the order of every listing

_TEXTS = ("check", "verdict", "evidence", "cause", "remedy", "host", "port")
_FIELDS = tuple(field.name for field in fields(Finding))
_TITLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SHOWN_ERRORS = 5

Run = dict[str, t.Any]


def build_run(
    title: t.Any,
    findings: t.Any,
    hosts: t.Any,
    *,
    generated: str,
    version: str,
    ports: t.Any = None,
    bandwidth: t.Any = None,
    timing: t.Any = None,
) -> Run:
    """The run as plain JSON. Raises InputError for anything that is not as documented."""
    names = _host_names(hosts)
    found = parse_findings(findings)
    found = sorted(found + missing_hosts(found, names), key=rank)
    # Not as_dict(), which copies every value: there may be a quarter million of findings, and these are ours.
    as_dicts = [{key: getattr(finding, key) for key in _FIELDS} for finding in found]
    return {
        "schema": SCHEMA,
        "title": parse_title(title),
        "generated": generated,
        "collection_version": version,
        "verdict": overall([finding.verdict for finding in found]),
        "summary": summary(found),
        "hosts": sorted({*names, *(finding.host for finding in found if finding.host)}, key=natural),
        "findings": as_dicts,
        "bandwidth": _pairs(as_dicts, bandwidth),
        "ports": _ports(ports),
        **({"timing": parse_timing(timing)} if timing else {}),
    }


def parse_title(title: t.Any) -> str:
    """The title, which names files. Raises InputError."""
    if not isinstance(title, str) or not _TITLE.fullmatch(title) or title == "report":
        raise InputError(
            f"title: {title!r} … letters, digits, - and _ were expected (64 at most), and not the name report,"
            " since the files of the run are named by it"
        )
    return str(title)


def parse_findings(raw: t.Any) -> list[Finding]:
    """Findings from a list of mappings. Raises one InputError that names what is wrong."""
    if not isinstance(raw, list):
        raise InputError(f"findings: {type(raw).__name__} … a list was expected")
    found: list[Finding] = []
    errors: list[str] = []
    for index, item in enumerate(raw):
        wrong = finding_errors(item)
        try:
            found += [] if wrong else [Finding(**_filled(item))]
        except (TypeError, ValueError, RecursionError) as exc:
            wrong = [f": not plain JSON … {exc}"]
        errors += [f"findings[{index}]{error}" for error in wrong]
    if errors:
        more = f"; and {len(errors) - _SHOWN_ERRORS} more" if len(errors) > _SHOWN_ERRORS else ""
        raise InputError("; ".join(errors[:_SHOWN_ERRORS]) + more)
    return found


def finding_errors(item: t.Any) -> list[str]:
    """What is wrong with one finding, but for values that are no JSON; each begins with the path inside it."""
    if not isinstance(item, Mapping):
        return [f": {brief(item)} … a mapping with check and verdict was expected"]
    errors = [f".{key}: not a field of a finding … {', '.join(_FIELDS)} are" for key in item if key not in _FIELDS]
    errors += [f".{key}: missing" for key in ("check", "verdict") if not item.get(key)]
    errors += [
        f".{key}: {brief(item[key])} … text was expected"
        for key in _TEXTS
        if item.get(key) is not None and not isinstance(item[key], str)
    ]
    verdict = item.get("verdict")
    if isinstance(verdict, str) and verdict and verdict not in VERDICTS:
        errors.append(f".verdict: {brief(verdict)} … one of {', '.join(VERDICTS)} was expected")
    if not isinstance(item.get("layers") or {}, Mapping):
        errors.append(f".layers: {brief(item['layers'])} … a mapping was expected")
    return errors


def _filled(item: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """The fields as plain JSON; what is null is left to its default."""
    return {key: value for key, value in plain(dict(item)).items() if value is not None}


def _host_names(hosts: t.Any) -> list[str]:
    if not isinstance(hosts, list) or not all(isinstance(host, str) and host for host in hosts):
        raise InputError(f"hosts: {brief(hosts)} … a list of names was expected")
    return [str(host) for host in hosts]


def _ports(raw: t.Any) -> dict[str, list[dict[str, t.Any]]]:
    value = raw or {}
    right = isinstance(value, Mapping) and all(
        isinstance(items, list) and all(isinstance(item, Mapping) for item in items) for items in value.values()
    )
    if not right:
        raise InputError(f"ports: {brief(raw)} … a mapping of host names to lists of mappings was expected")
    try:
        return t.cast("dict[str, list[dict[str, t.Any]]]", plain(value))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InputError(f"ports: not plain JSON … {exc}") from exc


def _pairs(findings: list[dict[str, t.Any]], extra: t.Any) -> list[dict[str, t.Any]]:
    items = extra or []
    right = isinstance(items, list) and all(
        isinstance(item, Mapping) and all(isinstance(item.get(end), str) for end in ("client", "server"))
        for item in items
    )
    if not right:
        raise InputError(f"bandwidth: {brief(extra)} … a list of mappings with client and server was expected")
    try:
        return pairs(findings, plain(items))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InputError(f"bandwidth: not plain JSON … {exc}") from exc


def missing_hosts(findings: list[Finding], hosts: list[str]) -> list[Finding]:
    """A failed finding for every host that was meant to answer and has no finding at all."""
    heard = {finding.host for finding in findings}
    return [
        Finding(
            check="reached",
            verdict=FAIL,
            observed="no finding",
            expected="at least one finding",
            evidence="the findings of this run",
            cause="the node gave no answer",
            remedy=f"see how the run failed on {host} further up; ansible {host} -m ansible.builtin.ping shows"
            " whether it can be reached",
            host=host,
        )
        for host in sorted(set(hosts) - heard, key=natural)
    ]


def rank(finding: Finding) -> tuple[t.Any, ...]:
    """The order of findings: worst verdict first, then host, port and check in natural order."""
    where = (natural(finding.host), natural(finding.port), natural(finding.check))
    return (ORDER.index(finding.verdict), *where)


def overall(verdicts: t.Iterable[str]) -> str:
    """One verdict for many. Where nothing passed there is nothing to trust: unknown."""
    seen = set(verdicts)
    worst = next((verdict for verdict in (FAIL, PENDING, UNKNOWN, PASS) if verdict in seen), UNKNOWN)
    return str(worst)


def worst_of(verdicts: t.Iterable[str]) -> str:
    """The verdict that stands first in listings."""
    return min(verdicts, key=ORDER.index)


def summary(findings: t.Iterable[Finding]) -> dict[str, int]:
    """How many findings have each verdict, and ``total``."""
    counted = Counter(finding.verdict for finding in findings)
    return {**{verdict: counted[verdict] for verdict in ORDER}, "total": counted.total()}


def grouped(findings: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Findings that differ in nothing but the host (and the layers) as one, with ``hosts`` instead of ``host``.

    Many pairs that say the same are one too.
    """
    groups: dict[str, dict[str, t.Any]] = {}
    for finding in sorted(folded(findings), key=lambda finding: ORDER.index(finding["verdict"])):
        same = {key: value for key, value in finding.items() if key not in ("host", "layers")}
        group = groups.setdefault(repr(sorted(same.items())), {"hosts": [], **same})
        if finding["host"] and finding["host"] not in group["hosts"]:
            group["hosts"].append(finding["host"])
    return list(groups.values())


def headline(run: Run) -> str:
    """One sentence on a run."""
    numbers = run["summary"]
    if not numbers["total"]:
        return "nothing was checked"
    if run["verdict"] == PASS:
        return f"{count(numbers[PASS], 'check')} passed on {count(len(run['hosts']), 'host')}"
    bad = [finding for finding in run["findings"] if finding["verdict"] == run["verdict"]]
    if not bad:
        return f"{count(numbers['total'], 'check')} skipped, and none passed"
    hosts = sorted({finding["host"] for finding in bad if finding["host"]}, key=natural)
    checks = Counter(finding["check"] for finding in bad)
    says = {FAIL: "failed", PENDING: "pending a reset or restart", UNKNOWN: "undecided"}[run["verdict"]]
    place = f" on {listed(hosts)}" if hosts else ""
    which = listed([f"{check} {amount}" for check, amount in checks.most_common()])
    return f"{len(bad)} of {count(numbers['total'], 'check')} {says}{place} ({which})"
