# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of a matrix of perftest runs. Every run is bounded, and no process outlives it."""

from __future__ import annotations

import contextlib
import json
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import groupby

from ..errors import CommandTimeout, HostError, ParseError, PolicyError, RoceError, ToolMissing
from ..findings import Finding
from ..gids import read_gids
from ..guards import busy_ports
from ..host import PACKAGES
from ..parsers.gids import choose
from ..parsers.perftest import Failure, Measurement, addresses_exchanged, classify, parse_json, parse_text
from ..ports import Port, find_ports
from ..values import require
from .meeting import Meeting, Status, tell
from .schedule import PairTest
from .verdict import JUDGED_SIZE, failed, failed_latency, judge, judge_cm, judge_latency

if t.TYPE_CHECKING:
    from ..host import Done, Host

Show = t.Callable[["Host", Status], None]

_RETRY_S = 0.5
# What a step takes beside the measurement: both ends see each other at the step, start and end their programs.
STEP_SLACK_S = 15.0
# Root causes that a server knows better than its client; a client that is gone can say nothing.
_OWN_FAULTS = (
    "no_device",
    "wrong_device",
    "port_down",
    "unknown_option",
    "memlock",
    "no_dmabuf",
    "no_peermem",
    "hung",
    "broken",
    "registration",
)
_SERVER_SAYS = (*_OWN_FAULTS, "no_gid", "no_client", "absent")
# Where a run shows how far it is.
STATUS_FILE = "/run/lossless-roce-fabric.json"
LATENCY_TOOLS = ("ib_write_lat", "ib_read_lat", "ib_send_lat")
TOOLS = ("ib_write_bw", "ib_read_bw", "ib_send_bw", *LATENCY_TOOLS)
# perftest's own default for a latency test: a message that costs next to no time on the wire.
LATENCY_SIZE = 2
# The connection by rdma_cm that comes before a test: seconds, bytes and messages. The kernel's own timeouts would be
# more than a minute.
_CM_LIMIT_S = 10.0
_CM_SIZE, _CM_ITERATIONS = 4096, 5
_MOST, _A_WEEK_S = 2**31 - 1, 7 * 86400
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("size", "qps", "iterations", "tx_depth"), (1, _MOST)),
    "duration": (0, _A_WEEK_S),
    **dict.fromkeys(("time_limit", "barrier_limit"), (0.1, _A_WEEK_S)),
    "tclass": (0, 255),
    "qp_timeout": (0, 31),
    "rdma_mtu": (256, 4096),
    "cuda": (0, 1023),
}


@dataclass(frozen=True)
class Options:
    """How perftest runs: bytes, queue pairs, iterations or seconds; limits in seconds. None: perftest's default.

    cuda: number of the GPU whose memory is used; dmabuf: register it by dma-buf
    rdma_cm: before each test, try a short connection by rdma_cm
    """

    tool: str = "ib_write_bw"
    size: int = 65536
    qps: int = 1
    iterations: int = 5000
    duration: int = 0
    all_sizes: bool = False
    bidirectional: bool = False
    use_cm: bool = False
    tclass: int | None = None
    tx_depth: int | None = None
    qp_timeout: int | None = None
    rdma_mtu: int | None = None
    cuda: int | None = None
    dmabuf: bool = False
    rdma_cm: bool = False
    time_limit: float = 60.0
    barrier_limit: float = 120.0

    def check(self) -> None:
        """Raise PolicyError for what perftest refuses or what would not end."""
        for name, (low, high) in _RANGES.items():
            require(name, getattr(self, name), low, high)
        if self.duration and self.all_sizes:
            raise PolicyError("duration and all_sizes: perftest measures all sizes by iterations only; leave one out")
        if self.duration and self.duration >= self.time_limit:
            raise PolicyError(f"duration {self.duration} s is not below time_limit {self.time_limit:g} s")
        if self.dmabuf and self.cuda is None:
            raise PolicyError("dmabuf: true, and no cuda … the number of a GPU was expected")
        if self.measures_latency:
            self._check_latency()

    def _check_latency(self) -> None:
        """A latency test has one message on its way, in one queue pair."""
        for name, value in (("bidirectional", self.bidirectional), ("tx_depth", self.tx_depth)):
            if value:
                raise PolicyError(f"{name}: {value} with {self.tool} … that is for bandwidth tests; leave it out")
        if self.qps != 1:
            raise PolicyError(f"qps: {self.qps} with {self.tool} … 1 was expected")

    @property
    def measures_latency(self) -> bool:
        """Whether the tool tells microseconds, not Gb/s."""
        return self.tool in LATENCY_TOOLS

    def ideal_s(self, link_gbps: float | None) -> float | None:
        """Seconds that a test takes at the link's rate and without any start-up; None where nothing tells."""
        if self.duration:
            return float(self.duration)
        if link_gbps is None or self.measures_latency or self.all_sizes:
            return None
        return round(self.size * self.iterations * self.qps * 8 / (link_gbps * 1e9), 3)

    @property
    def step_limit(self) -> float:
        """Seconds that a step takes at most, for both ends."""
        return self.time_limit + STEP_SLACK_S + self.cm_limit

    @property
    def cm_limit(self) -> float:
        """Seconds that the connection by rdma_cm before each test takes at most."""
        return _CM_LIMIT_S if self.rdma_cm else 0.0


