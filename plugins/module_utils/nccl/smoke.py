# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of the smoke test: launch, watch, end, and the verdict. Every run is bounded in time, and no process
and no container outlives it. Private to the collection."""

from __future__ import annotations

import contextlib
import ipaddress
import typing as t
from dataclasses import dataclass, field, replace
from functools import cached_property

from ..errors import CommandTimeout, HostError, RoceError, ToolMissing
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..guards import busy_ports
from ..parsers.nccl_log import NcclLog, parse_log
from ..parsers.nccl_tests import parse_table
from ..policy import parse_policy
from .company import Company
from .env import FINDS_GID, derive, parse_version
from .explain import Failure, explain
from .job import MAIN, NCCL_TESTS, SOCKET, TRAINING, Job
from .node import NodeFacts, look
from .proof import Expected, Inside, prove, summary
from .results import (
    GLOO,
    Results,
    judge_inside,
    judge_ratio,
    judge_results,
    judge_sweep,
    judge_table,
    judge_training,
    parse_events,
)
from .samples import Sampler, Samples, judge_gpus, judge_ports

if t.TYPE_CHECKING:
    from ..host import Host, Process

_TICK_S = 1.0
# A killed rank gives back all its GPU memory before it is gone.
_END_LIMIT_S = 30.0
_CLEANUP_LIMIT_S = 60.0
_NO_ADDRESS = "has no address on its interface for the rendezvous"
# What an engine says of a container that is gone already.
_GONE = ("No such container", "no container with name", "already in progress")


@dataclass
class Ran:
    """How one run went on this host.

    text: all that was printed; failure: why there is no result; culprit: the other host whose fault it is
    log_file: where the text is kept; not_kept: why it is not, although it should be
    """

    label: str
    argv: list[str]
    text: str = ""
    took_s: float = 0.0
    failure: Failure | None = None
    culprit: str = ""
    how: str = ""
    left_behind: str = ""
    log_file: str = ""
    not_kept: str = ""
    samples: Samples = field(default_factory=Samples)

    @property
    def right(self) -> bool:
        """Whether it came to its end."""
        return self.failure is None and not self.culprit

    # Once the run is over its text does not change any more, and may be long.
    @cached_property
    def results(self) -> Results:
        """What its ranks reported."""
        return parse_events(self.text)

    @cached_property
    def log(self) -> NcclLog:
        """What NCCL logged."""
        return parse_log(self.text)


def run_smoke(host: Host, job: Job, *, refuse_busy: bool = True, dry_run: bool = False) -> dict[str, t.Any]:
    """Run (or in a dry run plan) this host's part: {runs, findings, nccl_version} as plain JSON.

    Raises RoceError for bad options.
    """
    try:
        job.check()
        node, derived = _look(host, job)
        if refuse_busy and not dry_run:
            _refuse_busy(host, job, node)
    except RoceError:
        if not dry_run:
            _stay_away(host, job)
        raise
    commands = {label: _command(job, node, derived, label) for label in job.labels()}
    if dry_run:
        planned = [{"label": label, "command": argv} for label, argv in commands.items()]
        return {"runs": planned, "findings": [_not_run().as_dict()], "nccl_version": ""}
    runs: list[Ran] = []
    wrong = _wrong_interface(host, job, node)
    if wrong is not None:
        if wrong.verdict == FAIL:
            _stay_away(host, job)
    else:
        for label, argv in commands.items():
            company = Company(host, job.members, job.name, f"{job.run}-{label}", values=job.own_variables(derived))
            runs.append(_run(host, job, node, company, Ran(label, argv)))
            _keep_log(host, job, runs[-1])
            if not runs[-1].right:
                break
    findings = [wrong] if wrong else _judge(job, node, runs)
    return {
        "runs": [_as_dict(job, run) for run in runs],
        "findings": [finding.as_dict() for finding in findings],
        "nccl_version": next(filter(None, map(_version, runs)), ""),
    }


def _look(host: Host, job: Job) -> tuple[NodeFacts, dict[str, str]]:
    """The node, and the variables that follow from it. Raises RoceError."""
    node = look(host, job.ports)
    return node, derive(
        parse_policy(job.policy),
        node.facts,
        version=parse_version(job.version),
        interface=job.interface,
        tuning=job.environment,
    )


def _command(job: Job, node: NodeFacts, derived: dict[str, str], label: str) -> list[str]:
    return job.command(label, job.run_variables(label, derived, node.gid_indexes))


def _not_run() -> Finding:
    return Finding(
        "nccl_smoke", SKIPPED, evidence="check mode", cause="nothing is run in check mode: nothing is proven"
    )


# -- before --------------------------------------------------------------------------------------


def _refuse_busy(host: Host, job: Job, node: NodeFacts) -> None:
    _refuse_second(host, job)
    reasons = [f"{netdev}: {reason}" for netdev, reason in busy_ports(host, node.ports).items()] if node.ports else []
    if host.which("nvidia-smi") is not None:
        done = host.run("nvidia-smi", "--query-compute-apps=pid,name", "--format=csv,noheader", check=False)
        lines = [line.strip() for line in done.out.splitlines() if line.strip()[:1].isdigit()]
        reasons += [f"busy: GPU programs run (pid {line})" for line in lines[:1] if done.rc == 0]
    if reasons:
        raise RoceError(f"{'; '.join(reasons)}; a smoke test would disturb it (when_busy: force overrides)")


def _refuse_second(host: Host, job: Job) -> None:
    """Raise RoceError while the container of another smoke test runs here: one whose end nobody waited for, perhaps."""
    argv = job.containers()
    if not argv or host.which(argv[0]) is None:
        return
    done = host.run(*argv, check=False)
    older = job.of_others(done.out) if done.rc == 0 else []
    if older:
        raise RoceError(
            f"busy: container {older[0]} of another smoke test runs … none was expected; where nobody waits for it,"
            f" {argv[0]} rm -f {older[0]} ends it (when_busy: force overrides)"
        )


def _wrong_interface(host: Host, job: Job, node: NodeFacts) -> Finding | None:
    """A finding when the rendezvous cannot work over the declared interface, seen from here."""
    own = [str(one.ip) for one in node.networks.get(job.interface, [])]
    master, mine = job.members[0], job.members[job.index]
    if not job.interface:
        return _rendezvous(job, "no interface is declared for the rendezvous")
    if job.interface not in node.networks:
        there = ", ".join(node.networks) or "none"
        return _rendezvous(job, f"interface {job.interface} is not on this host … there are {there}")
    if not mine.address or mine.address not in own:
        said = f"{mine.address} is not an address of {job.interface}" if mine.address else "no address is declared"
        return _rendezvous(job, f"{said} … it has {', '.join(own) or 'none'}")
    nowhere = [member.name for member in job.members if not _is_address(member.address)]
    if nowhere:
        return _followed(Ran(MAIN, [], culprit=nowhere[0], how=_NO_ADDRESS))
    done = host.run("ip", "route", "get", master.address, check=False)
    words = done.out.split()
    netdev = words[words.index("dev") + 1] if "dev" in words[:-1] else ""
    if done.rc or not netdev:
        return _rendezvous(job, f"there is no route to {master.address} of {master.name}: {done.text()}")
    if netdev not in (job.interface, "lo"):
        cause = f"{master.address} of {master.name} is reached over {netdev}, and {job.interface} is declared"
        return _rendezvous(job, cause)
    return None


def _stay_away(host: Host, job: Job) -> None:
    """The others need not wait for this host; where it has no address they know that already."""
    own = [member for member in job.members if member.name == job.name]
    if job.one_host or len(own) != 1 or not _is_address(own[0].address):
        return
    company = Company(host, job.members, job.name, f"{job.run}-{MAIN}")
    # Where they cannot be told the reason for staying away counts all the same.
    with contextlib.suppress(RoceError), company.present():
        company.stay_away(job.barrier_limit)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _rendezvous(job: Job, cause: str) -> Finding:
    return Finding(
        check="nccl_rendezvous",
        verdict=FAIL,
        observed=job.interface,
        expected=f"{job.members[0].address or job.members[0].name} over {job.interface}",
        evidence="ip address show; ip route get",
        cause=cause,
        remedy="nccl_smoke_interface with an interface that has an address and reaches the other hosts",
    )


# -- the run -------------------------------------------------------------------------------------


def _run(host: Host, job: Job, node: NodeFacts, company: Company, ran: Ran) -> Ran:
    """One run from the barrier to its end."""
    with contextlib.nullcontext() if job.one_host else company.present():
        missing, ran.culprit = company.gather(job.barrier_limit) if not job.one_host else ([], "")
        if missing:
            ran.failure = None if ran.culprit else _nobody_came(missing, job)
        elif job.tool == NCCL_TESTS and company.first and not job.one_host:
            ran.failure = _other_variables(job.name, company.status.values, company.values())
        if ran.failure or ran.culprit:
            company.leave(ran.culprit or job.name)
            return ran
        started = host.now()
        if job.tool == NCCL_TESTS and not company.first:
            _attend(host, job, company, ran)
        else:
            _launch(host, job, node, company, ran)
        ran.took_s = round(host.now() - started, 2)
        _settle(company, job, ran)
    return ran


def _nobody_came(missing: list[str], job: Job) -> Failure:
    return Failure(
        "absent",
        f"{', '.join(missing)} did not come to the start within {job.barrier_limit:g} s",
        "that host's own result says why; a firewall may also hide it: TCP 18514 and the ports above it, one a host",
    )


def _other_variables(name: str, own: t.Mapping[str, str], others: dict[str, dict[str, str]]) -> Failure | None:
    """Hosts whose ports or interfaces have other names than the first host's, which mpirun hands to all."""
    for other, values in others.items():
        for key in sorted({*own, *values}):
            if own.get(key) != values.get(key):
                said = f"{key} is {own.get(key, 'not set')} on {name}, and {values.get(key, 'not set')} on {other}"
                return Failure(
                    "variables",
                    f"{said}: mpirun hands the first host's to the ranks of all hosts",
                    "nccl_smoke_tool torch, whose hosts have each their own; or the same names on all of them",
                )
    return None


