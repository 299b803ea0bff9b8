# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report's folder on the control node: what is there, what a new run makes of it, written atomically."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import typing as t
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError

from . import junit, prometheus
from .page import render
from .run import SCHEMA, Run, build_run, overall

STALE_AFTER = timedelta(hours=24)
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_COLLECTION = Path(__file__).parents[3]

Report = dict[str, t.Any]


def now() -> str:
    """The time, UTC, to the second, ISO 8601."""
    return datetime.now(UTC).strftime(_TIME)


def collection_version(root: Path = _COLLECTION) -> str:
    """From galaxy.yml in a checkout, from MANIFEST.json in an installed collection; else ``unknown``."""
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError, TypeError, KeyError):
        return str(yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))["version"])
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads((root / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]["version"])
    return "unknown"


def combined(runs: t.Iterable[Run]) -> Report:
    """A report of runs, the newest last. One made at quite another time than the newest is stale and has no say."""
    ordered = list(runs)
    newest = ordered[-1]
    stale = [run["title"] for run in ordered if abs(_time(run) - _time(newest)) > STALE_AFTER]
    return {
        "schema": SCHEMA,
        "generated": newest["generated"],
        "collection_version": newest["collection_version"],
        "verdict": overall(run["verdict"] for run in ordered if run["title"] not in stale),
        "stale": stale,
        "runs": {run["title"]: run for run in ordered},
    }


def _time(run: Run) -> datetime:
    return datetime.strptime(run["generated"], _TIME).replace(tzinfo=UTC)


def stored_runs(path: Path, but: str = "") -> tuple[dict[str, Run], list[str]]:
    """The runs in a report.json by title without that of title ``but``, and warnings about what is no use there."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema is {raw['schema']!r}, not {SCHEMA}")
        items = [item for title, item in raw["runs"].items() if title != but]
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        return {}, [f"{path}: not a report ({exc!r}); it is replaced, and earlier runs in it are lost"]
    runs: dict[str, Run] = {}
    warnings = []
    for item in items:
        try:
            run = _restored(item)
            runs[run["title"]] = run
        except (RoceError, ValueError, TypeError, KeyError) as exc:
            warnings.append(f"{path}: a run in it is not as it should be ({exc!r}) and is left out")
    return runs, warnings


def _restored(item: dict[str, t.Any]) -> Run:
    """A stored run, built anew from its parts, so that a page never meets a shape it does not know."""
    _time(item)
    return build_run(
        item["title"],
        item["findings"],
        item["hosts"],
        generated=item["generated"],
        version=str(item["collection_version"]),
        ports=item["ports"],
        bandwidth=item["bandwidth"],
        timing=item.get("timing"),
    )


def save(folder: Path, run: Run) -> list[str]:
    """Write the run's own files and the report with it in place of the former run of that title.

    Returns warnings. Raises RoceError when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            runs, warnings = stored_runs(folder / "report.json", but=run["title"])
            runs.pop(run["title"], None)  # a damaged report may hold it under another name
            report = combined([*runs.values(), run])
            for name, text in _files(run, report):
                _write(folder / name, text)
    except OSError as exc:
        raise RoceError(f"{exc.filename or folder}: the report cannot be written … {exc.strerror}") from exc
    return warnings


def _files(run: Run, report: Report) -> t.Iterator[tuple[str, t.Iterable[str]]]:
    """Name and text of every file, the text in pieces and one file after the other: they may be large."""
    yield f"{run['title']}.json", as_json(run)
    yield f"{run['title']}.html", [render(combined([run]))]
    yield f"{run['title']}.junit.xml", junit.render([run])
    yield "report.json", as_json(report)
    yield "report.html", [render(report)]
    fresh = [each for each in report["runs"].values() if each["title"] not in report["stale"]]
    yield "junit.xml", junit.render(fresh)
    yield "lossless_roce.prom", [prometheus.render(report)]


def as_json(value: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """A run or a report as JSON text, for people too: a line a key, and a line a finding or pair.

    Not json's own indent, which takes a line a value and several times as long.
    """
    yield from _mapping(value)
    yield "\n"


def _mapping(value: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    lead = "{\n"
    for key, item in value.items():
        yield f"{lead}{json.dumps(key)}: "
        yield from _value(key, item)
        lead = ",\n"
    yield "\n}"


def _value(key: str, value: t.Any) -> t.Iterator[str]:
    if key == "runs":
        lead = "{\n"
        for title, run in value.items():
            yield f"{lead}{json.dumps(title)}: "
            yield from _mapping(run)
            lead = ",\n"
        yield "\n}"
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        lead = "[\n"
        for item in value:
            yield f"{lead}{json.dumps(item)}"
            lead = ",\n"
        yield "\n]"
    else:
        yield json.dumps(value)


@contextlib.contextmanager
def _locked(folder: Path) -> t.Iterator[None]:
    """One writer at a time: two playbooks that end together must not lose each other's run."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(path: Path, text: t.Iterable[str]) -> None:
    """Replace a file at once, with the permissions that the user's umask gives. Bad characters are spelled out."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb") as file:
            for piece in text:
                file.write(piece.encode("utf-8", "backslashreplace"))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
