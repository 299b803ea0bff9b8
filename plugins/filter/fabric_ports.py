# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters around the tests between hosts: which ports take part, whom they reach, what was not tested."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric import analysis, blame
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import TOOLS
from ansible_collections.lossless.roce.plugins.module_utils.fabric.coverage import (
    absent_host,
    broken_pairs,
    fabric_ports,
    leaves_of,
    lonely_rails,
    matrix_hosts,
    peers_of,
    skipped_tests,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast import plan, wanted_names
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast_verdict import Part, judge
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy

DOCUMENTATION = r"""
name: fabric_ports
short_description: The ports of a host as the other hosts need to know them
version_added: 0.1.0
description:
  - Takes what M(lossless.roce.roce_info) found out on the declared ports, and refuses a port without rail or address,
    and two ports on one rail, by name.
positional: policies
options:
  _input:
    description: RV(lossless.roce.roce_info#module:declared).
    type: list
    elements: dict
    required: true
  policies:
    description:
      - Policies of single ports, each as a list of the names of its ports and what P(lossless.roce.policy#filter)
        returned. A port that one selects, by netdev or RDMA device, has C(declared_mtu) and C(declared_rdma_mtu).
    type: list
    elements: list
    default: []
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
  description:
    - Ports as {name, rail, address, mtu, rdma_mtu, leaf}, by rail. The name is that of the netdev.
    - Ports that have a policy of their own also have C(declared_mtu) and C(declared_rdma_mtu).
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


def _refused(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """The function, with what it refuses as an error of the filter."""

    @functools.wraps(function)
    def checked(*arguments: t.Any, **options: t.Any) -> t.Any:
        try:
            return function(*arguments, **options)
        except RoceError as exc:
            raise AnsibleFilterError(str(exc)) from exc

    return checked


Findings = t.Iterable[t.Mapping[str, t.Any]]


def _measured(
    hosts: t.Iterable[Findings],
) -> tuple[list[analysis.Measured], list[analysis.Absence]]:
    """What the findings of hosts say of the matrix. Joined here: jinja's flatten takes minutes for 512 hosts."""
    findings = [finding for own in hosts for finding in own if finding["check"] in TOOLS]
    return analysis.measured_from(findings, TOOLS), analysis.absences_from(findings, TOOLS)


def suspects(hosts: t.Iterable[Findings], leaves: dict[str, str] | None = None) -> list[dict[str, t.Any]]:
    """The pairs that are to be tested again, from the findings of each host; none when nothing is suspected."""
    measured, absences = _measured(hosts)
    return blame.suspects(measured, leaves, absences)


def analysed(
    hosts: t.Iterable[Findings], leaves: dict[str, str] | None = None, again: t.Iterable[Findings] | None = None
) -> list[dict[str, t.Any]]:
    """Findings on what explains the failed tests among the findings of each host.

    leaves: each host's leaf switch. again: the findings of each host on the pairs that were tested again.
    """
    measured, absences = _measured(hosts)
    second = None if again is None else _measured(again)[0]
    return [found.as_dict() for found in blame.findings(measured, leaves, absences, second)]


def incast_verdict(
    parts: t.Iterable[t.Mapping[str, t.Any]], planned: t.Mapping[str, t.Any], policy: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """The finding on an incast from the parts of its hosts, as a list."""
    found = [Part(**part) for part in parts if part]
    who = {key: planned[key] for key in ("receiver", "senders", "rail")}
    return [judge(found, parse_policy(policy), **who).as_dict()]


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
            "leaves": leaves_of,
            "analysed": analysed,
            "suspects": suspects,
        }
        refusing: dict[str, t.Callable[..., t.Any]] = {
            "incast_plan": plan,
            "incast_names": wanted_names,
            "incast_verdict": incast_verdict,
        }
        return {
            **{name: _told(function) for name, function in functions.items()},
            **{name: _refused(function) for name, function in refusing.items()},
        }
