# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The matrix without a control node: who a process is, what it hands over, and what all results come to."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError, RoceError
from ansible_collections.lossless.roce.plugins.module_utils.fabric import launch, part
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import Options, Outcome
from ansible_collections.lossless.roce.plugins.module_utils.fabric.launch import (
    find_launch,
    main,
    own_name,
    read_matrix,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.meeting import Status
from ansible_collections.lossless.roce.plugins.module_utils.fabric.part import parse_options
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import Matrix, parse_hosts
from ansible_collections.lossless.roce.plugins.module_utils.fabric.spec import RUN_SPEC, checked
from ansible_collections.lossless.roce.plugins.plugin_utils.program import build
from fake_host import FakeHost

SOURCES = Path(__file__).resolve().parents[3] / "plugins" / "module_utils"
MATRIX = {
    "hosts": [
        {"name": f"node{number}", "ports": [{"name": "ens1np0", "rail": 0, "address": f"198.51.100.{number}"}]}
        for number in (1, 2, 3)
    ],
    "link_gbps": 100,
}
SLURM = {
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "0",
    "SLURMD_NODENAME": "node2",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "PMIX_NAMESPACE": "prterun-node1-77@1",
}


def host(name: str, address: str) -> dict[str, t.Any]:
    """A host of a matrix with one port."""
    return {"name": name, "ports": [{"name": "ens1np0", "rail": 0, "address": address}]}


def node(environment: dict[str, str] | None = None, name: str = "node2", matrix: t.Any = None) -> FakeHost:
    """A host of the matrix, with an environment as a launcher leaves it."""
    text = json.dumps(MATRIX if matrix is None else matrix)
    host = FakeHost(
        {"/proc/sys/kernel/hostname": f"{name}\n", "m.json": text}, {"ip -j address show": addresses("192.0.2.1")}
    )
    host.environment = dict(environment or {})
    return host


def addresses(*own: str) -> str:
    """What `ip -j address show` prints."""
    return json.dumps([{"ifname": "eth0", "addr_info": [{"local": address} for address in own]}])


def measured(client: str, server: str, gbps: float, verdict: str) -> dict[str, t.Any]:
    """A finding on one measurement."""
    observed = {"client": client, "server": server, "rail": 0, "gbps": gbps}
    cause = "" if verdict == "pass" else "slow"
    return {"check": "ib_write_bw", "verdict": verdict, "observed": observed, "cause": cause, "port": "ens1np0"}


def result(name: str, run: str = "slurm-42.0", slow: str = "") -> dict[str, t.Any]:
    """One host's result: both of its tests as client; those with ``slow`` fail."""
    others = [other for other in ("node1", "node2", "node3") if other != name]
    verdicts = {other: "fail" if slow in (name, other) else "pass" for other in others}
    findings = [measured(name, other, 97.0 if verdicts[other] == "pass" else 9.0, verdicts[other]) for other in others]
    return {"host": name, "run": run, "findings": findings, "timing": [{"step": 0, "round": 0, "seconds": 1.5}]}


def folder(*results: dict[str, t.Any]) -> FakeHost:
    """A host that sees the results of all."""
    host = node()
    host.files |= {f"out/{one['host']}.json": json.dumps(one) for one in results}
    return host


# -- who and where ---------------------------------------------------------------------------------


def test_slurm_tells_run_name_and_number() -> None:
    found = find_launch(node(SLURM, name="some-other"))  # type: ignore[arg-type]
    assert (found.run, found.names[0], found.ranks, found.a_host) == ("slurm-42.0", "node2", 3, 1)


def test_open_mpi_counts_also_inside_a_job_of_slurm() -> None:
    """mpirun's processes inherit the variables of the node that it was started on."""
    found = find_launch(node({**SLURM, **OPEN_MPI, "SLURMD_NODENAME": "node1"}))  # type: ignore[arg-type]
    assert (found.run, found.names, found.ranks, found.a_host) == ("mpi-prterun-node1-77@1", ("node2",), 3, 1)
    old = {key: value for key, value in OPEN_MPI.items() if not key.startswith("PMIX")}
    assert find_launch(node({**old, "OMPI_MCA_ess_base_jobid": "733151233"})).run == "mpi-733151233"  # type: ignore[arg-type]


def test_no_launcher_and_one_that_only_speaks_pmix() -> None:
    assert find_launch(node()).run == ""  # type: ignore[arg-type]
    # A batch script of Slurm that runs the program without srun is no step.
    assert find_launch(node({"SLURM_JOB_ID": "42"})).run == ""  # type: ignore[arg-type]
    assert find_launch(node({"PMIX_NAMESPACE": "job", "PMIX_RANK": "0"})).run == "pmix-job"  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "most"), [("1(x2)", 1), ("2(x3),1", 2), ("1,4(x2)", 4), ("", 0), (None, 0), ("x", 0)])
