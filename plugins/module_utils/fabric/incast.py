# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of an incast: several senders to one port at once, with counters before and after.

All hosts get the same description, and each works out its part. The receiver serves each sender on a TCP port of
its own; nobody sends before all have read their counters.
"""

from __future__ import annotations

import re
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..checks.counters import read
from ..errors import PolicyError, ToolMissing, brief
from ..host import PACKAGES
from ..parsers.statistics import growth
from ..ports import find_ports
from .bandwidth import STEP_SLACK_S, Options, Outcome, absent, plan_test, refuse_jobs, run_test
from .coverage import rail_number
from .meeting import Meeting, Status, tell
from .schedule import FIRST_TCP_PORT, FabricHost, PairTest, parse_hosts

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port

RECEIVER, SENDER = "receiver", "sender"
# What is told of a run: names as in the kernel's counters.rst and mlx5_ib, and those of rxe's own hw_counters.
_TOLD = re.compile(
    r"[rt]x_prio[0-7]_(bytes|packets|pause|pause_duration|pause_transition|discards|buf_discard|cong_discard|marked)"
    r"|[rt]x_(global_pause|pause_ctrl_phy|discards_phy|vport_rdma_unicast_(bytes|packets))|rx_ecn_mark"
    r"|tx_pause_storm_(warning|error)_events|rx_buffer_passed_thres_phy|link_down_events_phy"
    r"|np_ecn_marked_roce_packets|np_cnp_sent|rp_cnp_handled|rp_cnp_ignored|roce_(adp_retrans|slow_restart).*"
    r"|out_of_sequence|packet_seq_err|implied_nak_seq_err|local_ack_timeout_err|req_transport_retries_exceeded"
    r"|rnr_nak_retry_err|out_of_buffer|duplicate_request"
    r"|out_of_seq_request|rcvd_seq_err|completer_retry_err|retry_exceeded_err"
)
# What the simulated card counts for real; all else it makes up. rxe counts under names of its own.
_REALLY_COUNTED = re.compile(
    r"[rt]x_prio[0-7]_(bytes|packets)|[rt]x_vport_rdma_unicast_(bytes|packets)|rx_ecn_mark|link_down_events_phy"
    r"|out_of_seq_request|rcvd_seq_err|completer_retry_err|retry_exceeded_err|duplicate_request"
)
_SIMULATOR = "/sys/module/mlx5sim"
_LINGER_S = 2.0


@dataclass(frozen=True)
class Incast:
    """Who sends to whose port: names of hosts, and the rail on which they all are."""

    hosts: tuple[FabricHost, ...]
    receiver: str
    senders: tuple[str, ...]
    rail: int

    def check(self) -> None:
        """Raise PolicyError for a description that names nobody, somebody twice, or a rail that one lacks."""
        names = {host.name: host for host in self.hosts}
        if not self.senders:
            raise PolicyError("senders: none … the names of at least one host were expected")
        part = (self.receiver, *self.senders)
        for name in part:
            if part.count(name) > 1:
                raise PolicyError(f"senders: {name} stands twice among receiver and senders … each once was expected")
            if name not in names or self.rail not in names[name].rails:
                having = ", ".join(host.name for host in self.hosts if self.rail in host.rails) or "none"
                raise PolicyError(f"incast: {name!r} on rail {self.rail} … one of {having} was expected")

    def tests_of(self, name: str) -> list[PairTest]:
        """A host's ends: the receiver serves every sender, a sender has one; others have none."""
        rails = {host.name: host.rails[self.rail] for host in self.hosts if self.rail in host.rails}
        return [
            self._test(name, sender if name == self.receiver else self.receiver, FIRST_TCP_PORT + number, rails)
            for number, sender in enumerate(self.senders)
            if name in (self.receiver, sender)
        ]

    def _test(self, name: str, peer: str, tcp_port: int, rails: t.Mapping[str, tuple[str, str]]) -> PairTest:
        netdev, address = rails[name]
        role = "server" if name == self.receiver else "client"
        return PairTest(role, peer, rails[peer][1], netdev, address, self.rail, tcp_port)

    def addresses_of_others(self, name: str) -> dict[str, list[str]]:
        """All others that take part -> the addresses under which they may answer, that of the rail first."""
        part = (self.receiver, *self.senders)
        return {
            host.name: [
                address
                for rail, (_netdev, address) in sorted(host.rails.items(), key=lambda item: item[0] != self.rail)
            ]
            for host in self.hosts
            if host.name in part and host.name != name
        }


