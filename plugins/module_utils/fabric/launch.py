# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The matrix as a program of its own: srun or mpirun starts it on every host, and no control node is there.

Playbook fabric_program writes it as one file, made of this one and all that it imports, and beside it the file of
hosts and options that it reads. ``run`` is one host's part; ``report`` joins the results of all hosts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import typing as t
from dataclasses import dataclass

from ..command_line import CANNOT_TELL, say, start
from ..errors import PolicyError, RoceError
from ..findings import FAIL, PASS, PENDING, UNKNOWN, Finding
from ..host import Host
from ..parsers.addresses import parse_addresses
from . import analysis, blame
from .bandwidth import TOOLS, show_in_file
from .coverage import absent_host, lonely_rails
from .leaves import parse_leaves
from .meeting import AT_BARRIER, Status
from .part import parse, run_from
from .schedule import Matrix, PairTest
from .spec import JUDGE_SPEC, MATRIX_SPEC, RUN_SPEC, checked

PASSED, FAILED = 0, 1
FILE_SPEC: dict[str, dict[str, t.Any]] = {
    **MATRIX_SPEC,
    **RUN_SPEC,
    **JUDGE_SPEC,
    "leaves": {"type": "dict", "default": {}},
}
_EXAMPLE = "srun --nodes=N --ntasks-per-node=1, or mpirun --map-by ppr:1:node"


def main(argv: list[str] | None = None, host: Host | None = None) -> int:
    """Exit status: 0 all passed, 1 something failed, 2 it could not be told, or not be run."""
    return start(_parser(), argv, host)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lossless-roce-fabric", description="Tests between all hosts of a fabric.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run_ = commands.add_parser("run", help="this host's part; start it on all hosts at once")
    run_.add_argument("file", metavar="MATRIX", help="JSON file of hosts and options, the same on all hosts")
    run_.add_argument("--name", default="", metavar="HOST", help="this host's name in MATRIX (by default found out)")
    run_.add_argument("--run", default="", metavar="TEXT", help="name of this run, the same on all hosts (by default"
                      " that of the job)")  # fmt: skip
    run_.add_argument("--output", default="", metavar="FOLDER", help="write the result to FOLDER/HOST.json, not to the"
                      " terminal")  # fmt: skip
    run_.add_argument("--exit-zero", action="store_true", help="end with 0 whatever was found: mpirun ends all hosts"
                      " when one ends with anything else")  # fmt: skip
    run_.set_defaults(command=run)
    report_ = commands.add_parser("report", help="join the results of all hosts, and judge")
    report_.add_argument("file", metavar="MATRIX", help="the same file")
    report_.add_argument("results", metavar="RESULTS", help="the FOLDER, or a file of what run printed on all hosts")
    report_.add_argument("--run", default="", metavar="TEXT", help="results of this run only")
    report_.add_argument("--pairs", action="store_true", help="every measurement, not only those that did not pass")
    report_.add_argument("--json", action="store_true", help="verdict and findings as JSON")
    report_.set_defaults(command=report)
    return parser


def read_matrix(host: Host, path: str) -> dict[str, t.Any]:
    """The file of hosts and options: those of module fabric_bandwidth, less ``name`` and ``run``, and ``leaves``.

    Raises HostError, and PolicyError naming what is wrong in it.
    """
    text = host.read(path)
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise PolicyError(f"{path}: {exc} … a JSON file was expected") from exc
    matrix = checked(raw, FILE_SPEC, path)
    for item in matrix["hosts"]:
        if "/" in item["name"] or item["name"] in ("", ".", ".."):
            raise PolicyError(f"{path}: hosts: name {item['name']!r} … the name of a host was expected")
    try:
        matrix["leaves"] = parse_leaves(matrix["leaves"])
        parse(matrix)
        _check_addresses(matrix["hosts"])
    except PolicyError as exc:
        raise PolicyError(f"{path}: {exc}") from exc
    return matrix


def _check_addresses(hosts: list[dict[str, t.Any]]) -> None:
    """Raise PolicyError for an address that two ports have: one of them would answer for both."""
    whose: dict[str, str] = {}
    for label, address in (
        (f"{host['name']} {port['name']}", port["address"]) for host in hosts for port in host["ports"]
    ):
        if whose.setdefault(address, label) != label:
            raise PolicyError(
                f"hosts: address {address} is on {whose[address]} and on {label} … one of its own for each was expected"
            )


