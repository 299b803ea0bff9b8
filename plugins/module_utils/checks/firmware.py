# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Firmware of the cards: its version, its NV parameters by layer, and who owns DCBX. Pure but for ``diagnose``."""

from __future__ import annotations

import re
import typing as t

from ..errors import NotApplicable, PolicyError, RoceError, brief
from ..findings import FAIL, PASS, PENDING, SKIPPED, UNKNOWN, Finding
from ..mlx5.devices import Device, select_devices
from ..mlx5.nvconfig import Tools, find_tools, query, query_argv
from ..mlx5.versions import read_versions
from ..parsers.mstconfig import Parameter, same_value, split_value
from ..port_kinds import LAG_PORT
from ..ports import with_members
from ..settings.dcbx import Dcbx

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port
    from .base import Context

RESET = "reset the firmware (module mlx5_firmware with reset: if_pending) or reboot, when no job runs"
BURN = "burn a newer image with mstflint or the vendor's tool; this collection burns none"
_DCBX = re.compile(r"LLDP_NB_(DCBX|RX_MODE)_P[0-9]+")

# -- versions --------------------------------------------------------------------------------------


def version_key(version: str) -> tuple[int, ...] | None:
    """A version as numbers, so that 28.9 is below 28.39 and 28.39 is 28.39.0; None when it is none."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", version):
        return None
    parts = [int(part) for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def checked_minimum(raw: t.Any, option: str = "minimum_version") -> dict[str, str]:
    """Minimum versions by PSID, ``""`` for all cards. Raises PolicyError for what is no version."""
    entries = {} if raw in (None, "") else raw if isinstance(raw, t.Mapping) else {"": raw}
    for psid, version in entries.items():
        # YAML takes 28.40 for the number 28.4, which is an older version.
        if not isinstance(version, str) or version_key(version) is None:
            where = f"{option}[{psid}]" if psid else option
            raise PolicyError(f"{where}: {brief(version)} … a version such as '28.39.1002', in quotes, was expected")
    return {str(psid): version for psid, version in entries.items()}


def judge_version(device: Device, versions: t.Mapping[str, str], minimum: t.Mapping[str, str]) -> Finding | None:
    """A finding on the firmware's version; None where nothing is asked of it and no newer one waits."""
    psid, running, stored = (versions.get(key, "") for key in ("psid", "running", "stored"))
    wanted = minimum.get(psid) or minimum.get("", "")
    waiting = bool(stored) and stored != running
    verdict, cause, remedy = _version_verdict(running, stored if waiting else "", wanted)
    if not minimum and not waiting:
        return None
    if minimum and not wanted:
        verdict, cause, remedy = SKIPPED, f"no minimum is declared for PSID {psid or 'that could not be read'}", ""
    return Finding(
        check="firmware_version",
        verdict=verdict,
        observed=running or None,
        expected=f"at least {wanted}" if wanted else stored,
        evidence=versions.get("evidence", ""),
        cause=cause,
        remedy=remedy,
        port=device.port(),
        layers={"declared": wanted or None, "running": running or None, "next_boot": stored or None},
    )


def _version_verdict(running: str, waiting: str, wanted: str) -> tuple[str, str, str]:
    """Verdict, cause and remedy; ``waiting`` is a stored version that does not run yet."""
    have, need, next_one = version_key(running), version_key(wanted), version_key(waiting)
    if have is None:
        return UNKNOWN, f"the running version could not be read ({running or 'nothing was shown'})", ""
    if waiting and (need is None or (next_one is not None and next_one >= need)):
        return PENDING, f"{waiting} is stored and {running} still runs", RESET
    if need is not None and have < need:
        return FAIL, f"{running} is older than the declared minimum {wanted}", BURN
    return PASS, "", ""


# -- parameters ------------------------------------------------------------------------------------


def judge_parameter(
    device: Device, wanted: t.Any, found: Parameter, evidence: str, *, written: bool = False, error: str = ""
) -> Finding:
    """A finding on one NV parameter. ``written``: this run wrote it, so that a reset must be outstanding."""
    verdict, cause, remedy = _parameter_verdict(wanted, found, written)
    return Finding(
        check="firmware_parameter",
        verdict=verdict,
        observed={found.name: found.next_boot if verdict == FAIL else found.current},
        expected={found.name: wanted},
        evidence=evidence,
        cause=error if verdict == FAIL and error else cause,
        remedy=remedy,
        port=device.port(),
        layers={
            "declared": wanted,
            "default": found.default,
            "running": found.current,
            "next_boot": found.next_boot,
        },
    )


def _parameter_verdict(wanted: t.Any, found: Parameter, written: bool) -> tuple[str, str, str]:
    if not same_value(wanted, found.next_boot):
        cause = f"the next boot brings {found.next_boot}, and {wanted} is declared"
        return (
            FAIL,
            cause,
            f"module mlx5_firmware with {found.name}: {wanted}, then a reset of the firmware or a reboot",
        )
    if found.current is not None and same_value(wanted, found.current):
        return PASS, "", ""
    if found.current is not None:
        return PENDING, f"reset pending: {found.current} runs, the next boot brings {found.next_boot}", RESET
    if written:
        return PENDING, f"reset pending: {found.next_boot} was written for the next boot", RESET
    return UNKNOWN, f"the next boot brings {found.next_boot}; what runs now the firmware does not say", ""


