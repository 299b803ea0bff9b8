#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_diagnose
short_description: Look for all that is known to keep a node from RDMA at line rate
version_added: 0.1.0
description:
  - Walks the known pitfalls, from the card to the job's variables, and returns a finding with cause and remedy on each.
  - Changes nothing, sends nothing, and is safe beside a running job.
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
  idempotent:
    support: full
  action_group:
    support: full
options:
  ports:
    description: The ports that the node should have, as in C(roce_ports). Without any, all RDMA ports are looked at.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Netdev or RDMA device.
        type: str
        required: true
      rail:
        description: Number of the rail. Not used here.
        type: int
      address:
        description: The port's IPv4 address.
        type: str
  policy:
    description: The policy of the fabric, to hold the node against. Without it only the node itself is looked at.
    type: dict
  policies:
    description:
      - Policies of single ports, as in M(lossless.roce.roce_node), where one does not fit all ports.
      - A port is then judged by the policy that selects it, and O(policy) is for what is the node's or the fabric's.
        The settings of a port that none selects are not judged.
    type: list
    elements: dict
    default: []
    suboptions:
      ports:
        description: Netdevs or RDMA devices.
        type: list
        elements: str
        required: true
      policy:
        description: The whole policy of these ports.
        type: dict
        required: true
  tcp_ports:
    description: TCP ports that other nodes must reach, such as V(22) or V(18515-18530).
    type: list
    elements: str
    default: []
  minimum_firmware:
    description:
      - The oldest firmware that passes, one version for all cards or by PSID as in M(lossless.roce.mlx5_firmware).
    type: raw
  nccl_env:
    description: NCCL variables of the job.
    type: dict
    default: {}
  review:
    description:
      - Files on the node to judge - job scripts, environment files, and saved outputs of tools such as C(ethtool -S),
        C(mlnx_qos), C(ibstat), C(nvidia-smi topo -m) or an NCCL log.
    type: list
    elements: path
    default: []
  rdma_containers:
    description: Names of running containers that are meant for RDMA.
    type: list
    elements: str
    default: []
  interval:
    description: Seconds between two readings of the counters.
    type: float
    default: 2
  nodes:
    description: How many nodes the fabric has. The neighbour table must hold all of them.
    type: int
    default: 1
seealso:
  - module: lossless.roce.roce_info
  - module: lossless.roce.host_checks
"""

EXAMPLES = r"""
- name: What is wrong here?
  lossless.roce.roce_diagnose:
    ports: "{{ roce_ports }}"
    policy: "{{ roce_policy }}"
    nccl_env: {NCCL_IB_HCA: "=mlx5_0,mlx5_1"}
    review: [/srv/jobs/job.sh]
  register: diagnosis
"""

RETURN = r"""
findings:
  description: The verdicts, from the card outwards.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.diagnosis import diagnose
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.saved import Declared

PORT_SPEC = {"name": {"type": "str", "required": True}, "rail": {"type": "int"}, "address": {"type": "str"}}
GROUP_SPEC = {
    "ports": {"type": "list", "elements": "str", "required": True},
    "policy": {"type": "dict", "required": True},
}
OPTION_SPEC = {
    "tcp_ports": {"type": "list", "elements": "str", "default": []},
    "minimum_firmware": {"type": "raw"},
    "nccl_env": {"type": "dict", "default": {}},
    "review": {"type": "list", "elements": "path", "default": []},
    "rdma_containers": {"type": "list", "elements": "str", "default": []},
    "interval": {"type": "float", "default": 2},
    "nodes": {"type": "int", "default": 1},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
            "policy": {"type": "dict"},
            "policies": {"type": "list", "elements": "dict", "default": [], "options": GROUP_SPEC},
            **OPTION_SPEC,
        },
        supports_check_mode=True,
    )
    params = module.params
    options = {key: params[key] for key in OPTION_SPEC if params[key] is not None}
    try:
        policy = parse_policy(params["policy"]) if params["policy"] is not None else None
        own = tuple((tuple(group["ports"]), group["policy"]) for group in params["policies"] or ())
        found = diagnose(Host(), params["ports"], policy, options, Declared(own) if own else None)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, findings=[finding.as_dict() for finding in found])


if __name__ == "__main__":
    main()
