#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ets
short_description: Set traffic classes and their bandwidth on RDMA ports
version_added: 0.1.0
description:
  - Maps the eight priorities to traffic classes, and shares the link among the classes (IEEE 802.1Qaz).
  - Strict classes come before all others, a higher number before a lower one.
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
  - lossless.roce.ports
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
  action_group:
    support: full
options:
  classes:
    description: The traffic classes. Every priority must be in exactly one.
    type: list
    elements: dict
    required: true
    suboptions:
      tc:
        description: Number of the class, 0 to 7.
        type: int
        required: true
      prios:
        description: Priorities of the class.
        type: list
        elements: int
        required: true
      tsa:
        description: Transmission selection.
        type: str
        choices: [ets, strict]
        default: ets
      bw:
        description: Share of the link in percent. The shares of all ets classes add up to 100.
        type: int
        default: 0
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Half for RDMA on priority 3, CNPs on 6 before all
  lossless.roce.ets:
    ports: [ens1np0]
    classes:
      - {tc: 0, prios: [0, 1, 2, 4, 5, 7], bw: 50}
      - {tc: 3, prios: [3], bw: 50}
      - {tc: 6, prios: [6], tsa: strict}
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["dcb", "ets", "set", "dev", "ens1np0", "tc-tsa", "0:ets"]]
ports:
  description: Value after the run (predicted in check mode) by port and setting.
  returned: always
  type: dict
failed_ports:
  description: Ports that failed, with the error, what was tried and what differs still after the roll-back.
  returned: always
  type: dict
unknown:
  description: Settings that could not be read, with the reason, by port.
  returned: always
  type: dict
findings:
  description: A verdict on each port and setting.
  returned: always
  type: list
  elements: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.policy import ets_table
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    return {"ets": ets_table(params["classes"])}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "classes": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "tc": {"type": "int", "required": True},
                    "prios": {"type": "list", "elements": "int", "required": True},
                    "tsa": {"type": "str", "choices": ["ets", "strict"], "default": "ets"},
                    "bw": {"type": "int", "default": 0},
                },
            },
        },
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
