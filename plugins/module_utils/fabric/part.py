# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of a matrix, from plain input to plain results: for the module and for launchers alike."""

from __future__ import annotations

import typing as t

from ..errors import PolicyError
from ..values import require
from .bandwidth import LATENCY_SIZE, LATENCY_TOOLS, Options, Outcome, Show, plan_tests, run_matrix, show_in_file
from .meeting import Status
from .schedule import Matrix, fit_budget, parse_hosts
from .spec import MATRIX_SPEC, RUN_SPEC

if t.TYPE_CHECKING:
    from ..host import Host

_START_AND_END_S = 3.0


def parse_options(raw: t.Mapping[str, t.Any]) -> Options:
    """How perftest runs, from the options of fabric_bandwidth. Raises PolicyError for what contradicts itself."""
    given = {key: raw[key] for key in RUN_SPEC}
    if given["size"] is None:
        given["size"] = LATENCY_SIZE if given["tool"] in LATENCY_TOOLS else Options.size
    options = Options(**given)
    options.check()
    return options


def run_from(
    host: Host,
    raw: t.Mapping[str, t.Any],
    *,
    name: str,
    run: str,
    dry_run: bool = False,
    show: Show = show_in_file,
) -> dict[str, t.Any]:
    """Host ``name``'s part of what the options of fabric_bandwidth ask for; see run_part."""
    matrix, options = parse(raw)
    return run_part(
        host,
        matrix,
        options,
        name=name,
        run=run,
        link_gbps=raw["link_gbps"],
        efficiency=raw["efficiency"],
        max_latency_usec=raw["max_latency_usec"],
        refuse_busy=raw["when_busy"] == "refuse",
        dry_run=dry_run,
        show=show,
    )


def parse(raw: t.Mapping[str, t.Any]) -> tuple[Matrix, Options]:
    """Matrix and options from the options of fabric_bandwidth. Raises PolicyError for what can prove nothing."""
    # A threshold that everything meets would be a pass without a proof.
    require("efficiency", raw["efficiency"], 0.01, 1)
    require("link_gbps", raw["link_gbps"], 0.001, 100_000)
    require("max_latency_usec", raw["max_latency_usec"], 0.001, 60e6)
    options = parse_options(raw)
    matrix = parse_matrix({key: raw[key] for key in MATRIX_SPEC}, options, raw["link_gbps"])
    if matrix.scope == "pairs" and not matrix.pairs:
        raise PolicyError("pairs: none, with scope pairs … at least one pair was expected")
    matrix.rounds()  # raises for a scope that does not fit the hosts
    return matrix, options


def parse_matrix(raw: t.Mapping[str, t.Any], options: Options, link_gbps: float | None = None) -> Matrix:
    """A matrix from the options of fabric_bandwidth. Raises PolicyError for what does not fit together."""
    options.check()
    require("samples", raw["samples"], 1, 1_000_000)
    require("budget", raw["budget"], 0, 1e9)
    matrix = Matrix(
        hosts=parse_hosts(raw["hosts"]),
        scope=raw["scope"],
        samples=raw["samples"],
        seed=raw["seed"],
        reference=raw["reference"],
        at_once=raw["rails"] == "at_once",
        left_out=_pairs(raw["left_out"]),
        pairs=_pairs(raw.get("pairs") or ()),
    )
    if not raw["budget"]:
        return matrix
    return fit_budget(matrix, _seconds_a_test(matrix, options, link_gbps), raw["budget"])


def _seconds_a_test(matrix: Matrix, options: Options, link_gbps: float | None) -> float:
    """What a budget reckons for a test. All hosts must come to the same, so the list of hosts comes first."""
    slowest = min((rate for host in matrix.hosts for rate in host.gbps.values()), default=link_gbps)
    ideal = options.ideal_s(slowest)
    return (options.time_limit if ideal is None else ideal + _START_AND_END_S) + options.cm_limit


def _pairs(raw: t.Iterable[t.Mapping[str, t.Any]]) -> frozenset[tuple[frozenset[str], int]]:
    return frozenset((frozenset(pair["hosts"]), int(pair["rail"])) for pair in raw)


def run_part(
    host: Host,
    matrix: Matrix,
    options: Options,
    *,
    name: str,
    run: str,
    link_gbps: float | None,
    efficiency: float,
    max_latency_usec: float | None = None,
    refuse_busy: bool = True,
    dry_run: bool = False,
    listen: str = "",
    show: Show = show_in_file,
) -> dict[str, t.Any]:
    """Run (or in a dry run plan) the tests of host ``name``: {matrix, outcomes, timing, findings} as plain JSON."""
    tests = matrix.tests_of(name)
    status = Status(run, name, steps=matrix.steps(), pid=host.pid())
    started = host.now()
    if dry_run:
        outcomes = plan_tests(host, tests, options)
    else:
        outcomes = run_matrix(host, tests, options, status, refuse_busy=refuse_busy, listen=listen, show=show)
    judged = []
    for outcome in [] if dry_run else outcomes:
        judged += [
            outcome.cm_finding(name),
            outcome.finding(name, outcome.test.slower_gbps(link_gbps), efficiency, max_latency_usec),
        ]
    return {
        "matrix": {
            "rounds": len(matrix.rounds()),
            "steps": matrix.steps(),
            "measurements": matrix.measurements(),
            "limit_s": 2 * options.barrier_limit + matrix.steps() * options.step_limit,
            "took_s": round(host.now() - started, 1),
            "test_s": options.ideal_s(link_gbps),
        },
        "timing": [] if dry_run else _timing(outcomes, matrix.steps_a_round()),
        "outcomes": [outcome.as_dict() for outcome in outcomes],
        "findings": [finding.as_dict() for finding in judged if finding is not None],
    }


def _timing(outcomes: list[Outcome], steps_a_round: int) -> list[dict[str, t.Any]]:
    """Each step that this host had a part in, its round and its seconds. Tests of one step ran at the same time."""
    steps = {outcome.test.step: outcome.seconds for outcome in outcomes}
    return [{"step": step, "round": step // steps_a_round, "seconds": steps[step]} for step in sorted(steps)]
