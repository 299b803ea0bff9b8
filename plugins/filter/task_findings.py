# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: findings from the results of tasks that set something, for settings that no module here looks at."""

from __future__ import annotations

import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.findings import CONVERGE, FAIL, PASS, Finding

DOCUMENTATION = r"""
name: task_findings
short_description: Make findings of the results of tasks
version_added: 0.1.0
description:
  - Takes what tasks registered and returns a finding on each.
  - What a task changed, or in check mode would change, was not as declared. A task that was not asked for gives no
    finding.
positional: []
options:
  _input:
    description:
      - A mapping for each task, with C(check), C(expected), C(evidence), C(risk) (what follows where it is not so) and
        C(result) (what the task registered; empty where it did not run). C(observed) may say what was seen instead.
    type: list
    elements: dict
    required: true
  only_look:
    description: Whether the tasks ran in check mode. What would change is a failure then, else it was repaired.
    type: bool
    required: true
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Lift the limit for services
  ansible.builtin.copy:
    content: "[Manager]\nDefaultLimitMEMLOCK=infinity\n"
    dest: /etc/systemd/system.conf.d/memlock.conf
    mode: "0644"
  register: memlock
  check_mode: true

- name: Keep the verdict
  ansible.builtin.set_fact:
    my_findings: "{{ [task] | lossless.roce.task_findings(only_look=true) }}"
  vars:
    task:
      check: memlock_file
      expected: DefaultLimitMEMLOCK=infinity
      evidence: /etc/systemd/system.conf.d/memlock.conf
      risk: services may lock too little memory for RDMA
      result: "{{ memlock }}"
"""

RETURN = r"""
_value:
  description: The findings.
  type: list
  elements: dict
"""


def task_findings(tasks: t.Iterable[t.Mapping[str, t.Any]], *, only_look: bool) -> list[dict[str, t.Any]]:
    """A finding for each task that ran, or that check mode kept from running."""
    return [_judge(task, only_look).as_dict() for task in tasks if any(map(_counts, _parts(task["result"])))]


def _parts(result: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """The result of each item of a loop; else the result itself, or nothing where the task did not run."""
    return list(result.get("results", [result] if result else []))


def _counts(result: t.Mapping[str, t.Any]) -> bool:
    """Whether the task ran, or would have; one that failed is told as such by the playbook."""
    return not result.get("failed") and (not result.get("skipped") or _differs(result))


def _differs(result: t.Mapping[str, t.Any]) -> bool:
    """Changed; or a command that would have run: check mode skips it, and it has a status, unlike one not asked for."""
    return bool(result.get("changed") or (result.get("skipped") and "rc" in result))


def _judge(task: t.Mapping[str, t.Any], only_look: bool) -> Finding:
    differing = [part for part in _parts(task["result"]) if _differs(part)]
    wrong = bool(differing) and only_look
    return Finding(
        check=task["check"],
        verdict=FAIL if wrong else PASS,
        observed=task.get("observed", _observed(differing)) if wrong else task["expected"],
        expected=task["expected"],
        evidence=task["evidence"],
        cause=f"the node is not as it was set up: {task['risk']}"
        if wrong
        else ("repaired by this run" if differing else ""),
        remedy=CONVERGE if wrong else "",
    )


def _observed(differing: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    items = ", ".join(str(part["item"]) for part in differing if "item" in part)
    return f"missing or different: {items}" if items else "missing or different"


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"task_findings": task_findings}
