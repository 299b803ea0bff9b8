# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: check a policy on the control node, before any host is touched, and derive from it."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy

DOCUMENTATION = r"""
name: policy
short_description: Check a RoCE policy and derive values from it
version_added: 0.1.0
description:
  - Refuses a policy that contradicts itself, naming both fields.
  - Returns what follows from it, such as TOS, traffic class, NCCL variables and the bandwidth threshold.
positional: []
options:
  _input:
    description: The policy, as in the variable C(roce_policy).
    type: dict
    required: true
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: The traffic class for perftest
  ansible.builtin.debug:
    msg: "{{ (roce_policy | lossless.roce.policy).traffic_class }}"
"""

RETURN = r"""
_value:
  description:
    - C(tos), C(traffic_class), C(nccl), C(rdma_mtu), C(mtu), C(link_gbps), C(efficiency), C(min_gbps) and C(warnings).
  type: dict
"""


def policy(raw: t.Any) -> dict[str, t.Any]:
    """What follows from a policy. Raises AnsibleFilterError with everything that is wrong with it."""
    try:
        return parse_policy(raw).derived()
    except PolicyError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"policy": policy}
