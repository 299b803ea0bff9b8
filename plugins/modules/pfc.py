#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: pfc
short_description: Set priority flow control of RDMA ports
version_added: 0.1.0
description:
  - Makes the listed priorities lossless and all others lossy.
  - On mlx5 a changed mask bounces the link. An unchanged one is never written.
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
  enabled_prios:
    description: Priorities, 0 to 7, that are lossless. An empty list turns PFC off.
    type: list
    elements: int
    required: true
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Priority 3 is lossless
  lossless.roce.pfc:
    ports: [ens1np0]
    enabled_prios: [3]
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["dcb", "pfc", "set", "dev", "ens1np0", "prio-pfc", "0:off", "1:off", "2:off", "3:on"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.policy import prios
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    return {"pfc": {"enabled_prios": list(prios("enabled_prios", params["enabled_prios"]))}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "enabled_prios": {"type": "list", "elements": "int", "required": True},
        },
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
