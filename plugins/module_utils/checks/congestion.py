# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Congestion control beyond what a setting can see: the firmware's side of it, and who uses which traffic class."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..errors import RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..mlx5.nvconfig import find_tools, query
from ..port_kinds import BOND, LAG_PORT
from ..ports import with_members
from ..settings.cc_files import ofed_path
from ..settings.ecn import mask_name
from ..settings.traffic_class import TrafficClass
from .nccl_env import FILES, on_disk, that_count

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port
    from .base import Context

_LEGACY = "ROCE_CC_LEGACY_DCQCN"
_GPU_MADE = ("NCCL_GIN_IB_TC", "NCCL_IB_TC")


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Findings on every declared port: of a bond, on the firmware of its ports and the class of its RDMA device."""
    cards: dict[str, Firmware] = {}
    return [finding for port in with_members(context.ports) for finding in _port_findings(host, context, port, cards)]


@dataclass(frozen=True)
class Firmware:
    """What is known of a card: NV values in use by name, or none and the reason; ``tool`` is what was asked."""

    values: t.Mapping[str, str]
    reason: str = ""
    tool: str = "mstconfig"


def _port_findings(host: Host, context: Context, port: Port, cards: dict[str, Firmware]) -> t.Iterator[Finding]:
    if host.exists(f"/sys/class/net/{port.netdev}/device/physfn"):
        yield judge_virtual_function(port.netdev)
        return
    if port.kind != BOND:
        yield from _firmware_findings(host, context, port, cards)
    if port.kind != LAG_PORT:
        yield from _class_findings(host, context, port)


def _firmware_findings(host: Host, context: Context, port: Port, cards: dict[str, Firmware]) -> t.Iterator[Finding]:
    """``cards`` holds what is known already: a query takes seconds, and tells of all ports of a card."""
    card = port.pci.rpartition(".")[0]
    if card not in cards:
        cards[card] = read_firmware(host, port.pci)
    firmware = cards[card]
    policy = context.policy_of(port.netdev)
    if policy and not host.exists(ofed_path(port, "np", "enable")):
        yield judge_mask(port, firmware, policy.data_prio)
    if _LEGACY in firmware.values:
        yield judge_algorithm(port, firmware)


def _class_findings(host: Host, context: Context, port: Port) -> t.Iterator[Finding]:
    try:
        tclass = TrafficClass().read(host, port)["tclass"]
    except RoceError:  # not OFED's driver: nothing is forced; what is unreadable is the setting's own finding
        return
    yield from judge_forced_class(port.netdev, tclass, *_map_and_pfc(context, port))
    if tclass is not None:
        variables = {name: setting.value for name, setting in that_count(on_disk(host)[0]).items()}
        yield judge_gpu_made(port.netdev, tclass, variables, whole=False)


def read_firmware(host: Host, pci: str) -> Firmware:
    """What the firmware of a card runs with."""
    try:
        tools = find_tools(host)
        parameters = query(host, tools, pci).parameters
    except RoceError as exc:
        return Firmware({}, str(exc))
    values = {name: parameter.current for name, parameter in parameters.items() if parameter.current}
    return Firmware(values, "" if values else "the firmware shows the values of the next boot only", tools.config)


def _map_and_pfc(context: Context, port: Port) -> tuple[dict[int, int], list[int] | None]:
    found: dict[str, t.Any] = next((one for one in context.facts.get("ports", []) if one["netdev"] == port.netdev), {})
    settings = found.get("settings", {})
    dscp_prio = {int(dscp): prio for dscp, prio in settings.get("trust", {}).get("dscp_prio", {}).items()}
    return dscp_prio, settings.get("pfc", {}).get("enabled_prios")


# -- judgement: pure -----------------------------------------------------------------------------


def judge_virtual_function(netdev: str) -> Finding:
    """Its files of quality of service are refused, and that is as it should be."""
    return Finding(
        check="ecn",
        verdict=SKIPPED,
        evidence=f"/sys/class/net/{netdev}/device/physfn",
        cause=f"{netdev} is a virtual function: ECN, PFC, trust and buffers belong to the physical function, on the"
        " host that owns the card, and are refused here",
        port=netdev,
    )


def judge_mask(port: Port, firmware: Firmware, prio: int) -> Finding:
    """Whether the firmware has congestion control on for the data's priority, where the driver has no switch."""
    name = mask_name(port.pci)
    mask = firmware.values.get(name)
    reason = firmware.reason or f"{name} is {mask or 'not shown'}"
    known = mask is not None and re.fullmatch(r"[0-9]{1,3}", mask)
    on = bool(known and int(mask or 0) >> prio & 1)
    return Finding(
        check="ecn_firmware",
        verdict=PASS if on else FAIL if known else UNKNOWN,
        observed=int(mask or 0) if known else mask,
        expected=f"a mask with bit {prio} ({1 << prio})",
        evidence=f"{firmware.tool} -d {port.pci} -e query {name} (current)",
        cause="" if on else _mask_cause(port, bool(known), prio, reason),
        remedy=f"module lossless.roce.mlx5_firmware with {name}: 255, then a reset of the card"
        if known and not on
        else "",
        port=port.netdev,
    )


