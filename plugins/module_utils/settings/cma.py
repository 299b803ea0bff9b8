# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""RoCE mode and TOS of connections made through rdma_cm (configfs, cma_configfs.c).

Applications that set up their queue pairs themselves (NCCL, perftest without -R) ignore it.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError, Unreadable
from ..operations import MakeDir, Operation, Write
from ..port_kinds import RDMA
from .base import Setting, State, Value

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

ROOT = "/sys/kernel/config/rdma_cm"
MODES = ("IB/RoCE v1", "RoCE v2")
# cma.c: what the kernel starts with on a port that can do RoCE v2.
_KERNEL_DEFAULT = {"mode": "RoCE v2", "tos": 0}


class Cma(Setting):
    """``{"mode": "RoCE v2", "tos": 106, "exposed": true}``.

    Not exposed means that nobody made the device's directory since it appeared: its values are then
    the kernel's defaults, unless a tool wrote them and removed the directory again.
    """

    name = "cma"
    rank = 90
    belongs_to = RDMA
    risk = "connections made through rdma_cm use the default, lossy class"

    def read(self, host: Host, port: Port) -> Value:
        if not host.exists(ROOT):
            raise Unreadable(f"{ROOT}: not there; load the module rdma_cm and mount configfs (role baseline does both)")
        folder = _folder(port)
        if not host.exists(folder):
            return {**_KERNEL_DEFAULT, "exposed": False}
        tos = host.read(f"{folder}/default_roce_tos").strip()
        mode = host.read(f"{folder}/default_roce_mode").strip()
        if not re.fullmatch("[0-9]{1,3}", tos):
            raise ParseError(f"{folder}/default_roce_tos: {tos!r}, a number was expected")
        return {"mode": mode, "tos": int(tos), "exposed": True}

    def evidence(self, port: Port) -> str:
        return f"{_folder(port)}/default_roce_{{mode,tos}}"

    def wanted(self, policy: Policy) -> Value | None:
        return {"mode": policy.roce_mode, "tos": policy.tos, "exposed": True}

    def equal(self, wanted: Value, actual: Value) -> bool:
        same = all(wanted[key] == actual[key] for key in ("mode", "tos"))
        # A directory stays when a value is put back: what counts is the value.
        return same and (actual["exposed"] or not wanted["exposed"])

    def predicted(self, wanted: Value, actual: Value) -> Value:
        return {**wanted, "exposed": True}

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        folder = _folder(port)
        actual = state[self.name]
        steps: list[Operation] = [] if actual["exposed"] else [MakeDir(f"{ROOT}/{port.ibdev}")]
        # Unseen values are written even if they look right.
        keys = [key for key in ("mode", "tos") if wanted[key] != actual[key] or not actual["exposed"]]
        steps += [Write(f"{folder}/default_roce_{key}", f"{wanted[key]}\n") for key in keys]
        return tuple(steps)


def _folder(port: Port) -> str:
    return f"{ROOT}/{port.ibdev}/ports/{port.ibport}"
