# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Neighbours that lldpd has heard of (``lldpcli -f json0 show neighbors``, or ``-f json``) -> data. Pure.

Source: lldpd's json_writer.c and its integration tests. json0 has a list everywhere and every text in {"value": …};
json leaves lists of one out, and names interfaces and chassis by the keys of mappings.
"""

from __future__ import annotations

import typing as t

from ..errors import ParseError
from .json_output import read_json

Json = dict[str, t.Any]
# What a chassis has of its own; json makes its name the key around them, where it has one.
_OF_A_CHASSIS = ("id", "descr", "mgmt-ip", "capability")


def parse_neighbours(text: str) -> dict[str, dict[str, str]]:
    """Netdev -> {chassis, port}: the neighbour's name (without one its id), and the id of its port, or its description.

    The first neighbour of a netdev that is a bridge or a router stands, else the first: behind a switch that passes
    LLDP on there are several. Raises ParseError.
    """
    data = read_json(text, "lldpcli")
    try:
        heard = [(name, entry) for item in _many(data["lldp"]) for name, entry in _interfaces(item)]
        found: dict[str, dict[str, str]] = {}
        for name, entry in sorted(heard, key=lambda pair: not _is_switch(pair[1])):
            chassis, port = _chassis(entry), _first(entry.get("port"))
            told = {"chassis": _text(chassis.get("name")) or _id(chassis), "port": _port(port)}
            if name and told["chassis"]:
                found.setdefault(name, told)
    except (KeyError, TypeError, AttributeError) as exc:
        raise ParseError(f"lldpcli: JSON was not understood: {text.strip()[:80]!r}") from exc
    return found


def _many(value: t.Any) -> list[t.Any]:
    """A list, also where a list of one was left out; nothing is none."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _first(value: t.Any) -> Json:
    found = _many(value)
    return found[0] if found else {}


def _interfaces(lldp: Json) -> t.Iterator[tuple[str, Json]]:
    for item in _many(lldp.get("interface")):
        if isinstance(item.get("name"), str):  # json0
            yield item["name"], item
        else:
            yield from item.items()


def _chassis(entry: Json) -> Json:
    chassis = _first(entry.get("chassis"))
    if not chassis or any(key in chassis for key in _OF_A_CHASSIS):
        return chassis
    name, content = next(iter(chassis.items()))
    return {**content, "name": name}


def _is_switch(entry: Json) -> bool:
    capabilities = _many(_chassis(entry).get("capability"))
    return any(one.get("type") in ("Bridge", "Router") and one.get("enabled") for one in capabilities)


def _port(port: Json) -> str:
    """The port as the switch's own command line names it: a MAC address as id says less than the description."""
    named = _first(port.get("id")).get("type") in ("ifname", "local")
    return _id(port) if named else _text(port.get("descr")) or _id(port)


def _id(thing: Json) -> str:
    return _text(thing.get("id"))


def _text(value: t.Any) -> str:
    """A text, bare or as {"value": …}, alone or first of a list."""
    found = _many(value)
    one = found[0] if found else ""
    one = one.get("value", "") if isinstance(one, dict) else one
    return one if isinstance(one, str) else ""
