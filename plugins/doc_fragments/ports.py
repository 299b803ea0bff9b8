# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the options that all modules that change ports share."""

from __future__ import annotations


class ModuleDocFragment:
    """Extended as ``lossless.roce.ports``; the same options as in ``module_utils/port_module.py``."""

    DOCUMENTATION = r"""
options:
  ports:
    description:
      - The RDMA ports that the node should have, as names of RDMA devices or of netdevs.
      - A port that is named and not there is a failure of that port. The others go on.
    type: list
    elements: str
    required: true
  when_busy:
    description:
      - What to do with a port that a running job uses.
      - V(refuse) leaves the port as it is and reports it as failed. V(force) changes it under the job.
      - A port that is right already is never touched, busy or not.
    type: str
    choices: [refuse, force]
    default: refuse
  allow_busy:
    description: Ports, by netdev or RDMA device, that are changed although a running job uses them. The others are not.
    type: list
    elements: str
    default: []
  allow_management:
    description:
      - Netdevs that may be changed although they carry the management connection.
      - A change of a port that carries it and is not listed here is refused, with all other changes of the call,
        because it could cut the connection that makes it.
    type: list
    elements: str
    default: []
"""
