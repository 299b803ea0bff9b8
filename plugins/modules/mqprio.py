#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: mqprio
short_description: Set or remove the mqprio root qdisc of RDMA ports
version_added: 0.1.0
description:
  - Gives the port's transmit queues to traffic classes.
    This shapes kernel traffic (TCP/IP) only, since RDMA bypasses qdiscs.
  - mqprio has no change operation. Another value means that the qdisc is removed and added anew.
  - With O(hw=true) in mode V(dcb), mlx5 takes O(num_tc=8) only, whatever is copied from the web.
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
  state:
    description: Whether there is an mqprio root qdisc.
    type: str
    choices: [present, absent]
    default: present
  num_tc:
    description: Number of traffic classes, 1 to 16. Required with O(state=present).
    type: int
  map:
    description: Class of each priority 0 to 15. Missing ones are 0.
    type: list
    elements: int
    default: []
  queues:
    description:
      - Queues of each class as COUNT@OFFSET. One per class is required, except with O(hw=true) in mode V(dcb).
      - In that mode the driver chooses the queues by itself.
    type: list
    elements: str
    default: []
  hw:
    description: Whether the card does it (offload).
    type: bool
    default: false
  mode:
    description: Kind of offload. V(channel) needs as many combined channels as there are queues.
    type: str
    choices: [dcb, channel]
    default: dcb
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Three classes without offload
  lossless.roce.mqprio:
    ports: [ens1np0]
    num_tc: 3
    map: [2, 2, 1, 0, 2, 2, 2, 2]
    queues: [1@0, 1@1, 8@2]

- name: No mqprio
  lossless.roce.mqprio:
    ports: [ens1np0]
    state: absent
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["tc", "qdisc", "del", "dev", "ens1np0", "root"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.policy import mqprio_table
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    if params["state"] == "absent":
        return {"mqprio": mqprio_table("absent")}
    return {"mqprio": mqprio_table({key: params[key] for key in ("num_tc", "map", "queues", "hw", "mode")})}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "num_tc": {"type": "int"},
            "map": {"type": "list", "elements": "int", "default": []},
            "queues": {"type": "list", "elements": "str", "default": []},
            "hw": {"type": "bool", "default": False},
            "mode": {"type": "str", "choices": ["dcb", "channel"], "default": "dcb"},
        },
        required_if=[("state", "present", ["num_tc"])],
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
