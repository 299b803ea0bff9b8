# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``lspci -vvv`` -> data. Pure. What a function does not print is None."""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError

_HEAD = re.compile(r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (\S.*)$", re.MULTILINE)


def parse_lspci(text: str) -> dict[str, dict[str, t.Any]]:
    """By address (0000:b3:00.0): name, numa_node, max_payload, max_read_request, relaxed_ordering, capable, link.

    capable and link are [GT/s, width] of LnkCap and LnkSta; without the latter the negotiated link is unknown.
    """
    _first, *parts = _HEAD.split(text)
    if not parts:
        raise ParseError(f"lspci: no device in {text.strip()[:80]!r}")
    heads = zip(parts[::3], parts[1::3], parts[2::3])
    return {_full(address): {"name": name.strip(), **_details(body)} for address, name, body in heads}


def _full(address: str) -> str:
    return address if address.count(":") == 2 else f"0000:{address}"


def _details(body: str) -> dict[str, t.Any]:
    control = re.search(r"DevCtl:(.*?)(?=\n\s*[A-Z]\w+:|\Z)", body, re.DOTALL)
    words = control.group(1) if control else ""
    ordering = re.search(r"\bRlxdOrd([+-])", words)
    return {
        "numa_node": _number(r"NUMA node: ([0-9]{1,4})\b", body),
        "max_payload": _number(r"MaxPayload ([0-9]{1,5}) bytes", words),
        "max_read_request": _number(r"MaxReadReq ([0-9]{1,5}) bytes", words),
        "relaxed_ordering": ordering.group(1) == "+" if ordering else None,
        "capable": _link("LnkCap", body),
        "link": _link("LnkSta", body),
    }


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return int(found.group(1)) if found else None


def _link(label: str, body: str) -> list[t.Any] | None:
    found = re.search(rf"\b{label}:.*?Speed ([0-9]{{1,3}}(?:\.[0-9])?)GT/s[^,\n]*, Width x([0-9]{{1,2}})\b", body)
    return [float(found.group(1)), int(found.group(2))] if found else None
