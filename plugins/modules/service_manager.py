#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: service_manager
short_description: Have systemd read changed files again, and take no GPU from a running container
version_added: 0.1.0
description:
  - C(systemctl daemon-reload) and C(daemon-reexec) may take the GPUs from running containers, where the hook of the
    nvidia runtime gave them and cgroups are left to systemd. This module does not do them then, says what waits, and a
    later run does it.
  - Does nothing where systemd runs by the files that are on disk.
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
  action_group:
    support: full
options:
  units:
    description: Units whose files may have changed, with their suffix, or shell patterns of them.
    type: list
    elements: str
    default: []
  memlock:
    description:
      - The default limit on locked memory of services that C(system.conf) and its drop-ins name. V(unlimited), or a
        number of KiB. Without it the limit is left out of account.
      - Where systemd has another one, it is executed again. Where it still has another one then, the module fails.
    type: str
    default: ""
seealso:
  - module: lossless.roce.container_runtime
  - module: lossless.roce.roce_diagnose
"""

EXAMPLES = r"""
- name: Systemd reads the unit that was written
  lossless.roce.service_manager:
    units: [lossless-roce.service, "lossless-roce@*.service"]
"""

RETURN = r"""
commands:
  description: What was done, or would be done in check mode. Each item is an argument vector.
  returned: success
  type: list
  elements: list
  sample: [["systemctl", "daemon-reload"]]
pending:
  description: What waits and for which containers. Empty when nothing does.
  returned: success
  type: str
findings:
  description: The verdict C(service_manager).
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Host
from ansible_collections.lossless.roce.plugins.module_utils.service_manager import converge


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "default": []},
            "memlock": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    try:
        run = converge(Host(), module.params["units"], module.params["memlock"], module.check_mode)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    if run.pending:
        module.warn(run.pending)
    module.exit_json(**run.as_dict())


if __name__ == "__main__":
    main()
