# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Where a driver shows the card's congestion control. Two interfaces to the same firmware state:

ofed   /sys/class/net/<netdev>/ecn/roce_{np,rp}/, from the modules of MLNX_OFED and DOCA
inbox  /sys/kernel/debug/mlx5/<pci>/cc_params/, from the kernel's own mlx5_ib (cong.c)
"""

from __future__ import annotations

import re
import typing as t

from ..errors import NotApplicable, ParseError

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port

OFED, INBOX = "ofed", "inbox"
_DEBUGFS = "/sys/kernel/debug"
_LOCKDOWN = "/sys/kernel/security/lockdown"
_PROBE = "np_cnp_dscp"


def ofed_path(port: Port, side: str, name: str) -> str:
    """A file of OFED's; side is np (notification point, the receiver) or rp (reaction point, the sender)."""
    return f"/sys/class/net/{port.netdev}/ecn/roce_{side}/{name}"


def inbox_path(port: Port, name: str) -> str:
    """A file of the kernel's own driver. It takes at most 11 bytes in one write."""
    return f"{_inbox_folder(port)}/{name}"


def _inbox_folder(port: Port) -> str:
    return f"{_DEBUGFS}/mlx5/{port.pci}/cc_params"


def find_interface(host: Host, port: Port) -> str:
    """The interface that is there, OFED or INBOX. Raises NotApplicable saying why there is none."""
    if host.exists(f"/sys/class/net/{port.netdev}/ecn/roce_np"):
        return OFED
    if not port.pci or not host.exists(_inbox_folder(port)):
        raise NotApplicable(f"{port.netdev}: no congestion control parameters: {_why_none(host, port)}")
    if host.read_optional(inbox_path(port, _PROBE)) is None:
        raise NotApplicable(
            f"{port.netdev}: {inbox_path(port, _PROBE)} cannot be read: {_lockdown(host)};"
            " the card keeps its defaults or what its firmware configuration says"
        )
    return INBOX


def _why_none(host: Host, port: Port) -> str:
    if port.driver and port.driver != "mlx5_core":
        return f"the driver is {port.driver}, and only mlx5_core has them"
    if not host.listdir(_DEBUGFS):
        return f"debugfs is not mounted, or not open to this user (as root: mount -t debugfs debugfs {_DEBUGFS})"
    return (
        f"{_inbox_folder(port)} is not there: mlx5_ib makes it when the firmware lets the driver query and modify"
        " congestion control; a virtual function has none"
    )


def _lockdown(host: Host) -> str:
    text = host.read_optional(_LOCKDOWN) or ""
    if text and "[none]" not in text:
        return f"kernel lockdown (Secure Boot) keeps debugfs closed ({_LOCKDOWN}: {text.strip()})"
    return "the kernel refuses it (is this root?)"


def read_number(host: Host, path: str) -> int:
    """A whole number in a file of its own. Raises HostError, ParseError."""
    text = host.read(path).strip()
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise ParseError(f"{path}: {text[:40]!r}, a number was expected")
    return int(text)
