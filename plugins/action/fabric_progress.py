# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Action: show how far a matrix of tests is, until the host that is looked at is through."""

from __future__ import annotations

import json
import shlex
import time
import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import STATUS_FILE

ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "run": {"type": "str", "required": True},
    "limit": {"type": "float", "required": True},
    "interval": {"type": "float", "default": 5},
    "job": {"type": "str", "default": ""},
}
# A host that cannot be reached so often in a row is not looked at any more.
_UNREACHED = 3


class ActionModule(ActionBase):
    """Looks at one host by ``cat``: starting a Python there for each look would disturb what is measured."""

    BYPASS_HOST_LOOP = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Print a line whenever a step is done; end with the run, at the limit, or when the host is lost."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(argument_spec=ARGUMENTS)
        if self._task.check_mode:
            return {**result, "changed": False, "skipped": True}
        deadline = time.monotonic() + args["limit"]
        shown, unreached = "", 0
        status: dict[str, t.Any] = {}
        while time.monotonic() < deadline and not status.get("done") and unreached < _UNREACHED:
            time.sleep(args["interval"])
            try:
                status, ended = self._look(args["run"], args["job"])
            except AnsibleConnectionFailure:
                # Raised further it would end the play for all hosts, whose tests go on.
                unreached += 1
                continue
            unreached = 0
            line = told(status)
            if line and line != shown:
                Display().display(line)
                shown = line
            if ended:
                break
        return {**result, "changed": False, "status": status, "lost": unreached == _UNREACHED}

    def _look(self, run: str, job: str) -> tuple[dict[str, t.Any], bool]:
        """The status of this run, empty while there is none, and whether its job has ended, for good or ill."""
        command = f"cat {STATUS_FILE}; echo; cat {shlex.quote(job)}" if job else f"cat {STATUS_FILE}"
        text = self._low_level_execute_command(command, executable="/bin/sh").get("stdout", "")
        first, second = f"{text}\n".split("\n", 1)
        status = _mapping(first)
        outcome = _mapping(second.strip())
        # As async_status has it: what the job writes at its end is the module's result, which says nothing of a start.
        return status if status.get("run") == run else {}, bool(outcome) and "started" not in outcome


def _mapping(text: str) -> dict[str, t.Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def told(status: dict[str, t.Any]) -> str:
    """A status as a line for people."""
    if not status:
        return ""
    if status["done"]:
        return f"fabric: {status['steps']} of {status['steps']} steps done"
    if status["step"] < 0:
        return "fabric: waiting for all hosts to be there"
    left = f", about {status['left_s']:.0f} s left" if status["left_s"] else ""
    return f"fabric: step {status['step'] + 1} of {status['steps']}{left}"
