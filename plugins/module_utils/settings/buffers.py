# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Receive buffers of a port, and the length of its cable, from which the driver computes their headroom.

mlx5 (en/port_buffer.c): a buffer is lossless when a priority with PFC uses it, or any priority while global
pause is on. It then needs room for what is under way when a pause frame leaves (xoff), for the largest
frame and for one cell. A cable, a PFC mask or buffers that break the rule are refused, so they are set in
the order in which each step keeps it.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import NotApplicable, PolicyError, Unreadable
from ..operations import Operation, Run
from ..parsers.dcb import PRIOS, parse_buffer, parse_pfc
from ..parsers.ethtool import parse_pause
from ..parsers.ip_link import parse_max_mtu
from .base import Setting, State, Value
from .dcb_tool import show
from .ethtool_tool import show as show_ethtool

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port

# SBCAM's usual size of a cell; sizes are cut to whole cells.
_CELL = 128
_LEAST_FRAME = 9216
_LEAST_GBPS = 40


class Cable(Setting):
    """``{"metres": 7}``. mlx5 keeps it in the field that IEEE calls PFC delay."""

    name = "cable_length"
    rank = 55
    risk = "the headroom of lossless buffers is computed for another cable: packets are lost, or memory is wasted"

    def read(self, host: Host, port: Port) -> Value:
        metres = parse_pfc(show(host, "pfc", port.netdev))["delay"]
        if metres is None:
            raise Unreadable(f"{port.netdev}: dcb prints no PFC delay, which holds the length of the cable")
        if metres == 0:
            raise NotApplicable(
                f"{port.netdev}: the length of the cable reads as 0: this card has no port buffers that software can"
                " set, and its firmware sizes them by itself"
            )
        return {"metres": metres}

    def evidence(self, port: Port) -> str:
        return f"dcb -j pfc show dev {port.netdev} (delay)"

    def wanted(self, policy: Policy) -> Value | None:
        return None if policy.cable_length is None else {"metres": policy.cable_length}

    def release(self, port: Port, wanted: State, state: State) -> Value | None:
        # Smaller buffers fit a shorter cable only.
        return wanted[self.name] if wanted[self.name]["metres"] < state[self.name]["metres"] else None

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        if wanted["metres"] > state[self.name]["metres"]:
            require_fit(port, {**state, self.name: wanted})

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        return (Run(("dcb", "pfc", "set", "dev", port.netdev, "delay", str(wanted["metres"]))),)


class Buffers(Setting):
    """``{"prio_buffer": [8], "buffer_size": [8 in bytes]}``; "along" is read for the rules only."""

    name = "buffers"
    rank = 50
    disturbs = True
    risk = "lossless packets share room with others, or have too little of it and are dropped"

    def read(self, host: Host, port: Port) -> Value:
        try:
            text = show(host, "buffer", port.netdev)
        except Unreadable as exc:
            raise NotApplicable(f"{port.netdev}: no port buffers that software can set: {exc}") from exc
        return {**parse_buffer(text), "along": _along(host, port)}

    def evidence(self, port: Port) -> str:
        return f"dcb -j buffer show dev {port.netdev}"

    def wanted(self, policy: Policy) -> Value | None:
        return policy.buffers

    def equal(self, wanted: Value, actual: Value) -> bool:
        return bool(
            wanted["prio_buffer"] == actual["prio_buffer"]
            and _whole_cells(wanted["buffer_size"]) == _whole_cells(actual["buffer_size"])
        )

    def predicted(self, wanted: Value, actual: Value) -> Value:
        return {**actual, "prio_buffer": wanted["prio_buffer"], "buffer_size": _whole_cells(wanted["buffer_size"])}

    def shown(self, value: Value) -> Value:
        return {key: part for key, part in value.items() if key != "along"}

    def differing(self, wanted: Value, actual: Value) -> tuple[Value, Value]:
        keys = ("prio_buffer", "buffer_size")
        return {key: actual.get(key) for key in keys}, {key: wanted[key] for key in keys}

    def refuse(self, port: Port, wanted: Value, state: State) -> None:
        require_fit(port, {**state, self.name: {**state[self.name], **wanted, "along": state[self.name]["along"]}})

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        argv = ["dcb", "buffer", "set", "dev", port.netdev]
        for word, key in (("prio-buffer", "prio_buffer"), ("buffer-size", "buffer_size")):
            argv += [word, *(f"{index}:{wanted[key][index]}" for index in range(PRIOS))]
        return (Run(tuple(argv)),)


