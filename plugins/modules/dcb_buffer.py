#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: dcb_buffer
short_description: Set cable length and receive buffers of RDMA ports
version_added: 0.1.0
description:
  - Sets the length of the cable, from which the driver computes the headroom of lossless buffers, and the buffers
    themselves, which most people leave to the firmware.
  - Buffers that break the driver's rules are refused beforehand, with the size that is needed. A buffer of a lossless
    priority must hold what is under way when a pause frame leaves, the largest frame and one cell.
  - A card without port buffers that software can set is refused.
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
  cable_length:
    description: Length of the cable in metres, 1 to 999.
    type: int
  prio_buffer:
    description: Buffer, 0 to 7, of each priority 0 to 7. Goes with O(buffer_size).
    type: list
    elements: int
  buffer_size:
    description: Size in bytes of each buffer 0 to 7. The driver cuts it to whole cells, of 128 bytes as a rule.
    type: list
    elements: int
seealso:
  - module: lossless.roce.pfc
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Cables of 30 m
  lossless.roce.dcb_buffer:
    ports: [ens1np0]
    cable_length: 30

- name: A buffer of its own for priority 3
  lossless.roce.dcb_buffer:
    ports: [ens1np0]
    prio_buffer: [0, 0, 0, 1, 0, 0, 0, 0]
    buffer_size: [131072, 262144, 0, 0, 0, 0, 0, 0]
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["dcb", "pfc", "set", "dev", "ens1np0", "delay", "30"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.policy import buffer_table, cable_metres
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    state: State = {}
    if params["cable_length"] is not None:
        state["cable_length"] = {"metres": cable_metres(params["cable_length"])}
    if params["prio_buffer"] is not None:
        state["buffers"] = buffer_table({key: params[key] for key in ("prio_buffer", "buffer_size")})
    return state


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "cable_length": {"type": "int"},
            "prio_buffer": {"type": "list", "elements": "int"},
            "buffer_size": {"type": "list", "elements": "int"},
        },
        required_together=[("prio_buffer", "buffer_size")],
        required_one_of=[("cable_length", "prio_buffer")],
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
