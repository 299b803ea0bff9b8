# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Parameters of DCQCN, the congestion control of RoCE v2, by the names that OFED gives them.

They are the port's, not a priority's. A card that runs RTT-based congestion control instead ignores them.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..errors import NotApplicable, PolicyError, Unreadable, brief
from ..operations import Operation, Write
from .base import Setting, State, Value
from .cc_files import OFED, find_interface, inbox_path, ofed_path, read_number

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

DEFAULTS = "defaults"
_U32 = 2**32 - 1
_U17 = 2**17 - 1


@dataclass(frozen=True)
class Parameter:
    """One parameter: side (rp or np), name in debugfs, range, unit and the default of the firmware."""

    side: str
    inbox: str
    low: int
    high: int
    default: int
    unit: str = ""

    def allowed(self) -> str:
        """The range for messages."""
        return f"{self.low} to {self.high}{' ' if self.unit else ''}{self.unit}"


PARAMETERS = {
    "clamp_tgt_rate": Parameter("rp", "rp_clamp_tgt_rate", 0, 1, 0),
    "clamp_tgt_rate_after_time_inc": Parameter("rp", "rp_clamp_tgt_rate_ati", 0, 1, 1),
    "rpg_time_reset": Parameter("rp", "rp_time_reset", 0, _U17, 300, "microseconds"),
    "rpg_byte_reset": Parameter("rp", "rp_byte_reset", 0, _U32, 32767, "bytes (0 is off)"),
    "rpg_threshold": Parameter("rp", "rp_threshold", 0, 31, 1),
    "rpg_max_rate": Parameter("rp", "rp_max_rate", 0, _U32, 0, "Mb/s (0 is the link rate)"),
    "rpg_ai_rate": Parameter("rp", "rp_ai_rate", 0, _U32, 5, "Mb/s"),
    "rpg_hai_rate": Parameter("rp", "rp_hai_rate", 0, _U32, 50, "Mb/s"),
    "rpg_gd": Parameter("rp", "rp_gd", 0, 15, 11, "(binary logarithm)"),
    "rpg_min_dec_fac": Parameter("rp", "rp_min_dec_fac", 1, 100, 50, "percent"),
    "rpg_min_rate": Parameter("rp", "rp_min_rate", 0, _U32, 1, "Mb/s"),
    "rate_to_set_on_first_cnp": Parameter("rp", "rp_rate_to_set_on_first_cnp", 0, _U32, 0, "Mb/s (0 is the link rate)"),
    "dce_tcp_g": Parameter("rp", "rp_dce_tcp_g", 1, 1023, 1019),
    "dce_tcp_rtt": Parameter("rp", "rp_dce_tcp_rtt", 1, _U17, 1, "microseconds"),
    "rate_reduce_monitor_period": Parameter("rp", "rp_rate_reduce_monitor_period", 1, _U17, 4, "microseconds"),
    "initial_alpha_value": Parameter("rp", "rp_initial_alpha_value", 0, 1023, 1023),
    "min_time_between_cnps": Parameter("np", "np_min_time_between_cnps", 0, _U17, 4, "microseconds"),
}
# Files beside them that belong to other fields of the policy.
_ELSEWHERE = {"cnp_dscp": "cnp_dscp", "cnp_802p_prio": "cnp_prio"}


def dcqcn_value(raw: t.Any) -> Value:
    """The checked value for a mapping name -> number, or for "defaults". Raises PolicyError."""
    if raw == DEFAULTS:
        return {"params": {name: parameter.default for name, parameter in PARAMETERS.items()}, "reset": True}
    if not isinstance(raw, t.Mapping):
        raise PolicyError(f"dcqcn: {brief(raw)} … a mapping of parameters to numbers, or {DEFAULTS!r}, was expected")
    params = {name: _checked(name, value) for name, value in raw.items()}
    slowest, fastest = params.get("rpg_min_rate", 0), params.get("rpg_max_rate", 0)
    if fastest and slowest > fastest:
        raise PolicyError(f"dcqcn: rpg_min_rate {slowest} is above rpg_max_rate {fastest}")
    return {"params": {name: params[name] for name in PARAMETERS if name in params}}


def dcqcn_request(state: str, parameters: t.Any) -> Value:
    """The checked value for the options of the module of that name. Raises PolicyError."""
    if state == "reset" and parameters:
        raise PolicyError(f"parameters: {parameters!r} … none were expected with state reset, which resets all of them")
    return dcqcn_value(DEFAULTS if state == "reset" else parameters)


def _checked(name: t.Any, value: t.Any) -> int:
    if name in _ELSEWHERE:
        raise PolicyError(f"dcqcn: {name} is given by the policy's field {_ELSEWHERE[name]}")
    parameter = PARAMETERS.get(name)
    if parameter is None:
        raise PolicyError(f"dcqcn: unknown parameter {name!r} … one of {', '.join(PARAMETERS)} was expected")
    number = _number(value, switch=parameter.high == 1)
    if number is None or not parameter.low <= number <= parameter.high:
        raise PolicyError(f"dcqcn: {name}: {brief(value)} … {parameter.allowed()} was expected")
    return number


def _number(value: t.Any, switch: bool) -> int | None:
    if isinstance(value, bool):
        return int(value) if switch else None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        return int(value)
    return None


class Dcqcn(Setting):
    """``{"interface": "ofed", "params": {"rpg_ai_rate": 5, …}}``. Parameters that are not named are left alone."""

    name = "dcqcn"
    rank = 82
    risk = "senders slow down and recover in another way than the fabric was tuned for"

    def read(self, host: Host, port: Port) -> Value:
        try:
            interface = find_interface(host, port)
        except NotApplicable as exc:
            # Nobody has these by default: whoever declares them must not find them left out.
            raise Unreadable(str(exc)) from exc
        paths = {name: _path(port, interface, name) for name in PARAMETERS}
        params = {name: read_number(host, path) for name, path in paths.items() if host.exists(path)}
        return {"interface": interface, "params": params}

    def evidence(self, port: Port) -> str:
        return f"{ofed_path(port, '{np,rp}', '*')} or {inbox_path(port, '*')}"

    def wanted(self, policy: Policy) -> Value | None:
        return policy.dcqcn

    def equal(self, wanted: Value, actual: Value) -> bool:
        return not _todo(wanted, actual)

    def predicted(self, wanted: Value, actual: Value) -> Value:
        return {**actual, "params": {**actual["params"], **_todo(wanted, actual)}}

    def differing(self, wanted: Value, actual: Value) -> tuple[Value, Value]:
        todo = _todo(wanted, actual) if actual else wanted["params"]
        return {name: actual.get("params", {}).get(name) for name in todo}, dict(todo)

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        lacking = [name for name in _todo(wanted, state[self.name]) if name not in state[self.name]["params"]]
        if lacking:
            raise PolicyError(f"{port.netdev}: dcqcn: this driver has no {', '.join(lacking)}; leave it out")

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        interface = state[self.name]["interface"]
        todo = _todo(wanted, state[self.name])
        return tuple(Write(_path(port, interface, name), str(value)) for name, value in todo.items())


def _todo(wanted: Value, actual: Value) -> dict[str, int]:
    """What differs. Defaults are meant for the parameters that the driver has."""
    running = actual["params"]
    return {
        name: value
        for name, value in wanted["params"].items()
        if running.get(name) != value and (name in running or not wanted.get("reset"))
    }


def _path(port: Port, interface: str, name: str) -> str:
    parameter = PARAMETERS[name]
    return ofed_path(port, parameter.side, name) if interface == OFED else inbox_path(port, parameter.inbox)
