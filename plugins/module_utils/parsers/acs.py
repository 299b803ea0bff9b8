# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Access Control Services in the output of ``lspci -vvv`` -> data. Pure. Shape: pciutils ls-ecaps.c."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

# Bits of the control register, lowest first, by lspci's names.
BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")

_HEADER = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ")
_CONTROL = re.compile(r"\s*ACSCtl:((?:\s+[A-Za-z]+[+-])+)\s*")
_CAPABILITY = re.compile(r"\s+Capabilities: \[([0-9a-f]+)(?: v[0-9]+)?\] (\S+)")


@dataclass
class Function:
    """One PCI function, as far as ACS goes.

    on: the control bits that are on, or None when the register was not seen
    capable: the listing speaks of ACS
    listed: any capability was seen
    express: it is PCI Express, and so has capabilities beyond the first 256 bytes
    extended: such capabilities were seen: had there been ACS, we would know
    denied: the reader was not allowed to see capabilities
    """

    address: str
    on: tuple[str, ...] | None = None
    capable: bool = False
    listed: bool = False
    express: bool = False
    extended: bool = False
    denied: bool = False

    def problem(self) -> str:
        """Why the listing cannot tell whether ACS is on; empty when it can."""
        if self.denied:
            return "its capabilities can't be read (lspci needs root)"
        if self.capable and self.on is None:
            return "it has ACS, and the control register can't be read"
        if self.on is None and not self.listed:
            return "none of its capabilities was listed"
        if self.express and not self.extended and not self.capable:
            return "its extended configuration space can't be read"
        return ""


def parse_acs(text: str) -> dict[str, Function]:
    """Address (with domain) -> function. A bare list of ACSCtl lines gives "line 1", "line 2" and so on."""
    functions: dict[str, Function] = {}
    current: Function | None = None
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            current = Function(with_domain(header.group(1)))
            functions[current.address] = current
        elif "ACSCtl:" in line and (current is None or current.address.startswith("line ")):
            current = Function(f"line {number}")
            functions[current.address] = current
            _read_line(current, line)
        elif current is not None:
            _read_line(current, line)
    return functions


def _read_line(function: Function, line: str) -> None:
    capability = _CAPABILITY.match(line)
    if capability:
        function.listed = True
        function.extended = function.extended or int(capability.group(1), 16) >= 0x100
        function.express = function.express or capability.group(2) == "Express"
    function.capable = function.capable or "ACSCap:" in line or "ACSCtl:" in line or "Access Control Serv" in line
    function.denied = function.denied or "Capabilities: <access denied>" in line
    control = _CONTROL.fullmatch(line)
    if control:
        words = control.group(1).split()
        # A cut line could hide a bit that is on.
        if set(BITS) <= {word[:-1] for word in words}:
            function.on = tuple(word[:-1] for word in words if word.endswith("+"))


def with_domain(address: str) -> str:
    """The address as sysfs writes it: lspci leaves out domain 0000 when there is no other."""
    return address if address.count(":") == 2 else f"0000:{address}"


def word(on: t.Iterable[str]) -> int:
    """The control register with these bits on."""
    names = set(on)
    return sum(1 << number for number, name in enumerate(BITS) if name in names)