def judge_pending(device: Device, parameters: t.Mapping[str, Parameter], evidence: str) -> Finding:
    """Whether any parameter of a device waits for a reset; unknown where the current values are not shown."""
    states = {name: parameter.reset_pending() for name, parameter in parameters.items()}
    waiting = sorted(name for name, pending in states.items() if pending)
    undecided = bool(states) and all(pending is None for pending in states.values())
    verdict = PENDING if waiting else UNKNOWN if undecided or not states else PASS
    cause = {
        PENDING: f"the next boot brings other values of {', '.join(waiting[:6])}{' …' if len(waiting) > 6 else ''}",
        UNKNOWN: "the firmware shows the values of the next boot only: whether a reset is pending can't be decided",
        PASS: "",
    }[verdict]
    return Finding(
        check="firmware_reset",
        verdict=verdict,
        observed={name: f"{parameters[name].current} → {parameters[name].next_boot}" for name in waiting},
        expected={},
        evidence=evidence,
        cause=cause,
        remedy=RESET if waiting else "",
        port=device.port(),
        layers={
            "running": {name: parameters[name].current for name in waiting},
            "next_boot": {name: parameters[name].next_boot for name in waiting},
        },
    )


def judge_dcbx(
    device: Device, parameters: t.Mapping[str, Parameter], host_owns: bool | None, evidence: str
) -> Finding | None:
    """Whether the firmware's own DCBX agent may overwrite ETS and PFC; None where the firmware has none."""
    layers = {name: p.current or p.next_boot for name, p in parameters.items() if _DCBX.fullmatch(name)}
    shown = {name: value for name, value in layers.items() if value}
    agents = sorted(name for name, value in shown.items() if "DCBX" in name and not _is_off(value))
    if not shown:
        return None
    verdict = PASS if not agents or host_owns else UNKNOWN if host_owns is None else FAIL
    off = " and ".join(f"{name}: 0" for name in sorted(shown) if name in agents or "RX_MODE" in name)
    causes = {
        PASS: "",
        UNKNOWN: f"{', '.join(agents)} is on, and who owns DCBX on the port could not be read",
        FAIL: f"{', '.join(agents)} is on and the firmware owns DCBX: its agent may overwrite ETS and PFC",
    }
    return Finding(
        check="firmware_dcbx",
        verdict=verdict,
        observed={**shown, "host_owns_dcbx": host_owns},
        expected="off, or DCBX owned by the host",
        evidence=evidence,
        cause=causes[verdict],
        remedy="" if verdict == PASS else f"role roce_policy (dcbx: host), or module mlx5_firmware with {off}",
        port=device.port(),
    )


def _is_off(value: str) -> bool:
    text, number = split_value(value)
    return number == 0 or text.upper() == "OFF"


# -- the node --------------------------------------------------------------------------------------


def silent_device(device: Device, verdict: str, reason: str, evidence: str) -> Finding:
    """A finding on a device that refuses or does not answer."""
    return Finding(
        check="firmware", verdict=verdict, expected="readable", evidence=evidence, cause=reason, port=device.port()
    )


def tool_missing(reason: str) -> Finding:
    """A finding on a node without mstconfig and mlxconfig."""
    return Finding(
        check="firmware",
        verdict=UNKNOWN,
        evidence="mstconfig -d … -e query",
        cause=reason,
        remedy="role baseline installs package mstflint",
    )


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Firmware version, reset pending and firmware DCBX of every card. Reads only."""
    minimum = checked_minimum(context.options.get("minimum_firmware"), "minimum_firmware")
    devices, _missing = select_devices(host, [])
    versions = [judge_version(device, read_versions(host, device), minimum) for device in devices]
    found = [finding for finding in versions if finding]
    if not devices:
        return found
    try:
        tools = find_tools(host)
    except RoceError as exc:
        return [*found, tool_missing(str(exc))]
    for device in devices:
        found += _device_findings(host, tools, device, _host_owns_dcbx(host, device, context))
    return found


def _device_findings(host: Host, tools: Tools, device: Device, host_owns: bool | None) -> list[Finding]:
    evidence = " ".join(query_argv(tools, device.pci))
    try:
        parameters = query(host, tools, device.pci).parameters
    except NotApplicable as exc:
        return [silent_device(device, SKIPPED, str(exc), evidence)]
    except RoceError as exc:
        return [silent_device(device, UNKNOWN, str(exc), evidence)]
    dcbx = judge_dcbx(device, parameters, host_owns, evidence)
    return [judge_pending(device, parameters, evidence), *([dcbx] if dcbx else [])]


def _host_owns_dcbx(host: Host, device: Device, context: Context) -> bool | None:
    """Whether every port of the device leaves DCBX to the host, as far as is known; facts omit the ports of a bond."""
    owners = [
        port.get("settings", {}).get("dcbx", {}).get("owner")
        for port in context.facts.get("ports", [])
        if port.get("netdev") in device.netdevs
    ]
    owners += [_dcbx_owner(host, port) for port in with_members(device.ports) if _is_bonded(port, device)]
    if not owners or any(owner is None for owner in owners):
        return None
    return set(owners) == {"host"}


def _is_bonded(port: Port, device: Device) -> bool:
    return port.kind == LAG_PORT and port.netdev in device.netdevs


def _dcbx_owner(host: Host, port: Port) -> str | None:
    try:
        return str(Dcbx().read(host, port)["owner"])
    except RoceError:
        return None
