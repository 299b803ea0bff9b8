# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The report's folder: runs that replace, add up, grow old, or can't be read."""

from __future__ import annotations

import json
import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.plugin_utils.report import store

Make = t.Callable[..., t.Any]


def _report(folder: Path) -> dict[str, t.Any]:
    report: dict[str, t.Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def test_runs_add_up_and_a_new_one_replaces_its_title(tmp_path: Path, make_finding: Make, make_run: Make) -> None:
    folder = tmp_path / "build" / "report"
    assert store.save(folder, make_run([make_finding(verdict="fail")], title="verify")) == []
    assert store.save(folder, make_run([make_finding()], title="drift")) == []
    assert (_report(folder)["verdict"], list(_report(folder)["runs"])) == ("fail", ["verify", "drift"])
    assert store.save(folder, make_run([make_finding()], title="verify")) == []
    assert (_report(folder)["verdict"], list(_report(folder)["runs"])) == ("pass", ["drift", "verify"])
    assert sorted(path.name for path in folder.iterdir()) == [
        "drift.html",
        "drift.json",
        "drift.junit.xml",
        "junit.xml",
        "lossless_roce.prom",
        "report.html",
        "report.json",
        "verify.html",
        "verify.json",
        "verify.junit.xml",
    ]


def test_a_stored_run_comes_back_as_it_was(tmp_path: Path, make_pair: Make, make_run: Make) -> None:
    timing = {"rounds": [{"round": 0, "seconds": 3, "ideal_s": 2, "started": 0.5}]}
    ports = {"node1": [{"netdev": "ens1np0"}]}
    run = make_run([make_pair("node1", "node2", 20)], hosts=["node3"], ports=ports, timing=timing)
    store.save(tmp_path, run)
    assert store.stored_runs(tmp_path / "report.json") == ({"verify": run}, [])
    assert json.loads((tmp_path / "verify.json").read_text(encoding="utf-8")) == run


def test_a_finding_is_a_line_of_the_json(tmp_path: Path, make_finding: Make, make_run: Make) -> None:
    store.save(tmp_path, make_run([make_finding(cause="a\nb"), make_finding(host="node2")]))
    lines = (tmp_path / "report.json").read_text(encoding="utf-8").splitlines()
    assert sum('"check": "pfc"' in line for line in lines) == 2
    assert _report(tmp_path)["runs"]["verify"]["findings"][0]["cause"] == "a\nb"


def test_a_run_that_is_old_has_no_say_in_ci_and_monitoring(tmp_path: Path, make_finding: Make, make_run: Make) -> None:
    store.save(tmp_path, make_run([make_finding(verdict="fail")], title="drift", generated="2026-11-01T12:00:00Z"))
    store.save(tmp_path, make_run([make_finding()]))
    assert 'name="drift"' not in (tmp_path / "junit.xml").read_text(encoding="utf-8")
    assert 'name="verify"' in (tmp_path / "junit.xml").read_text(encoding="utf-8")
    lines = (tmp_path / "lossless_roce.prom").read_text(encoding="utf-8").splitlines()
    assert [line.partition("{")[0] for line in lines if 'run="drift"' in line] == [
        "lossless_roce_run_timestamp_seconds"
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"schema": 99, "runs": {}}', '{"schema": 1}', "[" * 100_000])
def test_a_corrupt_report_is_replaced_with_a_warning(
    tmp_path: Path, make_finding: Make, make_run: Make, text: str
) -> None:
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    (warning,) = store.save(tmp_path, make_run([make_finding()]))
    assert "it is replaced" in warning
    assert list(_report(tmp_path)["runs"]) == ["verify"]


@pytest.mark.parametrize(
    "damage",
    [{"findings": [{"check": "x"}]}, {"generated": "yesterday"}, {"ports": 3}, {"hosts": None}, {"title": "/"}],
)
def test_a_damaged_run_is_left_out_with_a_warning(
    tmp_path: Path, make_finding: Make, make_run: Make, damage: dict[str, t.Any]
) -> None:
    report = store.combined([make_run([make_finding()], title="drift"), make_run([make_finding()], title="bootstrap")])
    report["runs"]["drift"].update(damage)
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    (warning,) = store.save(tmp_path, make_run([make_finding()]))
    assert "left out" in warning
    assert list(_report(tmp_path)["runs"]) == ["bootstrap", "verify"]


@pytest.mark.parametrize(
    ("generated", "stale"),
    [("2026-11-30T12:00:00Z", False), ("2026-11-30T11:59:59Z", True), ("2026-12-03T00:00:00Z", True)],
)
def test_a_run_of_another_day_has_no_say(make_finding: Make, make_run: Make, generated: str, stale: bool) -> None:
    other = make_run([make_finding(verdict="fail")], title="bootstrap", generated=generated)
    report = store.combined([other, make_run([make_finding()])])
    assert report["stale"] == (["bootstrap"] if stale else [])
    assert report["verdict"] == ("pass" if stale else "fail")


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path, make_finding: Make, make_run: Make) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RoceError, match=r"file/report: the report cannot be written … Not a directory"):
        store.save(tmp_path / "file" / "report", make_run([make_finding()]))


def test_a_failed_write_leaves_the_old_file_and_no_draft(
    tmp_path: Path, make_finding: Make, make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(tmp_path, make_run([make_finding()]))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def refuse(_draft: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(RoceError, match="No space left"):
        store.save(tmp_path, make_run([make_finding(verdict="fail")]))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_files_have_the_permissions_of_the_umask(tmp_path: Path, make_finding: Make, make_run: Make) -> None:
    former = os.umask(0o027)
    try:
        store.save(tmp_path, make_run([make_finding()]))
    finally:
        os.umask(former)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


def test_characters_that_are_no_text_do_not_lose_the_report(tmp_path: Path, make_finding: Make, make_run: Make) -> None:
    store.save(tmp_path, make_run([make_finding(verdict="fail", cause="bad \udcff byte")]))
    assert "bad \\udcff byte" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("galaxy.yml", "version: 1.4.0\n", "1.4.0"),
        ("galaxy.yml", "[", "unknown"),
        ("galaxy.yml", "text", "unknown"),
        ("MANIFEST.json", '{"collection_info": {"version": "1.5.0"}}', "1.5.0"),
        ("MANIFEST.json", "{}", "unknown"),
        ("README.md", "", "unknown"),
    ],
)
def test_version_of_a_checkout_and_of_an_installed_collection(
    tmp_path: Path, name: str, text: str, version: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert store.collection_version(tmp_path) == version
