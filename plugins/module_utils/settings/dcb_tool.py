# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading through iproute2's ``dcb``, shared by the settings that use it; mlnx_qos where there is no dcb."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..errors import HostError, ToolMissing, Unreadable
from ..operations import Operation, Run
from .base import Change
from .mlnx_qos_tool import as_dcb, in_mlnx_qos

if t.TYPE_CHECKING:
    from ..host import Host

# dcb/dcb.c: prefixes of what it prints on standard error for an attribute that the driver lacks.
_LACKING = ("Attribute read: Operation not supported", "Attribute not found")


def show(host: Host, object_: str, netdev: str) -> str:
    """JSON text of ``dcb -j <object> show dev <netdev>``.

    Raises Unreadable when the driver has no such object (virtual functions, veth), ToolMissing,
    HostError.
    """
    argv = ("dcb", "-j", object_, "show", "dev", netdev)
    if only_mlnx_qos(host):
        return as_dcb(object_, netdev, host.run("mlnx_qos", "-i", netdev).out)
    try:
        done = host.run(*argv, check=False)
    except ToolMissing as exc:
        raise ToolMissing("dcb", f"{exc.package} in version 5.12 or newer (or mlnx-tools, for mlnx_qos)") from exc
    if done.rc == 0:
        return done.out
    if done.err.startswith(_LACKING):
        raise Unreadable(
            f"{netdev}: the driver has no DCB {object_}:"
            f" only physical functions of Ethernet ports have it ({done.text()})"
        )
    raise HostError(f"{' '.join(argv)}: exit status {done.rc}: {done.text()}")


def only_mlnx_qos(host: Host) -> bool:
    """Whether mlnx_qos has to do what dcb would."""
    return host.which("dcb") is None and host.which("mlnx_qos") is not None


def spoken(host: Host, changes: list[Change]) -> list[Change]:
    """Planned changes in the words of the tool that is installed."""
    if not any(_is_dcb(operation) for change in changes for operation in change.operations):
        return changes
    return [_in_mlnx_qos(change) for change in changes] if only_mlnx_qos(host) else changes


def _is_dcb(operation: Operation) -> bool:
    return isinstance(operation, Run) and operation.argv[0] == "dcb"


def _in_mlnx_qos(change: Change) -> Change:
    operations: list[Operation] = []
    for operation in change.operations:
        if isinstance(operation, Run) and _is_dcb(operation):
            operations += [Run(argv) for argv in in_mlnx_qos(operation.argv)]
        else:
            operations.append(operation)
    return replace(change, operations=tuple(operations))