def test_tasks_a_node_as_slurm_writes_them(text: str | None, most: int) -> None:
    environment = {**SLURM, "SLURM_STEP_TASKS_PER_NODE": text} if text is not None else {"SLURM_STEP_ID": "0"}
    assert find_launch(node(environment)).a_host == most  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "listed", "wanted"),
    [
        (["node1"], ["node1", "node10"], "node1"),
        (["node1.example.com"], ["node1", "node10"], "node1"),
        (["node1"], ["node1.example.com", "node2.example.com"], "node1.example.com"),
        (["other", "node2"], ["node1", "node2"], "node2"),
    ],
)
def test_a_host_is_found_by_its_name_with_or_without_domain(names: list[str], listed: list[str], wanted: str) -> None:
    matrix = {"hosts": [{"name": name, "ports": []} for name in listed]}
    assert own_name(node(), names, matrix) == wanted  # type: ignore[arg-type]


def test_a_host_of_another_name_is_found_by_its_ports_addresses() -> None:
    host = node()
    host.outputs["ip -j address show"] = addresses("198.51.100.3", "192.0.2.9")
    assert own_name(host, ["worker-17"], MATRIX) == "node3"  # type: ignore[arg-type]


def test_a_stranger_is_refused_with_all_that_is_known() -> None:
    with pytest.raises(PolicyError, match="this host is worker-17.*none of them.*one of node1, node2, node3.*--name"):
        own_name(node(), ["worker-17"], MATRIX)  # type: ignore[arg-type]


