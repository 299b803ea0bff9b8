#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: trust
short_description: Set trust and the DSCP map of RDMA ports
version_added: 0.1.0
description:
  - Makes ports classify packets by DSCP, with the whole map of 64 entries written out, or by VLAN priority.
  - On inbox mlx5 drivers trust follows from the APP table.
    A single entry would leave the other 63 unknown, so all are set.
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
  trust:
    description: What ports trust.
    type: str
    choices: [dscp, pcp]
    default: dscp
  dscp_map:
    description: DSCP to priority, where it differs from DSCP divided by 8. Keys are 0 to 63, values 0 to 7.
    type: dict
    default: {}
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Classify by DSCP, CNPs with DSCP 4 on priority 6
  lossless.roce.trust:
    ports: [ens1np0]
    dscp_map:
      4: 6
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["dcb", "app", "add", "dev", "ens1np0", "dscp-prio", "0:0", "1:0"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.policy import dscp_map
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State
from ansible_collections.lossless.roce.plugins.module_utils.settings.trust import full_map


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    if params["trust"] == "pcp":
        return {"trust": {"trust": "pcp", "dscp_prio": {}}}
    return {"trust": {"trust": "dscp", "dscp_prio": full_map(dscp_map(params["dscp_map"]))}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "trust": {"type": "str", "choices": ["dscp", "pcp"], "default": "dscp"},
            "dscp_map": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
