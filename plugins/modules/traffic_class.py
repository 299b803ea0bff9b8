#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: traffic_class
short_description: Force a traffic class on all RoCE queue pairs of a port
version_added: 0.1.0
description:
  - Sets the traffic class (TOS byte) that the driver of MLNX_OFED and DOCA forces on every RoCE queue pair of a port,
    whatever the application asked for, those that exist included.
  - The kernel's own driver has no such file. The module then refuses, since each application must set its own
    (E(NCCL_IB_TC) for NCCL, C(--tclass) for perftest).
  - Queue pairs that a GPU makes for itself do not pass through this file. They need E(NCCL_GIN_IB_TC) or E(NCCL_IB_TC).
  - It is a module of its own, beside M(lossless.roce.cma_roce), since that one works with every driver.
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
  tclass:
    description: TOS byte, 0 to 255. 106 is DSCP 26 with ECN-capable transport.
    type: int
    default: 106
  state:
    description: V(absent) lets applications have their own way again.
    type: str
    choices: [present, absent]
    default: present
seealso:
  - module: lossless.roce.cma_roce
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: DSCP 26 for all queue pairs
  lossless.roce.traffic_class:
    ports: [mlx5_0]
    tclass: 106
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["write", "/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "106"]]
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
    return {"traffic_class": {"tclass": None if params["state"] == "absent" else tos_byte(params["tclass"])}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "tclass": {"type": "int", "default": 106},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
