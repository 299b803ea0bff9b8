# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The action, in this process and from a playbook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleError
from ansible.utils.display import Display
from ansible_collections.lossless.roce.plugins.action.report import ARGUMENTS, ActionModule, colour
from ansible_collections.lossless.roce.plugins.modules import report as documentation

ROOT = Path(__file__).parents[3]
FAILED = {"check": "pfc", "verdict": "fail", "host": "node1", "cause": "the mask was reset"}
PASSED = {"check": "mtu", "verdict": "pass", "host": "node1"}

Shown = list[tuple[str, "str | None"]]


@pytest.fixture(name="shown", autouse=True)
def _shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What the action prints."""
    lines: Shown = []
    monkeypatch.setattr(Display, "display", lambda _self, msg, color=None, **_rest: lines.append((msg, color)))
    return lines


def _run(check_mode: bool = False, **args: t.Any) -> dict[str, t.Any]:
    task = MagicMock(args=args, check_mode=check_mode, async_val=0, diff=False)
    action = ActionModule(task, MagicMock(), MagicMock(), MagicMock(), MagicMock(), MagicMock())
    return action.run(task_vars={})


def test_a_failed_check_fails_the_task(tmp_path: Path, shown: Shown) -> None:
    result = _run(title="verify", findings=[FAILED, PASSED], hosts=["node1"], path=str(tmp_path))
    page = str(tmp_path / "report.html")
    assert result["failed"] is True
    assert result["changed"] is False
    assert result["msg"] == f"verify: 1 of 2 checks failed on node1 (pfc 1); see {page}"
    assert (result["verdict"], result["hosts"], result["summary"]["fail"]) == ("fail", ["node1"], 1)
    assert (result["report"], result["json"]) == (page, str(tmp_path / "report.json"))
    assert 'failures="1"' in Path(result["junit"]).read_text(encoding="utf-8")
    assert 'verdict="fail"} 1' in Path(result["prometheus"]).read_text(encoding="utf-8")
    assert (f"report: {page}", None) in shown
    assert ("fail  pfc  node1", constants.COLOR_ERROR) in shown
    json.dumps(result)


def test_unless_the_user_only_wants_to_look(tmp_path: Path) -> None:
    result = _run(title="verify", findings=[FAILED], path=str(tmp_path), fail=False)
    assert (result["failed"], result["verdict"]) == (False, "fail")
    assert (tmp_path / "report.html").exists()


def test_check_mode_prints_and_writes_nothing(tmp_path: Path, shown: Shown) -> None:
    result = _run(check_mode=True, title="verify", findings=[FAILED], path=str(tmp_path / "report"))
    assert result["failed"] is True
    assert "report" not in result
    assert list(tmp_path.iterdir()) == []
    assert ("fail  pfc  node1", constants.COLOR_ERROR) in shown


def test_a_relative_path_starts_where_ansible_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _run(title="verify", findings=[PASSED])["report"] == str(tmp_path / "build/report/report.html")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"title": "verify"}, "findings"),
        ({"title": "verify", "findings": [{"check": "pfc"}]}, r"findings\[0\]\.verdict: missing"),
        ({"title": "a/b", "findings": []}, "title: 'a/b'"),
        ({"title": "verify", "findings": [], "colour": "red"}, "colour"),
        ({"title": "verify", "findings": [], "path": "/dev/null/report"}, "cannot be written"),
        ({"title": "verify", "findings": [], "timing": {"rounds": [{"round": 0}]}}, r"rounds\[0\]\.seconds: None"),
    ],
)
def test_what_is_wrong_is_one_clear_error(args: dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleError, match=message) as caught:
        _run(**args)
    assert "\n" not in str(caught.value)


def test_a_corrupt_report_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(Display, "warning", lambda _self, msg, **_rest: warnings.append(msg))
    (tmp_path / "report.json").write_text("{", encoding="utf-8")
    assert _run(title="verify", findings=[PASSED], path=str(tmp_path))["failed"] is False
    assert len(warnings) == 1


def test_every_verdict_has_its_colour() -> None:
    colours = [colour(verdict) for verdict in ("pass", "fail", "pending", "skipped", "unknown")]
    assert None not in colours
    assert colour(None) is None


def test_documentation_names_the_options_of_the_action() -> None:
    documented = yaml.safe_load(documentation.DOCUMENTATION)["options"]
    assert {name: (spec.get("required", False), spec.get("default")) for name, spec in documented.items()} == {
        name: (spec.get("required", False), spec.get("default")) for name, spec in ARGUMENTS.items()
    }


PLAYBOOK = """
- hosts: all
  gather_facts: false
  vars:
    found:
      - {check: pfc, verdict: pass, host: node1, port: ens1np0, observed: {enabled_prios: [3]}}
      - {check: pfc, verdict: "{{ 'FAIL' | lower }}", host: node2, cause: "{{ 'reset' }}", layers: {running: {a: 1}}}
  tasks:
    - lossless.roce.report:
        title: "{{ title }}"
        hosts: "{{ ansible_play_hosts_all }}"
        findings: "{{ found }}"
        path: "{{ folder }}"
        timing: "{{ [[{'step': 0, 'round': 0, 'seconds': 3.0}], []] | lossless.roce.fabric_timing(2) }}"
        fail: "{{ fails | bool }}"
      delegate_to: localhost
      run_once: "{{ once | bool }}"
      register: result
    - ansible.builtin.assert:
        that: result.verdict == 'fail' and result.summary.fail == 2 and not result.changed
"""


def _playbook(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run PLAYBOOK in a folder, with this checkout as the collection. Hosts that exist nowhere are not connected to."""
    collections = folder / "collections" / "ansible_collections" / "lossless"
    collections.mkdir(parents=True, exist_ok=True)
    if not (collections / "roce").exists():
        (collections / "roce").symlink_to(ROOT)
    (folder / "play.yml").write_text(PLAYBOOK, encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = [sys.executable, "-m", "ansible", "playbook", "-i", "node1,node2,node3,", "play.yml", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_playbook_fails_with_one_line_and_leaves_a_report(tmp_path: Path) -> None:
    done = _playbook(tmp_path, "-e", "title=verify folder=out fails=true once=false")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.count("verify: FAIL: 2 of 3 checks failed on node2, node3") == 1
    assert "the node gave no answer" in done.stdout
    assert f"verify: 2 of 3 checks failed on node2, node3 (pfc 1, reached 1); see {tmp_path}/out/report.html" in (
        " ".join((done.stdout + done.stderr).replace('"', "").split())
    )
    assert json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))["verdict"] == "fail"
    run = json.loads((tmp_path / "out" / "verify.json").read_text(encoding="utf-8"))
    assert (run["timing"]["wall_s"], run["timing"]["ratio"]) == (3.0, 1.5)
    assert (tmp_path / "out" / "junit.xml").exists()


def test_a_playbook_goes_on_when_it_only_looks(tmp_path: Path) -> None:
    done = _playbook(tmp_path, "-e", "title=drift folder=out fails=false once=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed=0" in done.stdout
    assert (tmp_path / "out" / "drift.html").exists()
