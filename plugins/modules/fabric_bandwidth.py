#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_bandwidth
short_description: Run one host's part of a matrix of bandwidth tests
version_added: 0.1.0
description:
  - Every host gets the same list of hosts and works out its own part - with whom, on which rail, as server or client.
  - Hosts meet at the start, and keep step from then on. A partner that is dead, hung or late costs its own pairs only.
  - Every run is bounded by O(time_limit), and no process outlives it.
  - The GID index is looked up on each run, by the port's own address.
  - All hosts have to run it at the same time. Start it asynchronously, so that the number of forks does not matter.
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
  hosts:
    description: All hosts that test with each other, in the same order on each of them.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the host.
        type: str
        required: true
      ports:
        description: Its ports, at most one on a rail.
        type: list
        elements: dict
        required: true
        suboptions:
          name:
            description: The netdev.
            type: str
            required: true
          rail:
            description: Number of the rail. Ports of one rail test with each other.
            type: int
            required: true
          address:
            description: The port's IPv4 address.
            type: str
            required: true
  run:
    description:
      - Any text that tells this run from others, the same on all hosts. Hosts of another run are not waited for.
    type: str
    default: ""
  scope:
    description:
      - V(all) tests every pair, V(ring) each host with the next, V(reference) the host O(reference) with each other,
        V(sample) as many rounds of all pairs as O(samples) says, drawn by O(seed), and V(pairs) only O(pairs).
    type: str
    choices: [all, sample, ring, reference, pairs]
    default: all
  samples:
    description: Number of rounds of a sample.
    type: int
    default: 1
  seed:
    description: Number that the sample is drawn by.
    type: int
    default: 0
  reference:
    description: Name of the host that tests with each other one.
    type: str
    default: ""
  rails:
    description: Whether the rails of a pair are tested one after the other or all at once.
    type: str
    choices: [one_by_one, at_once]
    default: one_by_one
  left_out:
    description: Pairs that are not tested on a rail, since their path is known to be broken.
    type: list
    elements: dict
    default: []
    suboptions:
      hosts:
        description: Names of the two hosts.
        type: list
        elements: str
        required: true
      rail:
        description: Number of the rail.
        type: int
        required: true
  pairs:
    description: The pairs that are tested on a rail with O(scope=pairs).
    type: list
    elements: dict
    default: []
    suboptions:
      hosts:
        description: Names of the two hosts.
        type: list
        elements: str
        required: true
      rail:
        description: Number of the rail.
        type: int
        required: true
  budget:
    description:
      - Seconds that the whole matrix may take. Where all rounds do not fit, as many as do are drawn.
      - A test is reckoned at O(duration) and three seconds, or without it at O(time_limit). 0 means no budget.
    type: float
    default: 0
  barrier_limit:
    description: Seconds to wait at the start for the other hosts.
    type: float
    default: 120
  link_gbps:
    description: Link rate in Gb/s. Without it bandwidth is measured and not judged.
    type: float
  efficiency:
    description: Share of the link rate that must be reached.
    type: float
    default: 0.9
  tool:
    description: The program of perftest that runs.
    type: str
    choices: [ib_write_bw, ib_read_bw, ib_send_bw]
    default: ib_write_bw
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
  cuda:
    description: Number of the GPU whose memory is used (C(--use_cuda)), where perftest was built with CUDA.
    type: int
  dmabuf:
    description: Register GPU memory by dma-buf (C(--use_cuda_dmabuf)).
    type: bool
    default: false
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
- name: Two hosts, both ways
  lossless.roce.fabric_bandwidth:
    name: "{{ inventory_hostname }}"
    link_gbps: 200
    hosts:
      - name: node1
        ports:
          - {name: ens1np0, rail: 0, address: 198.51.100.1}
      - name: node2
        ports:
          - {name: ens1np0, rail: 0, address: 198.51.100.2}
  async: 600
  poll: 5
"""

RETURN = r"""
outcomes:
  description: Each test with its role, peer, command, Gb/s as measured, all rows, kind of failure and what was printed.
  returned: success
  type: list
  elements: dict
findings:
  description: A finding on each test that this host judges, named like the program. The client judges a pair.
  returned: success
  type: list
  elements: dict
matrix:
  description: C(rounds), C(steps), C(measurements) of all hosts, and C(limit_s), the seconds it takes at most.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import TOOLS, Options
from ansible_collections.lossless.roce.plugins.module_utils.fabric.part import parse_matrix, run_part
from ansible_collections.lossless.roce.plugins.module_utils.fabric.rounds import SCOPES
from ansible_collections.lossless.roce.plugins.module_utils.host import Host

PORT_SPEC = {
    "name": {"type": "str", "required": True},
    "rail": {"type": "int", "required": True},
    "address": {"type": "str", "required": True},
}
HOST_SPEC = {
    "name": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "dict", "required": True, "options": PORT_SPEC},
}
PAIR_SPEC = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "rail": {"type": "int", "required": True},
}
MATRIX_SPEC = {
    "hosts": {"type": "list", "elements": "dict", "required": True, "options": HOST_SPEC},
    "scope": {"type": "str", "choices": list(SCOPES), "default": "all"},
    "samples": {"type": "int", "default": 1},
    "seed": {"type": "int", "default": 0},
    "reference": {"type": "str", "default": ""},
    "rails": {"type": "str", "choices": ["one_by_one", "at_once"], "default": "one_by_one"},
    "left_out": {"type": "list", "elements": "dict", "default": [], "options": PAIR_SPEC},
    "pairs": {"type": "list", "elements": "dict", "default": [], "options": PAIR_SPEC},
    "budget": {"type": "float", "default": 0},
}
RUN_SPEC = {
    "tool": {"type": "str", "choices": list(TOOLS), "default": "ib_write_bw"},
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
    "cuda": {"type": "int"},
    "dmabuf": {"type": "bool", "default": False},
    "time_limit": {"type": "float", "default": 60},
    "barrier_limit": {"type": "float", "default": 120},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "run": {"type": "str", "default": ""},
            "link_gbps": {"type": "float"},
            "efficiency": {"type": "float", "default": 0.9},
            "when_busy": {"type": "str", "choices": ["refuse", "force"], "default": "refuse"},
            **MATRIX_SPEC,
            **RUN_SPEC,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        options = Options(**{key: params[key] for key in RUN_SPEC})
        matrix = parse_matrix({key: params[key] for key in MATRIX_SPEC}, options)
        part = run_part(
            Host(),
            matrix,
            options,
            name=params["name"],
            run=params["run"],
            link_gbps=params["link_gbps"],
            efficiency=params["efficiency"],
            refuse_busy=params["when_busy"] == "refuse",
            dry_run=module.check_mode,
        )
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **part)


if __name__ == "__main__":
    main()
