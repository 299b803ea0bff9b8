#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: host_checks
short_description: Look at what a node's kernel and firmware do to RDMA
version_added: 0.1.0
description:
  - Looks at IOMMU, ACS, the host's packet filter, NUMA balancing, huge pages, the neighbour table and ARP.
  - Changes nothing, and is safe beside a running job.
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
    description: Names of the RDMA ports, netdev or RDMA device. Those that are not there are left out.
    type: list
    elements: str
    default: []
  tcp_ports:
    description: TCP ports that other nodes must reach on the rails, such as V(22) or V(18515-18530).
    type: list
    elements: str
    default: []
  acs_bridges:
    description: PCI addresses of the bridges to look at. The default is every bridge above the ports and the GPUs.
    type: list
    elements: str
    default: []
  numa_balancing:
    description: V(off) when automatic NUMA balancing must be off.
    type: str
    choices: ["off", as_found]
    default: as_found
  hugepages:
    description: How many huge pages of the default size there must be.
    type: int
  nodes:
    description: How many nodes the fabric has. The neighbour table must hold all of them on every rail.
    type: int
    default: 1
  neighbour_thresholds:
    description: The three thresholds of the neighbour table that were asked for.
    type: list
    elements: int
    default: []
seealso:
  - module: lossless.roce.pci_acs
"""

EXAMPLES = r"""
- name: Look at the node
  lossless.roce.host_checks:
    ports: [ens1np0, ens2np0]
    tcp_ports: ["22", "18515-18530"]
  register: host
"""

RETURN = r"""
findings:
  description: The verdicts.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.host_checks import check_host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "str", "default": []},
            "tcp_ports": {"type": "list", "elements": "str", "default": []},
            "acs_bridges": {"type": "list", "elements": "str", "default": []},
            "numa_balancing": {"type": "str", "choices": ["off", "as_found"], "default": "as_found"},
            "hugepages": {"type": "int"},
            "nodes": {"type": "int", "default": 1},
            "neighbour_thresholds": {"type": "list", "elements": "int", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        found = check_host(Host(), module.params)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, findings=[finding.as_dict() for finding in found])


if __name__ == "__main__":
    main()
