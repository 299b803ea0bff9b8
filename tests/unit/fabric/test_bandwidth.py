# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of ib_write_bw tests, with processes that follow a script."""

from __future__ import annotations

import contextlib
import json
import typing as t
from dataclasses import dataclass, replace

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import (
    CommandTimeout,
    HostError,
    PolicyError,
    RoceError,
    ToolMissing,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric import bandwidth
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import (
    STATUS_FILE,
    Options,
    Outcome,
    plan_tests,
    run_matrix,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.meeting import Status
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import PairTest
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.host import Done
from fake_host import FakeHost

SERVER = PairTest("server", "node2", "198.51.100.2", "ens1np0", "198.51.100.1", 0, 18515)
CLIENT = PairTest("client", "node2", "198.51.100.2", "ens1np0", "198.51.100.1", 0, 18516)
PORT = "/sys/class/infiniband/mlx5_0/ports/1"
EXCHANGED = " local address: LID 0000 QPN 0x0012\n remote address: LID 0000 QPN 0x0013\n"
HEADER = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
ROW = " 65536      5000             97.10              96.50              0.184059\n"
REFUSED = "Couldn't connect to 198.51.100.2:18516\n Unable to init the socket connection\n"
FOREVER = 1e9


@dataclass
class Step:
    """How one start of ib_write_bw goes: seconds, exit status, what it prints, what it writes as JSON."""

    seconds: float = 1.0
    rc: int = 0
    out: str = EXCHANGED + HEADER + ROW
    err: str = ""
    file: str = ""
    hangs: bool = False  # in the kernel, where no signal ends it


class ScriptedProcess:
    """A process that takes its step's seconds on the host's clock."""

    def __init__(self, host: ScriptedHost, argv: tuple[str, ...], step: Step) -> None:
        self.host, self.argv, self.step = host, argv, step
        self.running = True

    def wait(self, timeout: float) -> Done | None:
        self.host.slept += min(timeout, self.step.seconds)
        if self.step.seconds > timeout:
            return None
        return self._done(self.step.rc)

    def end(self) -> Done:
        self.running = False
        if self.step.hangs:
            raise CommandTimeout("ib_write_bw: killed, and not gone 5 s later: process 77 hangs in the kernel")
        return self._done(-9)

    def _done(self, rc: int) -> Done:
        self.running = False
        return Done(self.argv, rc, self.step.out, self.step.err)


class ScriptedHost(FakeHost):
    """A node with one RoCE port; ib_write_bw goes as the script says, and the last step repeats."""

    def __init__(self, *script: Step, json_known: bool = False, qps: str = "[]") -> None:
        link = {"ifindex": 0, "ifname": "mlx5_0", "port": 1, "state": "ACTIVE", "netdev": "ens1np0"}
        super().__init__(
            {
                f"{PORT}/gids/3": "0000:0000:0000:0000:0000:ffff:c633:6401\n",
                f"{PORT}/gid_attrs/types/3": "RoCE v2\n",
                f"{PORT}/gid_attrs/ndevs/3": "ens1np0\n",
            },
            {
                "rdma -j link show": json.dumps([link]),
                "rdma -j resource show qp": qps,
                # -h ends with 1 on every version.
                "ib_write_bw --help": (1, "  --out_json_file=<file>\n" if json_known else "  -a, --all\n", ""),
            },
        )
        self.script = list(script)
        self.started: list[ScriptedProcess] = []

    def start(self, *argv: str) -> ScriptedProcess:
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        for word in argv:
            if word.startswith("--out_json_file="):
                self.files[word.partition("=")[2]] = step.file
        self.started.append(ScriptedProcess(self, argv, step))
        return self.started[-1]

    @contextlib.contextmanager
    def temporary_directory(self) -> t.Iterator[str]:
        yield "/tmp/private"


class Always:
    """Partners that are at every step in time, but for those in ``late``."""

    late: t.ClassVar[dict[str, str]] = {}

    def __init__(self, host: t.Any, status: Status, partners: dict[str, list[str]], *, step_limit: float) -> None:
        assert step_limit > 0 and all(partners.values())

    def gather(self, limit: float) -> None:
        assert limit > 0

    def meet(self, name: str, step: int) -> str:
        return self.late.get(name, "")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """How hosts meet has tests of its own."""
    monkeypatch.setattr(bandwidth, "Meeting", Always)
    monkeypatch.setattr(bandwidth, "tell", lambda status, address: contextlib.nullcontext())
    monkeypatch.setattr(Always, "late", {})


def run(
    host: ScriptedHost, *tests: PairTest, refuse_busy: bool = True, dry_run: bool = False, **options: t.Any
) -> list[Outcome]:
    """Outcomes of the tests, one after the other; no process may be left."""
    steps = [replace(test, step=number) for number, test in enumerate(tests)]
    if dry_run:
        return plan_tests(host, steps, Options(**options))  # type: ignore[arg-type]
    status = Status("run", "node1", steps=len(steps))
    outcomes = run_matrix(host, steps, Options(**options), status, refuse_busy=refuse_busy)  # type: ignore[arg-type]
    assert not any(process.running for process in host.started)
    return outcomes


def verdict(outcome: Outcome, link_gbps: float | None = 100) -> Finding:
    """The finding of node1 on its outcome; there must be one."""
    finding = outcome.finding("node1", link_gbps, 0.9)
    assert finding is not None
    return finding


def flag(argv: t.Sequence[str], name: str) -> str:
    """The value behind a flag."""
    return argv[argv.index(name) + 1]


def test_a_good_run_by_text() -> None:
    host = ScriptedHost(Step())
    (outcome,) = run(host, CLIENT)
    finding = verdict(outcome)
    assert (finding.verdict, finding.port) == ("pass", "ens1np0")
    assert finding.observed["gbps"] == 96.5 and finding.observed["client"] == "node1"
    argv = outcome.argv
    assert (flag(argv, "-d"), flag(argv, "-i"), flag(argv, "-x"), flag(argv, "-p")) == ("mlx5_0", "1", "3", "18516")
    assert (flag(argv, "-s"), flag(argv, "-n"), flag(argv, "-q")) == ("65536", "5000", "1")
    assert "--report_gbits" in argv and "-F" in argv and argv[-1] == "198.51.100.2"
    assert "--out_json" not in host.started[0].argv, "this build does not know it"


def test_json_where_the_build_knows_it() -> None:
    results = {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 0, "BW_average": 96.5, "MsgRate": 0.184059}
    text = json.dumps({"test_info": {"Mtu": 4096}, "results": results})
    host = ScriptedHost(Step(out="", file=text), json_known=True)
    (outcome,) = run(host, CLIENT)
    assert "--out_json_file=/tmp/private/result.json" in host.started[0].argv
    assert host.started[0].argv[-1] == "198.51.100.2", "the host's name stays last"
    assert verdict(outcome).observed["rdma_mtu"] == 4096


def test_half_a_json_file_falls_back_to_the_text() -> None:
    host = ScriptedHost(Step(file='{"test_info": {'), json_known=True)
    (outcome,) = run(host, CLIENT)
    assert verdict(outcome).observed["gbps"] == 96.5


def test_no_json_for_a_sweep() -> None:
    host = ScriptedHost(Step(), json_known=True)
    (outcome,) = run(host, CLIENT, all_sizes=True)
    assert "--out_json" not in host.started[0].argv and "-a" in outcome.argv and "-s" not in outcome.argv


def test_the_client_retries_until_the_server_listens() -> None:
    host = ScriptedHost(Step(0.1, 1, "", REFUSED), Step(0.1, 1, "", REFUSED), Step())
    (outcome,) = run(host, CLIENT)
    assert len(host.started) == 3 and verdict(outcome).verdict == "pass"


def test_a_server_that_never_listens() -> None:
    host = ScriptedHost(Step(0.1, 1, "", REFUSED))
    (outcome,) = run(host, CLIENT, time_limit=10)
    assert 10 <= host.now() < 12
    finding = verdict(outcome)
    assert finding.verdict == "fail" and finding.observed["failure"] == "no_server"
    assert finding.observed["gbps"] is None and "TCP" in finding.cause


def test_a_data_path_that_hangs_for_ever() -> None:
    host = ScriptedHost(Step(FOREVER, out=EXCHANGED + HEADER))
    (outcome,) = run(host, CLIENT, time_limit=10)
    assert host.now() == 10
    finding = verdict(outcome)
    assert finding.observed["failure"] == "data_path"
    assert "TCP exchange with node2 worked, and the RoCE data path did not" in finding.cause
    assert "4791" in finding.remedy


SWEEP = HEADER + " 65536      40  0.100000  0.099952  0.000190\n"


def test_a_sweep_that_was_ended_is_no_pass_by_its_first_rows() -> None:
    (outcome,) = run(ScriptedHost(Step(FOREVER, out=EXCHANGED + SWEEP)), CLIENT, all_sizes=True, time_limit=10)
    finding = verdict(outcome, 0.1)
    assert finding.verdict == "fail" and "65536 bytes" in finding.cause
    assert finding.observed["failure"] == "not_done" and "4791" not in finding.remedy


def test_a_row_and_a_failed_exit_status_are_no_pass() -> None:
    (outcome,) = run(ScriptedHost(Step(rc=1)), CLIENT)
    assert verdict(outcome).verdict == "fail"


def test_a_missing_program_is_named_on_a_server_too() -> None:
    host = ScriptedHost(Step(rc=127, out="", err="stdbuf: failed to run command 'ib_write_bw'\n"))
    host.missing_tools = {"ib_write_bw"}
    with pytest.raises(ToolMissing, match="perftest"):
        run(host, SERVER)
    assert run(host, SERVER, dry_run=True)[0].argv, "it may be brought by what check mode did not do"


def test_the_result_holds_every_row_and_the_figure_that_is_judged() -> None:
    small = " 1024  40  0.110000  0.110000  0.000190\n"
    (outcome,) = run(ScriptedHost(Step(out=EXCHANGED + HEADER + small + SWEEP[len(HEADER) :])), CLIENT, all_sizes=True)
    result = outcome.as_dict()
    assert result["gbps"] == 0.099952 and [row["size"] for row in result["rows"]] == [1024, 65536]


def test_a_peer_that_says_nothing_more() -> None:
    (outcome,) = run(ScriptedHost(Step(FOREVER, out="")), CLIENT, time_limit=10)
    finding = verdict(outcome)
    assert finding.observed["failure"] == "no_answer"
    # A client that waits for the answer to its SYN prints nothing, as one that waits for data.
    assert "node2 did not answer on TCP port 18516, or took the connection" in finding.cause
    assert "firewalls" in finding.remedy and "ib_write_bw on node2" in finding.remedy


def test_no_row_and_no_known_text_is_no_pass() -> None:
    (outcome,) = run(ScriptedHost(Step(out="something new\n")), CLIENT)
    assert verdict(outcome).verdict == "fail" and verdict(outcome).observed["failure"] == "no_result"


def test_a_completion_error_counts_though_the_exit_status_is_0() -> None:
    error = " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"
    (outcome,) = run(ScriptedHost(Step(err=error)), CLIENT)
    assert verdict(outcome).observed["failure"] == "data_path"


def test_a_server_says_nothing_when_it_served() -> None:
    (outcome,) = run(ScriptedHost(Step(out=EXCHANGED)), SERVER)
    assert outcome.failure is None and outcome.finding("node1", 100, 0.9) is None
    assert outcome.argv[-1] != "198.51.100.2"


def test_a_server_that_nobody_calls() -> None:
    host = ScriptedHost(Step(FOREVER, out="* Waiting for client to connect... *\n"))
    (outcome,) = run(host, SERVER, time_limit=10)
    assert 10 < host.now() < 20
    assert verdict(outcome).observed["failure"] == "no_client"


def test_a_server_leaves_the_data_path_to_its_client() -> None:
    (outcome,) = run(ScriptedHost(Step(err=" Failed to exchange data between server and clients\n")), SERVER)
    assert outcome.as_dict()["failure"] == "peer_gone" and outcome.finding("node1", 100, 0.9) is None


def test_a_servers_own_fault_is_its_finding() -> None:
    (outcome,) = run(ScriptedHost(Step(rc=1, out="", err="Couldn't allocate MR with error=12\n")), SERVER)
    finding = verdict(outcome)
    assert finding.observed["failure"] == "memlock" and finding.observed["server"] == "node1"


def test_a_failed_test_does_not_end_the_others() -> None:
    host = ScriptedHost(Step(FOREVER, out=EXCHANGED), Step())
    first, second = run(host, CLIENT, CLIENT, time_limit=10)
    assert first.failure is not None and verdict(second).verdict == "pass"


HANGS = Step(FOREVER, out="", hangs=True)


@pytest.mark.parametrize("test", [CLIENT, SERVER], ids=["client", "server"])
def test_a_program_that_hangs_in_the_kernel_costs_its_own_test_only(test: PairTest) -> None:
    first, second, third = run(ScriptedHost(Step(), HANGS, Step()), CLIENT, test, CLIENT, time_limit=10)
    assert verdict(first).verdict == verdict(third).verdict == "pass"
    finding = verdict(second)
    assert finding.verdict == "fail" and finding.observed["failure"] == "hung"
    assert "process 77 hangs in the kernel" in finding.cause and "dmesg" in finding.remedy
    assert "gone" not in finding.observed, "neither this host nor its peer is lost"


def test_a_connection_by_rdma_cm_that_hangs_in_the_kernel_is_no_failure_of_the_measurement() -> None:
    (outcome,) = run(ScriptedHost(HANGS, Step()), CLIENT, rdma_cm=True)
    connection = outcome.cm_finding("node1")
    assert verdict(outcome).verdict == "pass"
    assert connection is not None and connection.observed["failure"] == "hung"


def test_a_result_that_is_not_understood_costs_its_own_test_only() -> None:
    strange = HEADER.replace("BW average[Gb/sec]", "BW average[Furlongs/sec]") + ROW
    first, second = run(ScriptedHost(Step(out=strange), Step()), CLIENT, CLIENT)
    assert verdict(first).observed["failure"] == "broken" and "Furlongs" in verdict(first).cause
    assert verdict(second).verdict == "pass"


def test_a_program_that_does_not_tell_its_flags_costs_its_own_test_only() -> None:
    def hang_once() -> str:
        host.outputs["ib_write_bw --help"] = ""
        raise CommandTimeout("ib_write_bw --help: still running after 60 s, ended")

    host = ScriptedHost(Step())
    host.outputs["ib_write_bw --help"] = hang_once
    first, second = run(host, CLIENT, CLIENT)
    assert "ib_write_bw --help" in verdict(first).cause and verdict(second).verdict == "pass"


def test_a_table_of_gids_that_cannot_be_read_costs_its_own_test_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_gids(host: ScriptedHost, *port: t.Any) -> t.Any:
        if errors:
            raise errors.pop()
        return real(host, *port)  # type: ignore[arg-type]

    real, errors = bandwidth.read_gids, [HostError(f"{PORT}/gids/3: cannot be read: Input/output error")]
    monkeypatch.setattr(bandwidth, "read_gids", read_gids)
    first, second = run(ScriptedHost(Step()), CLIENT, CLIENT)
    assert "Input/output error" in verdict(first).cause and verdict(second).verdict == "pass"


def test_a_dry_run_starts_nothing() -> None:
    host = ScriptedHost(Step())
    (outcome,) = run(host, CLIENT, dry_run=True, tclass=106)
    assert host.started == [] and "--tclass=106" in outcome.argv


def test_a_missing_port_and_a_missing_gid_are_named() -> None:
    host = ScriptedHost(Step())
    absent = PairTest("client", "node2", "198.51.100.2", "ens9", "198.51.100.1", 0, 1)
    other = PairTest("client", "node2", "198.51.100.2", "ens1np0", "192.0.2.1", 0, 1)
    first, second = run(host, absent, other)
    assert verdict(first).observed["failure"] == "wrong_device"
    assert verdict(second).observed["failure"] == "no_gid"
    assert host.started == []


USER_QP = '[{"ifname":"mlx5_0","lqpn":1,"comm":"ib_core"},{"ifname":"mlx5_0","lqpn":18,"pid":77,"comm":"python3"}]'


def test_a_busy_port_is_refused_unless_forced() -> None:
    host = ScriptedHost(Step(), qps=USER_QP)
    with pytest.raises(RoceError, match=r"python3 \(pid 77\).*when_busy"):
        run(host, CLIENT)
    assert host.started == []
    (outcome,) = run(host, CLIENT, refuse_busy=False)
    assert verdict(outcome).verdict == "pass"


def test_all_the_flags() -> None:
    host = ScriptedHost(Step())
    wanted = {"duration": 5, "bidirectional": True, "tx_depth": 64, "qp_timeout": 10, "rdma_mtu": 2048, "qps": 4}
    (outcome,) = run(host, CLIENT, use_cm=True, tclass=106, **wanted)
    argv = outcome.argv
    assert [flag(argv, name) for name in ("-D", "-t", "-u", "-m", "-q", "-T")] == ["5", "64", "10", "2048", "4", "106"]
    assert "-b" in argv and "-R" in argv and "-n" not in argv
    assert not any(word.startswith("--tclass") for word in argv), "rdma_cm takes the TOS"


@pytest.mark.parametrize(
    "options",
    [
        {"duration": 5, "all_sizes": True},
        {"duration": 60},
        {"size": 0},
        {"qps": 0},
        {"iterations": 0},
        {"time_limit": 0},
        {"dmabuf": True},
        {"time_limit": float("nan")},
        {"barrier_limit": float("inf")},
        {"tclass": 999},
        {"rdma_mtu": 5},
        {"tx_depth": -3},
        {"duration": -1},
        {"size": 10**400},
        {"qp_timeout": 32},
    ],
    ids=lambda options: str(options)[:40],
)
def test_options_that_cannot_be(options: dict[str, t.Any]) -> None:
    with pytest.raises(PolicyError, match=next(iter(options))):
        run(ScriptedHost(Step()), CLIENT, **options)


def test_a_partner_that_is_gone_is_named_by_whoever_is_left() -> None:
    Always.late = {"node2": "has not answered since step 3 (12:00:00)"}
    host = ScriptedHost(Step())
    for test in (SERVER, CLIENT):
        (outcome,) = run(host, test)
        finding = verdict(outcome)
        assert finding.verdict == "fail" and finding.observed["failure"] == "absent"
        assert finding.cause == "node2 has not answered since step 3 (12:00:00)"
        assert finding.observed["gone"] == "node2"
    assert host.started == []


def test_a_partner_that_had_gone_on_speaks_for_the_server() -> None:
    Always.late = {"node2": "had given this test up already"}
    (served,) = run(ScriptedHost(Step()), SERVER)
    assert served.finding("node1", 100, 0.9) is None, "the client has the finding"
    (measured,) = run(ScriptedHost(Step()), CLIENT)
    assert verdict(measured).cause == "node2 had given this test up already"


def test_how_far_it_is_can_be_read_from_a_file() -> None:
    host = ScriptedHost(Step())
    run(host, SERVER, CLIENT)
    told = [json.loads(text) for path, text in host.written if path == STATUS_FILE]
    assert [(status["step"], status["done"]) for status in told] == [(-1, False), (0, False), (1, False), (1, True)]
    assert told[2]["left_s"] > 0 and {status["steps"] for status in told} == {2}


def test_rails_at_once_run_at_once() -> None:
    host = ScriptedHost(Step())
    outcomes = run_matrix(host, [CLIENT, replace(CLIENT, tcp_port=2)], Options(), Status("r", "node1", steps=1))  # type: ignore[arg-type]
    assert [flag(outcome.argv, "-p") for outcome in outcomes] == ["18516", "2"]
    assert {verdict(outcome).verdict for outcome in outcomes} == {"pass"}


def test_processes_stay_beside_the_card() -> None:
    host = ScriptedHost(Step())
    host.files["/sys/devices/system/node/node1"] = ""
    host.files["/sys/class/net/ens1np0/device"] = ""
    host.files["/sys/class/net/ens1np0/device/numa_node"] = "1\n"
    (outcome,) = run(host, CLIENT)
    assert outcome.argv[:4] == ["numactl", "--cpunodebind=1", "--membind=1", "ib_write_bw"]


def test_gpu_memory() -> None:
    (outcome,) = run(ScriptedHost(Step()), CLIENT, cuda=0, dmabuf=True, tool="ib_send_bw", dry_run=True)
    assert outcome.argv[0] == "ib_send_bw" and {"--use_cuda=0", "--use_cuda_dmabuf"} <= set(outcome.argv)


# -- latency ---------------------------------------------------------------------------------------

LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec] \n"
    " 2       1000          0.95           6.91         1.01           1.02     0.10       1.25        6.91\n"
)


