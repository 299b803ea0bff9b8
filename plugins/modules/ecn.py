#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: ecn
short_description: Set ECN by priority, and the marks of CNPs
version_added: 0.1.0
description:
  - Switches congestion control on or off by priority, for the receiver (notification point) and the sender
    (reaction point) alike, and sets the DSCP and the priority of congestion notification packets (CNPs).
  - Switches by priority exist with the driver of MLNX_OFED and DOCA only. With the kernel's own driver O(enabled_prios)
    and O(disabled_prios) are refused, since the firmware's C(ROCE_CC_PRIO_MASK) decides. By default it has all on.
  - DSCP and priority of CNPs are set with both drivers. The kernel's own one needs debugfs and refuses it where
    Secure Boot locks the kernel down. Which interface was found is in the result.
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
    description: Priorities, 0 to 7, with ECN. Priorities in neither list are left alone.
    type: list
    elements: int
  disabled_prios:
    description: Priorities, 0 to 7, without ECN.
    type: list
    elements: int
  cnp_dscp:
    description: DSCP of CNPs, 0 to 63. The switches must map it to the class of CNPs.
    type: int
  cnp_prio:
    description: 802.1p priority of CNPs, 0 to 7.
    type: int
seealso:
  - module: lossless.roce.dcqcn
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: ECN on priority 3 (driver of MLNX_OFED or DOCA)
  lossless.roce.ecn:
    ports: [ens1np0]
    enabled_prios: [3]

- name: CNPs with DSCP 48 on priority 6
  lossless.roce.ecn:
    ports: [ens1np0]
    cnp_dscp: 48
    cnp_prio: 6
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["write", "/sys/class/net/ens1np0/ecn/roce_np/enable/3", "1"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.policy import cnp_marks, ecn_lists
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State
from ansible_collections.lossless.roce.plugins.module_utils.settings.ecn import ecn_value


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    prios = ecn_lists(params["enabled_prios"] or [], params["disabled_prios"] or [])
    marks = cnp_marks(params["cnp_dscp"], params["cnp_prio"])
    return {**({"ecn": ecn_value(prios)} if prios else {}), **({"cnp": marks} if marks else {})}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "enabled_prios": {"type": "list", "elements": "int"},
            "disabled_prios": {"type": "list", "elements": "int"},
            "cnp_dscp": {"type": "int"},
            "cnp_prio": {"type": "int"},
        },
        required_one_of=[("enabled_prios", "disabled_prios", "cnp_dscp", "cnp_prio")],
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