def _launch(host: Host, job: Job, node: NodeFacts, company: Company, ran: Ran) -> None:
    sampler = Sampler(host, node.ports)
    process: Process | None = None
    try:
        process = host.start(*ran.argv)
        _watch(host, job, company, ran, process, sampler)
    except ToolMissing as exc:
        ran.failure = Failure("no_program", str(exc), "the program must be there where the ranks are started")
    finally:
        if process is not None and ran.text == "":
            _end(process, ran)
        ran.left_behind = "; ".join(filter(None, (ran.left_behind, _clean_up(host, job))))
        ran.samples = sampler.finish()


def _watch(host: Host, job: Job, company: Company, ran: Ran, process: Process, sampler: Sampler) -> None:
    deadline = host.now() + job.time_limit
    while True:
        done = process.wait(_TICK_S)
        if done is not None:
            ran.text = done.out + done.err or "\n"
            if done.rc:
                ran.failure = explain(ran.text, done.rc)
            return
        sampler.take()
        ran.culprit, ran.how = company.culprit() if not job.one_host else ("", "")
        if ran.culprit or host.now() >= deadline:
            _end(process, ran)
            if not ran.culprit:
                ran.failure = explain(ran.text, -9, job.time_limit)
            return


def _end(process: Process, ran: Ran) -> None:
    """Kill the whole group. Ranks that torchrun put elsewhere die with it (smoke_worker.py sees to it)."""
    try:
        done = process.end(_END_LIMIT_S)
        ran.text = done.out + done.err or "\n"
    except CommandTimeout as exc:
        ran.text, ran.left_behind = exc.printed or "\n", str(exc)


