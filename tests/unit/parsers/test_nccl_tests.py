# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tables of nccl-tests, old and new: every recorded case has its verdict."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.nccl.results import judge_table
from ansible_collections.lossless.roce.plugins.module_utils.parsers.nccl_tests import Table, parse_table
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n"


def text(name: str) -> str:
    (path,) = CASES.glob(f"{name}-table*")
    return path.read_text()


def judged(table: Table, **options: t.Any) -> dict[str, Finding]:
    found = judge_table(table, **options)
    return {finding.check: finding for finding in found}


def test_b19_results_were_not_checked_and_one_host_says_nothing() -> None:
    table = parse_table(text("b19"))
    row = table.largest()
    assert row is not None and (row.size, row.out_of_place.busbw, row.in_place.busbw) == (8589934592, 235.26, 235.03)
    assert len(table.rows) == 7 and table.validation is False and len(table.ranks) == 8
    found = judged(table, min_busbw=100)
    assert found["nccl_smoke"].verdict == "unknown" and "not checked" in found["nccl_smoke"].cause
    assert found["nccl_busbw"].verdict == "unknown" and "one host" in found["nccl_busbw"].cause
    assert found["nccl_busbw"].observed["busbw"] == 235.26, "and not the average of all sizes"


def test_b20_an_error_is_a_magnitude() -> None:
    table = parse_table(text("b20"))
    assert table.magnitudes is True and table.wrong() is None and table.jobs == 1
    assert judged(table)["nccl_smoke"].verdict == "unknown", "the output stops before its end"
    assert judged(parse_table(text("b20") + END))["nccl_smoke"].verdict == "pass"


def test_b22_a_single_rank_is_no_collective() -> None:
    found = judged(parse_table(text("b22")), min_busbw=1)
    assert set(found) == {"nccl_smoke"}, "no word on 43 TB/s"
    assert found["nccl_smoke"].verdict == "unknown" and "single rank" in found["nccl_smoke"].cause
    asked = judged(parse_table(text("b22")), ranks=2)["nccl_smoke"]
    assert asked.verdict == "fail" and "1 ranks ran, 2 were expected" in asked.cause


def test_b24_two_jobs_are_not_averaged() -> None:
    table = parse_table(text("b24"))
    assert table.jobs == 2 and table.averages == [1.80135, 1.65866]
    found = judged(table, min_busbw=1)
    assert set(found) == {"nccl_smoke"} and found["nccl_smoke"].verdict == "fail"
    assert "2 jobs" in found["nccl_smoke"].cause and "MPI=1" in found["nccl_smoke"].remedy


def test_b24_is_seen_without_its_footers() -> None:
    rows = "\n".join(line for line in text("b24").splitlines() if not line.startswith("#"))
    assert parse_table(rows).jobs == 2


@pytest.mark.parametrize("other", ["half     sum", "float     sum", "float    prod"])
def test_one_job_of_several_types_or_cycles_is_one_job(other: str) -> None:
    head, row = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n", text("b24").splitlines()[0]
    footer = "# Out of bounds values : 0 OK\n"
    rows = f"{row}\n{row.replace('float     sum', other)}\n"
    assert parse_table(head + rows + footer).jobs == 1
    assert parse_table(rows + footer).jobs == (2 if other == "float     sum" else 1), (
        "nothing tells that it was one job"
    )


def test_b26_is_too_small_to_judge_the_link() -> None:
    table = parse_table(text("b26"))
    assert (table.version, table.test, table.validation) == ("2.20.0", "all_reduce_perf", True)
    assert table.ranks == {0: "node-a", 1: "node-b"} and table.wrong() == 0 and len(table.rows) == 4
    found = judged(table, ranks=2, min_busbw=10)
    assert found["nccl_busbw"].verdict == "unknown" and "65536 bytes" in found["nccl_busbw"].cause
    assert judged(parse_table(text("b26") + END), ranks=2)["nccl_smoke"].verdict == "pass"


