#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: mlx5_driver
short_description: Kernel modules, options and devlink parameters of the mlx5 driver
version_added: 0.1.0
description:
  - Loads the modules of the RDMA stack now and at boot, and keeps their options on disk.
  - Tells which stack is loaded (the kernel's own, OFED or DOCA), and whether it is the one on disk.
  - Tells how GPU memory is reached (dma-buf or C(nvidia_peermem)), and why;
    loads C(nvidia_peermem) where that is the way.
  - Sets devlink parameters of the cards and the mode of RDMA devices in network namespaces.
  - Nothing that takes ports away happens unless it is asked for by O(reload) or O(restart).
    Even then never on the card that carries the management connection, never under a running job,
    and at most once in a boot for the same reason.
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
  modules:
    description:
      - Modules to load now and at boot. The list is kept in C(/etc/modules-load.d/lossless-roce.conf).
      - A module that the kernel does not have is a failure that names it. The others are loaded.
    type: list
    elements: str
    default: [mlx5_core, mlx5_ib, ib_uverbs, rdma_cm, rdma_ucm]
  options:
    description:
      - Parameters by module, kept in C(/etc/modprobe.d/lossless-roce.conf), which this module owns.
      - A parameter that a module does not have is refused.
      - A module that is loaded already goes on with its former value; the verdict is then V(pending).
    type: dict
    default: {}
  netns:
    description:
      - Whether RDMA devices are shared by all network namespaces or belong to one each.
      - Set at run time, and kept by the option C(netns_mode) of C(ib_core).
      - The kernel refuses a change while there are other network namespaces; the next boot then brings it.
    type: str
    choices: [shared, exclusive]
  gpu_direct:
    description:
      - V(auto) takes dma-buf where kernel, libibverbs and the open NVIDIA module offer it, else C(nvidia_peermem).
      - V(peermem) and V(dmabuf) ask for one way. V(none) neither loads nor judges anything.
    type: str
    choices: [auto, peermem, dmabuf, none]
    default: auto
  devices:
    description:
      - Devices for O(devlink), as PCI addresses, netdevs or RDMA devices.
      - Without it, the first function of each card with driver C(mlx5_core).
    type: list
    elements: str
    default: []
  devlink:
    description:
      - Values by devlink parameter, for all of the devices.
      - A runtime parameter is changed at once. One of mode C(driverinit) waits for a reload, and is lost at a reboot.
    type: dict
    default: {}
  reload:
    description:
      - Whether to reload a device whose parameters wait for it.
      - A reload makes netdev and RDMA device anew, and all QoS of the port must be applied again.
    type: bool
    default: false
  restart:
    description:
      - Whether to restart the driver when the modules on disk are not those that are loaded,
        or an option of C(mlx5_core) or C(mlx5_ib) waits for it.
      - C(openibd) is restarted where OFED or DOCA brought it, else the two modules are unloaded and loaded.
    type: bool
    default: false
seealso:
  - module: lossless.roce.mlx5_firmware
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: Modules loaded and persisted, everything else only told
  lossless.roce.mlx5_driver:

- name: RDMA devices belong to one network namespace each
  lossless.roce.mlx5_driver:
    netns: exclusive

- name: More completion event queue entries, with a reload where no job runs
  lossless.roce.mlx5_driver:
    devlink:
      io_eq_size: 4096
    reload: true
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
    - Waiting for ports to come back reads V(wait), ports.
  returned: always
  type: list
  elements: list
  sample: [["modprobe", "mlx5_ib"]]
gpu_direct:
  description: The way to GPU memory, V(dmabuf), V(peermem) or V(none); empty when it could not be decided.
  returned: always
  type: str
reapply:
  description: Whether ports were restarted, so that all QoS must be applied again (role roce_policy).
  returned: always
  type: bool
findings:
  description: Verdicts on the card, modules, options, the stack, namespaces, devlink and the way to GPU memory.
  returned: always
  type: list
  elements: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.checks.driver import MLX5_MODULES, RDMA_MODULES
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.devlink import checked_values
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.driver import Request, converge
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.modules import checked_names, checked_options

ARGUMENTS: dict[str, t.Any] = {
    "modules": {"type": "list", "elements": "str", "default": [*MLX5_MODULES, *RDMA_MODULES]},
    "options": {"type": "dict", "default": {}},
    "netns": {"type": "str", "choices": ["shared", "exclusive"]},
    "gpu_direct": {"type": "str", "choices": ["auto", "peermem", "dmabuf", "none"], "default": "auto"},
    "devices": {"type": "list", "elements": "str", "default": []},
    "devlink": {"type": "dict", "default": {}},
    "reload": {"type": "bool", "default": False},
    "restart": {"type": "bool", "default": False},
}


def request_from(params: dict[str, t.Any], dry_run: bool) -> Request:
    """The checked request of the module's parameters. Raises PolicyError."""
    return Request(
        modules=checked_names(params["modules"]),
        options=checked_options(params["options"]),
        netns=params["netns"],
        gpu_direct=params["gpu_direct"],
        devices=tuple(params["devices"]),
        devlink=checked_values(params["devlink"]),
        reload=params["reload"],
        restart=params["restart"],
        dry_run=dry_run,
    )


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        result = converge(Host(), request_from(module.params, module.check_mode))
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    for note in result.notes():
        module.warn(note)
    if result.message():
        module.fail_json(msg=result.message(), **result.as_dict())
    module.exit_json(**result.as_dict())


if __name__ == "__main__":
    main()
