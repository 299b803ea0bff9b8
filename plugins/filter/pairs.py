# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: who tests with whom, and in which order."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.rounds import (
    absent_host,
    fabric_ports,
    lonely_rails,
    pair_tests,
    peers_of,
    skipped_tests,
)

DOCUMENTATION = r"""
name: pairs
short_description: Each host's part of the tests between pairs of hosts
version_added: 0.1.0
description:
  - Every pair of hosts on every rail that both have, in both directions, in rounds in which no host stands twice.
  - Both ends of a test get the same TCP port and opposite roles, so that each host can run its list by itself.
positional: broken
options:
  broken:
    description: Findings of M(lossless.roce.path_mtu). Pairs with a failed path are left out on that rail.
    type: list
    elements: dict
    default: []
  _input:
    description: Ports of each host, as in C(roce_ports), by the name of the host.
    type: dict
    required: true
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: What this host has to do
  ansible.builtin.debug:
    msg: "{{ ({'a': a_ports, 'b': b_ports} | lossless.roce.pairs)[inventory_hostname] }}"
"""

RETURN = r"""
_value:
  description: The ordered tests of each host.
  type: dict
"""


def _told(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """The function, with what is wrong with its input as one clear error."""

    @functools.wraps(function)
    def checked(*arguments: t.Any) -> t.Any:
        try:
            return function(*arguments)
        except (KeyError, TypeError, AttributeError, ValueError) as exc:
            expected = "host: [{name, rail, address}, …] with one port on a rail"
            what = str(exc) if isinstance(exc, ValueError) else repr(exc)
            raise AnsibleFilterError(f"roce_ports: {what} … {expected} was expected") from exc

    return checked


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        functions: dict[str, t.Callable[..., t.Any]] = {
            "pairs": pair_tests,
            "peers": peers_of,
            "skipped_tests": skipped_tests,
            "fabric_ports": fabric_ports,
            "lonely_rails": lonely_rails,
            "absent_host": absent_host,
        }
        return {name: _told(function) for name, function in functions.items()}