# -- the file --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"speed": 1}, r"m.json: speed … one of .*tool.* was expected"),
        ({"hosts": None}, "hosts is missing … a list"),
        ({"hosts": "node1"}, "hosts: 'node1' … a list"),
        ({"hosts": [{"name": "a"}]}, r"hosts\[0\]: ports is missing"),
        ({"hosts": [{"name": "../a", "ports": []}]}, "name '../a'"),
        ({"qps": "4"}, "qps: '4' … a whole number"),
        ({"qps": True}, "qps: True … a whole number"),
        ({"time_limit": float("nan")}, "time_limit: nan … a number"),
        ({"tool": "iperf"}, "tool: 'iperf' … one of ib_write_bw"),
        ({"leaves": {"node1": ["x"]}}, r"m.json: leaves: node1: \['x'\] … the name of a switch"),
        ({"leaves": {"node1": {"one": "x"}}}, "leaves: node1: rail 'one' is no whole number from 0"),
        ({"left_out": [{"hosts": ["a", 1], "rail": 0}]}, r"left_out\[0\]: hosts\[1\]: 1 … a text"),
        # What everything meets, or what tests nothing, would be a pass without a proof.
        ({"efficiency": 0}, "efficiency: 0 … 0.01 to 1 was expected"),
        ({"efficiency": -1}, "efficiency: -1 …"),
        ({"efficiency": 90}, "efficiency: 90 …"),
        ({"link_gbps": 0}, "link_gbps: 0 … 0.001 to 100000"),
        ({"max_latency_usec": 10**400}, "max_latency_usec: 1000"),
        ({"scope": "sample", "samples": 0}, "samples: 0 … 1 to 1000000"),
        ({"scope": "sample", "samples": -1}, "samples: -1"),
        ({"scope": "pairs"}, "pairs: none, with scope pairs … at least one pair"),
        ({"scope": "reference", "reference": "x"}, "host 'x' … one of node1, node2, node3"),
        ({"budget": -1}, "budget: -1"),
        ({"hosts": [host("a", "nonsense"), host("b", "192.0.2.2")]}, "a ens1np0: address 'nonsense' … an IPv4 address"),
        ({"hosts": [host("a", "192.0.2.2"), host("b", "192.0.2.2")]}, "192.0.2.2 is on a ens1np0 and on b ens1np0"),
    ],
)
def test_a_wrong_file_is_one_clear_error(
    change: dict[str, t.Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host = node(SLURM, matrix={**MATRIX, **change})
    with pytest.raises(PolicyError, match=words):
        read_matrix(host, "m.json")  # type: ignore[arg-type]
    assert main(["run", "m.json"], host) == 2  # type: ignore[arg-type]
    assert capsys.readouterr().err.startswith("lossless-roce-fabric: m.json: ")


@pytest.mark.parametrize("text", ["", "{", "[1]", "nothing"])
def test_a_file_that_is_no_mapping_of_json(text: str) -> None:
    host = node()
    host.files["m.json"] = text
    with pytest.raises(PolicyError, match="m.json"):
        read_matrix(host, "m.json")  # type: ignore[arg-type]


def test_defaults_are_those_of_the_module() -> None:
    options = parse_options(checked({}, RUN_SPEC, "test"))
    assert options == Options()
    assert parse_options(checked({"tool": "ib_write_lat"}, RUN_SPEC, "test")).size == 2
    assert parse_options(checked({"tool": "ib_write_lat", "size": 64}, RUN_SPEC, "test")).size == 64


# -- run -------------------------------------------------------------------------------------------


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, t.Any]]:
    """What run_from was asked for; node3's part cannot be run."""
    asked: list[dict[str, t.Any]] = []

    def run_from(
        host: t.Any, raw: dict[str, t.Any], *, name: str, run: str, show: t.Callable[..., None]
    ) -> dict[str, t.Any]:
        steps = 6
        for step in range(-1, steps):
            show(host, Status(run, name, step, steps, left_s=7.0 * (steps - step) if step > 0 else 0))
        show(host, Status(run, name, steps - 1, steps, done=True))
        asked.append({"name": name, "run": run, **raw})
        if name == "node3":
            raise RoceError("ib_write_bw: not installed on this node; install package perftest")
        return {"findings": result(name, slow="node2")["findings"], "timing": []}

    monkeypatch.setattr(launch, "run_from", run_from)
    return asked


