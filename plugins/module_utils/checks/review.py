# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Saved outputs of tools, as people attach them to a report: recognised by their content and judged.

A file that is not recognised is unknown and named. Nothing that was saved proves that a node is right
now: of what looks right there is a pass for that text alone.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ..errors import RoceError
from ..findings import CONVERGE, FAIL, PASS, UNKNOWN, Finding
from ..parsers.ethtool import parse_module, parse_pause
from ..parsers.ib_tools import parse_ibstat
from ..parsers.mlnx_qos import parse_mlnx_qos
from ..parsers.mstconfig import parse_query
from ..parsers.nvidia_topo import parse_topology
from ..parsers.statistics import parse_statistics
from . import addresses, advice, cable, containers, counters, netplan, placement, port_kinds
from .nccl_env import Node, parse_assignments
from .nccl_env import check as check_nccl

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

Judge = t.Callable[[str, "Context"], "list[Finding]"]


def diagnose(_host: Host, context: Context) -> list[Finding]:
    """Findings on each file of the option review; on two readings of ``ethtool -S`` also on what grew between them."""
    texts = context.review.texts
    found = [_unknown(path, reason) for path, reason in context.review.unreadable.items()]
    found += [finding for path, text in texts.items() for finding in review(path, text, context)]
    readings = [parse_statistics(text) for text in texts.values() if _STATISTICS.search(text)]
    if len(readings) == 2 and context.policy:
        earlier, later = counters.in_order(*readings)
        found += counters.judge(
            "", earlier, later, data_prio=context.policy.data_prio, lossless=bool(context.policy.pfc)
        )
    return found + _netplan(texts)


def review(path: str, text: str, context: Context) -> list[Finding]:
    """Findings on one text; each says which file it is about."""
    text = _ANSI.sub("", text)
    judges = [judge for pattern, judge in _KINDS if pattern.search(text)]
    if not judges:
        known = advice.is_script(text) or parse_assignments(text, path) or _NETPLAN.search(text)
        return [] if known else [_unknown(path, "neither a script nor the output of a tool that is known here")]
    found: list[Finding] = []
    for judge in judges:
        try:
            found += judge(text, context)
        except RoceError as exc:
            found.append(_unknown(path, str(exc)))
    return [
        replace(finding, evidence=f"{path} ({finding.evidence})" if finding.evidence else path) for finding in found
    ]


def _unknown(path: str, cause: str) -> Finding:
    return Finding("review", UNKNOWN, evidence=path, cause=cause)


# -- what is recognised --------------------------------------------------------------------------

# Copies on web pages have lost the escape character itself.
_ANSI = re.compile(r"\x1b?\[[0-9;]*m")
_STATISTICS = re.compile(r"^\s*[rt]x_(?:prio[0-7]_bytes|pause_ctrl_phy|global_pause): [0-9]", re.MULTILINE)
_NETPLAN = re.compile(r"^\s*ethernets:\s*$", re.MULTILINE)
# mstconfig's head, its errors, or rows without a head: one value each, or three.
_FIRMWARE = re.compile(
    r"^\s*Configurations:|^Device #[0-9]+:|^-E- |^(?:\*|RO)? {7,}[A-Z][A-Z0-9_]{2,}(?:\[[0-9.]+\])?(?: +\S+){1,3} *$",
    re.MULTILINE,
)
_IP_LINK = re.compile(r"^[0-9]+: ([^:@\s]+)[^\n]* mtu ([0-9]{1,5}) ", re.MULTILINE)


def _statistics(text: str, context: Context) -> list[Finding]:
    """Of a single reading only what needs no second one."""
    lossless = bool(context.policy.pfc) if context.policy else False
    found = counters.judge("", parse_statistics(text), parse_statistics(text), data_prio=None, lossless=lossless)
    return [finding for finding in found if finding.check == "pause_frames"]


def _module(text: str, context: Context) -> list[Finding]:
    return [cable.check_cable("", parse_module(text), context.policy.link_gbps if context.policy else None, 0.0)]


