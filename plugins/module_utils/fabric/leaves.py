# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which leaf switch a port hangs on: by what is declared, or else by what LLDP told. Pure."""

from __future__ import annotations

import typing as t

from ..errors import PolicyError, brief
from .coverage import Ports, rail_number

# Host -> the leaf of all its ports, or rail -> the leaf of that port. Ports of which nothing is known are left out.
Leaves = t.Mapping[str, t.Union[str, t.Mapping[int, str]]]


def leaf_of(leaves: Leaves, port: tuple[str, int]) -> str | None:
    """The leaf of the port that a host has on a rail; None when it is not known."""
    host, rail = port
    own = leaves.get(host)
    return own if own is None or isinstance(own, str) else own.get(rail)


def parse_leaves(raw: t.Any, name: str = "leaves") -> Leaves:
    """Leaves as inventories and JSON give them, where numbers of rails may be text. None are none.

    Raises PolicyError naming what is wrong in ``name``.
    """
    if not isinstance(raw, (dict, type(None))):
        raise PolicyError(f"{name}: {brief(raw)} … a mapping of hosts was expected")
    return {host: _of_host(f"{name}: {host}", own) for host, own in (raw or {}).items()}


def _of_host(where: str, own: t.Any) -> str | dict[int, str]:
    if not isinstance(own, dict):
        return _name(where, own)
    by_rail: dict[int, str] = {}
    for key, leaf in own.items():
        try:
            rail = rail_number(key)
        except ValueError as exc:
            raise PolicyError(f"{where}: {exc} … the number of a rail was expected") from None
        if rail in by_rail:
            raise PolicyError(f"{where}: rail {rail} is there twice … one leaf for each rail was expected")
        by_rail[rail] = _name(f"{where}: rail {rail}", leaf)
    return by_rail


def _name(where: str, leaf: t.Any) -> str:
    if not isinstance(leaf, str) or not leaf:
        raise PolicyError(f"{where}: {brief(leaf)} … the name of a switch was expected")
    return leaf


def known_leaves(ports: Ports, declared: t.Any = None) -> dict[str, dict[int, str]]:
    """Host -> rail -> leaf of the ports of which it is known.

    ``declared`` is fabric_test_leaves; it is stronger than the switch that LLDP heard on a port. Raises PolicyError.
    """
    given = parse_leaves(declared, "fabric_test_leaves")
    found: dict[str, dict[int, str]] = {}
    for host, rail, port in ((host, rail_number(port["rail"]), port) for host, own in ports.items() for port in own):
        leaf = leaf_of(given, (host, rail)) or (port.get("leaf") or {}).get("chassis")
        if leaf:
            found.setdefault(host, {})[rail] = leaf
    return found
