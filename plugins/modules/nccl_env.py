#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_env
short_description: Write NCCL's variables, derived from the policy and the node, where jobs find them
version_added: 0.1.0
description:
  - Ports by their exact names (C(NCCL_IB_HCA) with a leading C(=)), GIDs by the range of the ports' addresses (by their
    index before NCCL 2.21), the traffic class by the policy, and the interface for bootstrap and sockets.
  - Writes C(nccl.conf), which NCCL reads by itself, and a file of variables for shells, units and containers.
  - Other lines of C(nccl.conf) stay as they are, byte by byte. A file that is no UTF-8 is refused.
  - A file that has somebody's lines is copied beside itself before it is changed, as C(nccl.conf.PID.TIME~).
  - Where one file cannot be written the other is put back.
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
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
    description: The RDMA ports that NCCL may use.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The netdev or the RDMA device.
        type: str
        required: true
      rail:
        description: Number of the rail; not used here.
        type: int
      address:
        description: Its address. Without one the port's first IPv4 address counts.
        type: str
  policy:
    description: The policy, as in C(roce_policy).
    type: dict
    default: {}
  interface:
    description: The netdev for NCCL's bootstrap, and for its sockets. It must reach all nodes.
    type: str
    default: ""
  nccl_version:
    description: Version of NCCL, such as V(2.28.9). Without it one that finds GIDs by itself (2.21) is assumed.
    type: str
    default: ""
  environment:
    description:
      - More variables, such as C(NCCL_PROTO), C(NCCL_MAX_NCHANNELS) or C(NCCL_NET_GDR_LEVEL).
      - What is out of range, or contradicts the policy, is refused, and with O(env_file) what a shell would not take as
        it stands, such as a semicolon.
    type: dict
    default: {}
  conf:
    description: Absolute path of C(nccl.conf). Empty leaves it alone.
    type: str
    default: /etc/nccl.conf
  env_file:
    description: Absolute path of the file of variables, which is written as a whole. Empty leaves it alone.
    type: str
    default: /etc/lossless-roce/nccl.env
"""

EXAMPLES = r"""
- name: Jobs find the right ports, GIDs and traffic class
  lossless.roce.nccl_env:
    ports: "{{ roce_ports }}"
    policy: "{{ roce_policy }}"
    interface: ens1np0
    environment: {NCCL_IB_QPS_PER_CONNECTION: 4}
"""

RETURN = r"""
variables:
  description: All variables by name.
  returned: success
  type: dict
  sample: {NCCL_IB_HCA: "=mlx5_0:1,mlx5_1:1", NCCL_IB_TC: "106", NCCL_SOCKET_IFNAME: "=ens1np0"}
commands:
  description: What was copied (C(backup)) and written, or would be in check mode.
  returned: success
  type: list
  elements: list
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.nccl.node import Wanted, converge

PORT_SPEC = {
    "name": {"type": "str", "required": True},
    "rail": {"type": "int"},
    "address": {"type": "str"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
            "policy": {"type": "dict", "default": {}},
            "interface": {"type": "str", "default": ""},
            "nccl_version": {"type": "str", "default": ""},
            "environment": {"type": "dict", "default": {}},
            "conf": {"type": "str", "default": "/etc/nccl.conf"},
            "env_file": {"type": "str", "default": "/etc/lossless-roce/nccl.env"},
        },
        supports_check_mode=True,
    )
    params = module.params
    wanted = Wanted(
        ports=params["ports"],
        policy=params["policy"],
        interface=params["interface"],
        version=params["nccl_version"],
        tuning=params["environment"],
        conf=params["conf"],
        env_file=params["env_file"],
    )
    try:
        result = converge(Host(), wanted, module.check_mode)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
