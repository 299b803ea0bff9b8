# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the ranks of a run reported (roles/nccl_smoke/files), and the verdict on it. Pure.

Sizes are bytes, times µs, bandwidths GB/s (10^9). busbw = algbw × factor, with n ranks: all_reduce 2(n-1)/n,
all_gather, reduce_scatter and all_to_all (n-1)/n, as nccl-tests count (its doc/PERFORMANCE.md).
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.nccl_tests import Table

MARK = "@lossless-roce "
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# Below this size latency is the limit, and not the link.
JUDGED_SIZE = 8 << 20
GLOO = "gloo: this proves launch, rendezvous and sums only, and nothing of NCCL, RDMA or GPUs"
_MEMORY = "memory or GPU errors (nvidia-smi -q -d ECC, dmesg), then one operation at a time"
_GPUS = "nvidia-smi -L on that host: a GPU may be lost (dmesg: Xid), or the ranks may not see it (CUDA_VISIBLE_DEVICES)"
_AGAIN = "run it again; the log of the run shows what stands in the place of the missing rows"
_LARGEST = 1e300  # what is not below it, as nan and infinity are not, was not measured
_NUMBERS = ("size", "iterations", "time_us", "algbw", "busbw", "wrong")

Row = dict[str, t.Any]


@dataclass
class Results:
    """Lines that ranks printed: facts of each rank here; the rest comes from rank 0 alone.

    torn: number of lines that could not be read
    """

    facts: list[dict[str, t.Any]] = field(default_factory=list)
    hosts: dict[str, int] = field(default_factory=dict)  # host -> how many ranks it runs
    rows: list[Row] = field(default_factory=list)
    start: dict[str, t.Any] = field(default_factory=dict)
    train: dict[str, t.Any] = field(default_factory=dict)
    end: dict[str, t.Any] | None = None
    torn: int = 0

    def largest(self, operation: str = "") -> Row | None:
        """The row of the largest size, of one operation or of the first."""
        wanted = operation or (self.rows[0]["operation"] if self.rows else "")
        return max((row for row in self.rows if row["operation"] == wanted), key=lambda row: row["size"], default=None)


def parse_events(text: str) -> Results:
    """All that can be read; torn lines are counted and left out."""
    results, decoder = Results(), json.JSONDecoder()
    for piece in text.split(MARK)[1:]:
        try:
            event, _end = decoder.raw_decode(piece)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            _take(results, event)
        else:
            results.torn += 1
    return results


def _take(results: Results, event: dict[str, t.Any]) -> None:
    kind = event.pop("event", None)
    if kind == "facts":
        results.facts.append(event)
    elif kind == "ranks" and isinstance(event.get("ranks"), int):
        results.hosts[str(event.get("host"))] = event["ranks"]
    elif kind == "row":
        if isinstance(event.get("operation"), str) and all(map(_is_number, _of(event, _NUMBERS))):
            results.rows.append(event)
        else:
            results.torn += 1
    elif kind == "start":
        results.start = event
    elif kind == "train" and all(map(_is_number, _of(event, ("step_ms", "communication")))):
        results.train = event
    elif kind == "end":
        results.end = event


def _of(event: dict[str, t.Any], names: t.Iterable[str]) -> list[t.Any]:
    return [event.get(name) for name in names]


