# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``ip -j -d link show dev X`` -> data. Pure. Shape: iproute2 ip/ipaddress.c."""

from __future__ import annotations

from ..errors import ParseError, brief
from .json_output import read_json
from .numbers import is_int


def parse_max_mtu(text: str) -> dict[str, int]:
    """``{"mtu": 9000, "max_mtu": 9978}``; a driver that states no maximum counts as 0."""
    data = read_json(text, "ip link")
    link = data[0] if isinstance(data, list) and len(data) == 1 else None
    if not isinstance(link, dict) or not is_int(link.get("mtu")):
        raise ParseError(f"ip link: one link with an mtu was expected, got {text.strip()[:80]!r}")
    most = link.get("max_mtu", 0)
    if not is_int(most):
        raise ParseError(f"ip link: max_mtu is {brief(most)}, a number was expected")
    return {"mtu": link["mtu"], "max_mtu": most}
