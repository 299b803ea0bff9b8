# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: the findings that roles left in the variables of hosts, as one list."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: findings
short_description: Collect the findings of hosts
version_added: 0.1.0
description:
  - Takes the variables of hosts and returns all findings that the roles of this collection left in them.
  - Every finding is given the name of its host.
positional: []
options:
  _input:
    description: Variables of hosts, one mapping a host.
    type: list
    elements: dict
    required: true
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Everything that was found
  ansible.builtin.set_fact:
    all_findings: "{{ groups['roce_nodes'] | map('extract', hostvars) | lossless.roce.findings }}"
"""

RETURN = r"""
_value:
  description: The findings.
  type: list
  elements: dict
"""

# Where roles and playbooks leave them, in the order of a report.
SOURCES = (
    "baseline_findings",
    "mlx5_findings",
    "node_agent_findings",
    "roce_policy_findings",
    "container_runtime_findings",
    "pytorch_image_findings",
    "fabric_test_findings",
    "fabric_test_analysis",
    "nccl_smoke_findings",
    "roce_diagnosis_findings",
    "roce_failures",
)


def findings(hosts: t.Iterable[t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """All findings of all hosts, each with its host's name, unless it names another host itself."""
    return [
        {**finding, "host": _place(finding, variables["inventory_hostname"])}
        for variables in hosts
        for source in SOURCES
        for finding in variables.get(source) or []
    ]


def _place(finding: t.Mapping[str, t.Any], host: str) -> str:
    """What is found on the fabric is of the host that it names, or of none: not of the one that looked."""
    return str(finding.get("host") or "") if finding.get("check") == "fabric" else host


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"findings": findings}