def _pause(text: str, context: Context) -> list[Finding]:
    pause = parse_pause(text)
    on = pause["rx"] or pause["tx"]
    wrong = on and context.policy is not None and bool(context.policy.pfc)
    return [
        Finding(
            check="pause",
            verdict=FAIL if wrong else PASS,
            observed=pause,
            expected={"rx": False, "tx": False},
            cause="global pause is on, and the policy has PFC: a port does one or the other" if wrong else "",
            remedy="ethtool -A PORT rx off tx off, before PFC is turned on" if wrong else "",
        )
    ]


def _qos(text: str, context: Context) -> list[Finding]:
    """mlnx_qos: trust, PFC, the priorities of data and CNP, and ETS, against the policy.

    What is shown and differs fails; a pass needs all of it shown.
    """
    qos, policy = parse_mlnx_qos(text), context.policy
    if policy is None:
        return [_unknown("", "without a policy there is nothing to compare")]
    shown: dict[str, t.Any] = {"trust": qos.trust, "pfc": qos.enabled_prios}
    wanted: dict[str, t.Any] = {"trust": policy.trust, "pfc": list(policy.pfc)}
    if policy.trust == "dscp":
        wanted["dscp_prio"] = {str(dscp): prio for dscp, prio in policy.dscp_overrides().items()}
        shown["dscp_prio"] = {dscp: qos.dscp_prio.get(int(dscp)) for dscp in wanted["dscp_prio"]}
    shown["ets"], wanted["ets"] = qos.ets, policy.ets_table()
    managed = [name for name in wanted if {"dscp_prio": "trust"}.get(name, name) not in policy.unmanaged]
    wrong = [name for name in managed if _differs(shown[name], wanted[name])]
    hidden = [name for name in managed if name not in wrong and shown[name] != wanted[name]]
    cause = f"the port does not run what the policy declares: {', '.join(wrong)}" if wrong else ""
    if hidden and not wrong:
        cause = f"not shown in whole, so not compared: {', '.join(hidden)}"
    return [
        Finding(
            check="qos",
            verdict=FAIL if wrong else UNKNOWN if hidden else PASS,
            observed={name: shown[name] for name in managed},
            expected={name: wanted[name] for name in managed},
            cause=cause,
            remedy=CONVERGE if wrong else "mlnx_qos -i PORT, its whole output" if hidden else "",
        )
    ]


def _differs(shown: t.Any, wanted: t.Any) -> bool:
    """Whether what is shown differs; None was not shown. An ETS table is shown in whole or not at all."""
    if isinstance(shown, dict):
        return any(_differs(shown[name], wanted[name]) for name in wanted)
    return shown is not None and shown != wanted


def _traffic_class(text: str, context: Context) -> list[Finding]:
    """OFED's forced traffic class, and whether NCCL sets the same where it makes queue pairs itself."""
    tclass = int(_TCLASS.findall(text)[-1])
    found = [_ecn_bits(tclass)]
    settings = parse_assignments(text, "env")
    if settings and not any(setting.name == "NCCL_IB_TC" for setting in settings):
        cause = (
            f"traffic class {tclass} is forced on queue pairs that the kernel makes, and NCCL_IB_TC is not set: queue"
            " pairs that GPUs make themselves (GIN, GDAKI) use traffic class 0, the lossy default class"
        )
        remedy = f"set NCCL_IB_TC={tclass} and NCCL_GIN_IB_TC={tclass} in the environment too"
        found.append(Finding("nccl_env", FAIL, {"NCCL_IB_TC": None}, tclass, cause=cause, remedy=remedy))
    return found + (check_nccl(settings, Node()) if settings else [])


_TCLASS = re.compile(r"\btclass=([0-9]{1,3})\b")


def _ecn_bits(tclass: int) -> Finding:
    wrong = tclass & 3 == 0
    return Finding(
        check="traffic_class",
        verdict=FAIL if wrong else PASS,
        observed={"tclass": tclass, "dscp": tclass >> 2, "ecn_bits": tclass & 3},
        expected={"ecn_bits": 2},
        cause=f"traffic class {tclass} is DSCP {tclass >> 2} with ECN bits 00: where the card does not set ECT by"
        " itself, switches drop instead of marking"
        if wrong
        else "",
        remedy=f"use {tclass | 2}, the same DSCP with ECT(0)" if wrong else "",
    )


