# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters around the tests between hosts: which ports take part, whom they reach, what was not tested."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.module_utils.fabric import analysis
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import TOOLS
from ansible_collections.lossless.roce.plugins.module_utils.fabric.coverage import (
    absent_host,
    broken_pairs,
    fabric_ports,
    lonely_rails,
    matrix_hosts,
    peers_of,
    skipped_tests,
)

DOCUMENTATION = r"""
name: fabric_ports
short_description: The ports of a host as the other hosts need to know them
version_added: 0.1.0
description:
  - Takes what M(lossless.roce.roce_info) found out on the declared ports, and refuses a port without rail or address,
    and two ports on one rail, by name.
positional: []
options:
  _input:
    description: RV(lossless.roce.roce_info#module:declared).
    type: list
    elements: dict
    required: true
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: What the peers need to know
  ansible.builtin.set_fact:
    own_ports: "{{ info.declared | lossless.roce.fabric_ports }}"
"""

RETURN = r"""
_value:
  description: Ports as {name, rail, address, mtu}, by rail. The name is that of the netdev.
  type: list
  elements: dict
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


def analysed(findings: list[dict[str, t.Any]], leaves: dict[str, str] | None = None) -> list[dict[str, t.Any]]:
    """Findings on what explains the failed tests among ``findings``; ``leaves`` names each host's leaf switch."""
    return [found.as_dict() for found in analysis.findings(analysis.measured_from(findings, TOOLS), leaves)]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        functions: dict[str, t.Callable[..., t.Any]] = {
            "matrix_hosts": matrix_hosts,
            "peers": peers_of,
            "broken_pairs": broken_pairs,
            "skipped_tests": skipped_tests,
            "fabric_ports": fabric_ports,
            "lonely_rails": lonely_rails,
            "absent_host": absent_host,
            "analysed": analysed,
        }
        return {name: _told(function) for name, function in functions.items()}