def _mask_cause(port: Port, known: bool, prio: int, reason: str) -> str:
    if known:
        return f"the firmware of {port.netdev} has congestion control off for priority {prio}"
    return f"the driver has no switch per priority, and the firmware's mask is unknown ({reason}); its default is 255"


def judge_algorithm(port: Port, firmware: Firmware) -> Finding:
    """Whether DCQCN is what slows senders down. False only means that another algorithm may have been put in."""
    legacy = firmware.values[_LEGACY]
    dcqcn = legacy.startswith("True")
    return Finding(
        check="congestion_algorithm",
        verdict=PASS if dcqcn else UNKNOWN,
        observed=legacy,
        expected="DCQCN, if its parameters are to count",
        evidence=f"{firmware.tool} -d {port.pci} -e query {_LEGACY} (current)",
        cause=""
        if dcqcn
        else "the card can run RTT-based congestion control, which ignores DCQCN's parameters; register PPCC tells",
        remedy="" if dcqcn else f"mstreg -d {port.pci} --reg_name PPCC --get shows it; {_LEGACY}=True keeps DCQCN",
        port=port.netdev,
    )


def judge_forced_class(
    netdev: str, tclass: int | None, dscp_prio: t.Mapping[int, int], lossless: list[int] | None
) -> list[Finding]:
    """Where the class that the driver forces on queue pairs ends up, and whether switches can mark it."""
    if tclass is None:
        return []
    findings = [] if tclass & 3 else [_without_ecn_bits(netdev, tclass)]
    prio = dscp_prio.get(tclass >> 2)
    if prio is None or lossless is None:
        return findings
    right = prio in lossless
    return [
        Finding(
            check="forced_class",
            verdict=PASS if right else FAIL,
            observed={"tclass": tclass, "dscp": tclass >> 2, "prio": prio},
            expected=f"one of the lossless priorities {lossless}",
            evidence=f"/sys/class/infiniband/*/tc/*/traffic_class of {netdev}",
            cause="" if right else f"all queue pairs of {netdev} are forced into priority {prio}, which is lossy",
            remedy="" if right else "module lossless.roce.traffic_class with the policy's tos",
            port=netdev,
        ),
        *findings,
    ]


def _without_ecn_bits(netdev: str, tclass: int) -> Finding:
    """Not a failure by itself: mlx5 takes the DSCP only, and sets ECT where its congestion control is on."""
    return Finding(
        check="forced_class_ecn",
        verdict=UNKNOWN,
        observed=tclass,
        expected=f"{tclass | 2} (the same DSCP, ECN-capable)",
        evidence=f"/sys/class/infiniband/*/tc/*/traffic_class of {netdev}",
        cause="the ECN bits of the class are 00: packets are marked only if the card sets ECT by itself, which mlx5"
        " does while congestion control is on",
        remedy=f"module lossless.roce.traffic_class with tclass: {tclass | 2}, and the same number for NCCL",
        port=netdev,
    )


def judge_gpu_made(netdev: str, tclass: int, variables: t.Mapping[str, str], whole: bool) -> Finding:
    """Whether queue pairs that GPUs make get the forced class, too: only NCCL's variables reach them.

    whole: the variables are the job's whole environment, not only what a file adds to it.
    """
    name = next((name for name in _GPU_MADE if name in variables), "")
    right = variables.get(name) == str(tclass)
    return Finding(
        check="nccl_traffic_class",
        verdict=PASS if right else FAIL if name or whole else UNKNOWN,
        observed={name: variables.get(name) for name in _GPU_MADE},
        expected=str(tclass),
        evidence="the job's environment" if whole else " and ".join(FILES),
        cause=""
        if right
        else f"queue pairs that a GPU makes (GIN, GDAKI) do not get the forced class {tclass}:"
        f" they use {name + '=' + variables[name] if name else 'class 0, the lossy default, unless the job sets it'}",
        remedy="" if right else f"set NCCL_IB_TC={tclass} (and NCCL_GIN_IB_TC, where it is used) for the job",
        port=netdev,
    )
