# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Root qdisc of a netdev, from ``tc -j qdisc show`` or from tc's text -> data. Pure.

tc does not print ``hw``. From q_mqprio.c and sch_mqprio.c: ``mode channel`` is printed for offloaded
channel mode only; after a dcb-mode offload on mlx5 all queue ranges are the same, hence overlap;
without offload the kernel refuses overlapping ranges.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError, brief
from .json_output import read_json
from .numbers import is_int

MAP_LENGTH = 16


def parse_root_qdisc(text: str) -> dict[str, t.Any]:
    """``{"kind": "default", "qdisc": "mq"}``, ``{"kind": "mqprio", …}`` or ``{"kind": "other", "qdisc": "htb"}``.

    mqprio carries num_tc, map (16), queues ([count, offset] pairs) and offload (off, dcb, channel).
    A qdisc that the kernel put there by itself has the handle ``0:``. Of a link that was never up it lists none.
    Raises ParseError for anything but a list of qdiscs.
    """
    if text.lstrip().startswith("["):
        return _from_json(text)
    return _from_text(text)


def _from_json(text: str) -> dict[str, t.Any]:
    data = read_json(text, "tc")
    if not (isinstance(data, list) and all(map(_is_qdisc, data))):
        raise ParseError(f"tc: {text.strip()[:80]!r} … a list of qdiscs, each root or with its parent, was expected")
    root = next((entry for entry in data if entry.get("root")), None)
    if root is None:
        return {"kind": "default", "qdisc": ""}
    kind, handle = str(root.get("kind", "")), str(root.get("handle", ""))
    if kind != "mqprio":
        return _plain(kind, handle)
    options = root.get("options")
    if not isinstance(options, dict):
        raise ParseError(f"tc: mqprio without options: {text.strip()[:80]!r}")
    return _mqprio(options.get("tc"), options.get("map"), options.get("queues"), options.get("mode", "dcb"))


def _is_qdisc(entry: t.Any) -> bool:
    return isinstance(entry, dict) and bool(entry.get("kind")) and (entry.get("root") is True or "parent" in entry)


def _from_text(text: str) -> dict[str, t.Any]:
    listed = re.findall(r"^qdisc (\S+) (\S*:)(?: dev \S+)? (root|parent)\b", text, re.MULTILINE)
    if not listed:
        raise ParseError(f"tc: {text.strip()[:80]!r} … lines 'qdisc KIND HANDLE: … root' were expected")
    kind, handle = next(((kind, handle) for kind, handle, place in listed if place == "root"), ("", "0:"))
    if kind != "mqprio":
        return _plain(kind, handle)
    num_tc = re.search(r"\btc (\d{1,9}) map((?: \d{1,9})+)", text)
    mode = re.search(r"\bmode:\s*(\w+)", text)
    queues = [[int(first), int(last)] for first, last in re.findall(r"\((\d{1,9}):(\d{1,9})\)", text)]
    if num_tc is None:
        raise ParseError(f"tc: mqprio without 'tc N map …': {text.strip()[:80]!r}")
    return _mqprio(
        int(num_tc.group(1)),
        [int(word) for word in num_tc.group(2).split()],
        queues,
        mode.group(1) if mode else "dcb",
    )


def _plain(kind: str, handle: str) -> dict[str, t.Any]:
    return {"kind": "default" if handle == "0:" else "other", "qdisc": kind}


def _mqprio(num_tc: t.Any, map_: t.Any, ranges: t.Any, mode: t.Any) -> dict[str, t.Any]:
    if not (is_int(num_tc) and _numbers(map_) and isinstance(ranges, list) and all(_range(r) for r in ranges)):
        raise ParseError(
            f"tc: mqprio: tc {brief(num_tc)}, map {brief(map_)}, queues {brief(ranges)} were not understood"
        )
    return {
        "kind": "mqprio",
        "num_tc": num_tc,
        "map": (map_ + [0] * MAP_LENGTH)[:MAP_LENGTH],
        "queues": [[last - first + 1, first] for first, last in ranges],
        "offload": _offload(ranges, mode),
    }


def _offload(ranges: list[list[int]], mode: t.Any) -> str:
    if mode == "channel":
        return "channel"
    ordered = sorted(ranges)
    overlap = any(one[1] >= other[0] for one, other in zip(ordered, ordered[1:]))
    return "dcb" if overlap else "off"


def _numbers(values: t.Any) -> bool:
    return isinstance(values, list) and all(is_int(value) for value in values)


def _range(value: t.Any) -> bool:
    return _numbers(value) and len(value) == 2 and 0 <= value[0] <= value[1]