def test_a_result_is_one_line_of_json_and_the_status_says_how_it_was(
    parts: list[dict[str, t.Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "m.json"], node(SLURM)) == 1  # type: ignore[arg-type]
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert (json.loads(out)["host"], json.loads(out)["run"]) == ("node2", "slurm-42.0")
    assert (parts[0]["name"], parts[0]["run"], parts[0]["tool"]) == ("node2", "slurm-42.0", "ib_write_bw")
    assert main(["run", "m.json", "--exit-zero"], node(SLURM)) == 0  # type: ignore[arg-type]


def test_a_folder_takes_the_result(parts: list[dict[str, t.Any]], capsys: pytest.CaptureFixture[str]) -> None:
    host = node(OPEN_MPI)
    main(["run", "m.json", "--output", "out"], host)  # type: ignore[arg-type]
    assert json.loads(host.files["out/node2.json"])["run"] == "mpi-prterun-node1-77@1"
    assert capsys.readouterr().out == "node2: 2 fail: out/node2.json\n"


def test_a_part_that_cannot_be_run_is_handed_over_too(
    parts: list[dict[str, t.Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    host = node({**OPEN_MPI, "SLURMD_NODENAME": "x"}, name="node3")
    assert main(["run", "m.json", "--output", "out"], host) == 2  # type: ignore[arg-type]
    assert "perftest" in json.loads(host.files["out/node3.json"])["error"]
    assert "node3: ib_write_bw: not installed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2(x3)"}, "2 processes were started on one host … 1 was expected"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, "8 processes were started on one host"),
        ({}, "nothing tells this run from others"),
    ],
)
def test_a_start_that_cannot_work_is_refused(
    environment: dict[str, str], words: str, parts: list[dict[str, t.Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "m.json"], node(environment)) == 2  # type: ignore[arg-type]
    assert words in capsys.readouterr().err and parts == []


def test_a_job_of_fewer_processes_than_hosts_says_so_once(
    parts: list[dict[str, t.Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    few = {**SLURM, "SLURM_STEP_NUM_TASKS": "2", "SLURMD_NODENAME": "node1"}
    main(["run", "m.json"], node(few))  # type: ignore[arg-type]
    assert "processes: 2, hosts in m.json: 3" in capsys.readouterr().err
    main(["run", "m.json"], node({**few, "SLURMD_NODENAME": "node2"}))  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""


def test_the_first_host_tells_how_far_all_are(
    parts: list[dict[str, t.Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    host = node({**SLURM, "SLURMD_NODENAME": "node1"})
    main(["run", "m.json"], host)  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [
        "lossless-roce-fabric: waiting for all hosts to be there",
        "lossless-roce-fabric: round 1 of 3",
        "lossless-roce-fabric: round 2 of 3, about 28 s left",
        "lossless-roce-fabric: round 3 of 3, about 14 s left",
        "lossless-roce-fabric: this host is through",
    ]
    main(["run", "m.json"], node(SLURM))  # type: ignore[arg-type]
    assert capsys.readouterr().err == ""


# -- report ----------------------------------------------------------------------------------------


def reported(host: FakeHost, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, output and errors of the report."""
    status = main(["report", "m.json", "out", *words], host)  # type: ignore[arg-type]
    done = capsys.readouterr()
    return status, done.out, done.err


def test_a_good_fabric_is_a_line_a_rail_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    host = folder(result("node1"), result("node2"), result("node3"))
    status, out, _err = reported(host, capsys)
    assert status == 0
    assert out == "rail 0: 6 of 6 pass, 97 to 97 Gb/s\npass: 7 pass\n"
    _status, out, _err = reported(host, capsys, "--pairs")
    assert "0     node1   node2   97    pass" in out.splitlines()


def test_the_port_that_explains_the_failures_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    results = [result(name, slow="node2") for name in ("node1", "node2", "node3")]
    status, out, _err = reported(folder(*results), capsys)
    assert status == 1 and "rail 0: 2 of 6 pass, 9 to 97 Gb/s" in out
    assert "the port of node2 on rail 0: 4 of 4 tests fail" in out
    assert "node1   node3" not in out, "what passed is not listed"


def test_a_host_without_a_result_and_one_that_could_not_run_fail(capsys: pytest.CaptureFixture[str]) -> None:
    broken = {"host": "node2", "run": "slurm-42.0", "findings": [], "error": "no perftest here"}
    status, out, _err = reported(folder(result("node1"), broken), capsys)
    assert status == 1
    assert "fail: node2: fabric: no perftest here" in out and "node3 did not take part" in out


def test_a_measurement_that_is_not_there_is_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    results = [result(name) for name in ("node1", "node2", "node3")]
    del results[1]["findings"][0]
    status, out, _err = reported(folder(*results), capsys)
    assert status == 2 and out.splitlines()[-1].startswith("unknown: ")
    assert (
        "unknown: node2: fabric: there is no measurement of 1 of node2's tests, such as that to node1 on rail 0"
        in (out.splitlines()[1])
    )


def test_json_has_verdict_findings_and_timing(capsys: pytest.CaptureFixture[str]) -> None:
    _status, out, _err = reported(folder(*(result(name) for name in ("node1", "node2", "node3"))), capsys, "--json")
    data = json.loads(out)
    assert data["verdict"] == "pass" and {finding["host"] for finding in data["findings"]} >= {"node1", "node3"}
    assert data["timing"]["node2"] == [{"step": 0, "round": 0, "seconds": 1.5}]


def test_results_without_a_threshold_decide_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    results = [result(name) for name in ("node1", "node2", "node3")]
    for one in results:
        one["findings"] = [{**finding, "verdict": "unknown", "cause": "no link_gbps"} for finding in one["findings"]]
    status, out, _err = reported(folder(*results), capsys)
    assert status == 2 and out.splitlines()[-1] == "unknown: 6 unknown"


def test_a_stale_result_is_not_taken_for_one_of_this_run(capsys: pytest.CaptureFixture[str]) -> None:
    host = folder(result("node1"), result("node2"), result("node3", run="slurm-41.0"))
    status, out, err = reported(host, capsys)
    assert (status, out) == (2, "") and "results of runs slurm-41.0, slurm-42.0" in err and "--run" in err
    status, out, _err = reported(host, capsys, "--run", "slurm-42.0")
    assert status == 1 and "node3 did not take part" in out


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"out/x.json": "{"}, "out/x.json: '{' … a whole result"),
        ({"out/x.json": '{"host": "node1", "run": "r", "findings": [{"verdict": "pass"}]}'}, "out/x.json: "),
        ({"out/x.json": '{"host": "node1", "run": "r", "findings": [{"check": "a", "verdict": "fine"}]}'}, "fine"),
        ({"out/x.json": '{"host": "node9", "run": "r", "findings": []}'}, "host node9 … one of node1"),
        ({"out/notes.txt": ""}, "out: no result … results of one run"),
        ({"out": 'node1: {"host": "node1", "run"\n'}, "out:1: "),
        ({"out": "nothing of ours\n"}, "out: no result"),
        ({}, "out: cannot be read"),
    ],
)
def test_what_is_no_result_is_one_clear_error(
    files: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host = node()
    host.files |= files
    status, out, err = reported(host, capsys)
    assert (status, out) == (2, "") and words in err and err.count("\n") == 1


def test_what_a_launcher_gathered_on_its_terminal_will_do(capsys: pytest.CaptureFixture[str]) -> None:
    host = node()
    told = [json.dumps(result(name)) for name in ("node1", "node2", "node3")]
    host.files["out"] = f"mpirun: a word of its own\n[1,0]<stdout>:{told[0]}\n{told[1]}\n{told[2]}\n"
    assert reported(host, capsys)[0] == 0
    host.files["out"] += told[2]
    assert "a second result of node3" in reported(host, capsys)[2]


# -- one host's part, and the program ----------------------------------------------------------------


def test_timing_is_a_row_a_step_with_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rails = [{"name": f"ens{rail}", "rail": rail, "address": f"198.51.10{rail}.1"} for rail in (0, 1)]
    matrix = Matrix(parse_hosts([{"name": name, "ports": rails} for name in ("node1", "node2", "node3")]))

    def run_matrix(host: t.Any, tests: list[t.Any], *_rest: t.Any, **_more: t.Any) -> list[Outcome]:
        return [Outcome(test, [], seconds=1.0 + test.step) for test in tests]

    monkeypatch.setattr(part, "run_matrix", run_matrix)
    found = part.run_part(FakeHost(), matrix, Options(), name="node1", run="r", link_gbps=100, efficiency=0.9)  # type: ignore[arg-type]
    assert all(row["seconds"] == 1.0 + row["step"] for row in found["timing"])
    assert [row["round"] for row in found["timing"]] == [row["step"] // 4 for row in found["timing"]]
    assert len(found["timing"]) == 8, "two partners, two rails, two directions; in one of three rounds nobody"


def test_the_program_is_one_file_that_runs_by_itself(tmp_path: Path) -> None:
    program = tmp_path / "lossless-roce-fabric"
    program.write_bytes(build(SOURCES, "fabric/launch.py", sys.executable))
    (tmp_path / "m.json").write_text(json.dumps(MATRIX))
    (tmp_path / "out").mkdir()
    for name in ("node1", "node2", "node3"):
        (tmp_path / "out" / f"{name}.json").write_text(json.dumps(result(name)))
    argv = [sys.executable, "-I", str(program), "report", "m.json", "out"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, env={})
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.endswith("pass: 7 pass\n")
    with subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}) as process:
        assert process.stdout and process.stderr
        process.stdout.close()  # as head does
        assert (process.wait(30), process.stderr.read()) == (2, b"")