def arguments(test: PairTest, options: Options, ibdev: str, ibport: int, gid_index: int) -> list[str]:
    """perftest's argument vector; both ends get the same flags (perftest needs that)."""
    argv = [options.tool, "-d", ibdev, "-i", str(ibport), "-x", str(gid_index), "-p", str(test.tcp_port), "-F"]
    argv += [] if options.measures_latency else ["-q", str(options.qps), "--report_gbits"]
    argv += ["-a"] if options.all_sizes else ["-s", str(options.size)]
    argv += ["-D", str(options.duration)] if options.duration else ["-n", str(options.iterations)]
    argv += ["-b"] if options.bidirectional else []
    argv += ["-R"] if options.use_cm else []
    # With -R the TOS comes from rdma_cm; verbs queue pairs need the traffic class by hand.
    if options.tclass is not None:
        argv += ["-T", str(options.tclass)] if options.use_cm else [f"--tclass={options.tclass}"]
    for flag, value in (("-t", options.tx_depth), ("-u", options.qp_timeout), ("-m", options.rdma_mtu)):
        argv += [flag, str(value)] if value is not None else []
    argv += [f"--use_cuda={options.cuda}"] if options.cuda is not None else []
    argv += ["--use_cuda_dmabuf"] if options.dmabuf else []
    return argv + ([test.peer_address] if test.role == "client" else [])


@dataclass
class Outcome:
    """How one end of one test went.

    cm_argv: the connection by rdma_cm before it, empty when there was none; cm_failure: what a client saw of it
    seconds: what the step took, waiting for the other end included
    """

    test: PairTest
    argv: list[str]
    tool: str = "ib_write_bw"
    measurement: Measurement | None = None
    failure: Failure | None = None
    output: str = ""
    cm_argv: list[str] = field(default_factory=list)
    cm_failure: Failure | None = None
    seconds: float = 0.0

    def as_dict(self) -> dict[str, t.Any]:
        """The outcome as plain JSON."""
        row = self.measurement.best(JUDGED_SIZE) if self.measurement else None
        return {
            "role": self.test.role,
            "peer": self.test.peer,
            "netdev": self.test.netdev,
            "rail": self.test.rail,
            "step": self.test.step,
            "command": self.argv,
            "gbps": row.average_gbps if row else None,
            "rows": [asdict(row) for row in self.measurement.results()] if self.measurement else [],
            "failure": self.failure.kind if self.failure else "",
            "output": self.output[-4000:],
        }

    def finding(
        self, host_name: str, link_gbps: float | None, efficiency: float, max_latency_usec: float | None = None
    ) -> Finding | None:
        """The client judges the pair; a server speaks only of what is wrong at its own end."""
        if self.test.role == "server" and (self.failure is None or self.failure.kind not in _SERVER_SAYS):
            return None
        where = {**self._where(host_name), "tool": self.tool, "evidence": " ".join(self.argv)}
        measurement = self.measurement or Measurement()
        if self.tool in LATENCY_TOOLS:
            if self.failure is not None:
                return failed_latency(self.failure, max_latency_usec, **where)
            return judge_latency(measurement, max_latency_usec, **where)
        if self.failure is not None:
            gone = {"gone": self.test.peer} if self.failure.kind == "absent" else {}
            return failed(self.failure, link_gbps, efficiency, **where, **gone)
        return judge(measurement, link_gbps, efficiency, **where)

    def cm_finding(self, host_name: str) -> Finding | None:
        """What a client says of the connection by rdma_cm; None where it tried none."""
        if self.test.role == "server" or not self.cm_argv:
            return None
        return judge_cm(self.cm_failure, **self._where(host_name), evidence=" ".join(self.cm_argv))

    def _where(self, host_name: str) -> dict[str, t.Any]:
        ends = (host_name, self.test.peer) if self.test.role == "client" else (self.test.peer, host_name)
        return {"client": ends[0], "server": ends[1], "rail": self.test.rail, "port": self.test.netdev}


