# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the counters of an incast say: did the lossless class stay lossless, did congestion control react. Pure.

Where several senders meet, it is the switch's port towards the receiver that is full. A switch that marks (ECN)
makes the receiver send CNPs, and the senders slow down. Where that comes too late, the switch pauses the senders
(PFC), and nothing may be lost. The receiver pauses its switch only when it is itself too slow.
"""

from __future__ import annotations

import math
import re
import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ..errors import PolicyError, brief
from ..findings import FAIL, PASS, UNKNOWN, Finding

if t.TYPE_CHECKING:
    from ..policy import Policy

# Counters by what they are about; those of a priority have {prio} for it.
_DISCARDS = r"[rt]x_discards_phy|rx_prio{prio}_(buf_|cong_)?discards?"
_OUT_OF_ORDER = "out_of_sequence|packet_seq_err|implied_nak_seq_err|out_of_seq_request|rcvd_seq_err"
_RETRIES = (
    "local_ack_timeout_err|req_transport_retries_exceeded|roce_adp_retrans|roce_adp_retrans_to"
    "|retry_exceeded_err|completer_retry_err"
)
_MARKS = "np_ecn_marked_roce_packets|rx_prio{prio}_marked|rx_ecn_mark"
_SENT, _HANDLED, _IGNORED = "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"
_STORMS, _LINK_DOWN = "tx_pause_storm_(warning|error)_events", "link_down_events_phy"
_BYTES = re.compile(r"rx_prio([0-7])_bytes")
# Less than that is ARP, LLDP and the like.
_TRAFFIC_BYTES = 1 << 16
# Congestion control may leave some of a full link unused, but not as much of it.
_COLLAPSED_SHARE = 0.5
# Averages of senders that start and end apart add up to more than the link, but not to as much of it.
_IMPOSSIBLE_SHARE = 1.5
_PFC_REMEDY = (
    "module lossless.roce.pfc (playbook lossless.roce.drift) on the hosts, and PFC on every port of the switch"
)
_ECN_REMEDY = (
    "module lossless.roce.ecn (playbook lossless.roce.drift); check next boot with lossless.roce.mlx5_firmware"
)


@dataclass(frozen=True)
class Part:
    """What one host saw: counters that grew, or stood still, meanwhile. One that is not there is not 0.

    simulated: those of them that no hardware counted
    runs: {peer, gbps, failure, cause} of each run
    seconds: from when all had met until the last of its runs was through; 0 where that is not told
    """

    host: str
    role: str
    rail: int
    netdev: str
    deltas: t.Mapping[str, int]
    simulated: t.Collection[str] = ()
    runs: t.Sequence[t.Mapping[str, t.Any]] = ()
    seconds: float = 0.0

    def sum(self, pattern: str) -> int | None:
        """What the counters with such names grew by; None when there are none."""
        found = [amount for name, amount in self.deltas.items() if re.fullmatch(pattern, name)]
        return sum(found) if found else None

    def most(self, pattern: str) -> int:
        """What the one of them grew by that grew most: several may count the same packet."""
        return max((amount for name, amount in self.deltas.items() if re.fullmatch(pattern, name)), default=0)


def parse_parts(raw: t.Any) -> list[Part]:
    """Parts as run_incast returned them; empty ones are of hosts without one. Raises PolicyError for anything else."""
    parts = [part for part in raw if part] if isinstance(raw, (list, tuple)) else [raw]
    wrong = [part for part in parts if not _is_part(part)]
    if wrong:
        raise PolicyError(f"parts: {brief(wrong[0])} … what fabric_incast returned as part was expected")
    return [Part(**part) for part in parts]


def _is_part(raw: t.Any) -> bool:
    required = {"host", "role", "rail", "netdev", "deltas"}
    if not isinstance(raw, dict) or not required <= set(raw) <= {*required, "simulated", "runs", "seconds"}:
        return False
    deltas, simulated, runs = raw["deltas"], raw.get("simulated", ()), raw.get("runs", ())
    return (
        isinstance(deltas, dict)
        and all(isinstance(amount, int) for amount in deltas.values())
        and isinstance(simulated, (list, tuple))
        and all(name in deltas for name in simulated)
        and isinstance(runs, (list, tuple))
        and all(isinstance(run, dict) and {"gbps", "failure", "cause"} <= set(run) for run in runs)
        and all(run["gbps"] is None or _is_rate(run["gbps"]) for run in runs)
        and _is_rate(raw.get("seconds", 0))
    )


def _is_rate(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


@dataclass
class _Verdict:
    """What is wrong and what cannot be told, as (cause, remedy), while it is being found out.

    silent: what is wrong because a counter stood still, which says nothing where no hardware counts
    """

    wrong: list[tuple[str, str]] = field(default_factory=list)
    silent: list[tuple[str, str]] = field(default_factory=list)
    untold: list[tuple[str, str]] = field(default_factory=list)

    def is_wrong(self, cause: str, remedy: str = "") -> None:
        self.wrong.append((cause, remedy))

    def is_silent(self, cause: str, remedy: str) -> None:
        self.silent.append((cause, remedy))

    def cannot_tell(self, cause: str, remedy: str = "") -> None:
        self.untold.append((cause, remedy))


@dataclass(frozen=True)
class _Seen:
    """The parts taken together. None: no such counter anywhere."""

    receiver: Part
    senders: tuple[Part, ...]
    prio: int

    def everywhere(self, pattern: str) -> int | None:
        return _total(part.sum(pattern.format(prio=self.prio)) for part in (self.receiver, *self.senders))

    def on_receiver(self, pattern: str) -> int | None:
        return self.receiver.sum(pattern.format(prio=self.prio))

    @property
    def paused(self) -> int | None:
        """Pause frames of the data's priority that any of the hosts got or sent."""
        return self.everywhere("[rt]x_prio{prio}_pause")

    @property
    def signs(self) -> int:
        """Whatever only congestion makes."""
        patterns = (_DISCARDS, _MARKS, _SENT, _HANDLED, "[rt]x_(prio[0-7]|global)_pause")
        return sum(self.everywhere(pattern) or 0 for pattern in patterns)

    @property
    def reacted(self) -> bool:
        """Whether the receiver asked for less and every sender heard it."""
        return bool(self.on_receiver(_SENT) and all(part.sum(_HANDLED) for part in self.senders))

    def rates(self) -> list[float]:
        return [run["gbps"] for part in self.senders for run in part.runs if run.get("gbps") is not None]

    def gbps_received(self) -> float | None:
        """What came in on the port, of all priorities, by its own counters; None where they or the time are not known.

        The mean of a time in which senders also connect, start and end apart, so never more than the link carries.
        """
        received = self.on_receiver(_BYTES.pattern)
        return None if received is None or not self.receiver.seconds else received * 8e-9 / self.receiver.seconds

    def uncounted_loss(self) -> list[str]:
        """Hosts whose counters are lacking, so that a loss might show nowhere.

        What gets lost on the way shows in the receiver's sequence, or else at the sender that sends it again.
        """
        order, discards = _OUT_OF_ORDER, _DISCARDS.format(prio=self.prio)
        if self.receiver.sum(order) is not None:
            return []
        blind = [part.host for part in self.senders if part.sum(f"{order}|{_RETRIES}") is None]
        return [self.receiver.host, *blind] if blind or self.receiver.sum(discards) is None else []