# -- who and where this process is -----------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """What the launcher tells: name of the run, names that this host may have, processes in all and at most on a host.

    0 processes: it does not say.
    """

    run: str = ""
    names: tuple[str, ...] = ()
    ranks: int = 0
    a_host: int = 0


def find_launch(host: Host) -> Launch:
    """By whom this process was started. MPI first: inside a job of Slurm its processes see both."""
    own = (host.read_optional("/proc/sys/kernel/hostname") or "").strip()
    names = (own,) if own else ()
    if host.env("OMPI_COMM_WORLD_RANK") is not None:
        # Up to Open MPI 4 the job has a number of its own beside PMIx's.
        job = host.env("PMIX_NAMESPACE") or host.env("OMPI_MCA_ess_base_jobid")
        ranks, a_host = host.env("OMPI_COMM_WORLD_SIZE"), host.env("OMPI_COMM_WORLD_LOCAL_SIZE")
        return Launch(f"mpi-{job}" if job else "", names, _most(ranks), _most(a_host))
    if host.env("SLURM_STEP_ID") is not None:
        node = host.env("SLURMD_NODENAME")
        return Launch(
            f"slurm-{host.env('SLURM_JOB_ID')}.{host.env('SLURM_STEP_ID')}",
            (node, *names) if node else names,
            _most(host.env("SLURM_STEP_NUM_TASKS")),
            _most(host.env("SLURM_STEP_TASKS_PER_NODE")),
        )
    job = host.env("PMIX_NAMESPACE")
    return Launch(f"pmix-{job}" if job else "", names)


def _most(text: str | None) -> int:
    """The largest number of a text like 1, or 2(x3),1 as Slurm counts tasks by node; 0 when it has none."""
    return max((int(number) for number in re.findall(r"(?:^|,)(\d{1,9})", text or "")), default=0)


def own_name(host: Host, names: t.Sequence[str], matrix: t.Mapping[str, t.Any]) -> str:
    """This host's name in the matrix: by its name, whole or up to the first dot, else by the addresses of its ports.

    Raises PolicyError when it is none of them.
    """
    listed = [item["name"] for item in matrix["hosts"]]
    for name in names:
        alike = [other for other in listed if other.partition(".")[0] == name.partition(".")[0]]
        if name in listed or len(alike) == 1:
            return name if name in listed else alike[0]
    here = {address for own in parse_addresses(host.run("ip", "-j", "address", "show").out).values() for address in own}
    by_address = [item["name"] for item in matrix["hosts"] if {port["address"] for port in item["ports"]} & here]
    if len(by_address) == 1:
        return str(by_address[0])
    raise PolicyError(
        f"hosts: this host is {' or '.join(names) or 'of unknown name'}, and has the addresses of"
        f" {' and '.join(by_address) or 'none of them'} … one of {', '.join(listed) or 'none'} was expected; see --name"
    )


# -- run -------------------------------------------------------------------------------------------


def run(host: Host, args: argparse.Namespace) -> int:
    """Run this host's part and hand over its result, also where the part could not be run."""
    matrix = read_matrix(host, args.file)
    launch = find_launch(host)
    if launch.a_host > 1 and not args.name:
        raise PolicyError(f"{launch.a_host} processes were started on one host … 1 was expected: {_EXAMPLE}")
    name = args.name or own_name(host, launch.names, matrix)
    run_name = args.run or launch.run
    if not run_name:
        raise PolicyError(f"--run: nothing tells this run from others … start it by {_EXAMPLE}, or give --run TEXT")
    if launch.ranks and launch.ranks != len(matrix["hosts"]) and name == matrix["hosts"][0]["name"]:
        say(f"lossless-roce-fabric: processes: {launch.ranks}, hosts in {args.file}: {len(matrix['hosts'])};"
            " a host without a process fails as absent", sys.stderr)  # fmt: skip
    result: dict[str, t.Any] = {"host": name, "run": run_name}
    # Hosts keep step, so one speaks for all.
    show = Progress(parse(matrix)[0]) if name == matrix["hosts"][0]["name"] else show_in_file
    try:
        result |= run_from(host, _less_leaves(matrix), name=name, run=run_name, show=show)
        status = status_of(_findings(result, args.file))
    except RoceError as exc:
        say(f"lossless-roce-fabric: {name}: {exc}", sys.stderr)
        result |= {"error": str(exc), "findings": []}
        status = CANNOT_TELL
    _hand_over(host, result, args.output)
    return PASSED if args.exit_zero else status


class Progress:
    """Tells on standard error how far the matrix is, a line a round, beside the file that the control node reads."""

    def __init__(self, matrix: Matrix) -> None:
        self._rounds, self._steps_a_round = len(matrix.rounds()), matrix.steps_a_round()
        self._told = ""

    def __call__(self, host: Host, status: Status) -> None:
        show_in_file(host, status)
        what = self._what(status)
        if what != self._told:
            self._told = what
            left = f", about {status.left_s:.0f} s left" if status.left_s and not status.done else ""
            with contextlib.suppress(OSError):  # nobody reads it any more
                say(f"lossless-roce-fabric: {what}{left}", sys.stderr)

    def _what(self, status: Status) -> str:
        if status.done:
            return "this host is through"
        if status.step == AT_BARRIER:
            return "waiting for all hosts to be there"
        return f"round {status.step // self._steps_a_round + 1} of {self._rounds}"


