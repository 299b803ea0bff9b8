#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: path_mtu
short_description: Prove the path MTU to peers
version_added: 0.1.0
description:
  - Sends packets of the declared MTU that must not be fragmented to every peer, over the port of each rail.
  - Compares the MTU of both ends first. Where full-size packets do not pass, finds the largest that do.
  - Tries up to 32 peers at the same time.
  - Compares the active RDMA MTU of both ends, as C(ibv_devinfo) tells it.
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
  name:
    description: Name of this host in the findings.
    type: str
    required: true
  mtu:
    description: The declared MTU in bytes.
    type: int
    required: true
  rdma_mtu:
    description: The declared RDMA MTU in bytes, which both ends must at least run. Without it they must only agree.
    type: int
  peers:
    description: The other ends, from the filter P(lossless.roce.peers#filter).
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the peer.
        type: str
        required: true
      address:
        description: IPv4 address of the peer on this rail.
        type: str
        required: true
      netdev:
        description: This host's port on this rail.
        type: str
        required: true
      rail:
        description: Number of the rail.
        type: int
        required: true
      mtu:
        description: The MTU that the peer's port runs, if known.
        type: int
      rdma_mtu:
        description: The RDMA MTU that is active on the peer's port. Where it is not known, C(rdma_mtu) stays unknown.
        type: int
      declared_mtu:
        description: The MTU that is declared for this host's port, where it has a policy of its own. By default O(mtu).
        type: int
      declared_rdma_mtu:
        description: The same for the RDMA MTU. By default O(rdma_mtu).
        type: int
"""

EXAMPLES = r"""
- name: Full-size packets to one peer
  lossless.roce.path_mtu:
    name: node1
    mtu: 9000
    rdma_mtu: 4096
    peers:
      - {name: node2, address: 198.51.100.2, netdev: ens1np0, rail: 0, mtu: 9000, rdma_mtu: 4096}
"""

RETURN = r"""
findings:
  description: Two findings on each path, C(path_mtu) and C(rdma_mtu).
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.path_mtu import Peer, check_peers
from ansible_collections.lossless.roce.plugins.module_utils.host import Host

PEER_SPEC = {
    "name": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "netdev": {"type": "str", "required": True},
    "rail": {"type": "int", "required": True},
    "mtu": {"type": "int"},
    "rdma_mtu": {"type": "int"},
    "declared_mtu": {"type": "int"},
    "declared_rdma_mtu": {"type": "int"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "mtu": {"type": "int", "required": True},
            "rdma_mtu": {"type": "int"},
            "peers": {"type": "list", "elements": "dict", "required": True, "options": PEER_SPEC},
        },
        supports_check_mode=True,
    )
    params = module.params
    peers = [Peer(**peer) for peer in params["peers"]]
    try:
        found = check_peers(Host(), params["name"], peers, params["mtu"], params["rdma_mtu"])
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, findings=[finding.as_dict() for finding in found])


if __name__ == "__main__":
    main()
