#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_bandwidth
short_description: Run one host's part of a matrix of bandwidth or latency tests
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
  - lossless.roce.fabric
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
      - A test is reckoned at three seconds and O(duration), or without it what O(iterations) take at the rate of the
        slowest link. Where that is not known it is reckoned at O(time_limit). O(rdma_cm) adds ten seconds.
      - 0 means no budget.
    type: float
    default: 0
  link_gbps:
    description:
      - Link rate in Gb/s of ports that have none of their own in O(hosts). Without any, bandwidth is measured and not
        judged.
    type: float
  efficiency:
    description: Share of the link rate that must be reached, 0.01 to 1.
    type: float
    default: 0.9
  tool:
    description: The program of perftest that runs.
    type: str
    choices: [ib_write_bw, ib_read_bw, ib_send_bw, ib_write_lat, ib_read_lat, ib_send_lat]
    default: ib_write_bw
  max_latency_usec:
    description:
      - For C(ib_*_lat), the microseconds that the median of the smallest message size may take (with O(duration) the
        average, since perftest then tells no median). Without it latency is measured and not judged.
      - A write and a send are half of the way there and back, a read is the whole of it.
    type: float
  size:
    description: Message size in bytes. By default 65536, and 2 for C(ib_*_lat).
    type: int
  qps:
    description: Number of queue pairs. C(ib_*_lat) uses one, one message at a time, in one direction.
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
  rdma_cm:
    description:
      - Before each test try a short C(ib_write_bw -R), a connection by rdma_cm, for at most ten seconds. It uses the
        TOS that the node sets for rdma_cm (M(lossless.roce.cma_roce)), not O(tclass).
      - What comes out is the finding C(rdma_cm). The test itself runs in any case.
    type: bool
    default: false
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
  description:
    - Each test with its role, peer, command, Gb/s as measured, all rows, kind of failure and what was printed.
      Rows of a latency test are in microseconds.
  returned: success
  type: list
  elements: dict
findings:
  description:
    - A finding on each test that this host judges, named like the program. The client judges a pair.
      With O(rdma_cm) also one named C(rdma_cm) on each.
  returned: success
  type: list
  elements: dict
timing:
  description:
    - The steps that this host had a part in, as C(step) and C(round) (both from 0) and C(seconds) that the step took,
      waiting for the partner included.
  returned: success, empty in check mode
  type: list
  elements: dict
  sample: [{step: 0, round: 0, seconds: 4.213}, {step: 1, round: 0, seconds: 4.197}]
matrix:
  description:
    - C(rounds), C(steps), C(measurements) of all hosts, C(limit_s), the seconds it takes at most, C(took_s), those it
      took, and C(test_s), those of one test at the link's rate without any start-up (none where nothing tells).
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.part import run_from
from ansible_collections.lossless.roce.plugins.module_utils.fabric.spec import JUDGE_SPEC, MATRIX_SPEC, RUN_SPEC
from ansible_collections.lossless.roce.plugins.module_utils.host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "run": {"type": "str", "default": ""},
            **JUDGE_SPEC,
            **MATRIX_SPEC,
            **RUN_SPEC,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        part = run_from(Host(), params, name=params["name"], run=params["run"], dry_run=module.check_mode)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **part)


if __name__ == "__main__":
    main()
