# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the options that all tests between hosts share."""

from __future__ import annotations


class ModuleDocFragment:
    """Extended as ``lossless.roce.fabric``; the same options as in ``module_utils/fabric/spec.py``."""

    DOCUMENTATION = r"""
options:
  hosts:
    description: The hosts of the test, the same list in the same order on each of them.
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
          link_gbps:
            description:
              - Link rate of this port in Gb/s, where one does not fit all. A test is judged by the rate of its slower
                end. M(lossless.roce.fabric_incast) does not judge, and takes no notice.
            type: float
  run:
    description:
      - Any text that tells this run from others, the same on all hosts. Hosts of another run are not waited for.
    type: str
    default: ""
  barrier_limit:
    description: Seconds to wait at the start for the other hosts.
    type: float
    default: 120
  time_limit:
    description: Seconds after which a run is ended.
    type: float
    default: 60
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
  when_busy:
    description: What to do when RDMA queue pairs of other programs are on the ports.
    type: str
    choices: [refuse, force]
    default: refuse
"""
