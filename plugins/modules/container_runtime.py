#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: container_runtime
short_description: Make docker, containerd and podman ready for RDMA and GPU containers
version_added: 0.1.0
description:
  - Lifts the limit on locked memory, makes the RDMA devices known by a CDI specification, and registers the nvidia
    runtime or CDI where the toolkit is installed.
  - A configuration file keeps every key it had, with order and layout. It is validated by the engine before it is
    written, and copied beside itself first.
  - A service is restarted only when its configuration changes what it runs with, never beside running containers
    unless told so, and only reloaded where that is enough. When it does not come back, files and service are put back.
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
  engines:
    description: Engines to configure. They must be installed. Without any, only the CDI specification is written.
    type: list
    elements: str
    choices: [docker, containerd, podman]
    required: true
  nvidia:
    description:
      - V(auto) registers the runtime where C(nvidia-container-runtime) is installed, and writes a CDI specification
        of the GPUs where C(nvidia-ctk) and the driver are there.
      - V(runtime) and V(cdi) ask for one of them, and fail where the toolkit is missing.
      - V(none) leaves what there is.
    type: str
    choices: [auto, runtime, cdi, none]
    default: auto
  rdma_devices:
    description:
      - Whether to keep C(/etc/cdi/lossless-roce.json) with the RDMA devices, and to enable CDI.
      - A container then gets them by C(--device lossless.roce/rdma=all), or one by its name instead of V(all).
    type: bool
    default: true
  default_runtime:
    description: Runtime of containers that ask for none. It must be registered. Left alone unless given.
    type: str
  memlock:
    description: Limit on locked memory that containers get by default. V(keep) leaves it alone.
    type: str
    choices: [unlimited, keep]
    default: unlimited
  shm_size:
    description: Default size of C(/dev/shm), such as V(8g). Left alone unless given. containerd has no such default.
    type: str
  cgroup_driver:
    description: Who manages cgroups. V(keep) leaves it alone.
    type: str
    choices: [systemd, keep]
    default: keep
  config:
    description:
      - Another configuration file than the one that the engine's unit names, and for podman than the drop-in file of
        this module. For one engine only.
    type: path
  restart:
    description: V(never) writes the files and leaves services alone. What is outstanding is then a pending finding.
    type: str
    choices: [when_changed, never]
    default: when_changed
  when_busy:
    description:
      - What to do when a restart, or a C(systemctl daemon-reload), is needed beside running containers.
      - V(refuse) changes nothing and fails. V(force) goes on, and containers of docker end.
    type: str
    choices: [refuse, force]
    default: refuse
seealso:
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: docker and podman give RDMA devices by CDI, and unlimited locked memory
  lossless.roce.container_runtime:
    engines: [docker, podman]

- name: A Kubernetes node
  lossless.roce.container_runtime:
    engines: [containerd]
    nvidia: runtime
    default_runtime: nvidia
    cgroup_driver: systemd

- name: Write now, restart in the maintenance window
  lossless.roce.container_runtime:
    engines: [docker]
    shm_size: 8g
    restart: never
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path.
  returned: always
  type: list
  elements: list
  sample: [["write", "/etc/docker/daemon.json"], ["systemctl", "restart", "docker"]]
backup:
  description: Copies of the files as they were, by path.
  returned: always
  type: dict
  sample: {"/etc/docker/daemon.json": "/etc/docker/daemon.json.1234.2026-01-01T00:00:00~"}
failed_engines:
  description: Engines that failed, with the reason and whether they were rolled back.
  returned: always
  type: dict
findings:
  description: What the engines say they run with.
  returned: always
  type: list
  elements: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.containers.converge import (
    ENGINES,
    NVIDIA_MODES,
    converge,
    make_options,
)
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host

SPEC: dict[str, t.Any] = {
    "engines": {"type": "list", "elements": "str", "required": True, "choices": list(ENGINES)},
    "nvidia": {"type": "str", "choices": list(NVIDIA_MODES), "default": "auto"},
    "rdma_devices": {"type": "bool", "default": True},
    "default_runtime": {"type": "str"},
    "memlock": {"type": "str", "choices": ["unlimited", "keep"], "default": "unlimited"},
    "shm_size": {"type": "str"},
    "cgroup_driver": {"type": "str", "choices": ["systemd", "keep"], "default": "keep"},
    "config": {"type": "path"},
    "restart": {"type": "str", "choices": ["when_changed", "never"], "default": "when_changed"},
    "when_busy": {"type": "str", "choices": ["refuse", "force"], "default": "refuse"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    host = Host()
    try:
        options = make_options(host, module.params)
        result = converge(host, module.params["engines"], options, dry_run=module.check_mode)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    for note in result.notes():
        module.warn(note)
    if result.message():
        module.fail_json(msg=result.message(), **result.as_dict())
    module.exit_json(**result.as_dict())


if __name__ == "__main__":
    main()
