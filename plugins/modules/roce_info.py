#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_info
short_description: Everything about the RDMA ports of a node
version_added: 0.1.0
description:
  - Reads all RDMA ports of a node, their settings, GIDs and counters, the driver and the GPUs. Changes nothing.
  - With O(ports), it also returns findings on the declared ports.
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
    description: The ports that the node should have, as in the variable C(roce_ports).
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
        description: The port's IPv4 address, for which there must be a RoCE v2 GID.
        type: str
  link_gbps:
    description: The declared link rate in Gb/s.
    type: float
  policies:
    description:
      - Policies of single ports, as in M(lossless.roce.roce_node). A port that one selects is held against the
        C(link_gbps) of that one, the others against O(link_gbps).
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
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Look at all ports
  lossless.roce.roce_info:
  register: info

- name: And judge the declared ones
  lossless.roce.roce_info:
    ports: "{{ roce_ports }}"
    link_gbps: 200
"""

RETURN = r"""
info:
  description:
    - C(kernel), C(boot_id), C(memlock), C(driver), C(gpus), and C(ports) with what each port is and runs.
    - A port's C(busy) says which programs have RDMA queue pairs on it, and is empty when none has.
  returned: success
  type: dict
declared:
  description:
    - The declared ports, each with C(netdev), C(ibdev), C(mtu) and C(busy) as found, and with C(rdma_mtu), the active
      one by C(ibv_devinfo), and C(leaf), the switch (C(chassis), C(port)) that lldpd heard there. Both are empty where
      nothing tells them.
  returned: success
  type: list
  elements: dict
findings:
  description: Findings on the declared ports.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.checks.links import check_ports, rates_by_netdev
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.ends import told_to_peers
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.info import declared_ports, gather
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy

PORT_SPEC = {"name": {"type": "str", "required": True}, "rail": {"type": "int"}, "address": {"type": "str"}}
GROUP_SPEC = {
    "ports": {"type": "list", "elements": "str", "required": True},
    "policy": {"type": "dict", "required": True},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
            "link_gbps": {"type": "float"},
            "policies": {"type": "list", "elements": "dict", "default": [], "options": GROUP_SPEC},
        },
        supports_check_mode=True,
    )
    host, declared = Host(), module.params["ports"]
    try:
        rates = [(group["ports"], parse_policy(group["policy"]).link_gbps) for group in module.params["policies"]]
        info = gather(host)
        own = rates_by_netdev(info, rates)
        found = check_ports(declared, info, module.params["link_gbps"], own) if declared else []
        about = told_to_peers(host, declared_ports(declared, info)) if declared else []
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, info=info, declared=about, findings=[finding.as_dict() for finding in found])


if __name__ == "__main__":
    main()
