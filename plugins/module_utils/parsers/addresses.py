# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``ip -j address show`` -> data. Pure. Shape: iproute2 ip/ipaddress.c."""

from __future__ import annotations

import ipaddress
import json
import typing as t

from ..errors import ParseError

Interface = t.Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]


def parse_addresses(text: str) -> dict[str, list[str]]:
    """Netdev -> its addresses, without prefix length."""
    try:
        data = json.loads(text or "[]")
        return {
            entry["ifname"]: [info["local"] for info in entry.get("addr_info", []) if "local" in info]
            for entry in data
            if "ifname" in entry
        }
    except (ValueError, TypeError, AttributeError, KeyError) as exc:
        raise ParseError(f"ip address: output was not understood: {text.strip()[:80]!r}") from exc


def parse_networks(text: str) -> dict[str, list[Interface]]:
    """Netdev -> its addresses with their networks. Raises ParseError."""
    try:
        data = json.loads(text or "[]")
        return {
            entry["ifname"]: [
                ipaddress.ip_interface(f"{info['local']}/{info['prefixlen']}")
                for info in entry.get("addr_info", [])
                if "local" in info and "prefixlen" in info
            ]
            for entry in data
            if "ifname" in entry
        }
    except (ValueError, TypeError, AttributeError, KeyError) as exc:
        raise ParseError(f"ip address: output was not understood: {text.strip()[:80]!r}") from exc
