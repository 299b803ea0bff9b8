# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What ranks report, why runs end without a result, and what GPUs and ports did meanwhile."""

from __future__ import annotations

import ast
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.nccl.company import Member
from ansible_collections.lossless.roce.plugins.module_utils.nccl.explain import explain
from ansible_collections.lossless.roce.plugins.module_utils.nccl.job import Job
from ansible_collections.lossless.roce.plugins.module_utils.nccl.results import (
    MARK,
    OPERATIONS,
    Results,
    judge_busbw,
    judge_inside,
    judge_ratio,
    judge_results,
    judge_sweep,
    parse_events,
)
from ansible_collections.lossless.roce.plugins.module_utils.nccl.samples import (
    Sampler,
    Samples,
    judge_gpus,
    judge_ports,
    parse_utilisation,
)
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

FILES = Path(__file__).parents[3] / "roles" / "nccl_smoke" / "files"
RECORDED = Path(__file__).parents[1] / "recorded" / "nccl"


def line(event: str, **values: t.Any) -> str:
    return f"\n{MARK}{json.dumps({'event': event, **values})}\n"


def row(size: int = 64 << 20, time_us: float = 100.0, **values: t.Any) -> dict[str, t.Any]:
    base = {"operation": "all_reduce", "size": size, "iterations": 20, "time_us": time_us, "algbw": 1.0, "busbw": 2.0}
    return {**base, "wrong": 0, **values}


def run(*rows: dict[str, t.Any], hosts: tuple[str, ...] = ("n1", "n2"), end: bool = True) -> Results:
    text = on(*hosts) + "".join(line("row", **one) for one in rows) + (line("end") if end else "")
    return parse_events(text)


def on(*hosts: str) -> str:
    """What rank 0 says of the hosts of all ranks."""
    return "".join(line("ranks", host=host, ranks=hosts.count(host)) for host in dict.fromkeys(hosts))


def test_the_worker_speaks_as_it_is_read() -> None:
    tree = ast.parse((FILES / "smoke_worker.py").read_text())
    values = {n.targets[0].id: n.value for n in tree.body if isinstance(n, ast.Assign)}  # type: ignore[attr-defined]
    assert ast.literal_eval(values["MARK"]) == MARK
    factors = eval(compile(ast.Expression(values["FACTORS"]), "worker", "eval"))  # noqa: S307
    assert tuple(factors) == OPERATIONS
    assert {name: factor(8) for name, factor in factors.items()} == {
        "all_reduce": 1.75,
        "all_gather": 0.875,
        "reduce_scatter": 0.875,
        "all_to_all": 0.875,
    }


def test_the_first_host_speaks_for_all() -> None:
    good = judge_results(run(row()), "nccl", ["n1", "n2"], first=True)
    assert good.verdict == "pass" and good.observed["hosts"] == 2 and good.cause == ""
    assert "plumbing" not in good.cause
    gloo = judge_results(run(row()), "gloo", ["n1", "n2"], first=True)
    assert gloo.verdict == "pass" and "nothing of NCCL" in gloo.cause


@pytest.mark.parametrize(
    ("results", "cause"),
    [
        (run(row(wrong=3)), "wrong results: 3 elements of all_reduce at 67108864 bytes"),
        (run(row(), hosts=("n1",)), "no rank ran on n2"),
        (run(row(), end=False), "did not come to its end"),
        (run(), "did not come to its end"),
        (Results(), "no rank ran on n1, n2"),
    ],
)
def test_what_is_no_pass(results: Results, cause: str) -> None:
    found = judge_results(results, "nccl", ["n1", "n2"], first=True)
    assert found.verdict == "fail" and cause in found.cause