def wanted_names(wanted: t.Mapping[str, t.Any]) -> list[str]:
    """The hosts that a wanted incast names: {receiver, rail, senders: names or how many}, each key optional.

    Raises PolicyError for what is no such thing.
    """
    if not isinstance(wanted, t.Mapping):
        raise PolicyError(f"incast: {wanted!r} … a mapping of receiver, rail and senders was expected")
    unknown = sorted(set(wanted) - {"receiver", "rail", "senders"})
    if unknown:
        raise PolicyError(f"incast: {unknown[0]} … receiver, rail and senders were expected")
    _number("rail", wanted.get("rail", 0))
    senders = wanted.get("senders")
    named = list(senders) if isinstance(senders, (list, tuple)) else []
    if senders is not None and not named and _number("senders", senders) < 1:
        raise PolicyError("incast: senders 0 … at least one was expected")
    receiver = wanted.get("receiver")
    names = [_name("receiver", receiver)] if receiver else []
    names += [_name("senders", name) for name in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PolicyError(f"incast: {twice[0]} stands twice among receiver and senders … each once was expected")
    return names


def plan(wanted: t.Mapping[str, t.Any], hosts: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """{receiver, rail, senders, taking_part} by name, from what is wanted and the hosts that are there.

    By default the first host with the rail receives, and all others with it send. taking_part are those that are
    there, the receiver first; nobody when the receiver or every sender is missing. Raises PolicyError naming what
    cannot be.
    """
    wanted_names(wanted)
    parsed = _parsed(hosts)
    rail = _number("rail", wanted.get("rail", 0))
    having = sorted(host.name for host in parsed if rail in host.rails)
    if not having:
        rails = ", ".join(map(str, sorted({rail for host in parsed for rail in host.rails}))) or "none"
        raise PolicyError(f"incast: rail {rail} … one of the rails of the hosts that are there was expected: {rails}")
    receiver = str(wanted.get("receiver") or having[0])
    others = [name for name in having if name != receiver]
    senders = wanted.get("senders")
    if senders is None:
        senders = others
    elif not isinstance(senders, (list, tuple)):
        if _number("senders", senders) > len(others):
            raise PolicyError(f"senders: {senders} … at most {len(others)}, the others on rail {rail}, were expected")
        senders = others[: int(senders)]
    names = [str(name) for name in senders]
    there = [name for name in names if name in {host.name for host in parsed}]
    if receiver not in {host.name for host in parsed} or not there:
        there = []
    else:
        Incast(parsed, receiver, tuple(there), rail).check()
    return {
        "receiver": receiver,
        "rail": rail,
        "senders": names,
        "taking_part": [receiver, *there] if there else [],
    }


def _parsed(hosts: t.Any) -> tuple[FabricHost, ...]:
    """The hosts. Raises PolicyError for what is no list of hosts, each with ports on rails."""
    try:
        for port in (port for host in hosts for port in host["ports"]):
            rail_number(port["rail"])
        return parse_hosts(hosts)
    except (KeyError, TypeError, ValueError) as exc:
        what = str(exc) if isinstance(exc, ValueError) else brief(hosts)
        raise PolicyError(
            f"hosts: {what} … a list of hosts, each as {{name, ports: [{{name, rail, address}}]}}, was expected"
        ) from exc


def _name(key: str, value: t.Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise PolicyError(f"incast: {key} {brief(value)} … the name of a host was expected")
    return str(value)


def _number(name: str, value: t.Any) -> int:
    if isinstance(value, bool) or not re.fullmatch("[0-9]{1,9}", str(value)):
        raise PolicyError(f"incast: {name} {value!r} … a number was expected")
    return int(value)


def check_options(options: Options) -> None:
    """Raise PolicyError for runs that would not overlap or not end."""
    options.check()
    if not options.duration:
        raise PolicyError("duration: 0 … a number of seconds above 0 was expected: all senders must send at once")


def run_incast(
    host: Host,
    incast: Incast,
    options: Options,
    *,
    name: str,
    run: str,
    refuse_busy: bool = True,
    dry_run: bool = False,
) -> dict[str, t.Any]:
    """Run (or in a dry run plan) the part of host ``name``: {part, outcomes, limit_s} as plain JSON.

    part is what the verdict needs: see incast_verdict.Part; None in a dry run and for a host without a part. Raises
    PolicyError for what cannot be, ToolMissing, RoceError when a job uses the port or another test is under way.
    """
    incast.check()
    check_options(options)
    tests = incast.tests_of(name)
    limit = 2 * options.barrier_limit + options.time_limit + STEP_SLACK_S
    ports = find_ports(host) if tests else []
    outcomes = [plan_test(host, ports, test, options) for test in tests]
    part = None
    if tests and not dry_run:
        port = next((port for port in ports if tests[0].netdev in (port.netdev, port.ibdev)), None)
        if refuse_busy and port is not None:
            refuse_jobs(host, [port])
        part = _run(host, incast, options, Status(run, name, steps=1, pid=host.pid()), port, outcomes)
    return {"part": part, "outcomes": [outcome.as_dict() for outcome in outcomes], "limit_s": limit}


def _run(
    host: Host, incast: Incast, options: Options, status: Status, port: Port | None, outcomes: list[Outcome]
) -> dict[str, t.Any]:
    # The server's end is started by stdbuf, which hides that the program is not there.
    if host.which(options.tool) is None:
        raise ToolMissing(options.tool, PACKAGES[options.tool])
    with tell(status):
        before = {} if port is None else read(host, port)
        _meet(host, incast, options, status, outcomes)
        began = host.now()
        if all(outcome.failure for outcome in outcomes):
            host.sleep(_LINGER_S)  # be seen at the step, or the others would wait for an answer
        else:
            _run_all(host, outcomes, options)
        seconds = host.now() - began
        after = {} if port is None else read(host, port)
    return {
        "host": status.name,
        "role": RECEIVER if status.name == incast.receiver else SENDER,
        "rail": incast.rail,
        "netdev": outcomes[0].test.netdev,
        "runs": [_told_of(outcome) for outcome in outcomes],
        "seconds": round(seconds, 3),
        **told_counters(before, after, simulated=host.exists(_SIMULATOR)),
    }


def _meet(host: Host, incast: Incast, options: Options, status: Status, outcomes: list[Outcome]) -> None:
    """Wait until all others have read their counters. A run with a host that does not come is not started."""
    others = incast.addresses_of_others(status.name)
    meeting = Meeting(host, status, others, step_limit=options.time_limit + STEP_SLACK_S)
    meeting.gather(options.barrier_limit)
    status.step = 0
    reasons = {other: meeting.meet(other, 0) for other in others}
    for outcome in outcomes:
        if reasons[outcome.test.peer] and outcome.failure is None:
            outcome.failure = absent(outcome.test, reasons[outcome.test.peer])


def _run_all(host: Host, outcomes: list[Outcome], options: Options) -> None:
    with ThreadPoolExecutor(max_workers=len(outcomes)) as pool:
        for done in [pool.submit(run_test, host, outcome, options) for outcome in outcomes]:
            done.result()


def _told_of(outcome: Outcome) -> dict[str, t.Any]:
    """One run as the verdict needs it; the client's figure is that of the pair."""
    told = outcome.as_dict()
    return {
        "peer": outcome.test.peer,
        "gbps": told["gbps"] if outcome.test.role == "client" and outcome.failure is None else None,
        "failure": told["failure"],
        "cause": outcome.failure.cause if outcome.failure else "",
        "command": " ".join(outcome.argv),
    }


def told_counters(before: dict[str, int], after: dict[str, int], *, simulated: bool) -> dict[str, t.Any]:
    """{deltas, simulated}: by how much counters grew, and which of them the simulated card made up."""
    deltas = {name: amount for name, amount in sorted(growth(before, after).items()) if _TOLD.fullmatch(name)}
    made_up = [name for name in deltas if simulated and not _REALLY_COUNTED.fullmatch(name)]
    return {"deltas": deltas, "simulated": made_up}
