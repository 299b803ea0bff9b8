# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""devlink parameters of the cards. Private to the collection.

A runtime value counts at once. A driverinit value counts after a reload, which removes the netdevs and
makes them anew: that a device still waits for it is seen by its netdevs being the same ones as when
the value was set.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..errors import PolicyError, RoceError
from ..findings import FAIL, PASS, PENDING, SKIPPED, UNKNOWN, Finding
from ..operations import Run
from ..parsers.driver import Values, parse_devlink_params
from ..parsers.mstconfig import same_value
from . import once
from .devices import Device, on_card_of, why_untouchable
from .part import LongRun, Part, Plan, WaitFor

if t.TYPE_CHECKING:
    from ..host import Host

_RELOAD = "devlink dev reload pci/{} action driver_reinit"


def checked_values(raw: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Values by parameter. Raises PolicyError."""
    for name, value in raw.items():
        if not re.fullmatch(r"[a-z0-9_]+", str(name)):
            raise PolicyError(f"devlink: {name!r} … a parameter as devlink prints it was expected, such as enable_roce")
        if not isinstance(value, (bool, int, str)) or not re.fullmatch(r"\w+", str(value)):
            raise PolicyError(f"devlink: {name}: {value!r} … a number, true, false or a word was expected")
    return dict(raw)


@dataclass
class _Seen:
    """What one device showed."""

    values: Values = field(default_factory=dict)
    skipped: str = ""
    netdevs: str = ""  # name=ifindex of each: other numbers after a reload
    waiting: str = ""  # the same at the time when a driverinit value was set

    def mode(self, name: str) -> str:
        return "runtime" if "runtime" in self.values[name] else "driverinit"

    def shown(self, name: str) -> str:
        return _text(self.values[name][self.mode(name)])

    def reload_pending(self) -> bool:
        return bool(self.waiting) and self.waiting == self.netdevs


class DevlinkPart(Part):
    """Parameters of all devices; a reload only if asked, never under a job or the management connection."""

    name = "devlink"

    def __init__(self, devices: t.Sequence[Device], wanted: dict[str, t.Any], reload: bool) -> None:
        self.devices = devices if wanted else ()
        self.wanted = wanted
        self.reload = reload
        self._seen: dict[Device, _Seen] = {}

    def read(self, host: Host) -> None:
        self._seen = {device: self._look(host, device) for device in self.devices}
        problems = [problem for device in self.devices for problem in self._refusals(device)]
        if problems:
            raise PolicyError("; ".join(problems) + "; nothing was changed")

    def _look(self, host: Host, device: Device) -> _Seen:
        handle = f"pci/{device.pci}"
        try:
            values = parse_devlink_params(host.run("devlink", "-j", "dev", "param", "show", handle).out)
        except RoceError as exc:
            return _Seen(skipped=str(exc))
        if handle not in values:
            return _Seen(skipped=f"devlink shows no parameters of {handle}")
        numbers = (
            f"{name}={(host.read_optional(f'/sys/class/net/{name}/ifindex') or '').strip()}" for name in device.netdevs
        )
        return _Seen(values[handle], netdevs=" ".join(numbers), waiting=once.noted(host, _mark(device)))

    def _refusals(self, device: Device) -> t.Iterator[str]:
        seen = self._seen[device]
        for name in self.wanted if not seen.skipped else ():
            if name not in seen.values:
                known = ", ".join(sorted(seen.values)) or "none"
                yield f"devlink: {device.pci}: no parameter {name!r} … one of {known} was expected"
            elif not {"runtime", "driverinit"} & set(seen.values[name]):
                yield f"devlink: {device.pci}: {name} is kept in the firmware; mlx5_firmware sets such values"

    def plan(self, host: Host) -> Plan:
        plan, notes = Plan(), []
        for device, seen in self._seen.items():
            changed = [name for name in self.wanted if not seen.skipped and not self._right(seen, name)]
            for name in changed:
                plan.operations.append(_set(device, name, self.wanted[name], seen.mode(name)))
                plan.before[f"{device.pci} {name}"] = seen.shown(name)
                plan.after[f"{device.pci} {name}"] = _text(self.wanted[name])
            init = any(seen.mode(name) == "driverinit" for name in changed)
            if init:
                plan.operations += once.operations(_mark(device), seen.netdevs)
            if self.reload and (init or seen.reload_pending()):
                notes.append(self._plan_reload(host, plan, device, seen))
        plan.note = "; ".join(note for note in notes if note)
        return plan

    def _plan_reload(self, host: Host, plan: Plan, device: Device, seen: _Seen) -> str:
        """Add a reload to the plan, or say why there is none."""
        card = tuple(on_card_of(host, device))
        refusal = why_untouchable(host, card)
        mark = f"devlink-reload-{device.pci}"
        if not refusal and once.tried(host, mark, seen.netdevs):
            refusal = "a reload in this boot did not help; reboot the node"
        if refusal:
            return f"{device.label()}: not reloaded: {refusal}"
        plan.operations += once.operations(mark, seen.netdevs)
        plan.operations += [LongRun(tuple(_RELOAD.format(device.pci).split())), WaitFor(card)]
        plan.before[f"{device.pci} reload"], plan.after[f"{device.pci} reload"] = "outstanding", "done"
        return ""

    def _right(self, seen: _Seen, name: str) -> bool:
        return same_value(self.wanted[name], seen.shown(name))

    def findings(self, note: str, error: str) -> list[Finding]:
        return [
            self._finding(device, seen, name, note, error)
            for device, seen in self._seen.items()
            for name in self.wanted
        ]

    def _finding(self, device: Device, seen: _Seen, name: str, note: str, error: str) -> Finding:
        shown = None if seen.skipped else seen.shown(name)
        verdict, cause, remedy = self._verdict(device, seen, name, note, error)
        return Finding(
            check="devlink",
            verdict=verdict,
            observed={name: shown},
            expected={name: _text(self.wanted[name])},
            evidence=f"devlink -j dev param show pci/{device.pci}",
            cause=cause,
            remedy=remedy,
            port=device.port(),
            layers={"declared": _text(self.wanted[name]), "running": shown},
        )

    def _verdict(self, device: Device, seen: _Seen, name: str, note: str, error: str) -> tuple[str, str, str]:
        if seen.skipped:
            absent = re.search(r"No such device|no parameters|not supported", seen.skipped, re.IGNORECASE)
            return (SKIPPED if absent else UNKNOWN), seen.skipped, ""
        if not self._right(seen, name):
            return (
                FAIL,
                error or f"{seen.shown(name)} is set and {_text(self.wanted[name])} is declared",
                "role mlx5 sets it",
            )
        if seen.mode(name) == "driverinit" and seen.reload_pending():
            remedy = (
                f"when no job runs: {_RELOAD.format(device.pci)}; then role roce_policy, since a reload loses all QoS"
            )
            return PENDING, "; ".join(text for text in ("set, and takes effect with a reload", note) if text), remedy
        return PASS, "", ""


def _mark(device: Device) -> str:
    return f"devlink-set-{device.pci}"


def _set(device: Device, name: str, value: t.Any, mode: str) -> Run:
    words = ("devlink", "dev", "param", "set", f"pci/{device.pci}", "name", name, "value", _text(value), "cmode", mode)
    return Run(words)


def _text(value: t.Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
