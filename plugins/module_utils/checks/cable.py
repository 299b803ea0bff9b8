# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether the plugged module or cable can carry the declared rate."""

from __future__ import annotations

import typing as t

from ..errors import RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.ethtool import parse_module
from ..port_kinds import BOND

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context


def diagnose(host: Host, context: Context) -> list[Finding]:
    """One finding on each physical port."""
    netdevs = [each.netdev for port in context.ports for each in (port.members if port.kind == BOND else (port,))]
    return [_check(host, netdev, context.link_gbps_of(netdev)) for netdev in netdevs]


def _check(host: Host, netdev: str, link_gbps: float | None) -> Finding:
    try:
        done = host.run("ethtool", "-m", netdev, check=False)
        if done.rc:
            return _finding(netdev, SKIPPED, None, link_gbps, f"the driver shows no module: {done.text()}")
        return check_cable(netdev, parse_module(done.out), link_gbps, _running(host, netdev))
    except RoceError as exc:
        return _finding(netdev, UNKNOWN, None, link_gbps, str(exc))


def _running(host: Host, netdev: str) -> float:
    text = (host.read_optional(f"/sys/class/net/{netdev}/speed") or "").strip()
    return int(text) / 1000 if text.isascii() and text.isdigit() else 0.0


def check_cable(netdev: str, module: dict[str, t.Any], link_gbps: float | None, running_gbps: float) -> Finding:
    """A link that runs at its rate settles it; else the rates that the module's codes name."""
    rates = module["gbps"]
    if link_gbps is None or not rates:
        cause = "the policy declares no link_gbps" if link_gbps is None else "the module's codes name no rate"
        return _finding(netdev, UNKNOWN, module, link_gbps, cause)
    if running_gbps >= link_gbps or max(rates) >= link_gbps:
        return _finding(netdev, PASS, module, link_gbps, "")
    cause = f"the cable is made for {max(rates)} Gb/s: the link stays down, or trains at that rate"
    return _finding(netdev, FAIL, module, link_gbps, cause)


def _finding(netdev: str, verdict: str, observed: t.Any, link_gbps: float | None, cause: str) -> Finding:
    return Finding(
        check="cable",
        verdict=verdict,
        observed=observed,
        expected={"gbps": link_gbps},
        evidence=f"ethtool -m {netdev}",
        cause=cause,
        remedy=f"a cable or transceiver for {link_gbps:g} Gb/s" if verdict == FAIL and link_gbps else "",
        port=netdev,
    )
