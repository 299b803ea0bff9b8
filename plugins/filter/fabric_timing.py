# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: how long the rounds of a matrix took, from what each host says of its own steps."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.plugin_utils.report.timing import run_timing
from ansible_collections.lossless.roce.plugins.plugin_utils.report.values import InputError, printable

DOCUMENTATION = r"""
name: fabric_timing
short_description: The timing of a matrix of bandwidth tests
version_added: 0.1.0
description:
  - Takes the steps of all hosts and returns the option O(lossless.roce.report#module:timing) of
    M(lossless.roce.report).
  - A step counts with the time of the host that took longest for it. A round takes as long as its steps together.
positional: test_s
options:
  _input:
    description:
      - One list a host of mappings with C(step), C(round) and C(seconds). Steps are numbered alike on all hosts.
    type: list
    elements: list
    required: true
  test_s:
    description:
      - Seconds that one test takes at the ideal. The ideal of a round is this for each of its steps. None, where nobody
        knows.
    type: float
    required: true
  wall_s:
    description: Seconds that all took on the clock. The rounds' seconds together, where this is not given.
    type: float
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Write the report with the time of each round
  lossless.roce.report:
    title: verify
    findings: "{{ ansible_play_hosts_all | map('extract', hostvars) | lossless.roce.findings }}"
    timing: "{{ all_steps | lossless.roce.fabric_timing(2) }}"
  run_once: true
  vars:
    all_steps:
      - [{step: 0, round: 0, seconds: 2.4}, {step: 1, round: 0, seconds: 2.2}]
      - [{step: 0, round: 0, seconds: 2.3}, {step: 1, round: 0, seconds: 2.6}]
"""

RETURN = r"""
_value:
  description: The timing as {rounds, wall_s, ideal_s, ratio}; each round as {round, seconds, ideal_s}.
  type: dict
  sample: {rounds: [{round: 0, seconds: 5.0, ideal_s: 4.0}], wall_s: 5.0, ideal_s: 4.0, ratio: 1.25}
"""


def fabric_timing(hosts: t.Any, test_s: t.Any, wall_s: t.Any = None) -> dict[str, t.Any]:
    """See run_timing; what is wrong with the input is one clear error."""
    try:
        return run_timing(hosts, test_s, wall_s)
    except InputError as exc:
        raise AnsibleFilterError(printable(str(exc))) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"fabric_timing": fabric_timing}