@pytest.mark.parametrize(
    ("hosts", "ranks", "cause"),
    [
        (("a",) * 8 + ("b",) * 7, None, "b runs 7 ranks, the others 8"),
        (("a",) * 7 + ("b",) * 8, None, "a runs 7 ranks, the others 8"),
        (("a",) * 2 + ("b",) * 4 + ("c",) * 2, None, "b runs 4 ranks, the others 2"),
        (("a",) * 7 + ("b",) * 7, 8, "a runs 7 ranks, b runs 7 ranks, 8 were asked for"),
        (("a",) * 8 + ("b",) * 8, None, ""),
        (("a",) * 8 + ("b",) * 8, 8, ""),
    ],
)
def test_a_host_that_runs_fewer_ranks_lost_a_gpu(hosts: tuple[str, ...], ranks: int | None, cause: str) -> None:
    found = judge_results(run(row(), hosts=hosts), "nccl", sorted(set(hosts)), first=True, ranks=ranks)
    assert (found.verdict, found.cause) == ("fail" if cause else "pass", cause)
    assert ("nvidia-smi -L" in found.remedy) == bool(cause)


@given(st.integers(1, 1 << 20), st.integers(0, 1 << 31), st.integers(2, 9))
def test_the_worker_measures_the_sizes_that_are_counted(begin: int, more: int, factor: int) -> None:
    tree = ast.parse((FILES / "smoke_worker.py").read_text())
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "sizes"]
    worker: dict[str, t.Any] = {}
    exec(compile(ast.Module([function], []), "worker", "exec"), worker)
    job = Job("a", (Member("a", ""),), "r", "", begin=begin, end=begin + more, factor=factor)
    assert job.sizes() == worker["sizes"](begin, begin + more, factor)


TORN = line("row", **row(1 << 30, operation="all_gather", wrong=777)).replace("wrong", "wr\nn:1:2 [0] NCCL INFO x\nong")


@pytest.mark.parametrize(
    ("rows", "sweep", "cause"),
    [
        ([row(1024)], {"all_reduce": 2}, "1 of 2 sizes of all_reduce are in the output"),
        ([row(1024), row(4096)], {"all_reduce": 2, "all_gather": 2}, "0 of 2 sizes of all_gather"),
        ([row(1024), row(4096)], {"all_reduce": 2}, ""),
        # Of small sizes several are rounded to one.
        ([row(4), row(4)], {"all_reduce": 2}, ""),
        ([row(1024, wrong=5)], {"all_reduce": 2}, "wrong results: 5 elements"),
    ],
)
def test_a_row_that_is_not_there_is_not_right(rows: list[dict[str, t.Any]], sweep: dict[str, int], cause: str) -> None:
    found = judge_results(run(*rows), "nccl", ["n1", "n2"], first=True, sweep=sweep)
    assert found.verdict == ("pass" if not cause else "fail" if cause.startswith("wrong") else "unknown")
    assert cause in found.cause and (not cause or found.remedy)


def test_a_torn_row_is_seen_where_nobody_says_how_many_there_are() -> None:
    text = on("n1", "n2") + line("row", **row(1024)) + TORN + line("end")
    found = judge_results(parse_events(text), "nccl", ["n1", "n2"], first=True)
    assert found.verdict == "unknown" and "1 lines of the ranks could not be read" in found.cause
    # Of a whole sweep no row is lost: what is torn is something else.
    assert (
        judge_results(parse_events(text), "nccl", ["n1", "n2"], first=True, sweep={"all_reduce": 1}).verdict == "pass"
    )


def torn(text: str) -> str:
    """A line that another one ran into."""
    return text[:25] + "\nn:1:2 [0] NCCL INFO x\n" + text[25:]


@pytest.mark.parametrize(
    "text",
    [
        on("n1") + torn(on("n2")) + line("row", **row()) + line("end"),
        torn(on("n1")) + torn(on("n2")) + line("row", **row()) + line("end"),
        on("n1", "n2") + line("row", **row()) + torn(line("end")),
    ],
)
@pytest.mark.parametrize("sweep", [None, {"all_reduce": 1}])
def test_a_torn_line_is_no_missing_rank_and_no_missing_end(text: str, sweep: dict[str, int] | None) -> None:
    found = judge_results(parse_events(text), "nccl", ["n1", "n2"], first=True, sweep=sweep)
    assert found.verdict == "unknown" and "of the ranks could not be read" in found.cause and found.remedy


