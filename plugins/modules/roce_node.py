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
  ports:
    description:
      - The RDMA ports that the node should have, as names of RDMA devices or of netdevs.
      - A port that is named and not there is a failure of that port. The others go on.
      - Needs O(policy). Either these two or O(policies) must be given.
    required: false
  policy:
    description:
      - The policy of the fabric, the variable C(roce_policy). All fields have defaults.
      - Settings listed in its field C(unmanaged) are left alone.
    type: dict
  policies:
    description:
      - Several policies, each with its ports, in one call.
      - Two policies that select one port, by whichever of its names, are refused before anything is changed.
    type: list
    elements: dict
    suboptions:
      ports:
        description: As the option O(ports).
        type: list
        elements: str
        required: true
      policy:
        description: As the option O(policy).
        type: dict
        required: true
  persist:
    description:
      - Whether to save the declared policy in C(/etc/lossless-roce/policy.json) once all ports are as declared.
        Role C(lossless.roce.node_agent) installs the boot unit that applies it again.
      - When a port failed, the file stays as it is.
      - With V(true) there is also a finding C(on_disk). It passes only when the declared policy
        is saved and a boot unit will apply it.
    type: bool
    default: false
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

- name: Two policies in one call, saved for the next boot
  lossless.roce.roce_node:
    policies:
      - ports: [ens1np0, ens2np0]
        policy: "{{ roce_policy }}"
      - ports: [ens3np0]
        policy: "{{ roce_policy | combine({'mtu': 4200}) }}"
    persist: true

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
busy:
  description: Ports that were left alone since a running job uses them, with its processes.
  returned: always
  type: dict
  sample: {ens1np0: "busy: RDMA queue pairs on mlx5_0 belong to python3 (pid 4711)"}
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
  description:
    - A verdict on each port and setting. In check mode on the running value, else on the value after the run.
    - Where a policy is saved, C(layers.on_disk) is the value that the next boot brings back.
  returned: always
  type: list
  elements: dict
derived:
  description: What follows from O(policy), such as TOS, traffic class, NCCL variables and the bandwidth threshold.
  returned: with O(policy)
  type: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.port_module import GUARD_OPTIONS, run_demands
from ansible_collections.lossless.roce.plugins.module_utils.saved import Declared

PORTS = {"type": "list", "elements": "str"}
GROUP = {"ports": {**PORTS, "required": True}, "policy": {"type": "dict", "required": True}}


def declared(params: dict[str, t.Any]) -> Declared:
    """Which ports get which policy."""
    groups = params["policies"]
    if groups is None:
        groups = [{"ports": params["ports"], "policy": params["policy"]}]
    policies = tuple((tuple(group["ports"]), group["policy"]) for group in groups)
    return Declared(policies, tuple(params["allow_management"]))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": PORTS,
            "policy": {"type": "dict"},
            "policies": {"type": "list", "elements": "dict", "options": GROUP},
            "persist": {"type": "bool", "default": False},
            **GUARD_OPTIONS,
        },
        required_one_of=[["ports", "policies"]],
        mutually_exclusive=[["ports", "policies"], ["policy", "policies"]],
        required_together=[["ports", "policy"]],
        supports_check_mode=True,
    )
    if module.params["policies"] is None and None in (module.params["ports"], module.params["policy"]):
        module.fail_json(msg="policies: null … ports and policy, or policies were expected")
    node = declared(module.params)
    try:
        demands = node.demands()
        policies = [parse_policy(raw) for _ports, raw in node.policies]
    except PolicyError as exc:
        module.fail_json(msg=str(exc))
    for warning in sorted({warning for policy in policies for warning in policy.warnings}):
        module.warn(f"roce_policy: {warning}")
    extra: dict[str, t.Any] = {"derived": policies[0].derived()} if module.params["policy"] is not None else {}
    save = node if module.params["persist"] else None
    run_demands(module, lambda: demands, save=save, **extra)


if __name__ == "__main__":
    main()