def _attend(host: Host, job: Job, company: Company, ran: Ran) -> None:
    """mpirun of the first host starts this host's ranks as well: wait until it is through."""
    deadline = host.now() + job.time_limit
    while host.now() < deadline and not company.first_ended():
        ran.culprit, ran.how = company.culprit()
        if ran.culprit:
            return
        host.sleep(_TICK_S)


def _settle(company: Company, job: Job, ran: Ran) -> None:
    """Find out whose fault a failure is, and tell the others how this part ended."""
    if job.one_host:
        return
    if ran.failure is not None and ran.failure.consequence and not ran.culprit:
        ran.culprit = company.whose_fault()
        ran.failure = None if ran.culprit else ran.failure
    company.leave(ran.culprit or (job.name if ran.failure else ""))


def _clean_up(host: Host, job: Job) -> str:
    """Remove the container; what is left behind, or empty."""
    for argv in job.cleanup:
        try:
            done = host.run(*argv, check=False, timeout=_CLEANUP_LIMIT_S)
        except RoceError as exc:
            return str(exc)
        if done.rc and not any(word in done.text() for word in _GONE):
            return f"{' '.join(argv)}: {done.text()}"
    return ""


def _keep_log(host: Host, job: Job, ran: Ran) -> None:
    if not job.log_folder or not ran.text.strip():
        return
    path = f"{job.log_folder}/nccl-{job.name}-{ran.label}.log"
    try:
        host.mkdir(job.log_folder)
        host.write(path, ran.text)
        ran.log_file = path
    except HostError as exc:  # what the run has found out is worth more than its log
        ran.not_kept = str(exc)


