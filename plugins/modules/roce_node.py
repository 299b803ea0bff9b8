#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_node
short_description: Bring the RDMA ports of a node to a policy
version_added: 0.1.0
description:
  - Reads all settings of all declared ports, plans every change, and then applies them port by port, in a safe order.
  - A port is read back as a whole. When anything is not as planned,
    that port goes back to its former state and the others go on.
  - A node that is right already gets no command at all.
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
  policy:
    description:
      - The policy of the fabric, the variable C(roce_policy). All fields have defaults.
      - Settings listed in its field C(unmanaged) are left alone.
    type: dict
    required: true
seealso:
  - module: lossless.roce.roce_info
"""

EXAMPLES = r"""
- name: The whole policy on both rails
  lossless.roce.roce_node:
    ports: [ens1np0, ens2np0]
    policy:
      link_gbps: 200
      mtu: 9000
      data_prio: 3
      data_dscp: 26

- name: What would change, and nothing else
  lossless.roce.roce_node:
    ports: [ens1np0, ens2np0]
    policy: "{{ roce_policy }}"
  check_mode: true
  diff: true
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
  description: Value of every managed setting after the run (predicted in check mode) by port.
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
not_applicable:
  description: Settings that a port does not have, with the reason, by port.
  returned: always
  type: dict
findings:
  description: A verdict on each port and setting. In check mode on the running value, else on the value after the run.
  returned: always
  type: list
  elements: dict
derived:
  description: What follows from the policy, such as TOS, traffic class, NCCL variables and the bandwidth threshold.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import policy_state


def main() -> None:
    module = AnsibleModule(
        argument_spec={**PORT_OPTIONS, "policy": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    try:
        policy = parse_policy(module.params["policy"])
    except PolicyError as exc:
        module.fail_json(msg=str(exc))
    for warning in policy.warnings:
        module.warn(f"roce_policy: {warning}")
    run_port_module(module, lambda _params: policy_state(policy), strict=False, derived=policy.derived())


if __name__ == "__main__":
    main()