def test_wrong_results_are_wrong_beside_torn_lines() -> None:
    text = on("n1") + torn(on("n2")) + line("row", **row(wrong=3)) + line("end")
    assert judge_results(parse_events(text), "nccl", ["n1", "n2"], first=True).verdict == "fail"


@pytest.mark.parametrize(
    "values", [{"size": "x"}, {"busbw": 1e999}, {"algbw": 10**400}, {"wrong": float("nan")}, {"time_us": None}]
)
def test_a_row_without_numbers_is_no_row(values: dict[str, t.Any]) -> None:
    results = run(row(1024), {**row(4096), **values})
    assert len(results.rows) == 1 and results.torn == 1
    assert judge_results(results, "nccl", ["n1", "n2"], first=True, sweep={"all_reduce": 2}).verdict == "unknown"


@pytest.mark.parametrize("rank", ["x", None, [1]])
def test_a_host_whose_ranks_cannot_be_read_still_has_a_verdict(rank: t.Any) -> None:
    results = parse_events(line("facts", rank=0) + line("facts", rank=rank))
    found = judge_results(results, "nccl", ["n1"], first=False)
    assert found.verdict == "pass" and found.observed == {"ranks": [0]}


def test_a_host_of_which_no_rank_reported() -> None:
    for text, verdict in (("", "fail"), (torn(line("facts", rank=1)), "unknown")):
        found = judge_results(parse_events(text), "nccl", ["n1"], first=False)
        assert found.verdict == verdict and "no rank of this host reported" in found.cause and found.remedy


def test_bus_bandwidth_is_that_of_the_slowest_operation_at_its_largest_size() -> None:
    rows = [row(1024, busbw=0.1), row(1 << 30, busbw=50.0), row(1024, operation="all_to_all", busbw=0.1)]
    slow = run(*rows, row(1 << 30, operation="all_to_all", busbw=0.001))
    sweep = {"all_reduce": 2, "all_to_all": 2}
    (found,) = judge_sweep(slow, 40, sweep=sweep, of_one_host=False)
    assert found.verdict == "fail" and "of all_to_all is 0.001 GB/s, 40 was expected" in found.cause
    fast = run(*rows, row(1 << 30, operation="all_to_all", busbw=45.0))
    (found,) = judge_sweep(fast, 40, sweep=sweep, of_one_host=False)
    assert found.verdict == "pass" and found.observed["busbw"] == 45.0
    assert judge_sweep(fast, None, sweep=sweep, of_one_host=False) == []
    assert judge_sweep(Results(), 40, sweep=sweep, of_one_host=False) == [], "the first host speaks for all"


def test_bus_bandwidth_is_not_judged_where_the_largest_size_may_be_lost() -> None:
    (found,) = judge_sweep(run(row(1 << 28, busbw=50.0)), 40, sweep={"all_reduce": 2}, of_one_host=False)
    assert (found.check, found.verdict) == ("nccl_busbw", "unknown")
    assert "1 of 2 sizes of all_reduce" in found.cause and found.remedy


def test_bus_bandwidth() -> None:
    assert judge_busbw(row(), None, of_one_host=False) == []
    assert judge_busbw(row(busbw=20.0), 18, of_one_host=False)[0].verdict == "pass"
    assert judge_busbw(row(busbw=10.0), 18, of_one_host=False)[0].verdict == "fail"
    (alone,) = judge_busbw(row(busbw=20.0), 18, of_one_host=True)
    assert alone.verdict == "pass" and "nothing on the fabric" in alone.cause
    assert judge_busbw(row(size=65536), 18, of_one_host=False)[0].verdict == "unknown"