def test_latency_has_flags_of_its_own_and_a_verdict_by_its_threshold() -> None:
    host = ScriptedHost(Step(out=EXCHANGED + LATENCY))
    host.outputs["ib_write_lat --help"] = (1, "", "")
    (outcome,) = run(host, CLIENT, tool="ib_write_lat", size=2, iterations=1000, tclass=106)
    assert outcome.argv[0] == "ib_write_lat" and flag(outcome.argv, "-s") == "2" and "--tclass=106" in outcome.argv
    assert "-q" not in outcome.argv and "--report_gbits" not in outcome.argv
    findings = [outcome.finding("node1", 100, 0.9, limit) for limit in (2.0, 1.0, None)]
    assert [(f.check, f.verdict) for f in findings if f] == [
        ("ib_write_lat", "pass"),
        ("ib_write_lat", "fail"),
        ("ib_write_lat", "unknown"),
    ]
    assert outcome.as_dict()["gbps"] is None and outcome.as_dict()["rows"][0]["typical_usec"] == 1.01


def test_a_latency_test_without_a_row_failed() -> None:
    host = ScriptedHost(Step(FOREVER, out=EXCHANGED))
    host.outputs["ib_read_lat --help"] = (1, "", "")
    (outcome,) = run(host, CLIENT, tool="ib_read_lat", time_limit=10)
    finding = outcome.finding("node1", 100, 0.9, 5.0)
    assert finding is not None and (finding.check, finding.verdict) == ("ib_read_lat", "fail")
    assert finding.observed["failure"] == "data_path" and finding.expected == {"max_latency_usec": 5.0}


