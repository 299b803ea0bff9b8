#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_incast
short_description: Run one host's part of an incast, with counters before and after
version_added: 0.1.0
description:
  - Several hosts send to one port of one receiver at the same time. Every host that takes part runs this module with
    the same options and works out its part.
  - Each host reads its port's counters before anybody sends and after its own runs have ended. Other traffic
    meanwhile is counted, too.
  - The parts of all hosts make the verdict. Role P(lossless.roce.fabric_test#role) puts them together.
  - Every run is bounded by O(time_limit), and no process outlives it.
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
    description: Name of this host.
    type: str
    required: true
  receiver:
    description: Name of the host that all others send to.
    type: str
    required: true
  senders:
    description: Names of the hosts that send.
    type: list
    elements: str
    required: true
  rail:
    description: Number of the rail.
    type: int
    required: true
  tool:
    description: The program of perftest that runs.
    type: str
    choices: [ib_write_bw, ib_send_bw]
    default: ib_write_bw
  size:
    description: Message size in bytes.
    type: int
    default: 65536
  qps:
    description: Number of queue pairs of each sender.
    type: int
    default: 1
  duration:
    description: Seconds during which all senders send.
    type: int
    default: 10
"""

EXAMPLES = r"""
- name: Two hosts send to a third
  lossless.roce.fabric_incast:
    name: "{{ inventory_hostname }}"
    receiver: node1
    senders: [node2, node3]
    rail: 0
    hosts:
      - name: node1
        ports:
          - {name: ens1np0, rail: 0, address: 198.51.100.1}
      - name: node2
        ports:
          - {name: ens1np0, rail: 0, address: 198.51.100.2}
      - name: node3
        ports:
          - {name: ens1np0, rail: 0, address: 198.51.100.3}
  async: 300
  poll: 5
"""

RETURN = r"""
part:
  description:
    - What this host saw - C(host), C(role), C(rail), C(netdev), C(deltas) of its counters, C(simulated), the names of
      those that the lab's simulated card made up, and C(runs).
    - Null in check mode, and on a host that has no part.
  returned: success
  type: dict
outcomes:
  description: Each run of this host with its role, peer, command, Gb/s, kind of failure and what was printed.
  returned: success
  type: list
  elements: dict
limit_s:
  description: Seconds that it takes at most.
  returned: success
  type: float
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import Options
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast import Incast, run_incast
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import parse_hosts
from ansible_collections.lossless.roce.plugins.module_utils.fabric.spec import JUDGE_SPEC, MATRIX_SPEC, RUN_SPEC
from ansible_collections.lossless.roce.plugins.module_utils.host import Host

# Reading pulls, so that the receiver would be the one that is asked; counted messages would not end together.
INCAST_SPEC = {
    "tool": {"type": "str", "choices": ["ib_write_bw", "ib_send_bw"], "default": "ib_write_bw"},
    "size": {"type": "int", "default": 65536},
    "duration": {"type": "int", "default": 10},
    **{
        key: RUN_SPEC[key]
        for key in ("qps", "use_cm", "tclass", "tx_depth", "qp_timeout", "time_limit", "barrier_limit")
    },
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "hosts": MATRIX_SPEC["hosts"],
            "receiver": {"type": "str", "required": True},
            "senders": {"type": "list", "elements": "str", "required": True},
            "rail": {"type": "int", "required": True},
            "run": {"type": "str", "default": ""},
            "when_busy": JUDGE_SPEC["when_busy"],
            **INCAST_SPEC,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        incast = Incast(parse_hosts(params["hosts"]), params["receiver"], tuple(params["senders"]), params["rail"])
        result = run_incast(
            Host(),
            incast,
            Options(**{key: params[key] for key in INCAST_SPEC}),
            name=params["name"],
            run=params["run"],
            refuse_busy=params["when_busy"] == "refuse",
            dry_run=module.check_mode,
        )
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