def _less_leaves(matrix: dict[str, t.Any]) -> dict[str, t.Any]:
    return {key: value for key, value in matrix.items() if key != "leaves"}


def _hand_over(host: Host, result: dict[str, t.Any], folder: str) -> None:
    if not folder:
        say(json.dumps(result))
        return
    host.mkdir(folder)
    path = f"{folder}/{result['host']}.json"
    host.write(path, json.dumps(result) + "\n")
    say(f"{result['host']}: {_counts(result['findings'])}: {path}")


def verdict_of(findings: t.Iterable[Finding]) -> str:
    """The worst verdict; unknown where nothing passed, since then nothing was shown."""
    seen = {finding.verdict for finding in findings}
    return next((verdict for verdict in (FAIL, PENDING, UNKNOWN, PASS) if verdict in seen), UNKNOWN)


def status_of(findings: t.Iterable[Finding]) -> int:
    """The exit status for some findings."""
    return {PASS: PASSED, FAIL: FAILED}.get(verdict_of(findings), CANNOT_TELL)


def _counts(findings: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    seen = [finding["verdict"] for finding in findings]
    return ", ".join(f"{seen.count(verdict)} {verdict}" for verdict in sorted(set(seen))) or "no result"


# -- report ----------------------------------------------------------------------------------------


def report(host: Host, args: argparse.Namespace) -> int:
    """Join the results of all hosts, find what explains the failures, and print it."""
    matrix = read_matrix(host, args.file)
    results = one_run(read_results(host, args.results), args.run, args.results)
    findings = joined(matrix, results)
    if args.json:
        say(json.dumps({
            "verdict": verdict_of(findings),
            "findings": [finding.as_dict() for finding in findings],
            "timing": {name: result.get("timing", []) for name, result in sorted(results.items())},
        }, indent=2))  # fmt: skip
    else:
        for line in lines(findings, pairs=args.pairs):
            say(line)
    return status_of(findings)


def read_results(host: Host, path: str) -> list[tuple[str, dict[str, t.Any]]]:
    """All results with the place that each came from. Raises HostError and PolicyError."""
    names = [name for name in host.listdir(path) if name.endswith(".json")]
    if host.exists(f"{path}/"):
        texts = [(f"{path}/{name}", host.read(f"{path}/{name}")) for name in names]
    else:
        # What a launcher gathered: its own words, labels before the lines, and results.
        numbered = enumerate(host.read(path).splitlines(), 1)
        texts = [(f"{path}:{number}", line[line.index("{") :]) for number, line in numbered if '{"host":' in line]
    return [(where, _result(text, where)) for where, text in texts]


def _result(text: str, where: str) -> dict[str, t.Any]:
    try:
        result = json.loads(text)
        right = all(isinstance(result[key], kind) for key, kind in (("host", str), ("run", str), ("findings", list)))
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise PolicyError(
            f"{where}: {text.strip()[:60]!r} … a whole result of `run` was expected (srun cuts long lines:"
            " use run --output)"
        )
    return t.cast("dict[str, t.Any]", result)


def one_run(results: list[tuple[str, dict[str, t.Any]]], run_name: str, path: str) -> dict[str, dict[str, t.Any]]:
    """Host -> result, of one run. Raises PolicyError where there are several: a stale result proves nothing."""
    runs = sorted({result["run"] for _where, result in results})
    if run_name:
        runs = [name for name in runs if name == run_name]
    if len(runs) != 1:
        expected = f"results of run {run_name}" if run_name else "results of one run (see --run)"
        seen = f"results of runs {', '.join(runs)}" if runs else "no result"
        raise PolicyError(f"{path}: {seen} … {expected} were expected")
    found: dict[str, dict[str, t.Any]] = {}
    for where, result in results:
        if result["run"] == runs[0]:
            if result["host"] in found:
                raise PolicyError(f"{where}: a second result of {result['host']} … one a host was expected")
            found[result["host"]] = {**result, "where": where}
    return found


def joined(matrix: t.Mapping[str, t.Any], results: t.Mapping[str, dict[str, t.Any]]) -> list[Finding]:
    """All findings: of the hosts, on hosts and rails that nothing was proven of, and on what explains the failures."""
    ports = {item["name"]: item["ports"] for item in matrix["hosts"]}
    strangers = sorted(set(results) - set(ports))
    if strangers:
        where = results[strangers[0]]["where"]
        raise PolicyError(f"{where}: host {strangers[0]} … one of {', '.join(ports)} was expected")
    found: list[Finding] = []
    tests = parse(matrix)[0]
    here = {name: own for name, own in ports.items() if name in results and "error" not in results[name]}
    for name in ports:
        if name not in results:
            found += _of_host(absent_host(name), name, "")
        elif "error" in results[name]:
            found.append(_could_not_run(name, str(results[name]["error"])))
        else:
            found += _findings(results[name], results[name]["where"])
            found += _unmeasured(tests.tests_of(name), found, name)
            found += _of_host(lonely_rails(name, here), name, "")
    seen = [finding.as_dict() for finding in found]
    measured, absences = analysis.measured_from(seen, TOOLS), analysis.absences_from(seen, TOOLS)
    return found + blame.findings(measured, matrix["leaves"], absences)


def _unmeasured(tests: t.Iterable[PairTest], findings: t.Iterable[Finding], name: str) -> list[Finding]:
    """A finding where a host's result has no word on tests of which it is the client: they are not passed."""
    seen = {
        (finding.observed["server"], finding.observed["rail"])
        for finding in findings
        if finding.check in TOOLS and _has_ends(finding) and finding.observed["client"] == name
    }
    lacking = [test for test in tests if test.role == "client" and (test.peer, test.rail) not in seen]
    if not lacking:
        return []
    return [
        Finding(
            check="fabric",
            verdict=UNKNOWN,
            observed={"missing": [{"client": name, "server": test.peer, "rail": test.rail} for test in lacking]},
            expected="a measurement of each",
            evidence=f"the result of {name}",
            cause=f"there is no measurement of {len(lacking)} of {name}'s tests, such as that to {lacking[0].peer} on"
            f" rail {lacking[0].rail}: nothing is known of these pairs",
            remedy="take MATRIX and results of the same run, and run the tests again where a result is cut",
            host=name,
        )
    ]


def _could_not_run(name: str, error: str) -> Finding:
    return Finding(
        check="fabric",
        verdict=FAIL,
        expected="the host's part of the tests",
        evidence=f"the result of {name}",
        cause=error,
        remedy="put that right and run the tests again",
        host=name,
    )


def _findings(result: t.Mapping[str, t.Any], where: str) -> list[Finding]:
    return _of_host(result["findings"], result["host"], where)


def _of_host(raw: t.Iterable[t.Any], name: str, where: str) -> list[Finding]:
    """Findings from JSON, with their host. Raises PolicyError for what is none."""
    try:
        return [Finding(**{**finding, "host": finding.get("host") or name}) for finding in raw]
    except (TypeError, ValueError, AttributeError) as exc:
        raise PolicyError(f"{where}: {exc} … findings of `lossless-roce-fabric run` were expected") from exc


def lines(findings: t.Sequence[Finding], *, pairs: bool) -> t.Iterator[str]:
    """The report as text: a summary of each rail, measurements, what did not pass, the verdict."""
    measured = [finding for finding in findings if finding.check in TOOLS and _has_ends(finding)]
    for rail in sorted({str(finding.observed["rail"]) for finding in measured}):
        own = [finding for finding in measured if str(finding.observed["rail"]) == rail]
        figures = sorted(figure for figure in map(_figure, own) if figure is not None)
        span = f", {figures[0]:g} to {figures[-1]:g} {_unit(own[0])}" if figures else ""
        yield f"rail {rail}: {sum(finding.verdict == PASS for finding in own)} of {len(own)} pass{span}"
    shown = [finding for finding in measured if pairs or finding.verdict != PASS]
    if shown:
        yield from _table(shown)
    for finding in findings:
        if finding.verdict != PASS and finding.cause:
            yield f"{finding.verdict}: {_place(finding)}: {finding.cause}"
            if finding.remedy:
                yield f"  {finding.remedy}"
    yield f"{verdict_of(findings)}: {_counts([finding.as_dict() for finding in findings])}"


def _has_ends(finding: Finding) -> bool:
    return isinstance(finding.observed, dict) and bool(
        finding.observed.get("client") and finding.observed.get("server")
    )


def _figure(finding: Finding) -> float | None:
    key = "latency_usec" if finding.check.endswith("_lat") else "gbps"
    figure = finding.observed.get(key)
    return float(figure) if isinstance(figure, (int, float)) else None


def _unit(finding: Finding) -> str:
    return "usec" if finding.check.endswith("_lat") else "Gb/s"


def _table(findings: t.Sequence[Finding]) -> t.Iterator[str]:
    rows = [("rail", "client", "server", _unit(findings[0]), "verdict")]
    for finding in findings:
        figure, seen = _figure(finding), finding.observed
        value = "-" if figure is None else f"{figure:g}"
        rows.append((str(seen["rail"]), str(seen["client"]), str(seen["server"]), value, finding.verdict))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()


def _place(finding: Finding) -> str:
    pair = f"{finding.observed['client']} to {finding.observed['server']}" if _has_ends(finding) else finding.host
    return ": ".join(part for part in (pair, finding.port, finding.check) if part)