@pytest.mark.parametrize("options", [{"qps": 2}, {"bidirectional": True}, {"tx_depth": 8}])
def test_what_latency_tests_do_not_know_is_refused(options: dict[str, t.Any]) -> None:
    with pytest.raises(PolicyError, match=next(iter(options))):
        Options(tool="ib_send_lat", **options).check()


def test_a_missing_program_of_perftest_is_named_with_its_package_whichever_it_is() -> None:
    host = ScriptedHost(Step())
    host.missing_tools = {"ib_read_bw"}
    with pytest.raises(ToolMissing, match="ib_read_bw.*perftest"):
        run(host, CLIENT, tool="ib_read_bw")


# -- rdma_cm ---------------------------------------------------------------------------------------

NO_CM = "Unexpected CM event bl blka 8\nUnable to connect (retries = 10)\n"


def cm(outcome: Outcome) -> Finding:
    """What node1 says of the connection; there must be something."""
    finding = outcome.cm_finding("node1")
    assert finding is not None
    return finding


def test_a_connection_by_rdma_cm_comes_before_the_test_and_takes_the_nodes_tos() -> None:
    host = ScriptedHost(Step())
    (outcome,) = run(host, CLIENT, rdma_cm=True, tclass=106)
    first, second = (process.argv for process in host.started)
    assert "-R" in first and "-T" not in first and "--tclass=106" not in first and first[-1] == "198.51.100.2"
    assert "-R" not in second and "--tclass=106" in second
    assert (cm(outcome).check, cm(outcome).verdict) == ("rdma_cm", "pass") and " -R " in cm(outcome).evidence
    assert cm(outcome).observed["client"] == "node1" and verdict(outcome).verdict == "pass"