def plan_test(host: Host, ports: list[Port], test: PairTest, options: Options) -> Outcome:
    """The command of one test, or why there can be none. Reads the GID table; starts nothing."""
    port = next((port for port in ports if test.netdev in (port.netdev, port.ibdev)), None)
    if port is None:
        return Outcome(test, [], options.tool, failure=_no_port(test))
    index = choose(read_gids(host, port.ibdev, port.ibport), test.address)
    if index is None:
        return Outcome(test, [], options.tool, failure=_no_gid(test, port))
    beside = _beside_the_card(host, port)
    outcome = Outcome(test, [*beside, *arguments(test, options, port.ibdev, port.ibport, index)], options.tool)
    if options.rdma_cm:
        outcome.cm_argv = [*beside, *arguments(test, _CONNECTION, port.ibdev, port.ibport, index)]
    return outcome


# No traffic class: rdma_cm takes the node's default TOS, as applications do that set none.
_CONNECTION = Options(use_cm=True, size=_CM_SIZE, iterations=_CM_ITERATIONS)


def _beside_the_card(host: Host, port: Port) -> list[str]:
    """Run on the processors and memory of the card's NUMA node, where there is more than one."""
    if port.numa_node < 0 or not host.exists("/sys/devices/system/node/node1") or host.which("numactl") is None:
        return []
    return ["numactl", f"--cpunodebind={port.numa_node}", f"--membind={port.numa_node}"]


def run_test(host: Host, outcome: Outcome, options: Options) -> None:
    """Run one end of one test within the time limit and note how it went."""
    if outcome.failure is not None:
        return
    try:
        if outcome.test.role == "server":
            _serve(host, outcome, options)
        else:
            _measure(host, outcome, options)
    except RoceError as exc:
        outcome.failure = _broken(exc)


def _broken(exc: RoceError) -> Failure:
    """What went wrong on this host, as a failure of its test: what it has measured with others holds."""
    if isinstance(exc, CommandTimeout):
        return Failure(
            "hung",
            str(exc),
            str(exc),
            "look at dmesg for the card and its driver, and at the process (/proc/PID/stack); a process that no signal"
            " ends goes with a reboot at the latest",
        )
    return Failure("broken", str(exc), str(exc), "put right what the cause names, and run the tests again")


def _serve(host: Host, outcome: Outcome, options: Options) -> None:
    """Serve one client. The client has the limit; its server may go on a little longer."""
    limit = options.step_limit - STEP_SLACK_S / 2
    with _listening_by_cm(host, outcome):
        done, timed_out = _run(host, outcome.argv, limit)
    outcome.output = done.out + done.err
    outcome.failure = classify(outcome.output)
    if timed_out and not addresses_exchanged(outcome.output):
        outcome.failure = _no_client(outcome.test, limit)


@contextlib.contextmanager
def _listening_by_cm(host: Host, outcome: Outcome) -> t.Iterator[None]:
    """Serve a connection by rdma_cm beside the test itself: ports of rdma_cm are no TCP ports, so both can listen."""
    process = host.start("stdbuf", "-oL", *outcome.cm_argv) if outcome.cm_argv else None
    try:
        yield
    finally:
        if process is not None:
            process.end()


def _connect_by_cm(host: Host, outcome: Outcome) -> None:
    """Try until the server listens, within the limit; the test itself goes on whatever comes out."""
    try:
        _try_by_cm(host, outcome)
    except RoceError as exc:
        outcome.cm_failure = _broken(exc)


def _try_by_cm(host: Host, outcome: Outcome) -> None:
    deadline = host.now() + _CM_LIMIT_S
    while True:
        done, timed_out = _run(host, outcome.cm_argv, max(deadline - host.now(), 1.0))
        failure = classify(done.out + done.err)
        if failure is None and (timed_out or done.rc or not parse_text(done.out).rows):
            failure = _no_connection(outcome.test, done)
        outcome.cm_failure = failure
        # A server that does not listen yet and one that is refused for ever look the same.
        if failure is None or failure.kind != "no_cm_path" or timed_out or host.now() >= deadline:
            return
        host.sleep(_RETRY_S)


def _no_connection(test: PairTest, done: Done) -> Failure:
    return Failure(
        "no_cm_path",
        done.text()[-200:],
        f"no connection by rdma_cm to {test.peer_address} carried data within {_CM_LIMIT_S:g} s",
        "compare with the test by plain verbs: where that one passes, look at module rdma_ucm on both ends, the route"
        " to the address, and default_roce_mode and default_roce_tos of both (rdma_cm uses them, plain verbs do not)",
    )