def _total(amounts: t.Iterable[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def judge(
    parts: t.Sequence[Part],
    policy: Policy,
    *,
    receiver: str,
    senders: t.Sequence[str],
    rail: int,
) -> Finding:
    """The finding on an incast. A host of ``senders`` or the receiver without a part was lost on the way."""
    by_host = {part.host: part for part in parts}
    lost = sorted({receiver, *senders} - set(by_host))
    if receiver not in by_host or not set(senders) & set(by_host):
        return _no_result(by_host, receiver, senders, rail, lost)
    seen = _Seen(by_host[receiver], tuple(by_host[name] for name in senders if name in by_host), policy.data_prio)
    verdict = _Verdict()
    all_sent = _judge_runs(seen, lost, verdict)
    _judge_priority(seen, verdict)
    _judge_ports(seen, verdict)
    lossless = _judge_loss(seen, policy, verdict)
    congested = _is_congested(seen, policy)
    if congested:
        _judge_reaction(seen, verdict)
        if all_sent:
            _judge_rates(seen, policy, verdict)
    elif lossless is not False:
        verdict.cannot_tell(*_not_congested(seen, policy))
    return _finding(seen, verdict, policy, lossless, congested)


# What a receiver says of a run is its own fault, or follows from what its senders say.
_FOLLOWS = ("no_client", "peer_gone", "absent", "left")


def _judge_runs(seen: _Seen, lost: list[str], verdict: _Verdict) -> bool:
    """Whether all of them sent, as far as they say."""
    if lost:
        verdict.is_wrong(f"{', '.join(lost)} gave no result", "see their other findings; then test again")
    own = [run for run in seen.receiver.runs if run.get("failure") and run["failure"] not in _FOLLOWS]
    failed = [(seen.receiver.host, run) for run in own[:1]]
    failed += [(part.host, run) for part in seen.senders for run in part.runs if run.get("failure")]
    for host, run in failed:
        verdict.is_wrong(f"{host}: {run['cause'] or run['failure']}", "")
    if failed:
        verdict.is_wrong("so not all of them sent", "let lossless.roce.verify pass between these hosts first")
    return not (lost or failed)


def _judge_priority(seen: _Seen, verdict: _Verdict) -> None:
    """Nothing is proven of the lossless class when the data rode another."""
    by_prio = {int(m.group(1)): n for name, n in seen.receiver.deltas.items() if (m := _BYTES.fullmatch(name))}
    total = sum(by_prio.values())
    if total < _TRAFFIC_BYTES:
        verdict.cannot_tell(f"no counter of {seen.receiver.host} tells which priority the data rode (rx_prioN_bytes)")
        return
    if by_prio.get(seen.prio, 0) >= total / 2:
        return
    busiest = max(by_prio, key=lambda prio: by_prio[prio])
    verdict.is_wrong(
        f"the data rode priority {busiest} ({by_prio[busiest]} of {total} bytes), and not the lossless one,"
        f" {seen.prio} ({by_prio.get(seen.prio, 0)} bytes)",
        "trust dscp and the DSCP map on all ports and on the switch; the traffic class of the senders (--tclass)",
    )


def _judge_ports(seen: _Seen, verdict: _Verdict) -> None:
    """What a port did that none does under load, whatever came through in the end."""
    for part in (seen.receiver, *seen.senders):
        port = f"{part.host} ({part.netdev})"
        if part.sum(_STORMS):
            verdict.is_wrong(
                f"{port} stood in a pause storm {part.sum(_STORMS)} times: it paused its switch for longer than a port"
                " may, and all behind it waited",
                "what keeps this host from taking packets off its card: PCIe link, NUMA node, memory, its firmware",
            )
        if part.sum(_LINK_DOWN):
            verdict.is_wrong(
                f"the link of {port} went down {part.sum(_LINK_DOWN)} times meanwhile",
                "its cable, transceiver and switch port; then test again",
            )


def _judge_loss(seen: _Seen, policy: Policy, verdict: _Verdict) -> bool | None:
    """Whether nothing was lost; None when no counter tells."""
    if (seen.everywhere("[rt]x_global_pause") or 0) > 0:
        verdict.is_wrong(
            f"global (802.3x) pause is in use ({seen.everywhere('[rt]x_global_pause')} frames): it stops all"
            " classes, CNPs included",
            f"turn global pause off, then PFC on: {_PFC_REMEDY}",
        )
    discards, disorder, retries = (seen.everywhere(p) for p in (_DISCARDS, _OUT_OF_ORDER, _RETRIES))
    if discards:
        verdict.is_wrong(*_why_discards(seen, policy))
    if disorder and not discards:
        verdict.is_wrong(
            f"packets came out of sequence ({disorder}) and no host's port dropped any: the switch lost them",
            "PFC on the switch's ports for this priority, its DSCP map, headroom and buffers; packet spraying",
        )
    if retries and not discards and not disorder:
        verdict.is_wrong(
            f"{retries} requests were sent again after a time-out, with no loss counted: packets stood too long",
            "pause storms and PFC deadlock on the way; the queue pairs' timeout (fabric_test_qp_timeout)",
        )
    if discards or disorder or retries:
        return False
    uncounted = seen.uncounted_loss()
    if len(uncounted) > 1:
        verdict.cannot_tell(
            f"loss in the switch would show nowhere: {_names(uncounted)} count no packets out of sequence or sent again"
        )
    elif uncounted:
        verdict.cannot_tell(f"no counter of loss is there on {uncounted[0]}")
    return None if uncounted else True


def _names(hosts: t.Sequence[str]) -> str:
    return " and ".join([", ".join(hosts[:-1]), hosts[-1]] if len(hosts) > 1 else hosts)


def _why_discards(seen: _Seen, policy: Policy) -> tuple[str, str]:
    """The port that dropped, and what its pause counters say of it."""
    pattern = _DISCARDS.format(prio=seen.prio)
    dropping = [part for part in (seen.receiver, *seen.senders) if part.most(pattern)]
    worst = max(dropping, key=lambda part: part.most(pattern))
    where = f"{worst.host} ({worst.netdev}) dropped {worst.most(pattern)} packets"
    if len(dropping) > 1:
        where += f", and {', '.join(part.host for part in dropping if part is not worst)} some as well"
    sent = worst.sum(f"tx_prio{seen.prio}_pause")
    if sent is None and policy.pfc:
        return (
            f"{where} and has no pause counters of priority {seen.prio}: PFC is off there, so the class is lossy",
            _PFC_REMEDY,
        )
    if not sent:
        return (
            f"{where} without one pause frame of priority {seen.prio}: PFC does not act for what was dropped",
            "PFC mask, trust and DSCP map there, and priority to buffer (dcb buffer show)",
        )
    return (
        f"{where} although it sent {sent} pause frames: the switch does not stop for them, or not in time",
        "PFC on the switch's port for this priority; cable length and buffer sizes of the host's port (headroom)",
    )


def _is_congested(seen: _Seen, policy: Policy) -> bool:
    """By signs of it; or several senders filled the port."""
    if seen.signs:
        return True
    full = policy.link_gbps is not None and sum(seen.rates()) >= policy.link_gbps * policy.efficiency
    return bool(full and len(seen.rates()) > 1)


def _not_congested(seen: _Seen, policy: Policy) -> tuple[str, str]:
    link = "an unknown link rate" if policy.link_gbps is None else f"{policy.link_gbps:g} Gb/s"
    return (
        (
            f"nothing was congested: {len(seen.rates())} sender(s) sent {sum(seen.rates()):.4g} Gb/s in sum of {link},"
            " and there was no mark, no CNP, no pause and no drop; this proves nothing"
        ),
        "more senders, more queue pairs or larger messages, so that they fill the receiver's port",
    )


def _judge_rates(seen: _Seen, policy: Policy, verdict: _Verdict) -> None:
    """That there are signs of congestion does not tell that the port was full."""
    unknown = [part.host for part in seen.senders if not any(run.get("gbps") is not None for run in part.runs)]
    if unknown:
        verdict.cannot_tell(f"no rate is known of {_names(unknown)}", "see the output of the senders' programs")
    elif policy.link_gbps is None:
        verdict.cannot_tell(
            "the policy declares no link_gbps, so whether the port was full is not known", "link_gbps in roce_policy"
        )
    elif sum(seen.rates()) < policy.link_gbps * _COLLAPSED_SHARE:
        verdict.is_wrong(
            f"{len(seen.rates())} sender(s) sent {sum(seen.rates()):.4g} Gb/s in sum, less than half of"
            f" {policy.link_gbps:g} Gb/s, although there were signs of congestion",
            "the tests of the senders with this port one by one; thresholds of marks (ECN) on the switch, and the"
            " senders' reaction point (roce_rp); more queue pairs or larger messages",
        )
    elif sum(seen.rates()) > policy.link_gbps * _IMPOSSIBLE_SHARE:
        verdict.cannot_tell(
            f"{len(seen.rates())} sender(s) sent {sum(seen.rates()):.4g} Gb/s in sum, which a link of"
            f" {policy.link_gbps:g} Gb/s does not carry: they took turns, or link_gbps is not this port's",
            "a longer fabric_test_incast_duration; link_gbps of the policy",
        )


def _judge_reaction(seen: _Seen, verdict: _Verdict) -> None:
    marks, sent = seen.on_receiver(_MARKS), seen.on_receiver(_SENT)
    uncounted = [part.host for part in seen.senders if part.sum(_HANDLED) is None]
    lacking = [f"{_SENT} on {seen.receiver.host}"] if sent is None else []
    lacking += [f"{_HANDLED} on {_names(uncounted)}"] if uncounted else []
    if lacking:
        verdict.cannot_tell(f"there is no counter {' and '.join(lacking)}: this driver counts no CNPs")
    if sent is None or len(uncounted) == len(seen.senders):
        return
    if sent:
        _judge_senders(seen, sent, verdict)
    else:
        _judge_silence(seen, marks, verdict)


def _judge_senders(seen: _Seen, sent: int, verdict: _Verdict) -> None:
    """Each sender by itself: in their sum one that slows down hides one that does not."""
    handled = {part.host: part.sum(_HANDLED) for part in seen.senders}
    ignored = {part.host: part.sum(_IGNORED) or 0 for part in seen.senders}
    told = f"{seen.receiver.host} sent {sent} CNPs"
    remedy = f"{_ECN_REMEDY}; the CNP class"
    if all(amount == 0 for amount in handled.values()):
        why = (
            f"{sum(ignored.values())} were ignored: congestion control is off at the senders (reaction point)"
            if any(ignored.values())
            else "none arrived or none was acted on: the reaction point is off, or CNPs are lost in their class"
        )
        verdict.is_silent(f"{told} and no sender handled one: {why}", remedy)
        return
    for host, amount in handled.items():
        if ignored[host] > (amount or 0):
            verdict.is_silent(
                f"{told}, and {host} ignored {ignored[host]} of its CNPs and handled {amount or 0}: congestion control"
                " is off there (reaction point)",
                remedy,
            )
        elif amount == 0:
            verdict.cannot_tell(
                f"{host} handled none of the {sent} CNPs that {seen.receiver.host} sent: none was meant for it, or they"
                " are lost in their class",
                "a longer fabric_test_incast_duration; the CNP class on the way to it",
            )


def _judge_silence(seen: _Seen, marks: int | None, verdict: _Verdict) -> None:
    """The receiver sent no CNP."""
    if marks:
        verdict.is_silent(
            f"{seen.receiver.host} got {marks} marked packets and sent no CNP: its notification point is off for"
            f" priority {seen.prio}",
            _ECN_REMEDY,
        )
    elif seen.paused:
        verdict.is_silent(
            f"senders were held by PFC alone ({seen.paused} pause frames) and no packet was marked, no CNP sent:"
            " ECN is off, and whoever shares the paused links waits as well (head-of-line blocking)",
            "ECN on the switch's queue of this priority, with thresholds below those of PFC;"
            " ECN bits in the traffic class",
        )
    else:
        verdict.cannot_tell(
            "the port was full, and nothing was marked, paused or dropped: congestion control by round trip (RTT)"
            " leaves no such trace, and neither does a switch with room for all of it",
            "a longer fabric_test_incast_duration; the queue counters of the switch",
        )


_SIMULATED = (
    (
        "Soft-RoCE has no CNPs and no PFC: these counters are made up by the simulated card, so that only launch,"
        " collection and differences are shown here"
    ),
    "the same test on real cards",
)


def _finding(seen: _Seen, verdict: _Verdict, policy: Policy, lossless: bool | None, congested: bool) -> Finding:
    simulated = _by_role(seen, lambda part: part.simulated)
    wrong, untold = [*verdict.wrong, *verdict.silent], verdict.untold
    if simulated:
        wrong, untold = verdict.wrong, [*verdict.untold, _SIMULATED]
    reasons, received = wrong or untold, seen.gbps_received()
    return Finding(
        check="incast",
        verdict=FAIL if wrong else UNKNOWN if untold else PASS,
        observed={
            "senders": [part.host for part in seen.senders],
            "port": seen.receiver.netdev,
            "rail": seen.receiver.rail,
            "gbps_total": round(sum(seen.rates()), 6),
            "gbps_received": None if received is None else round(received, 6),
            "seconds": seen.receiver.seconds,
            "gbps": {part.host: run.get("gbps") for part in seen.senders for run in part.runs},
            "congested": congested,
            "lossless": lossless,
            "reacted": seen.reacted,
            "paused": bool(seen.paused),
            "deltas": _by_role(seen, lambda part: part.deltas),
            "simulated": sorted(simulated),
        },
        expected={"lossless": True, "reacted": True, "prio": seen.prio, "link_gbps": policy.link_gbps},
        evidence="ethtool -S and hw_counters of all these ports, before and after "
        + next((run["command"] for part in seen.senders for run in part.runs if run.get("command")), "the runs"),
        cause="; ".join(cause for cause, _remedy in reasons),
        remedy="; ".join(dict.fromkeys(remedy for _cause, remedy in reasons if remedy)),
        host=seen.receiver.host,
        port=seen.receiver.netdev,
    )


def _by_role(seen: _Seen, names: t.Callable[[Part], t.Collection[str]]) -> dict[str, int]:
    """Counters of the receiver and sums of the senders', as ``receiver np_cnp_sent``.

    What stood still is left out, unless the verdict rests on it.
    """
    totals: Counter[str] = Counter()
    for role, parts in (("receiver", (seen.receiver,)), ("senders", seen.senders)):
        for part in parts:
            for name in names(part):
                totals[f"{role} {name}"] += part.deltas[name]
    patterns = (_DISCARDS, _MARKS, _SENT, _HANDLED, "[rt]x_prio{prio}_pause", _OUT_OF_ORDER)
    decisive = re.compile("|".join(patterns).format(prio=seen.prio))
    return {name: n for name, n in sorted(totals.items()) if n or decisive.fullmatch(name.partition(" ")[2])}


def _no_result(
    by_host: t.Mapping[str, Part], receiver: str, senders: t.Sequence[str], rail: int, lost: list[str]
) -> Finding:
    causes = [run["cause"] for part in by_host.values() for run in part.runs if run.get("cause")]
    return Finding(
        check="incast",
        verdict=FAIL,
        observed={"senders": list(senders), "port": "", "rail": rail, "gbps_total": 0.0, "deltas": {}, "simulated": []},
        expected={"lossless": True, "reacted": True},
        evidence="the hosts of this run",
        cause="; ".join([f"{', '.join(lost)} gave no result, so nothing was measured", *causes[:1]]),
        remedy="see the other findings of these hosts, and how the run went there; then test again",
        host=receiver,
    )
