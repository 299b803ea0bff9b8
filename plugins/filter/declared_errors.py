# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filter: what is wrong with the policies and ports that an inventory declares, before any host is touched."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError, brief
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.values import integer

DOCUMENTATION = r"""
name: declared_errors
short_description: What is wrong with declared policies and ports
version_added: 0.1.0
description:
  - Looks at C(roce_policy), C(roce_policies) and C(roce_ports) of all hosts, on the control node.
  - An address that two ports have is found over all hosts that are given.
positional: []
options:
  _input:
    description: Variables of hosts, one mapping a host.
    type: list
    elements: dict
    required: true
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Refuse what is declared wrongly
  ansible.builtin.assert:
    that: groups['roce_nodes'] | map('extract', hostvars) | lossless.roce.declared_errors | length == 0
  run_once: true
"""

RETURN = r"""
_value:
  description: A text for each error, with hosts, variable, value, and what was expected; empty when all is right.
  type: list
  elements: str
"""

_PORT_KEYS = ("name", "rail", "address")
_MOST_NAMES = 4


def declared_errors(hosts: t.Iterable[t.Mapping[str, t.Any]]) -> list[str]:
    """Every error once, with the names of the hosts that have it."""
    declared = {variables["inventory_hostname"]: variables for variables in hosts}
    errors: dict[str, list[str]] = {}
    for name, variables in declared.items():
        for error in _of_host(variables):
            errors.setdefault(error, []).append(name)
    told = [f"{_names(names, len(declared))}: {error}" for error, names in errors.items()]
    return told + _shared_addresses({name: variables.get("roce_ports") for name, variables in declared.items()})


def _names(names: list[str], count: int) -> str:
    if len(names) == count > 1:
        return "all hosts"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _of_host(variables: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    yield from _policy("roce_policy", variables.get("roce_policy"))
    yield from _items("roce_policies", variables.get("roce_policies"), _group)
    yield from _items("roce_ports", variables.get("roce_ports"), _port)


def _policy(name: str, raw: t.Any) -> t.Iterator[str]:
    try:
        parse_policy({} if raw is None else raw)
    except PolicyError as exc:
        yield f"{name}: {str(exc).removeprefix('roce_policy: ')}"


def _items(name: str, raw: t.Any, check: t.Callable[[str, t.Any], t.Iterator[str]]) -> t.Iterator[str]:
    """Errors of the items of a list, which need not be declared at all."""
    if raw is None:
        return
    if not isinstance(raw, (list, tuple)):
        yield f"{name}: {brief(raw)} … a list was expected"
        return
    for number, item in enumerate(raw):
        yield from check(f"{name}[{number}]", item)


def _group(name: str, raw: t.Any) -> t.Iterator[str]:
    if not isinstance(raw, t.Mapping) or set(raw) != {"ports", "policy"}:
        yield f"{name}: {brief(raw)} … {{ports: [NAME, …], policy: {{…}}}} was expected"
        return
    if not isinstance(raw["ports"], (list, tuple)) or not all(isinstance(port, str) for port in raw["ports"]):
        yield f"{name}: ports {brief(raw['ports'])} … a list of netdevs or RDMA devices was expected"
    yield from _policy(f"{name}: policy", raw["policy"])


def _port(name: str, raw: t.Any) -> t.Iterator[str]:
    if not isinstance(raw, t.Mapping):
        yield f"{name}: {brief(raw)} … {{name, rail, address}} was expected"
        return
    unknown = sorted(str(key) for key in raw if key not in _PORT_KEYS)
    if unknown:
        yield f"{name}: unknown field {unknown[0]} … one of {', '.join(_PORT_KEYS)} was expected"
    if not isinstance(raw.get("name"), str) or not raw["name"]:
        yield f"{name}: name {brief(raw.get('name'))} … the name of a netdev or RDMA device was expected"
    if raw.get("rail") is not None:
        try:
            integer(raw["rail"], 0, 1023)
        except ValueError:
            yield f"{name}: rail {brief(raw['rail'])} … 0 to 1023 was expected"
    if raw.get("address") is not None and _address(raw["address"]) is None:
        yield f"{name}: address {brief(raw['address'])} … an IPv4 address was expected"


def _address(raw: t.Any) -> str | None:
    try:
        return str(ipaddress.IPv4Address(raw)) if isinstance(raw, str) else None
    except ValueError:
        return None


def _shared_addresses(ports: t.Mapping[str, t.Any]) -> list[str]:
    """Addresses that more than one port has: one of them would answer for the other."""
    whose: dict[str, list[str]] = {}
    for host, own in ports.items():
        for number, port in enumerate(own if isinstance(own, (list, tuple)) else ()):
            address = _address(port.get("address")) if isinstance(port, t.Mapping) else None
            if address is not None:
                whose.setdefault(address, []).append(f"roce_ports[{number}] of {host}")
    return [
        f"address {address} is that of {' and of '.join(places)} … an address of its own for each was expected"
        for address, places in whose.items()
        if len(places) > 1
    ]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"declared_errors": declared_errors}
