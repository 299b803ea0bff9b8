# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""mlnx_qos of OFED in the place of iproute2's dcb, where only that is installed. Pure.

Settings read and speak dcb; here its objects are made of what mlnx_qos prints, and its commands are put into
mlnx_qos's words. Both go through the same netlink interface of the kernel.
"""

from __future__ import annotations

import json
import typing as t

from ..errors import HostError, Unreadable
from ..parsers.dcb import DSCPS
from ..parsers.mlnx_qos import Qos, parse_mlnx_qos

_LISTS = {
    "prio-pfc": "--pfc",
    "tc-tsa": "--tsa",
    "tc-bw": "--tcbw",
    "prio-tc": "--prio_tc",
    "prio-buffer": "--prio2buffer",
    "buffer-size": "--buffer_size",
}
_WORDS = {"on": "1", "off": "0"}


def as_dcb(object_: str, netdev: str, text: str) -> str:
    """JSON text of ``dcb -j <object> show`` from mlnx_qos's output. Raises Unreadable when it lacks the object."""
    qos = parse_mlnx_qos(text)
    data = _objects(qos)[object_]
    if any(value is None for value in data.values()):
        raise Unreadable(f"{netdev}: mlnx_qos prints no {object_} settings of this port")
    return json.dumps(data)


def _objects(qos: Qos) -> dict[str, dict[str, t.Any]]:
    enabled = None if qos.enabled_prios is None else [prio in qos.enabled_prios for prio in range(8)]
    none: dict[str, t.Any] = {"tsa": None, "bw": None, "prio_tc": None}
    ets = qos.ets or none
    listed = list(map(list, qos.dscp_prio.items())) if qos.trust == "dscp" else []
    return {
        "dcbx": {"host": None if qos.dcbx is None else qos.dcbx == "host"},
        "app": {"dscp_prio": None if qos.trust is None else listed},
        "pfc": {"prio_pfc": enabled, **({} if qos.cable_length is None else {"delay": qos.cable_length})},
        "ets": {"tc_tsa": ets["tsa"], "tc_bw": ets["bw"], "prio_tc": ets["prio_tc"]},
        "buffer": {
            "prio_buffer": qos.prio_buffer,
            "buffer_size": qos.buffer_size,
            **({} if qos.total_size is None else {"total_size": qos.total_size}),
        },
    }


def in_mlnx_qos(argv: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The commands of mlnx_qos that do what one ``dcb <object> <verb> dev <netdev> …`` does."""
    _dcb, object_, verb, _dev, netdev, *words = argv
    start = ("mlnx_qos", "-i", netdev)
    if object_ == "dcbx":
        return [(*start, "-d", "os")]
    if (object_, verb) == ("app", "flush"):
        return [(*start, "--trust", "pcp")]
    if (object_, verb) == ("app", "add"):
        return _map(start, [word.split(":") for word in words[1:]])
    if words[0] == "delay":
        return [(*start, "--cable_len", words[1])]
    if object_ not in ("pfc", "ets", "buffer"):
        raise HostError(f"{' '.join(argv)}: dcb is not installed, and mlnx_qos cannot do this")
    return [(*start, *_lists(words))]


def _map(start: tuple[str, ...], pairs: list[list[str]]) -> list[tuple[str, ...]]:
    """From PCP the whole map is added: --trust dscp makes it DSCP>>3, and takes no --dscp2prio beside it."""
    whole = len(pairs) == DSCPS
    rest = [(dscp, prio) for dscp, prio in pairs if not whole or int(dscp) >> 3 != int(prio)]
    words = [word for dscp, prio in rest for word in ("--dscp2prio", f"set,{dscp},{prio}")]
    return [*([(*start, "--trust", "dscp")] if whole else []), *([(*start, *words)] if words else [])]


def _lists(words: list[str]) -> t.Iterator[str]:
    """``prio-pfc 0:off 1:on …`` as ``--pfc 0,1,…``."""
    option, values = "", list[str]()
    for word in [*words, ""]:
        index, colon, value = word.partition(":")
        if colon:
            values.append(_WORDS.get(value, value))
            continue
        if option:
            yield from (option, ",".join(values))
        option, values = _LISTS.get(index, ""), []
