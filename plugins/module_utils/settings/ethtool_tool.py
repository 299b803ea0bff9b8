# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reading through ``ethtool``, shared by the settings that use it."""

from __future__ import annotations

import typing as t

from ..errors import HostError, Unreadable

if t.TYPE_CHECKING:
    from ..host import Done, Host

_LACKING = "Operation not supported"


def show(host: Host, option: str, netdev: str) -> str:
    """Output of ``ethtool --json <option> <netdev>``, or of the text form where JSON is not offered.

    Raises Unreadable when the driver has no such feature, ToolMissing, HostError.
    """
    done = host.run("ethtool", "--json", option, netdev, check=False)
    if done.rc == 0:
        return done.out
    if _LACKING in done.err:
        raise _lacking(option, netdev, done)
    return show_text(host, option, netdev)


def show_text(host: Host, option: str, netdev: str) -> str:
    """Output of ``ethtool <option> <netdev>``, for options that no version prints as JSON. Raises as ``show``."""
    done = host.run("ethtool", option, netdev, check=False)
    if done.rc == 0:
        return done.out
    if _LACKING in done.err:
        raise _lacking(option, netdev, done)
    raise HostError(f"ethtool {option} {netdev}: exit status {done.rc}: {done.text()}")


def _lacking(option: str, netdev: str, done: Done) -> Unreadable:
    return Unreadable(f"{netdev}: the driver does not offer 'ethtool {option}' ({done.text()})")