# -- the verdict ---------------------------------------------------------------------------------


def _judge(job: Job, node: NodeFacts, runs: t.Sequence[Ran]) -> list[Finding]:
    findings: list[Finding] = []
    by_label = {run.label: run for run in runs}
    for run in runs:
        findings += _judge_run(job, node, run)
        if run.left_behind:
            findings.append(
                Finding("nccl_cleanup", FAIL, cause=run.left_behind, remedy="remove it by hand", evidence=run.label)
            )
        if run.not_kept:
            remedy = "make room there, or name another folder (nccl_smoke_log_folder)"
            findings.append(Finding("nccl_log", FAIL, cause=run.not_kept, remedy=remedy, evidence=run.label))
    if SOCKET in by_label and by_label[SOCKET].right and job.index == 0:
        main = by_label[MAIN]
        over_socket = "Socket" in main.log.networks
        findings += judge_ratio(main.results, by_label[SOCKET].results, over_socket=over_socket)
    return [_of_fewer(job, finding) for finding in findings]


def _of_fewer(job: Job, finding: Finding) -> Finding:
    """What is right is known of the hosts that are here, and of no other. The first host says so."""
    # One host that is left never leaves itself.
    of_all = ("nccl_smoke", "nccl_path", "nccl_busbw") if job.one_host else ("nccl_smoke",)
    if not job.absent or job.index or finding.verdict != PASS or finding.check not in of_all:
        return finding
    cause = f"{', '.join(job.absent)} took no part: unreachable, failed before, or left out of this play"
    return replace(
        finding,
        verdict=UNKNOWN,
        cause=f"{cause}; {finding.cause}" if finding.cause else cause,
        remedy="run it again with all hosts, or name those that are meant in nccl_smoke_hosts",
    )


def _judge_run(job: Job, node: NodeFacts, run: Ran) -> list[Finding]:
    results = run.results
    inside = judge_inside(results.facts) if job.ports and not job.accept_socket and run.label == MAIN else []
    if run.culprit:
        return [*inside, _followed(run)]
    said = (
        prove(run.log, _expected(job, node, results))
        if job.backend == "nccl" and run.label == MAIN and run.text
        else []
    )
    if run.failure is not None:
        return _one_cause(run, run.failure, [*inside, *(finding for finding in said if finding.verdict == FAIL)])
    if run.label == TRAINING:
        return [*(judge_training(results, job.backend) if job.index == 0 else []), *_load(job, run, judged=True)]
    if run.label == SOCKET or (job.tool == NCCL_TESTS and job.index):
        return []
    return [
        *_without_doubles(inside, said),
        *_no_gid(job, run.log),
        *(said if job.backend == "nccl" else [_plumbing()]),
        *_sums(job, run),
        *_load(job, run, judged=False),
        *judge_ports(run.samples),
    ]


def _no_gid(job: Job, log: NcclLog) -> list[Finding]:
    """nccl-tests have no worker that knows its NCCL before it starts: an old one was told of no GID."""
    told = job.tool != NCCL_TESTS or not job.ports or job.version or "NCCL_IB_GID_INDEX" in job.environment
    if told or not log.release or log.release >= FINDS_GID:
        return []
    cause = f"NCCL {log.version} takes a GID by its index, was told none, and uses that of index 0, no RoCE v2 address"
    remedy = f"nccl_smoke_nccl_version: {log.version}, which sets NCCL_IB_GID_INDEX; or NCCL 2.21 or newer"
    return [Finding("nccl_error", FAIL, observed=log.version, evidence="NCCL version", cause=cause, remedy=remedy)]