def test_wrong_results_fail() -> None:
    wrong = text("b26").replace("0.83    0.83       0 ", "0.83    0.83      17 ")
    assert parse_table(wrong).wrong() == 17
    assert judged(parse_table(wrong + END), ranks=2)["nccl_smoke"].verdict == "fail"
    failed = text("b26") + END.replace("0 OK", "3 FAILED")
    assert judged(parse_table(failed), ranks=2)["nccl_smoke"].verdict == "fail"


@pytest.mark.parametrize("value", ["nan", "-nan", "inf"])
def test_an_error_that_is_no_number_is_wrong(value: str) -> None:
    """Old versions compare with a threshold, which nan is not above: their end says OK."""
    table = parse_table(text("b20").replace("63.94    0.00    0.00  2e-06", f"63.94    0.00    0.00  {value}") + END)
    assert len(table.rows) == 8 and judged(table)["nccl_smoke"].verdict == "fail"
    counted = parse_table(text("b26").replace("0.83    0.83       0 ", f"0.83    0.83     {value} ") + END)
    assert len(counted.rows) == 4 and judged(counted, ranks=2)["nccl_smoke"].verdict == "fail"


def test_bandwidth_of_the_largest_size_is_judged() -> None:
    row = "8589934592 2147483648 float sum -1   46012.4  186.69  350.04       0   45990.1  186.78  350.21       0\n"
    table = parse_table(text("b26") + row + END)
    assert judged(table, min_busbw=340)["nccl_busbw"].verdict == "pass"
    low = judged(table, min_busbw=380)["nccl_busbw"]
    assert low.verdict == "fail" and "350.21 GB/s, 380 was expected" in low.cause
    assert "nccl_busbw" not in judged(table), "nothing was asked for"


def test_a_line_of_a_log_inside_a_row_loses_that_row_only() -> None:
    torn = text("b26").replace("0.52    0.52", "0.5n1:2:3 [0] NCCL INFO x\n2    0.52")
    assert len(parse_table(torn).rows) == 3


def test_ranks_that_were_asked_for_and_are_not_named_are_not_proven() -> None:
    unnamed = "\n".join(line for line in (text("b26") + END).splitlines() if "Rank" not in line)
    found = judged(parse_table(unnamed), ranks=16, min_busbw=1)
    assert set(found) == {"nccl_smoke"} and found["nccl_smoke"].verdict == "unknown" and found["nccl_smoke"].remedy
    assert "16 ranks" in found["nccl_smoke"].cause
    assert judged(parse_table(unnamed))["nccl_smoke"].verdict == "pass", "nothing was asked for"


@pytest.mark.parametrize("torn", ["", "n1:2:3 [0] NCCL INFO x\n"])
def test_bandwidth_is_not_judged_where_the_largest_size_is_lost(torn: str) -> None:
    half = "46012.4 186.69 350.04 0"
    rows = "".join(f"{size} {size // 4} float sum -1 {half} {half}\n" for size in (1 << 31, 1 << 32))
    rows += f"{1 << 33} {1 << 31} float sum -1 {half} {torn}{half}\n"
    found = judged(parse_table(text("b26") + rows + END), ranks=2, min_busbw=340, sizes=[1 << 31, 1 << 32, 1 << 33])
    assert found["nccl_smoke"].verdict == "pass", "the sum at the end counts the wrong values of all sizes"
    assert found["nccl_busbw"].verdict == ("unknown" if torn else "pass")
    if torn:
        assert "8589934592 bytes" in found["nccl_busbw"].cause and found["nccl_busbw"].remedy


def test_the_largest_size_may_be_rounded_to_the_ranks() -> None:
    """all_gather over three ranks takes a multiple of three elements."""
    row = "8589934576 2147483644 float none -1   46012.4  186.69  350.04       0   45990.1  186.78  350.21       0\n"
    found = judged(parse_table(text("b26") + row + END), min_busbw=340, sizes=[1 << 32, 1 << 33])
    assert found["nccl_busbw"].verdict == "pass"


@given(st.text("0123456789 .eN/A-\n#floatsum", max_size=400))
def test_no_text_raises(words: str) -> None:
    for line in (words, text("b26") + words, words + text("b19")):
        judge_table(parse_table(line), ranks=2, min_busbw=1.0)
