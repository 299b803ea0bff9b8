# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``ip -j -d link show dev X`` -> data. Pure. Shape: iproute2 ip/ipaddress.c."""

from __future__ import annotations

import json
import typing as t

from ..errors import ParseError
from .numbers import is_int


def parse_max_mtu(text: str) -> dict[str, int]:
    """``{"mtu": 9000, "max_mtu": 9978}``; a driver that states no maximum counts as 0."""
    try:
        data: t.Any = json.loads(text)
    except ValueError as exc:
        raise ParseError(f"ip link: output is not JSON: {text.strip()[:80]!r}") from exc
    link = data[0] if isinstance(data, list) and len(data) == 1 else None
    if not isinstance(link, dict) or not is_int(link.get("mtu")):
        raise ParseError(f"ip link: one link with an mtu was expected, got {text.strip()[:80]!r}")
    most = link.get("max_mtu", 0)
    if not is_int(most):
        raise ParseError(f"ip link: max_mtu is {most!r}, a number was expected")
    return {"mtu": link["mtu"], "max_mtu": most}