def _measure(host: Host, outcome: Outcome, options: Options) -> None:
    """Connect until the server listens, measure, and read the result."""
    if outcome.cm_argv:
        _connect_by_cm(host, outcome)
    deadline = host.now() + options.time_limit
    with host.temporary_directory() as folder:
        file = f"{folder}/result.json"
        extra = _json_flags(host, options, file)
        while True:
            # The server may answer late; the test itself has its own whole limit from its start.
            done, timed_out = _run(host, [*outcome.argv[:-1], *extra, outcome.argv[-1]], options.time_limit)
            outcome.output = done.out + done.err
            outcome.failure = classify(outcome.output)
            if outcome.failure is None or outcome.failure.kind != "no_server" or host.now() >= deadline:
                break
            host.sleep(_RETRY_S)
        outcome.measurement = _result(outcome.output, host.read_optional(file) if extra else None, options)
    # Rows before the end say nothing for the run: it hung at the next size, or the other end failed.
    if outcome.failure is None and (timed_out or done.rc or not outcome.measurement.results()):
        outcome.failure = _no_result(outcome, options, timed_out)


def _json_flags(host: Host, options: Options, file: str) -> list[str]:
    """JSON where it holds: with -a only the last size would remain in the file."""
    if options.all_sizes or "--out_json_file" not in host.run(options.tool, "--help", check=False).out:
        return []
    return ["--out_json", f"--out_json_file={file}"]


def _result(output: str, json_text: str | None, options: Options) -> Measurement:
    if json_text:
        try:
            return parse_json(json_text, bidirectional=options.bidirectional)
        except ParseError:
            pass  # a run that was ended leaves half a file: the text says what there is
    return parse_text(output, bidirectional=options.bidirectional)


def _run(host: Host, argv: list[str], limit: float) -> tuple[Done, bool]:
    """Run a command for at most ``limit`` seconds: what it printed, and whether the limit ended it."""
    # Line by line, or what was printed before the end at the limit would be lost in a buffer.
    process = host.start("stdbuf", "-oL", *argv)
    try:
        done = process.wait(limit)
    except BaseException:
        with contextlib.suppress(CommandTimeout):
            process.end()
        raise
    return (done, False) if done is not None else (process.end(), True)


def _no_result(outcome: Outcome, options: Options, timed_out: bool) -> Failure:
    peer, limit = outcome.test.peer, f"{options.time_limit:g} s"
    rows = outcome.measurement.results() if outcome.measurement else []
    if timed_out and rows:
        return Failure(
            "not_done",
            f"ended after {limit}",
            f"not done within {limit}: the last of {len(rows)} results is for messages of {rows[-1].size} bytes",
            "ask for fewer iterations or a longer time_limit; if the run stood still, test that size alone",
        )
    if timed_out and addresses_exchanged(outcome.output):
        return Failure(
            "data_path",
            f"no result within {limit}",
            f"the TCP exchange with {peer} worked, and the RoCE data path did not: no result within {limit}",
            "check UDP 4791 on the way (switch ACL; on Soft-RoCE also the hosts' firewalls), the MTU of every hop and"
            f" the route; look first at the port {outcome.test.netdev} and at its peer on {peer}",
        )
    if timed_out:
        return Failure(
            "no_answer",
            f"no result within {limit}",
            f"{peer} did not answer on TCP port {outcome.test.tcp_port}, or took the connection and said nothing more",
            f"look for firewalls that drop TCP 18515 and up between the hosts, at {outcome.tool} on {peer}, and at what"
            f" else listens on port {outcome.test.tcp_port} there",
        )
    return Failure(
        "no_result", outcome.output.strip()[-200:], "the program failed or printed no result", "run it by hand"
    )


def _no_port(test: PairTest) -> Failure:
    return Failure(
        "wrong_device",
        test.netdev,
        f"{test.netdev} is declared and is no RDMA port of this node",
        "look for the card, its driver and the name in roce_ports",
    )


def _no_gid(test: PairTest, port: Port) -> Failure:
    return Failure(
        "no_gid",
        test.address,
        f"{port.label()} has no RoCE v2 GID for {test.address}: the address is not on the port, or the port is down",
        f"ip address show dev {port.netdev}",
    )


