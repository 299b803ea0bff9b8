# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``ip -j address show`` -> data. Pure. Shape: iproute2 ip/ipaddress.c."""

from __future__ import annotations

import ipaddress
import typing as t

from ..errors import ParseError
from .json_output import read_json

Interface = t.Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]


def parse_addresses(text: str) -> dict[str, list[str]]:
    """Netdev -> its addresses, without prefix length. Raises ParseError."""
    try:
        return {
            entry["ifname"]: [info["local"] for info in entry.get("addr_info", []) if "local" in info]
            for entry in _entries(text)
        }
    except (TypeError, AttributeError) as exc:
        raise _not_understood(text) from exc


def parse_networks(text: str) -> dict[str, list[Interface]]:
    """Netdev -> its addresses with their networks. Raises ParseError."""
    try:
        return {
            entry["ifname"]: [
                ipaddress.ip_interface(f"{info['local']}/{info['prefixlen']}")
                for info in entry.get("addr_info", [])
                if "local" in info and "prefixlen" in info
            ]
            for entry in _entries(text)
        }
    except (ValueError, TypeError, AttributeError) as exc:
        raise _not_understood(text) from exc


def _entries(text: str) -> list[dict[str, t.Any]]:
    """The netdevs; ip prints an empty object for each that it leaves out."""
    data = read_json(text or "[]", "ip address")
    if not (isinstance(data, list) and all(isinstance(entry, dict) for entry in data)):
        raise _not_understood(text)
    return [entry for entry in data if "ifname" in entry]


def _not_understood(text: str) -> ParseError:
    return ParseError(f"ip address: output was not understood: {text.strip()[:80]!r}")
