#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_smoke
short_description: Run one host's part of a test of collectives, and prove the path that NCCL takes
version_added: 0.1.0
description:
  - Starts torchrun on the host, in a container or not, for a sweep of collectives with checked results.
  - All hosts have to run it at the same time. Where hosts outnumber forks start it asynchronously.
  - Hosts meet before anything is started, and tell each other how they are. One that does not come, fails or falls
    silent is named on every host within seconds.
  - All operations and sizes that were asked for have to be in the output, each with the right result.
  - NCCL's log of every rank is read. Each channel to another host must be on C(NET/IB), on the declared ports, and with
    GPUDirect, both ways.
  - Every run is bounded by O(time_limit). No process and no container outlives it.
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
    description: Name of this host, one of O(hosts).
    type: str
    required: true
  hosts:
    description: All hosts in the order of their ranks, the same on each of them.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the host.
        type: str
        required: true
      address:
        description: Its address on the interface of the rendezvous. Empty is a finding.
        type: str
        required: true
  absent:
    description: Hosts that should take part and do not. What is right is V(unknown) then, since it is not of them.
    type: list
    elements: str
    default: []
  run:
    description: Any text that tells this run from others, the same on all hosts.
    type: str
    required: true
  interface:
    description: The netdev of the rendezvous and of NCCL's bootstrap.
    type: str
    required: true
  port:
    description: TCP port of the rendezvous on the first host.
    type: int
    default: 29500
  ports:
    description: The RDMA ports that NCCL may use. Without any, none is asked for, and TCP 18514 and up are still used.
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
        description: Its address.
        type: str
  policy:
    description: The policy, as in C(roce_policy).
    type: dict
    default: {}
  tool:
    description:
      - V(torch) runs the worker of role C(nccl_smoke) by torchrun, V(nccl_tests) runs O(nccl_tests) by mpirun.
      - mpirun hands the first host's variables to all ranks. Hosts whose ports or interfaces have other names are
        refused.
    type: str
    choices: [torch, nccl_tests]
    default: torch
  backend:
    description: V(gloo) needs no GPU and proves launch, rendezvous and sums only.
    type: str
    choices: [nccl, gloo]
    default: nccl
  ranks:
    description: Ranks on each host, or V(gpu) for one a GPU.
    type: str
    default: gpu
  operations:
    description: The collectives.
    type: list
    elements: str
    choices: [all_reduce, all_gather, reduce_scatter, all_to_all]
    default: [all_reduce]
  begin:
    description: Smallest size in bytes.
    type: int
    default: 1024
  end:
    description: Largest size in bytes.
    type: int
    default: 1073741824
  factor:
    description: Each size is the former one times this.
    type: int
    default: 4
  warmup:
    description: Runs of each size before it is measured.
    type: int
    default: 5
  iterations:
    description: Runs of each size. A size that takes more than two seconds gets fewer.
    type: int
    default: 20
  accept_socket:
    description: Whether NCCL may go over TCP sockets. It fails otherwise.
    type: bool
    default: false
  force_ib:
    description: Set C(NCCL_NET=IB), so that NCCL fails where it would fall back to sockets.
    type: bool
    default: true
  gdr:
    description: Whether GPUDirect RDMA is asked for on every channel.
    type: bool
    default: true
  compare:
    description: Run one size again with C(NCCL_IB_DISABLE=1), and tell the ratio.
    type: bool
    default: true
  training_steps:
    description: Steps of the training example that runs afterwards. 0 leaves it out.
    type: int
    default: 0
  training_arguments:
    description: More arguments for the training example.
    type: list
    elements: str
    default: []
  environment:
    description: More variables for the ranks. What is out of range or contradicts the policy is refused.
    type: dict
    default: {}
  nccl_version:
    description: Version of NCCL, where O(tool=nccl_tests) uses one before 2.21. PyTorch tells its own.
    type: str
    default: ""
  prefix:
    description:
      - What stands in front of the command, such as C(docker run --rm --name X IMAGE) as a list of words.
      - With O(tool=nccl_tests) no C(run) of an engine, but a container with sshd that runs on each host.
    type: list
    elements: str
    default: []
  cleanup:
    description: Commands after each run, each a list of words, such as C(docker rm -f X).
    type: list
    elements: list
    default: []
  python:
    description: The Python that has PyTorch, where the ranks run.
    type: str
    default: python3
  folder:
    description: Where the worker is, as the ranks see it.
    type: str
    default: /var/lib/lossless-roce/nccl
  nccl_tests:
    description: The program of nccl-tests, where the ranks run.
    type: str
    default: all_reduce_perf
  mpirun_arguments:
    description: More arguments of mpirun for O(tool=nccl_tests), such as C(--mca plm_rsh_args "-p 2222").
    type: list
    elements: str
    default: []
  min_busbw:
    description:
      - Least bus bandwidth of each operation at the largest size, in GB/s.
      - Without it bandwidth is measured and not judged. 0, which everything meets, is refused.
    type: float
  gpu_target:
    description: Percent of GPU utilisation that is aimed for. The training example is judged by it.
    type: float
    default: 80
  barrier_limit:
    description: Seconds to wait at the start for the other hosts.
    type: float
    default: 120
  start_limit:
    description: Seconds that torchrun waits for its other ends.
    type: float
    default: 120
  time_limit:
    description: Seconds after which a run is ended.
    type: float
    default: 600
  log_folder:
    description: Where on the host everything that was printed is kept. Empty keeps nothing.
    type: str
    default: /var/log/lossless-roce
  when_busy:
    description: What to do when other programs are on the ports or on the GPUs.
    type: str
    choices: [refuse, force]
    default: refuse
