# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ECN for RoCE by priority: whether receivers answer marks with CNPs, and whether senders slow down on CNPs.

Only OFED's driver has switches at run time. The kernel's own has none: there the firmware's mask decides.
"""

from __future__ import annotations

import typing as t

from ..errors import NotApplicable, ParseError
from ..operations import Operation, Write
from ..parsers.dcb import PRIOS
from .base import Setting, State, Value
from .cc_files import ofed_path, read_number

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

SIDES = ("np", "rp")


def ecn_value(prios: t.Mapping[int, bool]) -> Value:
    """The value for priority -> on or off. Every node sends and receives, so both sides are always alike."""
    switches = {str(prio): on for prio, on in sorted(prios.items())}
    return {side: dict(switches) for side in SIDES}


class Ecn(Setting):
    """``{"np": {"3": true}, "rp": {"3": true}}``. Priorities that are not named are left alone."""

    name = "ecn"
    rank = 80
    risk = "congestion is answered by PFC pauses alone, which spread through the fabric"

    def read(self, host: Host, port: Port) -> Value:
        if not host.exists(ofed_path(port, "np", "enable")):
            raise NotApplicable(_why_none(port))
        return {side: {str(prio): _switch(host, port, side, prio) for prio in range(PRIOS)} for side in SIDES}

    def evidence(self, port: Port) -> str:
        return f"/sys/class/net/{port.netdev}/ecn/roce_{{np,rp}}/enable/*"

    def wanted(self, policy: Policy) -> Value | None:
        return ecn_value(policy.ecn) if policy.ecn else None

    def equal(self, wanted: Value, actual: Value) -> bool:
        return not _todo(wanted, actual)

    def predicted(self, wanted: Value, actual: Value) -> Value:
        return {side: {**actual[side], **wanted[side]} for side in SIDES}

    def differing(self, wanted: Value, actual: Value) -> tuple[Value, Value]:
        observed = {side: {prio: actual.get(side, {}).get(prio) for prio in wanted[side]} for side in SIDES}
        return observed, wanted

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        steps = _todo(wanted, state[self.name])
        return tuple(Write(ofed_path(port, side, f"enable/{prio}"), "1" if on else "0") for side, prio, on in steps)


def _todo(wanted: Value, actual: Value) -> list[tuple[str, str, bool]]:
    return [
        (side, prio, on)
        for side in SIDES
        for prio, on in wanted[side].items()
        if actual.get(side, {}).get(prio) is not on
    ]


def _switch(host: Host, port: Port, side: str, prio: int) -> bool:
    path = ofed_path(port, side, f"enable/{prio}")
    value = read_number(host, path)
    if value > 1:
        raise ParseError(f"{path}: {value}, 0 or 1 was expected")
    return value == 1


def _why_none(port: Port) -> str:
    if port.driver and port.driver != "mlx5_core":
        return f"{port.netdev}: ECN by priority: the driver is {port.driver}, and only mlx5_core has it"
    return (
        f"{port.netdev}: the kernel's own mlx5 driver cannot switch ECN by priority while it runs (OFED's can):"
        " the firmware's ROCE_CC_PRIO_MASK decides at boot, and its default is 255, all priorities on"
        f" (mstconfig -d {port.pci or 'PCI_ADDRESS'} -e query {mask_name(port.pci)})"
    )


def mask_name(pci: str) -> str:
    """The firmware's mask of the port with that PCI address: the functions of a card are its ports, in order."""
    function = pci.rpartition(".")[2]
    return f"ROCE_CC_PRIO_MASK_P{int(function) + 1 if function.isdigit() else 1}"
