# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""PCIe device control of the function: maximum read request and relaxed ordering. Lost at reboot.

Register: PCI Express capability + 8, a word; bits 14..12 the read request (128 << n bytes), bit 4 relaxed ordering.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import NotApplicable, Unreadable
from ..operations import Operation, Run
from ..port_kinds import VIRTUAL_FUNCTION
from .base import State, Value
from .partial import Partial

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

_REGISTER = "CAP_EXP+8.w"
_READ_SHIFT, _READ_MASK = 12, 0x7000
_ORDERING_BIT = 0x0010


class Pcie(Partial):
    """``{"max_read_request": 4096, "relaxed_ordering": true}``."""

    name = "pcie"
    rank = 19
    risk = "the card fetches data from memory in smaller pieces, or in stricter order, than declared"
    along = ()

    def read(self, host: Host, port: Port) -> Value:
        if port.kind == VIRTUAL_FUNCTION:
            raise NotApplicable(f"{port.netdev}: PCIe device control of a virtual function is its physical function's")
        if not port.pci or not host.exists(f"/sys/bus/pci/devices/{port.pci}"):
            raise NotApplicable(f"{port.netdev}: is no PCI function, so it has no PCIe device control register")
        done = host.run("setpci", "-s", port.pci, _REGISTER, check=False)
        if done.rc and "not found" in done.err:
            raise NotApplicable(f"{port.netdev}: {port.pci} has no PCI Express capability ({done.text()})")
        if not re.fullmatch(r"[0-9a-f]{4}", done.out.strip()):
            raise Unreadable(
                f"{port.netdev}: setpci -s {port.pci} {_REGISTER}: {done.text()!r}, a hexadecimal word was expected"
            )
        return device_control(int(done.out, 16))

    def evidence(self, port: Port) -> str:
        return f"setpci -s {port.pci} {_REGISTER}"

    def wanted(self, policy: Policy) -> Value | None:
        nic = policy.nic or {}
        return {key: nic[key] for key in ("max_read_request", "relaxed_ordering") if key in nic} or None

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        value, mask = register_bits(self.todo(wanted, state[self.name]))
        return (Run(("setpci", "-s", port.pci, f"{_REGISTER}={value:04x}:{mask:04x}")),)


def device_control(word: int) -> Value:
    """The register's value as plain data."""
    return {
        "max_read_request": 128 << ((word & _READ_MASK) >> _READ_SHIFT),
        "relaxed_ordering": bool(word & _ORDERING_BIT),
    }


def register_bits(values: Value) -> tuple[int, int]:
    """Bits to write and the mask of those that are meant; all others stay as they are."""
    value = mask = 0
    if "max_read_request" in values:
        mask |= _READ_MASK
        value |= (values["max_read_request"] // 128).bit_length() - 1 << _READ_SHIFT
    if "relaxed_ordering" in values:
        mask |= _ORDERING_BIT
        value |= _ORDERING_BIT if values["relaxed_ordering"] else 0
    return value, mask
