# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Progress is told while a matrix runs, and nobody waits for a job that has ended."""

from __future__ import annotations

import json
import types
import typing as t

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.lossless.roce.plugins.action import fabric_progress

STATUS = {"run": "7", "name": "node1", "step": 1, "steps": 4, "left_s": 12.4, "done": False}


LOST = "cannot be reached"


def followed(monkeypatch: pytest.MonkeyPatch, looks: list[str], **arguments: t.Any) -> tuple[dict[str, t.Any], int]:
    """The task's result and how many looks it took; each look at the node shows the next text."""
    left = list(looks)

    def look(*_a: t.Any, **_k: t.Any) -> dict[str, str]:
        text = left.pop(0)
        if text == LOST:
            raise AnsibleConnectionFailure("ssh: connect to host node1 port 22: No route to host")
        return {"stdout": text}

    monkeypatch.setattr(fabric_progress.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(fabric_progress.ActionBase, "run", lambda *_args: {})
    action = object.__new__(fabric_progress.ActionModule)
    args = {"run": "7", "limit": 60.0, "interval": 1.0, "job": "", **arguments}
    action._task = types.SimpleNamespace(check_mode=False)  # type: ignore[attr-defined]
    action.validate_argument_spec = lambda **_kw: (None, args)  # type: ignore[method-assign]
    action._low_level_execute_command = look  # type: ignore[method-assign]
    return action.run(), len(looks) - len(left)


def test_it_looks_until_the_run_is_through(monkeypatch: pytest.MonkeyPatch) -> None:
    done = json.dumps({**STATUS, "step": 3, "done": True})
    result, looks = followed(monkeypatch, ["", json.dumps(STATUS), done, "never seen"])
    assert looks == 3 and result["status"]["done"] is True and result["lost"] is False


def test_a_host_that_is_lost_ends_the_task_and_not_the_play(monkeypatch: pytest.MonkeyPatch) -> None:
    result, looks = followed(monkeypatch, [json.dumps(STATUS), LOST, LOST, LOST, "never seen"])
    assert looks == 4 and result["lost"] is True and result["status"] == STATUS


def test_a_host_that_was_out_of_reach_for_a_moment_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    done = json.dumps({**STATUS, "done": True})
    result, looks = followed(monkeypatch, [LOST, LOST, json.dumps(STATUS), LOST, LOST, done, "never seen"])
    assert looks == 6 and result["lost"] is False


@pytest.mark.parametrize("seen", ["", json.dumps(STATUS), json.dumps({**STATUS, "run": "an older one", "done": True})])
def test_a_job_that_ended_by_an_error_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, seen: str) -> None:
    running = f'{seen}\n{{"started": true, "finished": false, "ansible_job_id": "j1"}}'
    failed = f'{seen}\n{{"failed": true, "msg": "TCP port 18514 is taken"}}'
    _result, looks = followed(monkeypatch, [running, running, failed, "never seen"], job="/root/.ansible_async/j1")
    assert looks == 3


def test_a_line_for_people() -> None:
    assert fabric_progress.told(STATUS) == "fabric: step 2 of 4, about 12 s left"
    assert fabric_progress.told({**STATUS, "step": -1}) == "fabric: waiting for all hosts to be there"
    assert fabric_progress.told({}) == ""
