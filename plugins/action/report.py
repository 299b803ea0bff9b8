# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Action: judge findings, print their summary and write the report, all on the control node."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.findings import FAIL, PASS, PENDING, SKIPPED, UNKNOWN
from ansible_collections.lossless.roce.plugins.plugin_utils.report.run import Run, build_run, headline
from ansible_collections.lossless.roce.plugins.plugin_utils.report.store import collection_version, now, save
from ansible_collections.lossless.roce.plugins.plugin_utils.report.terminal import summary_lines
from ansible_collections.lossless.roce.plugins.plugin_utils.report.values import printable

# Lists are raw here, so that run.py can name the very item that is wrong.
ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "title": {"type": "str", "required": True},
    "findings": {"type": "raw", "required": True},
    "hosts": {"type": "raw", "default": []},
    "path": {"type": "path", "default": "build/report"},
    "fail": {"type": "bool", "default": True},
    "ports": {"type": "raw"},
    "bandwidth": {"type": "raw"},
    "timing": {"type": "raw"},
}


def colour(verdict: str | None) -> str | None:
    """The user's own colour for results of that kind; none for text without a verdict."""
    colours = {
        PASS: constants.COLOR_OK,
        FAIL: constants.COLOR_ERROR,
        PENDING: constants.COLOR_CHANGED,
        SKIPPED: constants.COLOR_SKIP,
        UNKNOWN: constants.COLOR_WARN,
    }
    return colours[verdict] if verdict else None


class ActionModule(ActionBase):
    """Runs once for all hosts of the play, and connects to none."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Print, write (not in check mode) and return the verdict."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(argument_spec=ARGUMENTS)
        display = Display()
        try:
            run = _run(args)
            for text, verdict in summary_lines(run):
                display.display(text, color=colour(verdict))
            files = {} if self._task.check_mode else _write(run, Path(args["path"]), display)
        except RoceError as exc:
            raise AnsibleActionFail(printable(str(exc))) from exc
        where = f"; see {files['report']}" if files else ""
        return {
            **result,
            **files,
            "changed": False,
            "failed": bool(args["fail"] and run["verdict"] == FAIL),
            "msg": f"{run['title']}: {printable(headline(run))}{where}",
            **{key: run[key] for key in ("verdict", "summary", "hosts")},
        }


def _run(args: dict[str, t.Any]) -> Run:
    return build_run(
        args["title"],
        args["findings"],
        args["hosts"],
        generated=now(),
        version=collection_version(),
        ports=args["ports"],
        bandwidth=args["bandwidth"],
        timing=args["timing"],
    )


def _write(run: Run, path: Path, display: Display) -> dict[str, str]:
    """Write the report and say where it is. A relative path starts at the folder that Ansible was started in."""
    folder = Path(os.path.abspath(path))
    for warning in save(folder, run):
        display.warning(printable(warning))
    names = {"report": "report.html", "json": "report.json", "junit": "junit.xml", "prometheus": "lossless_roce.prom"}
    files = {key: str(folder / name) for key, name in names.items()}
    display.display(f"report: {files['report']}")
    return files
