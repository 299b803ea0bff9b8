# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``mlnx_qos -i IF`` (mlnx-tools) -> data. Pure.

It is known from recorded outputs of several versions, and from copies on web pages whose blanks collapsed. So
each line is found by what it begins with. What a version does not print is None, which is not zero.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..errors import ParseError
from .dcb import DSCPS, PRIOS

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DSCPS = re.compile(r"\bprio:\s*([0-7])\s+dscp:\s*([0-9]{1,2}(?:,[0-9]{1,2})*)")
_CLASS = re.compile(
    r"tc:[ \t]*(?P<tc>[0-9]+)[ \t]+ratelimit:[^,\n]+,[ \t]*tsa:[ \t]*(?P<tsa>[a-z]+)"
    r"(?:,[ \t]*bw:[ \t]*(?P<bw>[0-9]{1,3})%)?"
)
_PRIORITIES = re.compile(r"(?:priority|up):((?:[ \t]*[0-9]+[ \t,]*)*)")


@dataclass
class Qos:
    """What one port runs. trust is dscp, pcp or none; dcbx is host or firmware."""

    dcbx: str | None = None
    trust: str | None = None
    dscp_prio: dict[int, int] = field(default_factory=dict)
    enabled_prios: list[int] | None = None
    cable_length: int | None = None
    prio_buffer: list[int] | None = None
    buffer_size: list[int] | None = None
    total_size: int | None = None
    ets: dict[str, list[t.Any]] | None = None
    lldpad: bool = False


def parse_mlnx_qos(text: str) -> Qos:
    """The settings of a port. Raises ParseError when there are none in the text, or when they cannot be."""
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    qos = Qos(
        dcbx={"OS": "host", "Firmware": "firmware"}.get(_word(text, r"DCBX mode:[ \t]*(OS|Firmware) controlled")),
        trust=_word(text, r"Priority trust state:[ \t]*(dscp|pcp|none)\b") or None,
        dscp_prio=_dscp_prio(text),
        enabled_prios=_enabled(text),
        cable_length=_number(text, r"Cable len:[ \t]*([0-9]{1,5})\b"),
        prio_buffer=_eight(_word(text, r"buffer((?:[ \t]+[0-7]){8})")),
        buffer_size=_eight(_word(text, r"Receive buffer size \(bytes\):[ \t]*([0-9]{1,9}(?:,[ \t]*[0-9]{1,9}){7})")),
        total_size=_number(text, r"(?:\S.*)?max_buffer_size=([0-9]{1,10})\b"),
        ets=_ets(text),
        lldpad="lldpad service is running" in text,
    )
    if qos.dcbx is None and qos.trust is None and qos.enabled_prios is None and qos.ets is None:
        raise ParseError(f"mlnx_qos: no settings in {text.strip()[:80]!r}")
    return qos


def _word(text: str, pattern: str) -> str:
    """The group of a pattern that a line begins with; empty when there is no such line."""
    found = re.search(rf"^[ \t]*{pattern}", text, re.MULTILINE)
    return found.group(1) if found else ""


def _number(text: str, pattern: str) -> int | None:
    word = _word(text, pattern)
    return int(word) if word else None


def _eight(words: str) -> list[int] | None:
    numbers = [int(word) for word in re.findall(r"[0-9]+", words)]
    return numbers if len(numbers) == PRIOS else None


def _enabled(text: str) -> list[int] | None:
    # Some copies have the row in the line of the heading.
    flags = _eight(_word(text, r"(?:PFC configuration:[ \t]*)?enabled((?:[ \t]+[01]){8})[ \t]*$"))
    return None if flags is None else [prio for prio, on in enumerate(flags) if on]


def _dscp_prio(text: str) -> dict[int, int]:
    mapping: dict[int, int] = {}
    for prio, dscps in _DSCPS.findall(text):
        for dscp in map(int, dscps.split(",")):
            if dscp >= DSCPS or mapping.setdefault(dscp, int(prio)) != int(prio):
                raise ParseError(f"mlnx_qos: DSCP {dscp} of priority {prio} is out of range or listed twice")
    return dict(sorted(mapping.items()))


def _ets(text: str) -> dict[str, list[t.Any]] | None:
    """The tables of eight, as dcb gives them. A class without priorities is not printed: it carries nothing."""
    tsa, bw, prio_tc = ["strict"] * PRIOS, [0] * PRIOS, dict[int, int]()
    heads = list(_CLASS.finditer(text))
    for head, end in zip(heads, [*(head.start() for head in heads[1:]), len(text)]):
        class_ = _below_eight(head["tc"], "tc")
        tsa[class_], bw[class_] = head["tsa"], min(int(head["bw"] or 0), 100)
        for numbers in _PRIORITIES.findall(text[head.end() : end]):
            for prio in (_below_eight(word, "priority") for word in re.findall(r"[0-9]+", numbers)):
                if prio_tc.setdefault(prio, class_) != class_:
                    raise ParseError(f"mlnx_qos: priority {prio} is in two classes, {prio_tc[prio]} and {class_}")
    if len(prio_tc) != PRIOS:
        return None
    return {"tsa": tsa, "bw": bw, "prio_tc": [prio_tc[prio] for prio in range(PRIOS)]}


def _below_eight(word: str, what: str) -> int:
    if len(word) > 1 or int(word) >= PRIOS:
        raise ParseError(f"mlnx_qos: {what} {word[:20]}, 0 to {PRIOS - 1} was expected")
    return int(word)