"""

EXAMPLES = r"""
- name: All-reduce over all hosts of the play
  lossless.roce.nccl_smoke:
    name: "{{ inventory_hostname }}"
    hosts:
      - {name: node1, address: 198.51.100.1}
      - {name: node2, address: 198.51.100.2}
    run: "4711"
    interface: ens1np0
    ports: "{{ roce_ports }}"
    policy: "{{ roce_policy }}"
  async: 1200
  poll: 5
"""

RETURN = r"""
findings:
  description:
    - Verdicts on C(nccl_rendezvous), C(nccl_smoke) (sums), C(nccl_path), C(nccl_hca), C(nccl_gdr), C(nccl_error),
      C(nccl_ratio), C(nccl_busbw), C(nccl_gpu), C(nccl_ports), C(nccl_training), and on what ranks lack.
  returned: success
  type: list
  elements: dict
runs:
  description:
    - Each run with its command, seconds, rows, facts of the ranks, path, samples of GPUs and ports, the end of its
      output, and the place of its log.
  returned: success
  type: list
  elements: dict
nccl_version:
  description: Version of NCCL as it printed it, or a rank. Empty where none was seen, and in check mode.
  returned: success
  type: str
  sample: 2.28.9
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.nccl.company import Member
from ansible_collections.lossless.roce.plugins.module_utils.nccl.job import Job
from ansible_collections.lossless.roce.plugins.module_utils.nccl.results import OPERATIONS
from ansible_collections.lossless.roce.plugins.module_utils.nccl.smoke import run_smoke

HOST_SPEC = {"name": {"type": "str", "required": True}, "address": {"type": "str", "required": True}}
PORT_SPEC = {
    "name": {"type": "str", "required": True},
    "rail": {"type": "int"},
    "address": {"type": "str"},
}
JOB_SPEC = {
    "name": {"type": "str", "required": True},
    "run": {"type": "str", "required": True},
    "interface": {"type": "str", "required": True},
    "port": {"type": "int", "default": 29500},
    "policy": {"type": "dict", "default": {}},
    "tool": {"type": "str", "choices": ["torch", "nccl_tests"], "default": "torch"},
    "backend": {"type": "str", "choices": ["nccl", "gloo"], "default": "nccl"},
    "ranks": {"type": "str", "default": "gpu"},
    "begin": {"type": "int", "default": 1024},
    "end": {"type": "int", "default": 1073741824},
    "factor": {"type": "int", "default": 4},
    "warmup": {"type": "int", "default": 5},
    "iterations": {"type": "int", "default": 20},
    "accept_socket": {"type": "bool", "default": False},
    "force_ib": {"type": "bool", "default": True},
    "gdr": {"type": "bool", "default": True},
    "compare": {"type": "bool", "default": True},
    "training_steps": {"type": "int", "default": 0},
    "environment": {"type": "dict", "default": {}},
    "python": {"type": "str", "default": "python3"},
    "folder": {"type": "str", "default": "/var/lib/lossless-roce/nccl"},
    "nccl_tests": {"type": "str", "default": "all_reduce_perf"},
    "min_busbw": {"type": "float"},
    "gpu_target": {"type": "float", "default": 80},
    "barrier_limit": {"type": "float", "default": 120},
    "start_limit": {"type": "float", "default": 120},
    "time_limit": {"type": "float", "default": 600},
    "log_folder": {"type": "str", "default": "/var/log/lossless-roce"},
}


def job(params: dict[str, t.Any]) -> Job:
    """The job that the options ask for."""
    return Job(
        **{key: params[key] for key in JOB_SPEC},
        members=tuple(Member(host["name"], host["address"]) for host in params["hosts"]),
        absent=tuple(params["absent"]),
        ports=tuple(params["ports"]),
        operations=tuple(params["operations"]),
        training_arguments=tuple(params["training_arguments"]),
        mpirun_arguments=tuple(params["mpirun_arguments"]),
        version=params["nccl_version"],
        prefix=tuple(params["prefix"]),
        cleanup=tuple(tuple(map(str, argv)) for argv in params["cleanup"]),
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **JOB_SPEC,
            "hosts": {"type": "list", "elements": "dict", "required": True, "options": HOST_SPEC},
            "absent": {"type": "list", "elements": "str", "default": []},
            "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT_SPEC},
            "operations": {
                "type": "list",
                "elements": "str",
                "choices": list(OPERATIONS),
                "default": ["all_reduce"],
            },
            "training_arguments": {"type": "list", "elements": "str", "default": []},
            "mpirun_arguments": {"type": "list", "elements": "str", "default": []},
            "nccl_version": {"type": "str", "default": ""},
            "prefix": {"type": "list", "elements": "str", "default": []},
            "cleanup": {"type": "list", "elements": "list", "default": []},
            "when_busy": {"type": "str", "choices": ["refuse", "force"], "default": "refuse"},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        part = run_smoke(Host(), job(params), refuse_busy=params["when_busy"] == "refuse", dry_run=module.check_mode)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, **part)


if __name__ == "__main__":
    main()
