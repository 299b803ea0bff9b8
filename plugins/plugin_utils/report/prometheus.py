# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A report as a Prometheus text file, for the textfile collector of node_exporter. Pure.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4). Samples carry no time of
their own, since the collector refuses such.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from datetime import datetime

from ansible_collections.lossless.roce.plugins.module_utils.findings import FAIL, PENDING, UNKNOWN

from .bandwidth import Pair
from .run import ORDER, Run

MOST_PAIRS = 10_000  # of a run, as series of their own; a matrix of 512 nodes would be two million

Labels = tuple[tuple[str, str], ...]
Samples = dict[Labels, float]


def render(report: dict[str, t.Any]) -> str:
    """The file's text. A run that is stale has its time in it and nothing else."""
    runs = list(report["runs"].values())
    fresh = [run for run in runs if run["title"] not in report["stale"]]
    families = [
        ("run_timestamp_seconds", "When the run was made, in seconds since 1970.", _each(_time, runs)),
        ("run_verdict", "1 for the verdict of the run, 0 for the others.", _each(_verdict, fresh)),
        ("findings", "Findings of the run with this host, port, check and verdict.", _each(_findings, fresh)),
        ("bandwidth_gbps", "Rate from client to server in gigabits a second.", _each(_pairs, fresh)),
        (
            "rail_bandwidth_min_gbps",
            "Rate of the rail's slowest pair in gigabits a second.",
            _each(_slowest, fresh),
        ),
        ("rail_pairs", "Pairs of the rail with this verdict.", _each(_rail_pairs, fresh)),
        ("round_wall_ratio", "Time of the bandwidth tests as a multiple of the ideal.", _each(_ratio, fresh)),
    ]
    return "".join(line for name, text, samples in families if samples for line in _family(name, text, samples))


def _family(name: str, text: str, samples: Samples) -> t.Iterator[str]:
    name = f"lossless_roce_{name}"
    yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
    for labels, value in samples.items():
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
        yield f"{name}{{{inner}}} {value:.12g}\n"


def _escaped(text: str) -> str:
    r"""A label's value with \, " and line feed escaped."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _each(samples_of: t.Callable[[Run], t.Mapping[Labels, float]], runs: list[Run]) -> Samples:
    """The samples of all runs. Labels are made UTF-8 first: two of the same would spoil the whole file."""
    return {
        (("run", run["title"]), *((label, _utf8(text)) for label, text in labels)): value
        for run in runs
        for labels, value in samples_of(run).items()
    }


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _time(run: Run) -> Samples:
    return {(): datetime.fromisoformat(run["generated"]).timestamp()}


def _verdict(run: Run) -> Samples:
    return {(("verdict", verdict),): float(verdict == run["verdict"]) for verdict in ORDER}


def _findings(run: Run) -> Counter[Labels]:
    keys = ("host", "port", "check", "verdict")
    return Counter(tuple((key, finding[key]) for key in keys) for finding in run["findings"])


def _pairs(run: Run) -> Samples:
    """Every measured pair; where they are too many those that did not pass, the slowest first."""
    measured = [pair for pair in run["bandwidth"] if pair["gbps"] is not None]
    if len(measured) > MOST_PAIRS:
        order = {FAIL: 0, UNKNOWN: 1, PENDING: 1}
        bad = [pair for pair in measured if pair["verdict"] in order]
        measured = sorted(bad, key=lambda pair: (order[pair["verdict"]], pair["gbps"]))[:MOST_PAIRS]
    return {tuple((key, pair[key]) for key in ("rail", "client", "server")): pair["gbps"] for pair in measured}


def _slowest(run: Run) -> Samples:
    least: Samples = {}
    for pair in run["bandwidth"]:
        if pair["gbps"] is not None:
            labels = _rail(pair)
            least[labels] = min(pair["gbps"], least.get(labels, pair["gbps"]))
    return least


def _rail_pairs(run: Run) -> Counter[Labels]:
    return Counter((*_rail(pair), ("verdict", pair["verdict"])) for pair in run["bandwidth"])


def _rail(pair: Pair) -> Labels:
    return (("rail", pair["rail"]),)


def _ratio(run: Run) -> Samples:
    ratio = run.get("timing", {}).get("ratio")
    return {} if ratio is None else {(): ratio}