def test_the_ratio_is_taken_at_the_same_size() -> None:
    rdma, tcp = run(row(1024, 10.0), row(64 << 20, 100.0), row(1 << 30, 900.0)), run(row(64 << 20, 750.0))
    (found,) = judge_ratio(rdma, tcp, over_socket=False)
    assert found.verdict == "pass" and found.observed["ratio"] == 7.5
    assert judge_ratio(rdma, tcp, over_socket=True)[0].verdict == "skipped"
    assert judge_ratio(rdma, run(row(64 << 20, 50.0)), over_socket=False)[0].verdict == "fail"
    assert judge_ratio(rdma, Results(), over_socket=False) == []


@pytest.mark.parametrize(
    ("fact", "check"),
    [
        ({"ibdevs": ["mlx5_0"], "uverbs": []}, "nccl_devices"),
        ({"ibdevs": [], "uverbs": []}, "nccl_devices"),
        ({"ibdevs": ["mlx5_0"], "uverbs": ["uverbs0"], "libibverbs": False}, "nccl_libibverbs"),
        ({"ibdevs": ["mlx5_0"], "uverbs": ["uverbs0"], "memlock": 8388608}, "nccl_memlock"),
    ],
)
def test_what_ranks_lack_is_one_finding(fact: dict[str, t.Any], check: str) -> None:
    (found,) = judge_inside([fact])
    assert (found.check, found.verdict) == (check, "fail") and found.remedy
    right = {"ibdevs": ["mlx5_0"], "uverbs": ["uverbs0"], "libibverbs": True, "memlock": None}
    assert judge_inside([right]) == []


@given(st.lists(st.sampled_from([MARK, '{"event": "row"', '"size": 1', "}", "[", "{}", "\n", '"event"', ",", "1e999"])))
def test_torn_lines_are_left_out(pieces: list[str]) -> None:
    assert parse_events("".join(pieces)).rows == []


# -- why a run ended -----------------------------------------------------------------------------

TORCHRUN = """
smoke_worker.py FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-12-02_17:27:02
  host      : localhost
  rank      : 1 (local_rank: 0)
  exitcode  : {code} (pid: 4711)
  error_file: <N/A>
"""


@pytest.mark.parametrize(
    ("text", "kind", "said", "consequence"),
    [
        (TORCHRUN.format(code=-9), "rank_died", "rank 1 died: signal 9", False),
        (TORCHRUN.format(code=1) + "RuntimeError: the disk is full\n", "exit", "the disk is full", False),
        ("[rank1]: RuntimeError: [pair.cc:537] Connection reset by peer\n", "peer_gone", "lost its peer", True),
        ("torch.distributed.DistStoreError: Timed out after 7 seconds waiting for clients. 1/2 clients joined.",
         "rendezvous", "only 1 of 2 hosts came", True),
        ("DistNetworkError: The client socket has timed out after 6000ms while trying to connect to (192.0.2.1, 9).",
         "rendezvous", "192.0.2.1 port 9 could not be reached", True),
        ("/usr/bin/python3: No module named torch.distributed", "no_torch", "PyTorch is not installed", False),
        ("env: 'python3': No such file or directory", "no_program", "No such file", False),
        ("python3: can't open file '/x/smoke_worker.py': [Errno 2]", "no_worker", "/x/smoke_worker.py", False),
        ("Unable to find image 'pytorch-cuda:v2.8' locally", "no_image", "pytorch-cuda:v2.8", False),
        ("docker: Error response from daemon: No such image: pytorch:v2.", "no_image", "pytorch:v2", False),
        ("Error: pytorch-cuda:v2.8: image not known", "no_image", "image not known", False),
        ("docker: Error response from daemon: could not select device driver", "engine", "could not select", False),
        ('{"event": "error", "kind": "no_gpu"}', "no_gpu", "sees no GPU", False),
        ('{"event": "error", "kind": "gid_index", "text": "NCCL 2.20.5 takes one, and they are 3,5"}', "gid_index",
         "they are 3,5", False),
        ("The server socket has failed to listen: EADDRINUSE", "port_taken", "is taken", False),
        ("Unable to find address for: ens9", "interface", "ens9", False),
    ],
)  # fmt: skip
def test_why_it_ended(text: str, kind: str, said: str, consequence: bool) -> None:
    failure = explain(text, 1)
    assert (failure.kind, failure.consequence) == (kind, consequence)
    assert said in failure.cause and failure.remedy


