#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: mlx5_firmware
short_description: Set firmware parameters of mlx5 cards and check their firmware version
version_added: 0.1.0
description:
  - Sets NV parameters for the next boot by C(mstconfig), or by C(mlxconfig) where that is what is installed.
  - Everything is queried first. A value that the next boot brings anyway is not written,
    and a name that a device does not have is refused before anything is written.
  - A value takes effect with a reset of the firmware or a reboot. Until then its verdict is V(pending).
  - A device that the tool does not support, or that does not answer, is skipped and named. The others go on.
  - No firmware image is burnt.
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
  devices:
    description:
      - Devices as PCI addresses, netdevs or RDMA devices.
      - Without it, of each card with driver C(mlx5_core) the first function that is no virtual one.
        The functions of a card share one configuration, so name one of them only.
    type: list
    elements: str
    default: []
  parameters:
    description:
      - Values by parameter, for all of the devices. Names are taken as C(mstconfig query) prints them,
        such as C(ROCE_CC_PRIO_MASK_P1), and the elements of an array one by one, such as C(NAME[0]).
      - A value is a number, a boolean, or either part of what the tool prints, such as V(ETH) or V(2) of C(ETH(2\)).
    type: dict
    default: {}
  minimum_version:
    description:
      - The oldest firmware that passes, such as V(28.39.1002), for all cards, or a mapping of PSID to version.
      - Compared number by number. An older one is a failed finding; the module goes on.
      - Put it in quotes where it has one dot, since YAML takes 28.40 for the number 28.4. A number is refused.
    type: raw
  reset:
    description:
      - V(if_pending) resets the firmware (C(mstfwreset)) of a card on which one of O(parameters) waits for it.
      - A reset takes all ports of the card away for a while, and what ran on them is lost. So it is refused for a card
        that carries the management connection and for one that a job uses, and is never tried twice in one boot
        for the same values.
    type: str
    choices: [never, if_pending]
    default: never
seealso:
  - module: lossless.roce.mlx5_driver
  - module: lossless.roce.roce_node
"""

EXAMPLES = r"""
- name: DCQCN on all priorities, and the firmware's own DCBX agent off, from the next boot
  lossless.roce.mlx5_firmware:
    parameters:
      ROCE_CC_PRIO_MASK_P1: 255
      LLDP_NB_DCBX_P1: false
      LLDP_NB_RX_MODE_P1: "OFF"
    minimum_version:
      MT_0000000838: 28.39.1002

- name: Relaxed ordering on one card, loaded now
  lossless.roce.mlx5_firmware:
    devices: ["0000:17:00.0"]
    parameters:
      PCI_WR_ORDERING: force_relax
    reset: if_pending
"""

RETURN = r"""
commands:
  description: What was done, or would be done in check mode. Each item is an argument vector.
  returned: always
  type: list
  elements: list
  sample: [["mstconfig", "-d", "0000:17:00.0", "-y", "set", "ROCE_CC_PRIO_MASK_P1=255"]]
devices:
  description:
    - By PCI address C(netdevs), C(psid), C(firmware) (C(running), and C(stored) where devlink tells) and C(parameters).
    - Each parameter has C(default), C(current), C(next_boot) (predicted in check mode) and C(read_only).
  returned: always
  type: dict
skipped_devices:
  description: Devices that have no such configuration, with the reason.
  returned: always
  type: dict
unknown_devices:
  description: Devices that did not answer, with the reason.
  returned: always
  type: dict
reset_pending:
  description: Devices on which one of O(parameters) takes effect with the next reset or reboot only.
  returned: always
  type: list
  elements: str
findings:
  description: A verdict on each device's version and on each of its O(parameters).
  returned: always
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.checks.firmware import checked_minimum
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.firmware import Request, checked_parameters, converge


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str", "default": []},
            "parameters": {"type": "dict", "default": {}},
            "minimum_version": {"type": "raw"},
            "reset": {"type": "str", "choices": ["never", "if_pending"], "default": "never"},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        request = Request(
            devices=tuple(params["devices"]),
            parameters=checked_parameters(params["parameters"]),
            minimum=checked_minimum(params["minimum_version"]),
            reset=params["reset"] == "if_pending",
            dry_run=module.check_mode,
        )
        result = converge(Host(), request)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    for note in result.notes():
        module.warn(note)
    if result.message():
        module.fail_json(msg=result.message(), **result.as_dict())
    module.exit_json(**result.as_dict())


if __name__ == "__main__":
    main()