def _is_number(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST


# -- verdicts --------------------------------------------------------------------------------------


def judge_results(
    results: Results,
    backend: str,
    members: t.Sequence[str],
    *,
    first: bool,
    took_s: float = 0.0,
    sweep: t.Mapping[str, int] | None = None,
    ranks: int | None = None,
) -> Finding:
    """Whether the collectives ran on all hosts and gave the right results. The first host speaks for all.

    sweep: how many sizes of each operation there should be, where that is known
    ranks: how many ranks each host should run, where that is known; without it all hosts run the same number
    """
    if not first:
        return _reported(results, backend)
    wrong, remedy = _wrong(results, members, ranks)
    lost = "" if wrong else _lost(results, members, sweep)
    return Finding(
        check="nccl_smoke",
        verdict=FAIL if wrong else UNKNOWN if lost else PASS,
        observed={
            "ranks": sum(results.hosts.values()),
            "hosts": len(results.hosts),
            **{key: results.facts[0].get(key) for key in ("torch", "nccl", "device") if results.facts},
            "took_s": took_s,
            "start": results.start,
            "rows": results.rows,
        },
        expected={"hosts": len(members), "wrong": 0},
        evidence=f"torchrun, backend {backend}",
        cause=wrong or lost or ("" if backend == "nccl" else GLOO),
        remedy=remedy or (_AGAIN if lost else ""),
    )


def _reported(results: Results, backend: str) -> Finding:
    """That ranks of this host ran, as they say themselves."""
    observed = {"ranks": sorted(fact["rank"] for fact in results.facts if _is_number(fact.get("rank")))}
    if results.facts:
        return Finding("nccl_smoke", PASS, observed=observed, cause="" if backend == "nccl" else GLOO)
    verdict = UNKNOWN if results.torn else FAIL
    return Finding("nccl_smoke", verdict, observed=observed, cause="no rank of this host reported", remedy=_AGAIN)


def _wrong(results: Results, members: t.Sequence[str], ranks: int | None) -> tuple[str, str]:
    """What is wrong, and what to do; empty when nothing is."""
    bad = [row for row in results.rows if row["wrong"]]
    if bad:
        return f"wrong results: {bad[0]['wrong']} elements of {bad[0]['operation']} at {bad[0]['size']} bytes", _MEMORY
    uneven = _uneven(results.hosts, ranks)
    if uneven:
        return uneven, _GPUS
    silent = "" if results.torn else _silent(results, members)
    return silent, "see the log of the run" if silent else ""


def _silent(results: Results, members: t.Sequence[str]) -> str:
    """What the ranks should have said by the end and did not."""
    missing = sorted(set(members) - set(results.hosts))
    if missing:
        return f"no rank ran on {', '.join(missing)}"
    return "the sweep did not come to its end" if results.end is None or not results.rows else ""


def _uneven(counts: t.Mapping[str, int], ranks: int | None) -> str:
    """Which hosts run another number of ranks than they should; empty when all are right."""
    numbers = list(counts.values())
    # Of hosts that differ most are right; of two the one that runs more.
    usual = ranks or max(numbers, key=lambda number: (numbers.count(number), number), default=0)
    odd = [f"{host} runs {number} ranks" for host, number in counts.items() if number != usual]
    wanted = f"the others {usual}" if ranks is None else f"{ranks} were asked for"
    return f"{', '.join(odd)}, {wanted}" if odd else ""


def _lost(results: Results, members: t.Sequence[str], sweep: t.Mapping[str, int] | None) -> str:
    """Which lines are missing; empty when there are all. Nobody knows what a missing one said."""
    if results.torn and (sweep is None or _silent(results, members)):
        return f"{results.torn} lines of the ranks could not be read"
    for operation, wanted in (sweep or {}).items():
        there = sum(row["operation"] == operation for row in results.rows)
        if there < wanted:
            return f"{there} of {wanted} sizes of {operation} are in the output"
    return ""


def judge_sweep(
    results: Results, minimum: float | None, *, sweep: t.Mapping[str, int], of_one_host: bool
) -> list[Finding]:
    """Bus bandwidth of each operation's largest size: the slowest is told. Nothing where no row was to be printed."""
    if minimum is None or not results.rows:
        return []
    lost = _lost(results, (), sweep)
    if lost:
        cause, expected = f"{lost}: the largest may be missing", {"min_busbw": minimum}
        return [Finding("nccl_busbw", UNKNOWN, expected=expected, cause=cause, remedy=_AGAIN)]
    largest = filter(None, map(results.largest, sweep))
    return judge_busbw(min(largest, key=lambda row: row["busbw"]), minimum, of_one_host=of_one_host)


def judge_busbw(row: Row | None, minimum: float | None, *, of_one_host: bool) -> list[Finding]:
    """Bus bandwidth of the largest size against the least that is asked for; nothing where nothing is asked."""
    if row is None or minimum is None:
        return []
    observed = {"size": row["size"], "busbw": row["busbw"], "algbw": row["algbw"], "operation": row["operation"]}
    place: dict[str, t.Any] = {"check": "nccl_busbw", "observed": observed, "expected": {"min_busbw": minimum}}
    if row["size"] < JUDGED_SIZE:
        cause = f"{row['size']} bytes measure latency, not the link: at least {JUDGED_SIZE} are needed"
        return [Finding(verdict=UNKNOWN, cause=cause, remedy="a larger nccl_smoke_end", **place)]
    right = row["busbw"] >= minimum
    where = " on one host, which says nothing on the fabric," if of_one_host else ""
    low = f"bus bandwidth of {row['operation']}{where} is {row['busbw']:g} GB/s, {minimum:g} was expected"
    cause = low if not right else "one host: this says nothing on the fabric" if of_one_host else ""
    remedy = "" if right else "ib_write_bw of each rail first (fabric_test), then channels and GPUDirect"
    return [Finding(verdict=PASS if right else FAIL, cause=cause, remedy=remedy, **place)]


def judge_ratio(rdma: Results, tcp: Results, *, over_socket: bool) -> list[Finding]:
    """What RoCE buys: time of one step over sockets against that over RoCE, at the same size."""
    slow = tcp.largest()
    fast = next(
        (row for row in rdma.rows if slow and (row["operation"], row["size"]) == (slow["operation"], slow["size"])),
        None,
    )
    if slow is None or fast is None or not fast["time_us"]:
        return []
    ratio = slow["time_us"] / fast["time_us"]
    cause, verdict = "", PASS
    if over_socket:
        cause, verdict = "both runs went over sockets: there is nothing to compare", SKIPPED
    elif ratio <= 1:
        cause, verdict = "sockets are as fast as RoCE", FAIL
    return [
        Finding(
            check="nccl_ratio",
            verdict=verdict,
            observed={
                "size": slow["size"],
                "roce_us": fast["time_us"],
                "socket_us": slow["time_us"],
                "ratio": round(ratio, 2),
            },
            expected="above 1",
            evidence="the same sweep with NCCL_IB_DISABLE=1",
            cause=cause,
            remedy="look at ib_write_bw of the rails, GPUDirect, and lost packets" if verdict == FAIL else "",
        )
    ]


def judge_training(results: Results, backend: str) -> list[Finding]:
    """How the training example went."""
    if not results.train:
        return [Finding("nccl_training", FAIL, cause="the training example did not come to its end")]
    return [
        Finding(
            check="nccl_training",
            verdict=PASS,
            observed=results.train,
            evidence="DistributedDataParallel on synthetic data",
            cause="" if backend == "nccl" else GLOO,
        )
    ]


def judge_inside(facts: t.Sequence[dict[str, t.Any]]) -> list[Finding]:
    """What ranks lack where they run: verbs devices, the library, locked memory. One finding each."""
    found = []
    without = [fact for fact in facts if fact.get("ibdevs") and fact.get("uverbs") == []]
    none = [fact for fact in facts if fact.get("ibdevs") == []]
    if without or none:
        cause = (
            "the ranks see no /dev/infiniband/uverbs*: the container was not given the RDMA devices"
            if without
            else "the ranks see no RDMA device: /sys/class/infiniband is empty"
        )
        remedy = (
            "start it with --device lossless.roce/rdma=all (CDI), or --device /dev/infiniband"
            if without
            else "role baseline loads the driver; a network namespace may hide the device (rdma system show)"
        )
        found.append(_inside("nccl_devices", (without or none)[0].get("uverbs"), "verbs devices", cause, remedy))
    if any(fact.get("libibverbs") is False for fact in facts):
        cause = "libibverbs cannot be loaded where the ranks run: NCCL would fall back to sockets"
        remedy = "install libibverbs and its provider (ibverbs-providers) in the image, or on the host"
        found.append(_inside("nccl_libibverbs", False, True, cause, remedy))
    limits = [fact["memlock"] for fact in facts if _is_number(fact.get("memlock"))]
    if limits:
        cause = f"the ranks may lock {min(limits)} bytes of memory: NCCL's buffers cannot be registered"
        remedy = "--ulimit memlock=-1 for the container, or role baseline and a new login for the host"
        found.append(_inside("nccl_memlock", min(limits), "unlimited", cause, remedy))
    return found


def _inside(check: str, observed: t.Any, expected: t.Any, cause: str, remedy: str) -> Finding:
    return Finding(check, FAIL, observed, expected, evidence="facts of the ranks", cause=cause, remedy=remedy)


# -- nccl-tests --------------------------------------------------------------------------------------


def judge_table(
    table: Table, *, ranks: int | None = None, sizes: t.Sequence[int] = (), min_busbw: float | None = None
) -> list[Finding]:
    """Findings on an output of nccl-tests: whether it was one job, whether sums are right, and its bandwidth.

    ranks, sizes: how many ranks and which sizes in bytes, ascending, there should be, where that is known
    """
    wrong = _not_one_job(table, ranks)
    if wrong:
        return [wrong]
    return [_sums(table), *_table_busbw(table, sizes, min_busbw)]


def _not_one_job(table: Table, ranks: int | None) -> Finding | None:
    observed = {"jobs": table.jobs, "ranks": len(table.ranks), "hosts": len(table.hosts()), "rows": len(table.rows)}
    several = "nccl-tests built with MPI (make MPI=1), started by one mpirun"
    if not table.rows:
        return _table("nccl_smoke", UNKNOWN, observed, "the output holds no table", "see the log of the run")
    if table.jobs > 1:
        cause = f"{table.jobs} jobs wrote this output: each host ran its own, so it says nothing on the fabric"
        return _table("nccl_smoke", FAIL, observed, cause, several)
    if ranks is not None and not table.ranks:
        cause = f"the output names no ranks (# Rank): nothing shows that {ranks} ranks ran"
        return _table("nccl_smoke", UNKNOWN, observed, cause, "see the log of the run")
    if ranks is not None and len(table.ranks) != ranks:
        return _table("nccl_smoke", FAIL, observed, f"{len(table.ranks)} ranks ran, {ranks} were expected", several)
    if len(table.ranks) == 1:
        cause = "a single rank: nothing was exchanged, and times and bandwidths mean nothing"
        return _table("nccl_smoke", UNKNOWN, observed, cause, several)
    return None


def _sums(table: Table) -> Finding:
    observed = {"rows": len(table.rows), "ranks": len(table.ranks), "wrong": table.wrong()}
    if any(not okay for _count, okay in table.out_of_bounds) or table.wrong() or table.not_numbers():
        cause = "results are wrong (#wrong, an error that is no number, or Out of bounds values: FAILED)"
        return _table("nccl_smoke", FAIL, observed, cause, "memory or GPU errors: nvidia-smi -q -d ECC, dmesg")
    unchecked = all(half.last is None for row in table.rows for half in (row.out_of_place, row.in_place))
    if table.validation is False or unchecked:
        cause = "results were not checked (validation 0, N/A): 0 OK at the end means nothing"
        return _table("nccl_smoke", UNKNOWN, observed, cause, "run it with -c 1")
    # Rows may be torn by lines of NCCL's log. The sum at the end counts the wrong values of all sizes.
    if not table.out_of_bounds:
        return _table("nccl_smoke", UNKNOWN, observed, "no wrong result until the output stops, before its end", "")
    return _table("nccl_smoke", PASS, observed)


def _table_busbw(table: Table, sizes: t.Sequence[int], minimum: float | None) -> list[Finding]:
    row = table.largest()
    if row is None:
        return []
    # Its size may be rounded down, to a multiple of the ranks.
    if minimum is not None and len(sizes) > 1 and row.size <= sizes[-2]:
        cause = f"the row of {sizes[-1]} bytes is not in the output, or cannot be read"
        return [_table("nccl_busbw", UNKNOWN, {"size": row.size, "busbw": row.busbw}, cause, _AGAIN)]
    observed = {"size": row.size, "busbw": row.busbw, "algbw": max(row.out_of_place.algbw, row.in_place.algbw)}
    if row.size < JUDGED_SIZE:
        cause = f"{row.size} bytes are too few to judge the link: at least {JUDGED_SIZE} are needed"
        return [_table("nccl_busbw", UNKNOWN, observed, cause, "a larger -e")]
    if len(table.hosts()) == 1:
        cause = "all ranks are on one host: this says nothing on the fabric"
        return [_table("nccl_busbw", UNKNOWN, observed, cause, "two hosts or more")]
    return judge_busbw({**observed, "operation": table.test or "nccl-tests"}, minimum, of_one_host=False)


def _table(check: str, verdict: str, observed: t.Any, cause: str = "", remedy: str = "") -> Finding:
    return Finding(check, verdict, observed, evidence="output of nccl-tests", cause=cause, remedy=remedy)