def _peermem(text: str, _context: Context) -> list[Finding]:
    """NCCL says that GPUDirect is off, whatever lsmod shows."""
    loaded = re.search(r"^nvidia_peermem\s", text, re.MULTILINE)
    absent = re.search(r"memory_peers/\S*: No such file", text)
    cause = "NCCL says that GPU Direct RDMA is disabled"
    if loaded:
        cause += "; nvidia_peermem is loaded" + (
            ", and not registered with ib_core (no memory_peers)" if absent else ""
        )
        cause += ": that it is loaded proves nothing"
    remedy = (
        "build nvidia_peermem against the RDMA stack that runs (OFED's), or use dma-buf (open GPU kernel modules,"
        " kernel 5.12 and newer)"
    )
    return [Finding("gpudirect", FAIL, "disabled", "enabled", cause=cause, remedy=remedy)]


def _firmware(text: str, _context: Context) -> list[Finding]:
    """mstconfig: errors are told in its words; whether a reset is pending needs the column of current values."""
    query = parse_query(text)
    found = [_unknown("", f"mstconfig: {error}") for error in dict.fromkeys(query.errors)]
    for device in query.devices:
        if not device.parameters:
            continue
        states = {name: parameter.reset_pending() for name, parameter in device.parameters.items()}
        waiting = sorted(name for name, pending in states.items() if pending)
        unclear = all(pending is None for pending in states.values())
        found.append(
            Finding(
                check="firmware_reset",
                verdict="pending" if waiting else UNKNOWN if unclear else PASS,
                observed=waiting,
                cause=f"reset pending: {', '.join(waiting)}"
                if waiting
                else "only the values of the next boot are shown (no -e)"
                if unclear
                else "",
            )
        )
    return found or [_unknown("", "no device could be queried")]


def _ibstat(text: str, _context: Context) -> list[Finding]:
    return [port_kinds.check_guid(device["ibdev"], device["node_guid"], "ibstat") for device in parse_ibstat(text)]


def _netplan(texts: t.Mapping[str, str]) -> list[Finding]:
    """A netplan file against the running MTUs of a saved ``ip link``, when both are there."""
    running = {name: int(mtu) for text in texts.values() for name, mtu in _IP_LINK.findall(text)}
    return [
        netplan.check_mtu(path, netdev, mtu, matched, running[netdev])
        for path, text in texts.items()
        if _NETPLAN.search(text)
        for netdev, (mtu, matched) in netplan.parse_mtus(text).items()
        if netdev in running
    ]


def _brief(text: str, context: Context) -> list[Finding]:
    return addresses.check_brief(text, [port.netdev for port in context.ports])


_KINDS: tuple[tuple[re.Pattern[str], Judge], ...] = (
    (_STATISTICS, _statistics),
    (re.compile(r"^\s*Transceiver type\s*:", re.MULTILINE), _module),
    (re.compile(r"^Pause parameters for ", re.MULTILINE), _pause),
    (re.compile(r"^(?:PFC configuration:\s*$|Priority trust state:)", re.MULTILINE), _qos),
    (_TCLASS, _traffic_class),
    (re.compile(r"GPU Direct RDMA Disabled for HCA"), _peermem),
    (_FIRMWARE, _firmware),
    (re.compile(r"^CA '", re.MULTILINE), _ibstat),
    (
        re.compile(r"\bGPU0\b.*\bNUMA Affinity|\bGPU0\s+GPU1\b|GPU0GPU1"),
        lambda text, _c: [placement.check_topology(parse_topology(text))],
    ),
    (_IP_LINK, lambda _text, _context: []),
    (re.compile(r"^\S+ +(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT) ", re.MULTILINE), _brief),
    (containers.SAID_INSIDE, lambda text, _context: containers.check_output(text)),
)
