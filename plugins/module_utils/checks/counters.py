# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a port's counters say of pause, priorities, loss and retries; names as in the kernel's counters.rst.

Two readings are compared, since a counter only says that something happened once. One that is missing is
not 0: mlx5 has pause counters of a priority only where PFC is on.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import PolicyError, RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.statistics import growth, parse_statistics
from ..port_kinds import BOND, LAG_PORT
from ..ports import with_members

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port
    from .base import Context

Counters = dict[str, int]

INTERVAL_S = 2.0
_LONGEST_S = 600
# Below that, what goes over a port may be ARP, LLDP and the like.
_TRAFFIC_BYTES = 1 << 20
# PFC is there to pause now and then; a port that stands still for most of the time is held up by somebody.
_STORM_PERCENT = 50
_HOLDS_UP = "what holds the receiver up: PCIe (outbound_pci_stalled_wr), IOMMU, ACS, a GPU or process that hangs"
_STORM = {
    "rx": "follow the pause from switch to switch to the port that sends it; ECN on all hops, PFC watchdog on switches",
    "tx": _HOLDS_UP,
}
_GLOBAL = ("rx_global_pause", "tx_global_pause", "rx_pause_ctrl_phy", "tx_pause_ctrl_phy")
_NAMED = 5
_PRIO = re.compile(r"([rt]x)_prio([0-7])_bytes")

