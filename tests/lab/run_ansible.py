# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ansible on a lab, as a user would run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from dataclasses import dataclass
from pathlib import Path

import pytest
from roce_lab import Lab
from roce_lab.process import call

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PORTS = ["ens1np0", "ens2np0"]


@dataclass
class PlaybookRun:
    """How a playbook ended."""

    rc: int
    output: str
    stdout: str

    def recap(self, key: str) -> int:
        """Sum of a figure of the recap (changed, failed, unreachable) over the hosts."""
        return sum(map(int, re.findall(rf"\b{key}=(\d+)", self.output.rpartition("PLAY RECAP")[2])))


class Ansible:
    """Runs modules and playbooks on the lab as a user would."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self._inventory = str(lab.inventory.parent)
        self._folder = folder

    def _run(self, argv: list[str], timeout: float, **env: str) -> PlaybookRun:
        with subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_NOCOLOR": "1", **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        ) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                waits = self._what_runs()
                process.kill()
                out, err = process.communicate()
                pytest.fail(f"{argv}: still running after {timeout:g} s\n{waits}\n{out[-6000:]}{err[-2000:]}")
            except BaseException:
                process.kill()
                raise
        return PlaybookRun(process.returncode, out + err, out)

    def _what_runs(self) -> str:
        """Processes of the control node and of the lab's, and what each waits in."""
        command = "uptime; ps -e -o pid,ppid,stat,etimes,wchan:24,args --forest | grep -v ' \\['"
        here = call(["sh", "-c", f"{command} | cut -c -250"])
        nodes = (node.ssh(f"{command}; dmesg | tail -n 15") for node in self._lab.nodes)
        return "\n\n".join(done.out + done.err for done in (here, *nodes))

    def module(
        self, node: str, name: str, arguments: dict[str, t.Any], *, check: bool = False, timeout: float = 180
    ) -> dict[str, t.Any]:
        """Result of one module call on one node."""
        argv = [*self._module_argv(node, name, arguments), "--diff", *(["--check"] if check else [])]
        callback = {"ANSIBLE_LOAD_CALLBACK_PLUGINS": "1", "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json"}
        run = self._run(argv, timeout, **callback)
        assert "{" in run.stdout, run.output
        output = json.loads(run.stdout[run.stdout.index("{") :])
        return t.cast("dict[str, t.Any]", output["plays"][0]["tasks"][0]["hosts"][node])

    def module_that_may_die(self, node: str, name: str, arguments: dict[str, t.Any]) -> None:
        """A module call that is killed from outside, and then has no result."""
        self._run(self._module_argv(node, name, arguments), 180)

    def _module_argv(self, node: str, name: str, arguments: dict[str, t.Any]) -> list[str]:
        ansible = str(BIN / "ansible")
        return [ansible, "-i", self._inventory, node, "-m", f"lossless.roce.{name}", "-a", json.dumps(arguments)]

    def playbook(self, name: str, *words: str, timeout: float = 900, **variables: t.Any) -> PlaybookRun:
        """A playbook of the collection, with extra variables."""
        argv = [str(BIN / "ansible-playbook"), "-i", self._inventory, f"lossless.roce.{name}", *words]
        extra = {"roce_report_path": str(self.report), **variables}
        return self._run([*argv, "-e", json.dumps(extra)], timeout)

    def drift(self, *words: str, **variables: t.Any) -> PlaybookRun:
        """Drift of driver, ports and engines: to look at the node below as well takes a minute on these nodes."""
        return self.playbook("drift", "--skip-tags", "node", *words, **variables)

    def role(self, node: str, name: str, **variables: t.Any) -> PlaybookRun:
        """One role of the collection on one node, or on all of a group."""
        play = {"hosts": node, "gather_facts": False, "roles": [f"lossless.roce.{name}"]}
        path = self._folder / "role.yml"
        path.write_text(json.dumps([play]))
        argv = [str(BIN / "ansible-playbook"), "-i", self._inventory, str(path), "-e", json.dumps(variables)]
        return self._run(argv, 600)

    @property
    def report(self) -> Path:
        """Where reports of the tests go."""
        return self._folder / "report"

    def findings(self, title: str) -> list[dict[str, t.Any]]:
        """Findings of the last report with this title."""
        report = json.loads((self.report / "report.json").read_text())
        return t.cast("list[dict[str, t.Any]]", report["runs"][title]["findings"])


@dataclass
class Bootstrap:
    """The three runs that bring bare nodes to the policy."""

    check: PlaybookRun
    first: PlaybookRun
    second: PlaybookRun
