# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs as JUnit XML, the form that CI systems read: a suite a run, a case a finding. Pure."""

from __future__ import annotations

import re
import typing as t
from collections import Counter
from xml.sax.saxutils import escape, quoteattr

from ansible_collections.lossless.roce.plugins.module_utils.findings import FAIL, PASS

from .bandwidth import path
from .run import Run
from .values import show

# What XML 1.0 cannot hold, not even as a reference (https://www.w3.org/TR/xml/#charsets).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(runs: t.Iterable[Run]) -> t.Iterator[str]:
    """The document, piece by piece.

    ``fail`` is a failure; what is neither that nor ``pass`` is skipped, and its message says why.
    """
    suites = list(runs)
    total: Counter[str] = sum((Counter(run["summary"]) for run in suites), Counter())
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield _tag("testsuites", name="lossless.roce", **_counts(total)) + "\n"
    for run in suites:
        yield from _suite(run)
    yield "</testsuites>\n"


def _suite(run: Run) -> t.Iterator[str]:
    # Times of JUnit are without a zone; ours are UTC.
    yield _tag("testsuite", name=run["title"], timestamp=run["generated"].removesuffix("Z"), **_counts(run["summary"]))
    yield "\n"
    seen: Counter[tuple[str, str]] = Counter()
    for finding in run["findings"]:
        key = (_place(finding), _name(finding))
        seen[key] += 1
        # CI systems take two cases of one name for the same test.
        yield _case(finding, key[0], key[1] if seen[key] == 1 else f"{key[1]} #{seen[key]}") + "\n"
    yield "</testsuite>\n"


def _counts(summary: t.Mapping[str, int]) -> dict[str, t.Any]:
    skipped = summary["total"] - summary[FAIL] - summary[PASS]
    return {"tests": summary["total"], "failures": summary[FAIL], "errors": 0, "skipped": skipped, "time": 0}


def _place(finding: dict[str, t.Any]) -> str:
    return "/".join(part for part in (finding["host"], finding["port"]) if part) or "fabric"


def _name(finding: dict[str, t.Any]) -> str:
    return " ".join(part for part in (finding["check"], path(finding)) if part)


def _case(finding: dict[str, t.Any], classname: str, name: str) -> str:
    head = _tag("testcase", classname=classname, name=name, time=0)
    verdict, cause = finding["verdict"], finding["cause"]
    if verdict == PASS:
        return f"{head[:-1]}/>"
    if verdict == FAIL:
        failure = _tag("failure", type=finding["check"], message=cause or f"{finding['check']}: fail")
        return f"{head}{failure}{escape(_text(_details(finding)))}</failure></testcase>"
    skipped = _tag("skipped", message=": ".join(part for part in (verdict, cause) if part))
    return f"{head}{skipped[:-1]}/></testcase>"


def _details(finding: dict[str, t.Any]) -> str:
    values = [(key, show(finding[key])) for key in ("observed", "expected") if finding[key] is not None]
    texts = [(key, finding[key]) for key in ("cause", "evidence", "remedy") if finding[key]]
    return "\n".join(f"{key}: {text}" for key, text in values + texts)


def _tag(element: str, **attributes: t.Any) -> str:
    return f"<{element} {' '.join(f'{key}={quoteattr(_text(str(value)))}' for key, value in attributes.items())}>"


def _text(text: str) -> str:
    """The text with characters that XML cannot hold spelled out."""
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
