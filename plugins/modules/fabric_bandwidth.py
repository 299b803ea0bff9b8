#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_bandwidth
short_description: Run one host's part of ib_write_bw tests between pairs
version_added: 0.1.0
description:
  - Runs this host's list of tests in order, as server or as client. Both ends run at the same time,
    so the task needs all hosts of the list in one batch, with at least as many forks.
  - Every run is bounded by O(time_limit), and no process outlives it.
  - The GID index is looked up on each run, by the port's own address.
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
attributes:
  check_mode:
    support: full
    details: Nothing runs in check mode. The commands are returned.
  diff_mode:
    support: N/A
  idempotent:
    support: N/A
  action_group:
    support: full
options:
  name:
    description: Name of this host in the findings.
    type: str
    required: true
  tests:
    description: What to run, in order. The filter P(lossless.roce.pairs#filter) makes matching lists for all hosts.
    type: list
    elements: dict
    required: true
    suboptions:
      role:
        description: Which end this host is.
        type: str
        choices: [server, client]
        required: true
      peer:
        description: Name of the other host.
        type: str
        required: true
      peer_address:
        description: IPv4 address of the other host for perftest's TCP exchange.
        type: str
        required: true
      netdev:
        description: This host's port.
        type: str
        required: true
      address:
        description: IPv4 address of that port.
        type: str
        required: true
      rail:
        description: Number of the rail.
        type: int
        required: true
      tcp_port:
        description: TCP port of the exchange, the same on both ends.
        type: int
        required: true
  link_gbps:
    description: Link rate in Gb/s. Without it bandwidth is measured and not judged.
    type: float
  efficiency:
    description: Share of the link rate that must be reached.
    type: float
    default: 0.9
  size:
    description: Message size in bytes.
    type: int
    default: 65536
  qps:
    description: Number of queue pairs.
    type: int
    default: 1
  iterations:
    description: Number of messages, unless O(duration) is given.
    type: int
    default: 5000
  duration:
    description: Seconds to measure, in place of O(iterations). 0 means by iterations.
    type: int
    default: 0
  all_sizes:
    description: All sizes from 2 bytes to 8 MiB (C(-a)).
    type: bool
    default: false
  bidirectional:
    description: Both directions at once (C(-b)). The figure is then a sum, and judged as such.
    type: bool
    default: false
  use_cm:
    description: Connect through rdma_cm (C(-R)).
    type: bool
    default: false
  tclass:
    description: Traffic class of the test's packets, so that they ride the class of RDMA data.
    type: int
  tx_depth:
    description: Depth of the send queue (C(-t)).
    type: int
  qp_timeout:
    description: Timeout exponent of the queue pairs (C(-u)).
    type: int
  rdma_mtu:
    description: RDMA MTU to ask for (C(-m)).
    type: int
  time_limit:
    description: Seconds after which a run is ended.
    type: float
    default: 60
  when_busy:
    description: What to do when RDMA queue pairs of other programs are on the ports.
    type: str
    choices: [refuse, force]
    default: refuse
"""

EXAMPLES = r"""
- name: Serve one client
  lossless.roce.fabric_bandwidth:
    name: node1
    link_gbps: 200
    tests:
      - role: server
        peer: node2
        peer_address: 198.51.100.2
        netdev: ens1np0
        address: 198.51.100.1
        rail: 0
        tcp_port: 18515
"""

RETURN = r"""
results:
  description: Each test with its role, peer, command, Gb/s as measured, all rows, kind of failure and what was printed.
  returned: success
  type: list
  elements: dict
findings:
  description: A finding on each test that this host judges, C(ib_write_bw). The client judges a pair.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import Options, PairTest, run_tests
from ansible_collections.lossless.roce.plugins.module_utils.host import Host

TEST_SPEC = {
    "role": {"type": "str", "choices": ["server", "client"], "required": True},
    "peer": {"type": "str", "required": True},
    "peer_address": {"type": "str", "required": True},
    "netdev": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "rail": {"type": "int", "required": True},
    "tcp_port": {"type": "int", "required": True},
}
RUN_SPEC = {
    "size": {"type": "int", "default": 65536},
    "qps": {"type": "int", "default": 1},
    "iterations": {"type": "int", "default": 5000},
    "duration": {"type": "int", "default": 0},
    "all_sizes": {"type": "bool", "default": False},
    "bidirectional": {"type": "bool", "default": False},
    "use_cm": {"type": "bool", "default": False},
    "tclass": {"type": "int"},
    "tx_depth": {"type": "int"},
    "qp_timeout": {"type": "int"},
    "rdma_mtu": {"type": "int"},
    "time_limit": {"type": "float", "default": 60},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "tests": {"type": "list", "elements": "dict", "required": True, "options": TEST_SPEC},
            "link_gbps": {"type": "float"},
            "efficiency": {"type": "float", "default": 0.9},
            "when_busy": {"type": "str", "choices": ["refuse", "force"], "default": "refuse"},
            **RUN_SPEC,
        },
        supports_check_mode=True,
    )
    params = module.params
    tests = [PairTest(**test) for test in params["tests"]]
    options = Options(**{key: params[key] for key in RUN_SPEC})
    try:
        outcomes = run_tests(
            Host(), tests, options, dry_run=module.check_mode, refuse_busy=params["when_busy"] == "refuse"
        )
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    judged = (outcome.finding(params["name"], params["link_gbps"], params["efficiency"]) for outcome in outcomes)
    module.exit_json(
        changed=False,
        results=[outcome.as_dict() for outcome in outcomes],
        findings=[] if module.check_mode else [finding.as_dict() for finding in judged if finding is not None],
    )


if __name__ == "__main__":
    main()
