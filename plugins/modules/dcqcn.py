#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: dcqcn
short_description: Set the parameters of DCQCN
version_added: 0.1.0
description:
  - Sets parameters of DCQCN, the congestion control of RoCE v2, by the names that the driver of MLNX_OFED gives them.
    With the kernel's own driver they are set in debugfs under its names. Which interface was found is in the result.
  - They belong to the port, not to a priority. Parameters that are not named are left alone.
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
    description: V(present) sets O(parameters). V(reset) writes back the firmware's documented defaults of all of them.
    type: str
    choices: [present, reset]
    default: present
  parameters:
    description:
      - Parameter to number. Required with O(state=present).
      - Rates in Mb/s are C(rpg_max_rate), C(rpg_ai_rate), C(rpg_hai_rate), C(rpg_min_rate) and
        C(rate_to_set_on_first_cnp).
      - Microseconds are C(rpg_time_reset), C(dce_tcp_rtt), C(rate_reduce_monitor_period) and C(min_time_between_cnps).
      - The others are C(clamp_tgt_rate) and C(clamp_tgt_rate_after_time_inc) (0 or 1), C(rpg_byte_reset) (bytes),
        C(rpg_threshold) (0 to 31), C(rpg_gd) (0 to 15), C(rpg_min_dec_fac) (1 to 100 percent), C(dce_tcp_g)
        (1 to 1023) and C(initial_alpha_value) (0 to 1023).
    type: dict
notes:
  - A card that runs RTT-based congestion control (possible from ConnectX-6 Dx on) ignores all parameters of DCQCN.
    The driver does not tell. The firmware's C(ROCE_CC_LEGACY_DCQCN) does if it is true; else the register C(PPCC).
seealso:
  - module: lossless.roce.ecn
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Recover faster
  lossless.roce.dcqcn:
    ports: [ens1np0]
    parameters:
      rpg_ai_rate: 20
      rpg_hai_rate: 200

- name: Back to the defaults
  lossless.roce.dcqcn:
    ports: [ens1np0]
    state: reset
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["write", "/sys/class/net/ens1np0/ecn/roce_rp/rpg_ai_rate", "20"]]
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
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State
from ansible_collections.lossless.roce.plugins.module_utils.settings.dcqcn import dcqcn_request


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    return {"dcqcn": dcqcn_request(params["state"], params["parameters"])}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **PORT_OPTIONS,
            "state": {"type": "str", "choices": ["present", "reset"], "default": "present"},
            "parameters": {"type": "dict"},
        },
        required_if=[("state", "present", ["parameters"])],
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