# Counter (a regular expression) -> what its growth means, and what to look at.
_TROUBLE: tuple[tuple[str, str, str], ...] = (
    (
        r"[rt]x_discards_phy|rx_prio[0-7]_(?:buf_|cong_)?discards?",
        "the port drops packets for lack of buffer: the lossless class is not lossless",
        "PFC on this priority here and on the switch port, trust and DSCP map, buffers and cable length",
    ),
    (
        r"tx_pause_storm_(?:warning|error)_events",
        "this port pauses its switch for so long that it looks stuck (pause storm)",
        _HOLDS_UP,
    ),
    (
        r"out_of_sequence|packet_seq_err|implied_nak_seq_err",
        "packets arrive out of order or not at all: loss on the way, or load balancing by packet",
        "discards on the path (switch and both ports), PFC on every hop, ECMP or adaptive routing of the switches",
    ),
    (
        r"local_ack_timeout_err|req_transport_retries_exceeded|roce_adp_retrans(?:_to)?",
        "requests are not answered in time: the path loses packets or stands still",
        "link flaps, PFC deadlock, MTU of every hop, and whether the peer lives",
    ),
    (
        r"rnr_nak_retry_err|req_rnr_retries_exceeded|out_of_buffer|rx_out_of_buffer",
        "the receiver's program posts too few buffers",
        "the job itself: CPU placement, depth of its receive queues",
    ),
    (
        r"rx_crc_errors_phy|rx_symbol_err_phy",
        "the link corrupts frames",
        "cable, transceiver, and dirt on the optics",
    ),
)
# What only ever grows: among ethtool's statistics there are also percentages and the like.
_GROWS = re.compile("|".join((r"[rt]x_(?:(?:prio[0-7]|vport|global)_\w+|\w+_phy)", *(row[0] for row in _TROUBLE))))


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Findings on each port from two readings, ``interval`` seconds apart (an option)."""
    interval = float(context.options.get("interval", INTERVAL_S))
    if not 0 <= interval <= _LONGEST_S:
        raise PolicyError(f"interval: {interval:g} … 0 to {_LONGEST_S} seconds was expected")
    ports = with_members(context.ports)
    before = {port: read(host, port) for port in ports}
    host.sleep(interval)
    after = {port: read(host, port) for port in ports}
    found: list[Finding] = []
    for port in ports:
        # Pause and priorities are counted by a bond's ports, what becomes of RDMA requests by the bond.
        policy = None if port.kind == BOND else context.policy_of(port.netdev)
        prio, lossless = (policy.data_prio, bool(policy.pfc)) if policy else (None, False)
        found += judge(port.netdev, before[port], after[port], data_prio=prio, lossless=lossless, interval=interval)
    return found


def read(host: Host, port: Port) -> Counters:
    """Counters of the netdev and of the RDMA port (a bond's port has none); of what can't be read there are none."""
    rdma = {} if port.kind == LAG_PORT else read_rdma(host, port)
    try:
        return {**parse_statistics(host.run("ethtool", "-S", port.netdev).out), **rdma}
    except RoceError:
        return rdma


def read_rdma(host: Host, port: Port, folder: str = "hw_counters", names: t.Iterable[str] | None = None) -> Counters:
    """Counters of the RDMA port in sysfs (sysfs-class-infiniband): those that are named, or all of the folder."""
    base = f"/sys/class/infiniband/{port.ibdev}/ports/{port.ibport}/{folder}"
    wanted = host.listdir(base) if names is None else names
    # lifespan is how long the driver keeps a reading, and no counter.
    texts = {name: (host.read_optional(f"{base}/{name}") or "").strip() for name in wanted if name != "lifespan"}
    return {name: int(text) for name, text in texts.items() if re.fullmatch("[0-9]{1,20}", text)}


def judge(
    netdev: str,
    before: Counters,
    after: Counters,
    *,
    data_prio: int | None,
    lossless: bool,
    interval: float = 0.0,
) -> list[Finding]:
    """Findings on pause, on the priority that carries the traffic, and on trouble that goes on.

    interval: seconds between the two readings; 0 where it is not known
    """
    if _shrunk(before, after):
        return [_went_back(netdev, before, after)] + ([_global_pause(netdev, after)] if lossless else [])
    grown = growth(before, after)
    found = [_trouble(netdev, before, after, grown, interval)]
    if lossless:
        found.append(_global_pause(netdev, after))
    if data_prio is not None:
        found.append(_traffic(netdev, grown, data_prio))
    return found


def in_order(first: Counters, second: Counters) -> tuple[Counters, Counters]:
    """Two readings, the earlier one first: they are turned round where counters shrank and none grew."""
    turned = _shrunk(first, second) and not _shrunk(second, first)
    return (second, first) if turned else (first, second)


def _shrunk(before: Counters, after: Counters) -> list[str]:
    """Names of counters that became smaller."""
    return sorted(name for name, value in before.items() if after.get(name, value) < value and _GROWS.fullmatch(name))


def _went_back(netdev: str, before: Counters, after: Counters) -> Finding:
    names = _shrunk(before, after)
    return Finding(
        check="counters",
        verdict=UNKNOWN,
        observed={name: [before[name], after[name]] for name in names[:_NAMED]},
        evidence=_evidence(netdev),
        cause=f"{len(names)} counters went back ({', '.join(names[:_NAMED])}): the readings are in the wrong order or"
        " of two ports, or the counters were reset between them",
        remedy="take two readings of the same port again, the earlier one first",
        port=netdev,
    )


def _evidence(netdev: str) -> str:
    return f"ethtool -S {netdev}, /sys/class/infiniband/*/ports/1/hw_counters"


def _trouble(netdev: str, before: Counters, after: Counters, grown: Counters, interval: float) -> Finding:
    causes, remedies, seen = [], [], {}
    for pattern, cause, remedy in _TROUBLE:
        growing = {name: amount for name, amount in grown.items() if amount and re.fullmatch(pattern, name)}
        if growing:
            causes.append(f"{', '.join(f'{name} +{amount}' for name, amount in sorted(growing.items()))}: {cause}")
            remedies.append(remedy)
            seen.update(growing)
    for name, share in _paused(grown, interval).items():
        who = "the switch pauses this port" if name.startswith("rx") else "this port pauses its switch"
        causes.append(f"{name}: {who} for {share:.0f} % of the time (pause storm)")
        remedies.append(_STORM[name[:2]])
        seen[name] = grown[name]
    if not before or not after:
        return Finding("counters", UNKNOWN, evidence=_evidence(netdev), port=netdev, cause="no counters can be read")
    return Finding(
        check="counters",
        verdict=FAIL if causes else PASS,
        observed={"growing": seen, "since_start": _since_start(after)},
        expected={"growing": {}},
        evidence=_evidence(netdev),
        cause="; ".join(causes),
        remedy="; ".join(remedies),
        port=netdev,
    )


def _paused(grown: Counters, interval: float) -> dict[str, float]:
    """Percent of the time by counter of a pause's duration (microseconds), where it is most of the time."""
    shares = {
        name: amount / interval / 1e4
        for name, amount in grown.items()
        if interval and re.fullmatch(r"[rt]x_(?:prio[0-7]|global)_pause_duration", name)
    }
    return {name: share for name, share in sorted(shares.items()) if share >= _STORM_PERCENT}


def _since_start(after: Counters) -> Counters:
    """Trouble that was counted some time since the driver was loaded: to be known, and no verdict."""
    patterns = "|".join(pattern for pattern, _cause, _remedy in _TROUBLE)
    return {name: value for name, value in sorted(after.items()) if value and re.fullmatch(patterns, name)}


def _global_pause(netdev: str, after: Counters) -> Finding:
    """Whether the port uses global pause where the policy has PFC."""
    shown = {name: after[name] for name in _GLOBAL if name in after}
    by_prio = sorted(name for name in after if re.fullmatch(r"[rt]x_prio[0-7]_pause", name))
    in_place = [name for name in shown if "global" in name]
    if in_place and not by_prio:
        sent, received = shown.get("tx_global_pause", 0), shown.get("rx_global_pause", 0)
        used = (
            f"global (802.3x) pause is in use: {sent} frames sent and {received} received, and"
            if sent + received
            else ""
        )
        return Finding(
            check="pause_frames",
            verdict=FAIL,
            observed=shown,
            expected="pause frames of lossless priorities only",
            evidence=_evidence(netdev),
            cause=f"{used} no priority has PFC (there are no rx_prioN_pause counters)".strip()
            + ("; this receiver is the congested one" if sent > received else ""),
            remedy="turn global pause off and PFC on: playbook lossless.roce.drift, or"
            f" ethtool -A {netdev} rx off tx off and dcb pfc set",
            port=netdev,
        )
    if not by_prio:
        return Finding(
            "pause_frames",
            UNKNOWN,
            observed=shown,
            evidence=_evidence(netdev),
            port=netdev,
            cause="pause frames are counted for the whole port only, not by priority"
            if shown
            else "this driver has no pause counters",
        )
    return Finding("pause_frames", PASS, observed={**shown, "priorities": by_prio}, port=netdev)


def _traffic(netdev: str, grown: Counters, data_prio: int) -> Finding:
    """Whether what went over the port went by the lossless priority."""
    by_prio = _by_prio(grown)
    total = sum(by_prio.values())
    rdma = sum(grown.get(f"{way}_vport_rdma_unicast_bytes", 0) for way in ("rx", "tx"))
    counted = any("vport_rdma_unicast_bytes" in name for name in grown)
    observed: dict[str, t.Any] = {"bytes_by_prio": {str(prio): amount for prio, amount in by_prio.items() if amount}}
    enough = rdma if counted else total
    if not by_prio or enough < _TRAFFIC_BYTES:
        cause = "no traffic between the two readings" if by_prio else "this driver counts no bytes by priority"
        return Finding("traffic_prio", SKIPPED, observed=observed, evidence=_evidence(netdev), cause=cause, port=netdev)
    mean = _mean_packet(grown)
    observed["mean_packet"] = mean
    # RDMA bytes can't be told from others by priority: what must not be is that hardly any ride the class.
    right = by_prio.get(data_prio, 0) >= 0.5 * enough
    busiest = max(by_prio, key=lambda prio: by_prio[prio])
    return Finding(
        check="traffic_prio",
        verdict=PASS if right else FAIL,
        observed=observed,
        expected={"prio": data_prio},
        evidence=_evidence(netdev),
        cause=""
        if right
        else f"{by_prio[busiest]} of {total} bytes went by priority {busiest}, {by_prio.get(data_prio, 0)} by the"
        f" lossless priority {data_prio}: RDMA traffic rides another class"
        + (f"; packets have {mean} bytes on average, so the RDMA MTU is about {_mtu(mean)}" if mean else ""),
        remedy=""
        if right
        else "trust dscp and the DSCP map on this port (playbook lossless.roce.drift); then the traffic class of the"
        " job (NCCL_IB_TC, --tclass) and the TOS of RDMA-CM",
        port=netdev,
    )


def _by_prio(grown: Counters) -> dict[int, int]:
    by_prio: dict[int, int] = {}
    for name, amount in grown.items():
        match = _PRIO.fullmatch(name)
        if match:
            by_prio[int(match.group(2))] = by_prio.get(int(match.group(2)), 0) + amount
    return by_prio


def _mean_packet(grown: Counters) -> int:
    amounts = {
        what: sum(v for name, v in grown.items() if re.fullmatch(rf"[rt]x_prio[0-7]_{what}", name))
        for what in ("bytes", "packets")
    }
    return round(amounts["bytes"] / amounts["packets"]) if amounts["packets"] else 0


def _mtu(mean: int) -> int:
    """The RDMA MTU that full packets of this size have: at least the payload, at most 100 bytes more."""
    return max((mtu for mtu in (256, 512, 1024, 2048, 4096) if mtu <= mean), default=256)