@pytest.mark.parametrize("engine", ["Unable to find image 'pytorch:v1' locally\nPulling\n", "Error: a warning\n", ""])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (TORCHRUN.format(code=-9), "rank_died"),
        ('Traceback (most recent call last):\n  x\nRuntimeError: the disk is full\n', "exit"),
        (line("facts", rank=0) + "the disk is full\n", "exit"),
        ("torch.distributed.DistStoreError: Timed out after 7 seconds waiting for clients. 1/2 clients joined.",
         "rendezvous"),
        ("The server socket has failed to listen: EADDRINUSE", "port_taken"),
        ("CUDA out of memory", "gpu_memory"),
    ],
)  # fmt: skip
def test_what_the_engine_said_before_it_started_the_container_is_no_cause(engine: str, text: str, kind: str) -> None:
    assert explain(engine + text, 1).kind == kind


def test_torchrun_counts_gpus_before_any_rank_and_there_are_none() -> None:
    recorded = RECORDED / "torchrun-2.13.0-no-gpu.txt"
    failure = explain(recorded.read_text(), 1)
    assert failure.kind == "no_gpu" and "nvidia.com/gpu=all" in failure.remedy


def test_a_run_that_was_ended_says_after_how_long() -> None:
    failure = explain("nothing", -9, 25.0)
    assert failure.kind == "time_limit" and "after 25 s" in failure.cause


@given(st.text(max_size=300))
def test_any_text_has_a_reason(text: str) -> None:
    assert explain(text, 1).cause


# -- samples -------------------------------------------------------------------------------------

PORT = Port("mlx5_0", 1, "ens1np0")
BASE = "/sys/class/infiniband/mlx5_0/ports/1"


def test_utilisation_is_that_of_the_work() -> None:
    assert parse_utilisation("0, 97\n1, [N/A]\n2, 100\n") == {0: 97, 2: 100}
    samples = Samples(gpus={0: [0, 0, 90, 0, 100, 0], 1: [0, 0]})
    assert samples.utilisation() == {0: 63.3}
    assert judge_gpus(samples, 80, judged=True)[0].verdict == "fail"
    assert judge_gpus(samples, 80, judged=False)[0].verdict == "skipped"
    assert judge_gpus(samples, 60, judged=True)[0].verdict == "pass"
    assert judge_gpus(Samples(), 80, judged=True) == []


def test_rates_and_lost_packets_of_a_port() -> None:
    host = FakeHost({f"{BASE}/hw_counters/local_ack_timeout_err": "7\n", f"{BASE}/hw_counters/out_of_sequence": "1\n"})
    host.missing_tools.add("nvidia-smi")
    sampler = Sampler(host, [PORT])  # type: ignore[arg-type]
    for words in (0, 250_000_000, 750_000_000):
        host.files.update({f"{BASE}/counters/port_xmit_data": f"{words}\n", f"{BASE}/counters/port_rcv_data": "0\n"})
        sampler.take()
        host.sleep(1.0)
    assert sampler.samples.sent["ens1np0"] == [8.0, 16.0]
    host.files[f"{BASE}/hw_counters/out_of_sequence"] = "5\n"
    (fine,) = judge_ports(sampler.finish())
    assert fine.verdict == "pass" and fine.observed["grew"] == {"out_of_sequence": 4}
    host.files[f"{BASE}/hw_counters/local_ack_timeout_err"] = "9\n"
    (lost,) = judge_ports(sampler.finish())
    assert lost.verdict == "fail" and "local_ack_timeout_err +2" in lost.cause and lost.port == "ens1np0"
    assert lost.observed["peak_sent_gbps"] == 16.0
