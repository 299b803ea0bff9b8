# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The traffic class (TOS byte) that OFED's driver forces on every RoCE queue pair of a port.

The kernel's own driver has no such thing: there each application sets it for itself.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import NotApplicable, ParseError
from ..operations import Operation, Write
from ..port_kinds import RDMA
from .base import Setting, State, Value

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

_NOT_FORCED = "-1"
_GLOBAL = re.compile(r"(?:Global )?(?:tclass=)?([0-9]{1,3})")
# Rules for single addresses may follow, one a line; they count only while no global class is set.
_RULE = re.compile(r"[^\s=]+=\S*,tclass=[0-9]{1,3}")


def parse_traffic_class(text: str) -> int | None:
    """The class that is forced on all queue pairs; None when there is none. Raises ParseError."""
    forced = None
    for line in filter(None, map(str.strip, text.splitlines())):
        found = _GLOBAL.fullmatch(line)
        if found and int(found.group(1)) <= 255:
            forced = int(found.group(1))
        elif not _RULE.fullmatch(line):
            raise ParseError(f"traffic_class: {line[:60]!r}, 'Global tclass=' and 0 to 255 was expected")
    return forced


class TrafficClass(Setting):
    """``{"tclass": 106}``, or None while applications have their own way."""

    name = "traffic_class"
    rank = 85
    belongs_to = RDMA
    risk = "queue pairs whose application sets no traffic class use the default, lossy class"

    def read(self, host: Host, port: Port) -> Value:
        if not host.exists(_path(port)):
            raise NotApplicable(
                f"{port.netdev}: {_path(port)} is not there: only OFED's driver can force a traffic class on all queue"
                " pairs; here each application sets its own (NCCL_IB_TC for NCCL, --tclass for perftest)"
            )
        return {"tclass": parse_traffic_class(host.read(_path(port)))}

    def evidence(self, port: Port) -> str:
        return _path(port)

    def wanted(self, policy: Policy) -> Value | None:
        return {"tclass": policy.tos}

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        value = _NOT_FORCED if wanted["tclass"] is None else str(wanted["tclass"])
        return (Write(_path(port), value),)


def _path(port: Port) -> str:
    return f"/sys/class/infiniband/{port.ibdev}/tc/{port.ibport}/traffic_class"
