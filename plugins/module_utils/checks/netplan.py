# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An MTU that stands in a netplan file and is not in force.

networkd applies the MTU of a netplan file only where the port is matched by its MAC address (older
netplan): that the file says so proves nothing. No YAML reader is on a node, so only the few lines that
matter are read, by their indentation.
"""

from __future__ import annotations

import re
import typing as t

from ..findings import FAIL, PASS, Finding

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

_FOLDER = "/etc/netplan"
_LINE = re.compile(r"( *)(?:- )?([A-Za-z0-9_.@-]+):[ \t]*(.*?)[ \t]*(?:#.*)?")


def diagnose(host: Host, context: Context) -> list[Finding]:
    """A finding for each port whose MTU a netplan file declares."""
    found = []
    for name in host.listdir(_FOLDER):
        text = host.read_optional(f"{_FOLDER}/{name}") if name.endswith((".yaml", ".yml")) else None
        declared = parse_mtus(text or "")
        for port in context.ports:
            running = (host.read_optional(f"/sys/class/net/{port.netdev}/mtu") or "").strip()
            if port.netdev in declared and running.isdecimal():
                found.append(check_mtu(f"{_FOLDER}/{name}", port.netdev, *declared[port.netdev], int(running)))
    return found


def parse_mtus(text: str) -> dict[str, tuple[int, bool]]:
    """MTU and whether a MAC address is matched, by the name of the port, for what stands under ``ethernets``."""
    path: list[tuple[int, str]] = []
    mtus: dict[str, int] = {}
    matched: set[str] = set()
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        indent, key, value = len(match.group(1)), match.group(2), match.group(3)
        path = [(depth, name) for depth, name in path if depth < indent] + [(indent, key)]
        names = [name for _depth, name in path]
        if "ethernets" not in names[:-2]:
            continue
        port = names[names.index("ethernets") + 1]
        if key == "mtu" and re.fullmatch("[0-9]{1,5}", value):
            mtus[port] = int(value)
        if key == "macaddress" and "match" in names:
            matched.add(port)
    return {port: (mtu, port in matched) for port, mtu in mtus.items()}


def check_mtu(file: str, netdev: str, declared: int, matched: bool, running: int) -> Finding:
    """The MTU of the file against the running one."""
    right = declared == running
    return Finding(
        check="netplan_mtu",
        verdict=PASS if right else FAIL,
        observed=running,
        expected=declared,
        evidence=f"{file}, /sys/class/net/{netdev}/mtu",
        cause=""
        if right
        else f"{file} declares MTU {declared} for {netdev}, and {running} is in force"
        + ("" if matched else ": networkd applies it only where the port is matched by its MAC address"),
        remedy="" if right else "match the port by macaddress (and set-name), or set the MTU in a .link file",
        port=netdev,
        layers={"on_disk": declared, "running": running},
    )
