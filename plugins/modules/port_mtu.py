#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: port_mtu
short_description: Set the MTU of RDMA ports
version_added: 0.1.0
description:
  - Sets the MTU of the netdev of each port.
  - The RDMA MTU follows from it. 4096 needs at least 4192 bytes here, and the switch needs more than that.
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
  mtu:
    description: MTU in bytes.
    type: int
    required: true
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Jumbo frames on both rails
  lossless.roce.port_mtu:
    ports: [ens1np0, ens2np0]
    mtu: 9000
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["ip", "link", "set", "dev", "ens1np0", "mtu", "9000"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters. The policy's own check bounds the MTU."""
    return {"mtu": {"mtu": parse_policy({"mtu": params["mtu"], "rdma_mtu": 256}).mtu}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "mtu": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