def _no_client(test: PairTest, limit: float) -> Failure:
    return Failure(
        "no_client",
        f"no client within {limit:g} s",
        f"{test.peer} did not connect to TCP port {test.tcp_port} within {limit:g} s",
        f"look at {test.peer}, and at the firewalls for TCP {test.tcp_port}",
    )


def absent(test: PairTest, reason: str) -> Failure:
    """Why a test cannot be: its partner will not come, for a reason in Meeting's words."""
    return Failure(
        "absent" if "since step" in reason or "did not come" in reason else "left",
        reason,
        f"{test.peer} {reason}",
        f"look at {test.peer}: its findings, whether it is up, and TCP 18514 and 18515 and up between the hosts",
    )


def show_in_file(host: Host, status: Status) -> None:
    """Leave the status where the control node looks for it, without a Python to start for each look."""
    # Only root can write there, and a job of a scheduler is mostly not: the tests are worth more than the progress.
    with contextlib.suppress(HostError):
        host.write(STATUS_FILE, json.dumps(asdict(status)) + "\n")


def run_matrix(
    host: Host,
    tests: list[PairTest],
    options: Options,
    status: Status,
    *,
    refuse_busy: bool = True,
    listen: str = "",
    show: Show = show_in_file,
) -> list[Outcome]:
    """Run this host's tests, step by step with its partners; ``status`` tells how far it is.

    listen: address on which partners are answered; empty for all of this host's
    show: called with the status at the start, at each step, and at the end

    Raises PolicyError for options that contradict themselves, ToolMissing, RoceError when a job uses one of the ports
    or another run is under way.
    """
    options.check()
    ports = find_ports(host)
    # The server's end is started by stdbuf, which hides that the program is not there.
    if host.which(options.tool) is None:
        raise ToolMissing(options.tool, PACKAGES["ib_write_bw"])
    if refuse_busy:
        refuse_jobs(host, [port for port in ports if any(test.netdev in (port.netdev, port.ibdev) for test in tests)])
    with tell(status, address=listen):
        try:
            return list(_run_steps(host, ports, tests, options, status, show))
        finally:
            status.done = True
            show(host, status)


def plan_tests(host: Host, tests: list[PairTest], options: Options) -> list[Outcome]:
    """The commands that this host would run, in order. Starts nothing."""
    options.check()
    ports = find_ports(host)
    return [plan_test(host, ports, test, options) for test in tests]


def _partners(tests: list[PairTest]) -> dict[str, list[str]]:
    """All addresses under which each partner may answer."""
    partners: dict[str, list[str]] = {}
    for test in tests:
        known = partners.setdefault(test.peer, [])
        if test.peer_address not in known:
            known.append(test.peer_address)
    return partners


def _run_steps(
    host: Host, ports: list[Port], tests: list[PairTest], options: Options, status: Status, show: Show
) -> t.Iterator[Outcome]:
    meeting = Meeting(host, status, _partners(tests), step_limit=options.step_limit)
    show(host, status)
    meeting.gather(options.barrier_limit)
    started = host.now()
    for step, group in groupby(tests, key=lambda test: test.step):
        status.step = step
        status.left_s = (host.now() - started) / step * (status.steps - step) if step else 0.0
        show(host, status)
        begun = host.now()
        outcomes = _run_step(host, ports, list(group), options, meeting)
        for outcome in outcomes:
            outcome.seconds = round(host.now() - begun, 3)
        yield from outcomes


def _run_step(
    host: Host, ports: list[Port], tests: list[PairTest], options: Options, meeting: Meeting
) -> list[Outcome]:
    """The tests of one step, all at once: they are with one partner, on a rail each."""
    reason = meeting.meet(tests[0].peer, tests[0].step)
    if reason:
        return [Outcome(test, [], options.tool, failure=absent(test, reason)) for test in tests]
    outcomes = [_planned(host, ports, test, options) for test in tests]
    with ThreadPoolExecutor(max_workers=len(outcomes)) as pool:
        for done in [pool.submit(run_test, host, outcome, options) for outcome in outcomes]:
            done.result()
    return outcomes


def _planned(host: Host, ports: list[Port], test: PairTest, options: Options) -> Outcome:
    try:
        return plan_test(host, ports, test, options)
    except RoceError as exc:
        return Outcome(test, [], options.tool, failure=_broken(exc))


def refuse_jobs(host: Host, ports: list[Port]) -> None:
    """Raise RoceError when programs of others have queue pairs on the ports."""
    busy = busy_ports(host, ports)
    if busy:
        reasons = "; ".join(f"{netdev}: {reason}" for netdev, reason in busy.items())
        raise RoceError(f"{reasons}; a bandwidth test would disturb it (when_busy: force overrides)")