def test_a_server_that_listens_late_is_tried_again() -> None:
    host = ScriptedHost(Step(1.0, 1, "", NO_CM), Step(1.0, 1, "", NO_CM), Step())
    (outcome,) = run(host, CLIENT, rdma_cm=True)
    assert cm(outcome).verdict == "pass" and len(host.started) == 4


def test_a_path_without_rdma_cm_is_named_and_the_test_runs_all_the_same() -> None:
    host = ScriptedHost(Step(FOREVER, out=""), Step())
    (outcome,) = run(host, CLIENT, rdma_cm=True)
    assert cm(outcome).verdict == "fail" and "within 10 s" in cm(outcome).cause
    assert verdict(outcome).verdict == "pass" and host.now() < 15


def test_a_refused_connection_ends_within_its_limit() -> None:
    host = ScriptedHost(*[Step(1.0, 1, "", NO_CM)] * 20)
    (outcome,) = run(host, CLIENT, rdma_cm=True, time_limit=1)
    assert cm(outcome).observed["failure"] == "no_cm_path" and host.now() < 20


def test_a_server_listens_for_both_and_leaves_neither_behind() -> None:
    host = ScriptedHost(Step(FOREVER, out=""), Step(out=EXCHANGED))
    (outcome,) = run(host, SERVER, rdma_cm=True)
    assert len(host.started) == 2 and "-R" in host.started[0].argv and "-R" not in host.started[1].argv
    assert outcome.failure is None and outcome.cm_finding("node1") is None


def test_a_step_has_time_for_the_connection() -> None:
    assert Options(rdma_cm=True).step_limit == Options().step_limit + 10


# -- time and progress -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "link_gbps", "seconds"),
    [
        ({"iterations": 1000, "qps": 2}, 0.05, 20.972),
        ({"duration": 10}, None, 10.0),
        ({}, None, None),
        ({"all_sizes": True}, 200, None),
        ({"tool": "ib_read_lat"}, 200, None),
    ],
)
def test_the_ideal_time_of_a_test(options: dict[str, t.Any], link_gbps: float | None, seconds: float | None) -> None:
    assert Options(**options).ideal_s(link_gbps) == seconds


def test_an_outcome_knows_how_long_its_step_took() -> None:
    outcomes = run(ScriptedHost(Step(3.0), Step(5.0)), CLIENT, CLIENT)
    assert [outcome.seconds for outcome in outcomes] == [3.0, 5.0]


def test_progress_that_cannot_be_written_costs_no_test() -> None:
    class NotRoot(ScriptedHost):
        def write(self, path: str, content: str) -> None:
            raise HostError(f"{path}: cannot write: Permission denied")

    (outcome,) = run(NotRoot(Step()), CLIENT)
    assert verdict(outcome).verdict == "pass"
