# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of iproute2's ``rdma`` -> data. Pure. Shapes: iproute2 rdma/link.c, rdma/res-qp.c."""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError, brief
from .json_output import read_json
from .numbers import is_int


def parse_links(text: str) -> list[dict[str, t.Any]]:
    """One dict a port: ibdev, port, state, physical_state, netdev (empty when unknown), in natural order.

    A machine without devices prints an empty list, or no text. Raises ParseError for anything else without a link.
    """
    links = _links_json(text) if text.lstrip().startswith("[") else _links_text(text)
    return sorted(links, key=lambda link: (natural(link["ibdev"]), link["port"]))


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key that puts mlx5_10 after mlx5_9."""
    return [_natural_part(part) for part in re.findall(r"[0-9]+|[^0-9]+", name)]


def _natural_part(part: str) -> tuple[int, int, str]:
    if not part.isdecimal():
        return 1, 0, part
    digits = part.lstrip("0")  # the longer number is the larger one
    return 0, len(digits), digits


def _links_json(text: str) -> list[dict[str, t.Any]]:
    links = []
    for entry in _json_list(text, "rdma link"):
        if not (isinstance(entry.get("ifname"), str) and is_int(entry.get("port"))):
            raise ParseError(f"rdma link: {brief(entry)}: ifname and port were expected")
        links.append(
            {
                "ibdev": entry["ifname"],
                "port": entry["port"],
                "state": str(entry.get("state", "")),
                "physical_state": str(entry.get("physical_state", "")),
                "netdev": str(entry.get("netdev", "")),
            }
        )
    return links


def _links_text(text: str) -> list[dict[str, t.Any]]:
    links = []
    for line in text.splitlines():
        found = re.match(r"link (\S+)/([0-9]{1,9})\b(.*)", line)
        if found is None:
            continue
        words = dict(re.findall(r"(state|physical_state|netdev) (\S+)", found.group(3)))
        links.append(
            {
                "ibdev": found.group(1),
                "port": int(found.group(2)),
                "state": words.get("state", ""),
                "physical_state": words.get("physical_state", ""),
                "netdev": words.get("netdev", ""),
            }
        )
    if not links and text.strip():
        raise ParseError(f"rdma link: {text.strip()[:80]!r} … lines 'link DEVICE/PORT …' were expected")
    return links


def parse_user_qps(text: str) -> list[dict[str, t.Any]]:
    """Queue pairs of user-space processes in ``rdma -j resource show qp``: ibdev, pid, comm.

    The kernel's own have no process number, and their comm stands in brackets.
    """
    users = []
    for entry in _json_list(text, "rdma resource"):
        pid, comm = entry.get("pid"), str(entry.get("comm", ""))
        if is_int(pid) and pid > 0 and not comm.startswith("["):
            users.append({"ibdev": str(entry.get("ifname", "")), "pid": pid, "comm": comm})
    return users


def _json_list(text: str, what: str) -> list[dict[str, t.Any]]:
    if not text.strip():
        return []
    data = read_json(text, what)
    if not (isinstance(data, list) and all(isinstance(entry, dict) for entry in data)):
        raise ParseError(f"{what}: a list of objects was expected, got {text.strip()[:80]!r}")
    return data
