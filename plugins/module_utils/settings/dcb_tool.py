# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading through iproute2's ``dcb``, shared by the settings that use it."""

from __future__ import annotations

import typing as t

from ..errors import HostError, Unreadable

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
    done = host.run(*argv, check=False)
    if done.rc == 0:
        return done.out
    if done.err.startswith(_LACKING):
        raise Unreadable(
            f"{netdev}: the driver has no DCB {object_}:"
            f" only physical functions of Ethernet ports have it ({done.text()})"
        )
    raise HostError(f"{' '.join(argv)}: exit status {done.rc}: {done.text()}")