def _followed(run: Ran) -> Finding:
    how = run.how or "failed"
    return Finding(
        check="nccl_smoke",
        verdict=SKIPPED if how in ("failed", _NO_ADDRESS) else FAIL,
        evidence=f"run {run.label}",
        cause=f"ended, since {run.culprit} {how}",
        remedy=f"see the findings of {run.culprit}",
    )


def _one_cause(run: Ran, failure: Failure, told: list[Finding]) -> list[Finding]:
    """NCCL's own words, or what a rank lacks, say more than the end of torchrun, which follows from it."""
    if told and failure.kind in ("exit", "peer_gone", "time_limit"):
        return told
    check = "nccl_rendezvous" if failure.kind in ("rendezvous", "interface", "port_taken", "absent") else "nccl_smoke"
    where = f"output of run {run.label}"
    return [Finding(check, FAIL, observed=failure.kind, evidence=where, cause=failure.cause, remedy=failure.remedy)]


def _without_doubles(inside: list[Finding], said: list[Finding]) -> list[Finding]:
    """A fallback to sockets names what is missing already."""
    if any(finding.check == "nccl_path" and finding.verdict == FAIL for finding in said):
        return [finding for finding in inside if finding.check not in ("nccl_devices", "nccl_libibverbs")]
    return inside


def _expected(job: Job, node: NodeFacts, results: Results) -> Expected:
    fact = results.facts[0] if results.facts else {}
    return Expected(
        ibdevs=tuple(port.ibdev for port in node.ports),
        gdr=job.gdr,
        accept_socket=job.accept_socket,
        one_host=job.one_host,
        ranks=_ranks_here(job, results),
        inside=Inside(
            ibdevs=tuple(fact["ibdevs"]) if "ibdevs" in fact else None,
            uverbs=tuple(fact["uverbs"]) if "uverbs" in fact else None,
            libibverbs=fact.get("libibverbs"),
        ),
    )


def _ranks_here(job: Job, results: Results) -> int | None:
    """How many ranks this host's output has to show: mpirun's are all ranks, torchrun's those of this host.

    None where neither the job nor the ranks say it.
    """
    if job.tool == NCCL_TESTS:
        return int(job.ranks) * len(job.members)
    if job.ranks != "gpu":
        return int(job.ranks)
    return len(results.facts) or None


def _plumbing() -> Finding:
    return Finding("nccl_path", SKIPPED, cause=GLOO, evidence="backend gloo")


def _sums(job: Job, run: Ran) -> list[Finding]:
    names = [member.name for member in job.members]
    if job.tool == NCCL_TESTS:
        whole = int(job.ranks) * len(names)
        return judge_table(parse_table(run.text), ranks=whole, sizes=job.sizes(), min_busbw=job.min_busbw)
    sweep, first = job.sweep(), job.index == 0
    ranks = None if job.ranks == "gpu" else int(job.ranks)
    return [
        judge_results(run.results, job.backend, names, first=first, took_s=run.took_s, sweep=sweep, ranks=ranks),
        *judge_sweep(run.results, job.min_busbw, sweep=sweep, of_one_host=job.one_host),
    ]


def _version(run: Ran) -> str:
    """The version of NCCL, from its log, or as a rank says; empty where neither does."""
    return run.log.version or next((str(fact["nccl"]) for fact in run.results.facts if fact.get("nccl")), "")


def _load(job: Job, run: Ran, *, judged: bool) -> list[Finding]:
    return judge_gpus(run.samples, job.gpu_target, judged=judged) if job.backend == "nccl" else []


def _as_dict(job: Job, run: Ran) -> dict[str, t.Any]:
    results = run.results
    return {
        "label": run.label,
        "command": run.argv,
        "took_s": run.took_s,
        "failure": run.failure.kind if run.failure else "",
        "culprit": run.culprit,
        "rows": results.rows,
        "start": results.start,
        "facts": results.facts,
        "train": results.train,
        "path": summary(run.log) if run.log.processes else {},
        "samples": run.samples.as_dict(),
        "log": run.log_file,
        "output": run.text[-4000:],
    }