def lossless_before_buffers(wanted: State, state: State) -> Value | None:
    """PFC on the way to other buffers: only what is lossless before and after. None when the buffers stay."""
    if "buffers" not in wanted or "buffers" not in state or Buffers().equal(wanted["buffers"], state["buffers"]):
        return None
    after = wanted["pfc"]["enabled_prios"]
    return {"enabled_prios": [prio for prio in state["pfc"]["enabled_prios"] if prio in after]}


def xoff_bytes(gbps: float, metres: int, mtu: int) -> int:
    """Bytes that arrive between the decision to pause and the silence (calculate_xoff)."""
    return int((301 + 216 * metres // 100) * max(gbps, _LEAST_GBPS)) + 272 * mtu // 100


def require_fit(port: Port, state: State) -> None:
    """Raise PolicyError when the buffers of a state break the driver's rules; nothing when they are unmanaged."""
    buffers = state.get("buffers")
    if buffers is None:
        return
    sizes, total = buffers["buffer_size"], buffers["total_size"]
    if total is not None and sum(sizes) > total:
        raise PolicyError(f"{port.netdev}: buffers: {sizes} add up to {sum(sizes)}, at most {total} was expected")
    needed, why = _room(state, buffers["along"])
    for prio in _lossless(state, buffers["along"]):
        buffer = buffers["prio_buffer"][prio]
        if sizes[buffer] < needed:
            raise PolicyError(
                f"{port.netdev}: buffers: buffer {buffer} holds lossless priority {prio} and has {sizes[buffer]} bytes"
                f" … at least {needed} was expected ({why})"
            )


def _room(state: State, along: Value) -> tuple[int, str]:
    metres = state.get("cable_length", along)["metres"]
    mtu = state.get("mtu", along)["mtu"]
    xoff = xoff_bytes(along["gbps"], metres, mtu)
    frame = max(along["max_mtu"], _LEAST_FRAME)
    why = f"{xoff} under way at {along['gbps']:g} Gb/s, {metres} m and MTU {mtu}, a frame of {frame}, a cell of {_CELL}"
    return xoff + frame + _CELL, why


def _lossless(state: State, along: Value) -> list[int]:
    pause: Value = state.get("pause") or along["pause"]
    if pause["rx"] or pause["tx"]:
        return list(range(PRIOS))
    return list(state.get("pfc", along)["enabled_prios"])


def _whole_cells(sizes: list[int]) -> list[int]:
    return [size - size % _CELL for size in sizes]


def _along(host: Host, port: Port) -> Value:
    """What the driver's rules depend on, for the settings that nobody manages."""
    pfc = parse_pfc(show(host, "pfc", port.netdev))
    mtu = parse_max_mtu(host.run("ip", "-j", "-d", "link", "show", "dev", port.netdev).out)
    return {
        "enabled_prios": pfc["enabled_prios"],
        "metres": pfc["delay"] or 0,
        "pause": parse_pause(show_ethtool(host, "-a", port.netdev)),
        "gbps": _gbps(host, port),
        **mtu,
    }


def _gbps(host: Host, port: Port) -> float:
    """The link's speed; 0 without a link, where the driver takes the slowest."""
    text = (host.read_optional(f"/sys/class/net/{port.netdev}/speed") or "").strip()
    return int(text) / 1000 if re.fullmatch(r"[0-9]{1,7}", text) else 0.0
