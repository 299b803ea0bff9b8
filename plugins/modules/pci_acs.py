#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: pci_acs
short_description: Switch off ACS on the PCI bridges above NICs and GPUs
version_added: 0.1.0
description:
  - Access Control Services (ACS) on a PCI bridge send traffic between devices below it up to the root complex,
    which slows or breaks GPUDirect. This module switches ACS off now, and by a unit of systemd at every boot.
  - ACS keeps devices of virtual machines apart. The module refuses to work while a device belongs to C(vfio-pci), and
    on aarch64, where GPUDirect needs certain ACS bits on. In a virtual machine it warns, since there the bridges of the
    physical host count.
  - systemd reads the unit anew, unless running containers may lose their GPUs by that. Then the module warns, and a
    later run does it. At boot the unit counts in any case.
  - A bridge that does not read back as switched off gets its former bits again; the others go on, and the module fails.
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
  state:
    description:
      - V(disabled) switches ACS off on the bridges, and installs the unit.
      - V(as_found) removes the unit and leaves the bridges as they are until the next boot.
    type: str
    choices: [disabled, as_found]
    required: true
  bridges:
    description:
      - PCI addresses of bridges, such as C(0000:17:00.0). The default is every bridge above the RDMA ports and GPUs.
    type: list
    elements: str
    default: []
  when_busy:
    description: What to do when a program uses an RDMA port below a bridge that would change.
    type: str
    choices: [refuse, force]
    default: refuse
notes:
  - Needs C(lspci) and C(setpci) of pciutils, and root.
seealso:
  - module: lossless.roce.host_checks
"""

EXAMPLES = r"""
- name: GPUDirect takes the direct path
  lossless.roce.pci_acs:
    state: disabled

- name: Leave ACS to the firmware again, from the next boot on
  lossless.roce.pci_acs:
    state: as_found
"""

RETURN = r"""
bridges:
  description: Bits that are on after the run (predicted in check mode), by bridge with ACS.
  returned: always
  type: dict
  sample: {"0000:17:00.0": []}
without_acs:
  description: Bridges without ACS.
  returned: always
  type: dict
failed_bridges:
  description: Bridges that could not be switched off, with the reason. They have their former bits.
  returned: always
  type: dict
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; one that is removed reads V(remove), path.
  returned: always
  type: list
  elements: list
  sample: [["setpci", "-s", "0000:17:00.0", "ECAP_ACS+6.w=0000"]]
findings:
  description: A verdict on the bridges with O(state=disabled).
  returned: always
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.acs import Wanted, converge
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["disabled", "as_found"], "required": True},
            "bridges": {"type": "list", "elements": "str", "default": []},
            "when_busy": {"type": "str", "choices": ["refuse", "force"], "default": "refuse"},
        },
        supports_check_mode=True,
    )
    params = module.params
    wanted = Wanted(params["state"] == "disabled", tuple(params["bridges"]), params["when_busy"])
    try:
        run = converge(Host(), wanted, module.check_mode)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    for note in run.notes:
        module.warn(note)
    if run.message():
        module.fail_json(msg=run.message(), **run.as_dict())
    module.exit_json(**run.as_dict())


if __name__ == "__main__":
    main()
