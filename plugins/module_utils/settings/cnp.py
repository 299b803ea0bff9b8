# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""DSCP and 802.1p priority of congestion notification packets, which receivers send to slow senders down."""

from __future__ import annotations

import typing as t

from ..operations import Operation, Write
from .base import Setting, State, Value
from .cc_files import INBOX, OFED, find_interface, inbox_path, ofed_path, read_number

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

_FILES = {
    OFED: {"dscp": "cnp_dscp", "prio": "cnp_802p_prio"},
    INBOX: {"dscp": "np_cnp_dscp", "prio": "np_cnp_prio", "prio_mode": "np_cnp_prio_mode"},
}
# cong.c: writing np_cnp_prio sets the mode to 0. In another mode the card takes the priority of the data packet.
_OWN_PRIO = 0


class Cnp(Setting):
    """``{"interface": "inbox", "dscp": 48, "prio": 6, "prio_mode": 0}``; OFED has no prio_mode."""

    name = "cnp"
    rank = 81
    risk = "CNPs queue behind the congestion that they report, or in a class that the switch drops"

    def read(self, host: Host, port: Port) -> Value:
        interface = find_interface(host, port)
        paths = {key: _path(port, interface, key) for key in _FILES[interface]}
        there = {key: path for key, path in paths.items() if key != "prio_mode" or host.exists(path)}
        return {"interface": interface, **{key: read_number(host, path) for key, path in there.items()}}

    def evidence(self, port: Port) -> str:
        return f"{ofed_path(port, 'np', 'cnp_*')} or {inbox_path(port, 'np_cnp_*')}"

    def wanted(self, policy: Policy) -> Value | None:
        return {"dscp": policy.cnp_dscp, "prio": policy.cnp_prio}

    def equal(self, wanted: Value, actual: Value) -> bool:
        return not _steps(wanted, actual)

    def predicted(self, wanted: Value, actual: Value) -> Value:
        steps = _steps(wanted, actual)
        mode = {"prio_mode": _OWN_PRIO} if "prio" in steps and "prio_mode" in actual else {}
        return {**actual, **mode, **steps}

    def differing(self, wanted: Value, actual: Value) -> tuple[Value, Value]:
        expected: Value = {key: wanted[key] for key in ("dscp", "prio") if key in wanted}
        if "prio" in wanted and "prio_mode" in actual:
            expected["prio_mode"] = wanted.get("prio_mode", _OWN_PRIO)
        return {key: actual.get(key) for key in expected}, expected

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        actual = state[self.name]
        steps = _steps(wanted, actual)
        return tuple(Write(_path(port, actual["interface"], key), str(value)) for key, value in steps.items())


def _steps(wanted: Value, actual: Value) -> dict[str, int]:
    """What to write, in this order."""
    steps = {}
    if "dscp" in wanted and wanted["dscp"] != actual["dscp"]:
        steps["dscp"] = wanted["dscp"]
    if "prio" not in wanted:
        return steps
    mode = actual.get("prio_mode", _OWN_PRIO)
    target = wanted.get("prio_mode", _OWN_PRIO) if "prio_mode" in actual else _OWN_PRIO
    if wanted["prio"] != actual["prio"] or (mode != target == _OWN_PRIO):
        steps["prio"] = wanted["prio"]
        mode = _OWN_PRIO
    if mode != target:
        steps["prio_mode"] = target
    return steps


def _path(port: Port, interface: str, key: str) -> str:
    name = _FILES[interface][key]
    return ofed_path(port, "np", name) if interface == OFED else inbox_path(port, name)
