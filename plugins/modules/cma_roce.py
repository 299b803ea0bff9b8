#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: cma_roce
short_description: Set RoCE mode and TOS of rdma_cm connections
version_added: 0.1.0
description:
  - Sets the defaults for connections made through rdma_cm, in configfs.
  - Applications that set up their queue pairs themselves (NCCL, C(ib_write_bw) without C(-R)) ignore both.
    They need a traffic class of their own.
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
  mode:
    description: RoCE version.
    type: str
    choices: [RoCE v2, IB/RoCE v1]
    default: RoCE v2
  tos:
    description: TOS byte, 0 to 255. 106 is DSCP 26 with ECN-capable transport.
    type: int
    default: 106
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: DSCP 26 for rdma_cm
  lossless.roce.cma_roce:
    ports: [mlx5_0]
    tos: 106
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["write", "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "106"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.policy import tos_byte
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    return {"cma": {"mode": params["mode"], "tos": tos_byte(params["tos"]), "exposed": True}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "mode": {"type": "str", "choices": ["RoCE v2", "IB/RoCE v1"], "default": "RoCE v2"},
            "tos": {"type": "int", "default": 106},
        },
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
