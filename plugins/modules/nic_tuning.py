#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: nic_tuning
short_description: Set rings, channels, coalescing, offloads, private flags, pause and PCIe of RDMA ports
version_added: 0.1.0
description:
  - Changes what is named and leaves everything else as it is.
  - A value that is right already is not written, since other rings or channels restart the queues of the netdev.
  - RDMA traffic has queues of its own. All but O(pause), O(max_read_request) and O(relaxed_ordering) is about TCP/IP.
  - A value above what the device can do is refused before anything is changed, and the message names the maximum.
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
  - lossless.roce.ports
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
  rings:
    description: Entries of the rings, powers of two.
    type: dict
    suboptions:
      rx:
        description: Entries of each receive ring.
        type: int
      tx:
        description: Entries of each transmit ring.
        type: int
  channels:
    description:
      - Channels of the netdev.
      - Refused while a root qdisc mqprio holds the present number. M(lossless.roce.roce_node) changes both.
    type: dict
    suboptions:
      combined:
        description: Number of combined channels.
        type: int
  coalesce:
    description:
      - Interrupt moderation.
      - Times and frames of a direction cannot be given together with its adaptive moderation.
    type: dict
    suboptions:
      adaptive_rx:
        description: Whether the driver adapts moderation of received packets to the traffic.
        type: bool
      adaptive_tx:
        description: Whether the driver adapts moderation of sent packets to the traffic.
        type: bool
      rx_usecs:
        description: Microseconds until a received packet raises an interrupt.
        type: int
      rx_frames:
        description: Number of received packets that raise an interrupt.
        type: int
      tx_usecs:
        description: Microseconds until a sent packet raises an interrupt.
        type: int
      tx_frames:
        description: Number of sent packets that raise an interrupt.
        type: int
  features:
    description: Offloads, on or off, by the names that C(ethtool -k) prints, such as C(large-receive-offload).
    type: dict
  priv_flags:
    description: Private flags of the driver, on or off, by the names that C(ethtool --show-priv-flags) prints.
    type: dict
  pause:
    description: Global (802.3x) pause in both directions. It must be off where PFC is on.
    type: bool
  max_read_request:
    description: Largest PCIe read request of the card in bytes. Lost at reboot.
    type: int
    choices: [512, 1024, 2048, 4096]
  relaxed_ordering:
    description: Whether the card may mark its PCIe writes as relaxed in their order. Lost at reboot.
    type: bool
seealso:
  - module: lossless.roce.roce_node
  - module: lossless.roce.mqprio
"""

EXAMPLES = r"""
- name: Large rings, sixteen channels, no adaptive moderation
  lossless.roce.nic_tuning:
    ports: [ens1np0, ens2np0]
    rings: {rx: 8192, tx: 8192}
    channels: {combined: 16}
    coalesce: {adaptive_rx: false, rx_usecs: 8, rx_frames: 128}

- name: Compressed completions, LRO off, large PCIe reads, no global pause
  lossless.roce.nic_tuning:
    ports: [ens1np0]
    priv_flags: {rx_cqe_compress: true}
    features: {large-receive-offload: false}
    max_read_request: 4096
    pause: false
"""

RETURN = r"""
commands:
  description:
    - What was done, or would be done in check mode, in this order. Each item is an argument vector.
    - A file that is written reads V(write), path, content; a directory reads V(mkdir), path.
  returned: always
  type: list
  elements: list
  sample: [["ethtool", "-G", "ens1np0", "rx", "8192"]]
ports:
  description: Value of what is named after the run (predicted in check mode) by port and setting.
  returned: always
  type: dict
failed_ports:
  description: Ports that failed, with the error, what was tried and what differs still after the roll-back.
  returned: always
  type: dict
unknown:
  description: Settings that could not be read, with the reason, by port.
  returned: always
  type: dict
findings:
  description: A verdict on each port and setting.
  returned: always
  type: list
  elements: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lossless.roce.plugins.module_utils.nic import READ_REQUESTS
from ansible_collections.lossless.roce.plugins.module_utils.policy import nic_state
from ansible_collections.lossless.roce.plugins.module_utils.port_module import PORT_OPTIONS, run_port_module
from ansible_collections.lossless.roce.plugins.module_utils.settings.base import State

NIC_OPTIONS: dict[str, t.Any] = {
    "rings": {"type": "dict", "options": {"rx": {"type": "int"}, "tx": {"type": "int"}}},
    "channels": {"type": "dict", "options": {"combined": {"type": "int"}}},
    "coalesce": {
        "type": "dict",
        "options": {
            "adaptive_rx": {"type": "bool"},
            "adaptive_tx": {"type": "bool"},
            "rx_usecs": {"type": "int"},
            "rx_frames": {"type": "int"},
            "tx_usecs": {"type": "int"},
            "tx_frames": {"type": "int"},
        },
    },
    "features": {"type": "dict"},
    "priv_flags": {"type": "dict"},
    "max_read_request": {"type": "int", "choices": list(READ_REQUESTS)},
    "relaxed_ordering": {"type": "bool"},
}


def wanted(params: dict[str, t.Any]) -> State:
    """The wanted state from the module's parameters."""
    state = nic_state({key: params[key] for key in NIC_OPTIONS})
    pause = params["pause"]
    return state if pause is None else {**state, "pause": {"rx": pause, "tx": pause}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={**PORT_OPTIONS, **NIC_OPTIONS, "pause": {"type": "bool"}},
        required_one_of=[[*NIC_OPTIONS, "pause"]],
        supports_check_mode=True,
    )
    run_port_module(module, wanted)


if __name__ == "__main__":
    main()
