# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of the smoke test on a fake node: commands, verdicts, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import (
    CommandTimeout,
    HostError,
    PolicyError,
    RoceError,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.meeting import Status
from ansible_collections.lossless.roce.plugins.module_utils.host import Done
from ansible_collections.lossless.roce.plugins.module_utils.nccl import smoke
from ansible_collections.lossless.roce.plugins.module_utils.nccl.company import Member
from ansible_collections.lossless.roce.plugins.module_utils.nccl.job import Job
from ansible_collections.lossless.roce.plugins.module_utils.nccl.results import MARK
from ansible_collections.lossless.roce.plugins.module_utils.nccl.smoke import run_smoke
from fake_host import FakeHost

RECORDED = Path(__file__).parents[1] / "recorded" / "nccl"
SOCKET_LOG = (RECORDED / "nccl-2node-1gpu-socket-rank0.log").read_text()
ADDRESSES = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "prefixlen": 8}]},
    {"ifname": "ens1np0", "addr_info": [{"local": "10.0.0.1", "prefixlen": 24}]},
    {"ifname": "eth0", "addr_info": [{"local": "192.0.2.1", "prefixlen": 24}]},
]
MEMBERS = (Member("n1", "10.0.0.1"), Member("n2", "10.0.0.2"))
JOB = Job("n1", MEMBERS, "r", "ens1np0", log_folder="")
# The one size that ``said`` tells of.
SWEEP = {"begin": 64 << 20, "end": 64 << 20}
REMOVE = ("docker", "rm", "-f", "box")


class FakeProcess:
    """Runs for some ticks, then has printed ``text`` and ends with ``rc``."""

    hangs = False

    def __init__(self, host: Node, text: str, rc: int, ticks: int) -> None:
        self.host, self.done, self.ticks = host, Done(("torchrun",), rc, text, ""), ticks
        self.ended = False

    def wait(self, timeout: float) -> Done | None:
        self.host.sleep(timeout)
        self.ticks -= 1
        return self.done if self.ticks < 0 else None

    def end(self, _limit: float) -> Done:
        self.ended = True
        if self.hangs:
            raise CommandTimeout("killed, and not gone", self.done.out)
        return self.done


class Node(FakeHost):
    """A fake node whose processes print what the test says, one run after the other."""

    def __init__(self, *runs: tuple[str, int, int]) -> None:
        outputs: dict[str, t.Any] = {
            "ip -j address show": json.dumps(ADDRESSES),
            "ip route get 10.0.0.1": "local 10.0.0.1 dev lo src 10.0.0.1 uid 0\n",
            " ".join(REMOVE): (1, "", "Error: No such container: box"),
        }
        super().__init__({}, outputs)
        self.missing_tools.add("nvidia-smi")
        self.runs, self.started = list(runs), []
        self.processes_started: list[FakeProcess] = []

    def start(self, *argv: str) -> FakeProcess:
        self.started.append(argv)
        self.processes_started.append(FakeProcess(self, *self.runs.pop(0)))
        return self.processes_started[-1]


class StubCompany:
    """Others that are all there; a test may let one fail."""

    missing: t.ClassVar[tuple[list[str], str]] = ([], "")
    failing: t.ClassVar[tuple[str, str]] = ("", "")
    fault: t.ClassVar[str] = ""
    left: t.ClassVar[list[str]] = []
    others: t.ClassVar[dict[str, dict[str, str]]] = {}

    def __init__(
        self,
        _host: t.Any,
        members: t.Sequence[Member],
        name: str,
        _run: str,
        *,
        values: t.Mapping[str, str] | None = None,
    ) -> None:
        self.first = members[0].name == name
        self.status = Status("r", name, values=dict(values or {}))

    def values(self) -> dict[str, dict[str, str]]:
        return self.others

    @contextlib.contextmanager
    def present(self) -> t.Iterator[None]:
        yield

    def gather(self, _limit: float) -> tuple[list[str], str]:
        return self.missing

    def culprit(self) -> tuple[str, str]:
        return self.failing

    def whose_fault(self) -> str:
        return self.fault

    def stay_away(self, _limit: float) -> None:
        self.left.append("stayed away")

    def leave(self, culprit: str = "") -> None:
        self.left.append(culprit)


@pytest.fixture(autouse=True)
def company(monkeypatch: pytest.MonkeyPatch) -> type[StubCompany]:
    class Fresh(StubCompany):
        left: t.ClassVar[list[str]] = []

    monkeypatch.setattr(smoke, "Company", Fresh)
    return Fresh


def said(log: str = "", *, wrong: int = 0, **fact: t.Any) -> str:
    """What rank 0 of a good run prints, after NCCL's log."""
    row = {"operation": "all_reduce", "size": 64 << 20, "iterations": 5, "time_us": 100.0, "algbw": 1.0, "busbw": 1.0}
    events = [
        {"event": "facts", "rank": 0, "ibdevs": [], "uverbs": [], "libibverbs": True, "memlock": None, **fact},
        {"event": "ranks", "host": "n1", "ranks": 1},
        {"event": "ranks", "host": "n2", "ranks": 1},
        {"event": "row", **row, "wrong": wrong},
        {"event": "end"},
    ]
    return log + "".join(f"\n{MARK}{json.dumps(event)}\n" for event in events)


def part(host: Node, **changes: t.Any) -> dict[str, t.Any]:
    return run_smoke(host, dataclasses.replace(JOB, **{**SWEEP, **changes}))  # type: ignore[arg-type]


def failed(result: dict[str, t.Any]) -> list[tuple[str, str]]:
    return [(f["check"], f["cause"]) for f in result["findings"] if f["verdict"] == "fail"]


# -- what is run ---------------------------------------------------------------------------------


def test_check_mode_shows_the_commands_and_starts_nothing() -> None:
    host = Node()
    result = run_smoke(host, dataclasses.replace(JOB, training_steps=10), dry_run=True)  # type: ignore[arg-type]
    commands = {run["label"]: " ".join(run["command"]) for run in result["runs"]}
    assert list(commands) == ["main", "socket", "training"] and host.started == []
    assert "NCCL_NET=IB" in commands["main"] and "NCCL_DEBUG=INFO" in commands["main"]
    assert "NCCL_SOCKET_IFNAME==ens1np0" in commands["main"]
    assert "--nnodes 2 --node-rank 0 --nproc-per-node gpu" in commands["main"]
    assert "--master-addr 10.0.0.1 --master-port 29500" in commands["main"]
    assert "NCCL_IB_DISABLE=1" in commands["socket"] and "NCCL_NET=IB" not in commands["socket"]
    assert "--begin 67108864 --end 67108864" in commands["socket"]
    assert "train.py --backend nccl" in commands["training"]
    assert [(f["check"], f["verdict"]) for f in result["findings"]] == [("nccl_smoke", "skipped")]
    assert "check mode" in result["findings"][0]["cause"]


def test_sockets_that_will_do_are_not_forbidden() -> None:
    host = Node()
    (main,) = run_smoke(host, dataclasses.replace(JOB, accept_socket=True, compare=False), dry_run=True)["runs"]  # type: ignore[arg-type]
    assert not any(word.startswith("NCCL_NET=") for word in main["command"])


def test_a_container_has_a_limit_inside_and_is_removed_after_each_run() -> None:
    host = Node((said(SOCKET_LOG), 0, 1), (said(), 0, 1))
    part(host, prefix=("docker", "run", "--name", "box", "image"), cleanup=(REMOVE,))
    assert [argv[:8] for argv in host.started] == [
        ("docker", "run", "--name", "box", "image", "timeout", "-k", "10"),
    ] * 2
    assert host.ran.count(REMOVE) == 2


def test_a_container_that_cannot_be_removed_is_a_finding() -> None:
    host = Node((said(SOCKET_LOG), 0, 1))
    host.outputs[" ".join(REMOVE)] = (1, "", "Error response from daemon: device busy")
    found = failed(part(host, cleanup=(REMOVE,), compare=False, accept_socket=True))
    assert [check for check, _cause in found] == ["nccl_cleanup"] and "device busy" in found[0][1]


def test_nccl_tests_by_mpirun_of_the_first_host() -> None:
    (run,) = run_smoke(Node(), dataclasses.replace(JOB, tool="nccl_tests", ranks="8"), dry_run=True)["runs"]  # type: ignore[arg-type]
    words = " ".join(run["command"])
    assert "--host 10.0.0.1:8,10.0.0.2:8 -np 16" in words and "oob_tcp_if_include ens1np0" in words
    assert "-x NCCL_DEBUG" in words and words.endswith(
        "all_reduce_perf -b 1024 -e 1073741824 -f 4 -g 1 -c 1 -w 5 -n 20"
    )


def test_nccl_tests_in_containers_that_run_already_with_their_own_arguments() -> None:
    changes: dict[str, t.Any] = {"tool": "nccl_tests", "ranks": "8", "prefix": ("docker", "exec", "trainer")}
    changes["mpirun_arguments"] = ("--mca", "plm_rsh_args", "-p 2222")
    (run,) = run_smoke(Node(), dataclasses.replace(JOB, **changes), dry_run=True)["runs"]  # type: ignore[arg-type]
    assert run["command"][:4] == ["docker", "exec", "trainer", "timeout"]
    at = run["command"].index("plm_rsh_args")
    assert run["command"].index("mpirun") < at < run["command"].index("all_reduce_perf")
    assert run["command"][at + 1] == "-p 2222"
    alone: dict[str, t.Any] = {**changes, "prefix": ("docker", "run", "image"), "members": MEMBERS[:1]}
    assert run_smoke(Node(), dataclasses.replace(JOB, **alone), dry_run=True)["runs"], "which needs no ssh"  # type: ignore[arg-type]


def test_nccl_tests_are_refused_where_hosts_have_other_names(company: type[StubCompany]) -> None:
    company.others = {"n2": {"NCCL_SOCKET_IFNAME": "=ens9np0"}}
    host = Node()
    ((check, cause),) = failed(part(host, tool="nccl_tests", ranks="8"))
    assert check == "nccl_smoke" and host.started == [] and company.left == ["n1"]
    assert "NCCL_SOCKET_IFNAME is =ens1np0 on n1, and =ens9np0 on n2" in cause
    company.others = {"n2": {"NCCL_SOCKET_IFNAME": "=ens1np0"}}
    host = Node((said(), 0, 1))
    part(host, tool="nccl_tests", ranks="8")
    assert len(host.started) == 1
    company.others = {"n2": {"NCCL_SOCKET_IFNAME": "=ens9np0"}}
    host = Node((said(), 0, 1))
    part(host, compare=False)
    assert len(host.started) == 1, "with torchrun each host has its own"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "n9"}, "and n9 among them"),
        ({"operations": ("broadcast",)}, r"operations: \['broadcast'\]"),
        ({"begin": 10, "end": 1}, "sizes: 10 to 1"),
        ({"factor": 1}, "a factor of 2 or more"),
        ({"ranks": "many"}, "ranks: 'many'"),
        ({"backend": "gloo"}, "gloo uses no GPU"),
        ({"tool": "nccl_tests"}, "a number of ranks a host"),
        ({"tool": "nccl_tests", "ranks": "8", "prefix": ("podman", "run", "x")}, r"podman run.*podman exec NAME"),
        ({"time_limit": 0}, "time_limit: 0"),
        ({"min_busbw": 0.0}, "min_busbw: 0.0 … 0.001 to"),
        ({"start_limit": 600.0}, "is not below time_limit"),
        ({"port": 70000}, "port: 70000"),
        ({"environment": {"NCCL_NTHREADS": "4"}}, "NCCL_NTHREADS=4"),
        ({"policy": {"data_prio": 9}}, "data_prio: 9"),
    ],
)
def test_bad_options_are_refused_before_anything_starts(
    company: type[StubCompany], changes: dict[str, t.Any], message: str
) -> None:
    """The others may have right ones: they hear of it at once."""
    host = Node()
    with pytest.raises(PolicyError, match=message):
        part(host, **changes)
    assert host.started == [] and company.left == ([] if "name" in changes else ["stayed away"])
    with pytest.raises(PolicyError, match=message):
        run_smoke(host, dataclasses.replace(JOB, **{**SWEEP, **changes}), dry_run=True)  # type: ignore[arg-type]
    assert len(company.left) < 2, "check mode tells nobody anything"


def test_a_host_that_cannot_tell_the_others_still_says_why(
    monkeypatch: pytest.MonkeyPatch, company: type[StubCompany]
) -> None:
    def taken(_self: t.Any) -> t.NoReturn:
        raise HostError("TCP port 18514: Address already in use")

    monkeypatch.setattr(company, "present", taken)
    with pytest.raises(PolicyError, match="time_limit: 0"):
        part(Node(), time_limit=0)


def test_gpus_in_use_are_left_alone(company: type[StubCompany]) -> None:
    host = Node()
    host.missing_tools.clear()
    host.outputs["nvidia-smi --query-compute-apps=pid,name --format=csv,noheader"] = "4711, python3\n"
    with pytest.raises(RoceError, match=r"pid 4711, python3.*when_busy: force"):
        part(host)
    assert host.started == []


def test_the_version_of_nccl_is_told_as_it_printed_it_or_as_a_rank_says() -> None:
    assert part(Node((said(SOCKET_LOG, nccl="2.20.5"), 0, 1)), compare=False)["nccl_version"] == "2.28.9"
    assert part(Node((said(nccl="2.20.5"), 0, 1)), compare=False)["nccl_version"] == "2.20.5"
    assert part(Node((said(nccl=""), 0, 1)), backend="gloo", ranks="1")["nccl_version"] == ""
    assert run_smoke(Node(), JOB, dry_run=True)["nccl_version"] == ""  # type: ignore[arg-type]


CONTAINERS = "podman ps --filter name=lossless-roce-nccl- --format {{.Names}}"


@pytest.mark.parametrize(
    ("listed", "refused"),
    [
        ("other\nlossless-roce-nccl-n1-4711\n", True),
        ("other\nmine-lossless-roce-nccl-n1-4711\n", False),
        ("lossless-roce-nccl-n2-r\n", False),
        ((125, "", "Cannot connect"), False),
        ("", False),
    ],
)
def test_the_container_of_another_run_is_named_and_left_alone(listed: t.Any, refused: bool) -> None:
    prefix = ("podman", "run", "--rm", "--name", "lossless-roce-nccl-n1-r", "image")
    host = Node((said(SOCKET_LOG), 0, 1))
    host.outputs[CONTAINERS] = listed
    if refused:
        with pytest.raises(
            RoceError, match=r"container lossless-roce-nccl-n1-4711 .* podman rm -f lossless-roce-nccl-n1-"
        ):
            part(host, prefix=prefix, compare=False)
    else:
        part(host, prefix=prefix, compare=False)
    assert len(host.started) == (0 if refused else 1)
    forced = Node((said(SOCKET_LOG), 0, 1))
    run_smoke(forced, dataclasses.replace(JOB, prefix=prefix, compare=False), refuse_busy=False)  # type: ignore[arg-type]
    assert len(forced.started) == 1


# -- the verdict ---------------------------------------------------------------------------------


def test_a_fallback_fails_with_its_cause_and_may_be_accepted() -> None:
    result = part(Node((said(SOCKET_LOG), 0, 2)), compare=False)
    assert [(check, cause.partition(";")[0]) for check, cause in failed(result)] == [
        ("nccl_path", "fell back to Socket: no RDMA device: /sys/class/infiniband is empty")
    ]
    accepted = part(Node((said(SOCKET_LOG), 0, 2)), compare=False, accept_socket=True)
    assert failed(accepted) == []
    assert {f["check"]: f["verdict"] for f in accepted["findings"]} == {"nccl_path": "pass", "nccl_smoke": "pass"}


def ib_log(rank: int, nranks: int) -> str:
    """What NCCL says of one rank with a channel each way, all over RDMA with GPUDirect."""
    peer = (rank + 8) % nranks
    lines = (
        "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB ens1np0:10.0.0.1<0>",
        f"ncclCommInitRank comm 0x1 rank {rank} nranks {nranks} cudaDev 0 busId 60 commId 0x2 - Init COMPLETE",
        f"Channel 00/0 : {rank}[0] -> {peer}[0] [send] via NET/IB/0/GDRDMA",
        f"Channel 00/0 : {peer}[0] -> {rank}[0] [receive] via NET/IB/0/GDRDMA",
        "Connected all rings, use ring PXN 0 GDR 1",
    )
    return "".join(f"h{rank // 8}:{rank}:9 [0] NCCL INFO {line}\n" for line in lines)


def facts_of(*ranks: int) -> str:
    return "".join(f"\n{MARK}{json.dumps({'event': 'facts', 'rank': rank})}\n" for rank in ranks)


def path(result: dict[str, t.Any]) -> tuple[str, str]:
    ((verdict, cause),) = [(f["verdict"], f["cause"]) for f in result["findings"] if f["check"] == "nccl_path"]
    return verdict, cause


@pytest.mark.parametrize("ranks", ["gpu", "8"])
def test_the_path_is_that_of_this_hosts_ranks_and_of_no_fewer(ranks: str) -> None:
    log = "".join(ib_log(rank, 16) for rank in range(8))
    assert path(part(Node((facts_of(*range(1, 8)) + said(log), 0, 1)), ranks=ranks, compare=False)) == ("pass", "")
    log = "".join(ib_log(rank, 16) for rank in range(7))
    verdict, cause = path(part(Node((facts_of(*range(1, 8)) + said(log), 0, 1)), ranks=ranks, compare=False))
    assert verdict == "unknown" and "7 of 8 ranks" in cause


def test_a_host_that_runs_fewer_ranks_than_were_asked_for_fails() -> None:
    ((check, cause),) = failed(part(Node((said(), 0, 1)), backend="gloo", ranks="2"))
    assert check == "nccl_smoke" and "n1 runs 1 ranks, n2 runs 1 ranks, 2 were asked for" in cause


ALONE = said("n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n").replace('"n2"', '"n1"')


def test_of_hosts_that_took_no_part_nothing_is_known() -> None:
    together = {
        f["check"]: f for f in part(Node((said(), 0, 1)), backend="gloo", ranks="1", absent=("n3",))["findings"]
    }
    assert together["nccl_smoke"]["verdict"] == "unknown" and "n3 took no part" in together["nccl_smoke"]["cause"]
    one = {"members": MEMBERS[:1], "min_busbw": 0.5}
    left = {f["check"]: f for f in part(Node((ALONE, 0, 1)), absent=("n2", "n3"), **one)["findings"]}
    assert {check: finding["verdict"] for check, finding in left.items()} == dict.fromkeys(
        ("nccl_path", "nccl_smoke", "nccl_busbw"), "unknown"
    )
    assert all("n2, n3 took no part" in finding["cause"] and finding["remedy"] for finding in left.values())
    meant = {f["check"]: f["verdict"] for f in part(Node((ALONE, 0, 1)), **one)["findings"]}
    assert meant == dict.fromkeys(left, "pass"), "one host that is meant to be alone"
    ((_check, cause),) = failed(part(Node((said(wrong=5), 0, 1)), backend="gloo", ranks="1", absent=("n3",)))
    assert "wrong results" in cause


def test_mpirun_shows_the_ranks_of_all_hosts() -> None:
    options: dict[str, t.Any] = {"tool": "nccl_tests", "ranks": "8"}
    assert path(part(Node(("".join(ib_log(rank, 16) for rank in range(16)), 0, 1)), **options)) == ("pass", "")
    verdict, cause = path(part(Node(("".join(ib_log(rank, 16) for rank in range(8)), 0, 1)), **options))
    assert verdict == "unknown" and "8 of 16 ranks" in cause


@pytest.mark.parametrize(
    ("version", "changes", "told"),
    [
        ("2.20.5", {}, True),
        ("2.21.5", {}, False),
        ("2.20.5", {"version": "2.20.5"}, False),
        ("2.20.5", {"environment": {"NCCL_IB_GID_INDEX": 3}}, False),
        ("2.20.5", {"tool": "torch"}, False),  # its worker sees to it
    ],
)
def test_nccl_tests_with_an_old_nccl_that_was_told_of_no_gid(
    version: str, changes: dict[str, t.Any], told: bool
) -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    log = f"h0:0:9 [0] NCCL INFO NCCL version {version}+cuda12.4\n" + "".join(ib_log(rank, 16) for rank in range(16))
    host = Node((log, 0, 1))
    host.outputs["rdma -j link show"] = json.dumps([{"ifname": "mlx5_0", "port": 1, "netdev": "ens1np0"}])
    host.files.update(
        {
            f"{port}/gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0001",
            f"{port}/gid_attrs/types/3": "RoCE v2",
            f"{port}/gid_attrs/ndevs/3": "ens1np0",
            f"{port}/link_layer": "Ethernet",
        }
    )
    options: dict[str, t.Any] = {"tool": "nccl_tests", "ranks": "8", "ports": ({"name": "ens1np0"},), "compare": False}
    result = run_smoke(host, dataclasses.replace(JOB, **{**options, **changes}), refuse_busy=False)  # type: ignore[arg-type]
    causes = [cause for _check, cause in failed(result) if "takes a GID by its index" in cause]
    assert len(causes) == told, result["findings"]


def test_gloo_proves_plumbing_only_and_says_so() -> None:
    result = part(Node((said(), 0, 2)), backend="gloo", ranks="1")
    assert {f["check"]: f["verdict"] for f in result["findings"]} == {"nccl_path": "skipped", "nccl_smoke": "pass"}
    assert all("nothing of NCCL" in f["cause"] for f in result["findings"])


def test_wrong_sums_fail() -> None:
    ((check, cause),) = failed(part(Node((said(wrong=5), 0, 1)), backend="gloo", ranks="1"))
    assert check == "nccl_smoke" and "wrong results: 5 elements" in cause


@pytest.mark.parametrize("changes", [{"begin": 16 << 20}, {"operations": ("all_reduce", "all_to_all")}])
def test_a_sweep_with_holes_is_not_proven(changes: dict[str, t.Any]) -> None:
    result = part(Node((said(), 0, 1)), backend="gloo", ranks="1", min_busbw=0.5, **changes)
    found = {f["check"]: f["verdict"] for f in result["findings"]}
    assert found == {"nccl_path": "skipped", "nccl_smoke": "unknown", "nccl_busbw": "unknown"}
    whole = part(Node((said(), 0, 1)), backend="gloo", ranks="1", min_busbw=0.5)
    assert {f["check"]: f["verdict"] for f in whole["findings"]} == {
        **found,
        "nccl_smoke": "pass",
        "nccl_busbw": "pass",
    }


def test_a_missing_host_is_named_by_the_first_and_the_others_follow(company: type[StubCompany]) -> None:
    company.missing = (["n2"], "")
    host = Node()
    ((check, cause),) = failed(part(host))
    assert check == "nccl_rendezvous" and "n2 did not come" in cause and host.started == []
    company.missing = ([], "n3")
    (finding,) = part(host)["findings"]
    assert finding["verdict"] == "skipped" and "since n3 failed" in finding["cause"]


def test_a_host_that_fails_meanwhile_ends_the_run_here(company: type[StubCompany]) -> None:
    company.failing = ("n2", "failed")
    host = Node(("", 0, 999))
    (finding,) = part(host, cleanup=(REMOVE,))["findings"]
    assert finding["verdict"] == "skipped" and "n2 failed" in finding["cause"]
    assert host.processes_started[0].ended and REMOVE in host.ran and host.now() < 10
    company.failing = ("n2", "has not answered for 10 s")
    ((_check, cause),) = failed(part(Node(("", 0, 999))))
    assert "n2 has not answered" in cause


def test_a_lost_peer_is_another_hosts_fault_or_told_here(company: type[StubCompany]) -> None:
    text = "RuntimeError: Connection closed by peer [10.0.0.2]\n"
    company.fault = "n2"
    (finding,) = part(Node((text, 1, 1)))["findings"]
    assert finding["verdict"] == "skipped" and company.left == ["n2"]
    company.fault = ""
    ((_check, cause),) = failed(part(Node((text, 1, 1))))
    assert "lost its peer" in cause and company.left[-1] == "n1"


def test_the_time_limit_ends_everything(company: type[StubCompany]) -> None:
    host = Node(("", 0, 10_000))
    ((check, cause),) = failed(part(host, cleanup=(REMOVE,), time_limit=30.0, start_limit=20.0))
    assert check == "nccl_smoke" and "after 30 s" in cause
    assert host.processes_started[0].ended and REMOVE in host.ran and company.left == ["n1"]


def test_what_ranks_printed_is_kept_although_they_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeProcess, "hangs", True)
    text = "n:1:2 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"
    result = part(Node((text, 0, 10_000)), time_limit=30.0, start_limit=20.0, log_folder="")
    assert [check for check, _cause in failed(result)] == ["nccl_error", "nccl_cleanup"]
    assert result["runs"][0]["output"] == text


def test_a_log_that_cannot_be_kept_is_told_beside_what_the_run_has_found() -> None:
    class Full(Node):
        def write(self, path: str, content: str) -> None:
            raise HostError(f"{path}: cannot write: No space left on device")

    text = "n:1:2 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"
    result = part(Full((text, 1, 1)), log_folder="/var/log/lossless-roce")
    assert [check for check, _cause in failed(result)] == ["nccl_error", "nccl_log"]
    assert "/var/log/lossless-roce/nccl-n1-main.log: cannot write: No space left" in failed(result)[1][1]
    assert result["runs"][0]["log"] == "", "nobody looks for what is not there"


def test_nccls_own_words_stand_for_the_failed_run() -> None:
    text = "n:1:2 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\nRuntimeError: x\n"
    ((check, cause),) = failed(part(Node((text, 1, 1))))
    assert check == "nccl_error" and "locked memory" in cause


@pytest.mark.parametrize(
    ("changes", "route", "cause"),
    [
        ({"interface": "ens9"}, "", "interface ens9 is not on this host … there are lo, ens1np0, eth0"),
        ({"interface": ""}, "", "no interface is declared"),
        ({"interface": "eth0"}, "", "10.0.0.1 is not an address of eth0"),
        ({"members": (Member("n1", ""),)}, "", "no address is declared"),
        (
            {"members": (Member("n0", "10.0.0.7"), MEMBERS[0])},
            "10.0.0.7 via 192.0.2.254 dev eth0 src 192.0.2.1",
            "10.0.0.7 of n0 is reached over eth0, and ens1np0 is declared",
        ),
    ],
)
def test_a_wrong_interface_is_one_finding_and_the_others_hear_of_it(
    company: type[StubCompany], changes: dict[str, t.Any], route: str, cause: str
) -> None:
    host = Node()
    host.outputs["ip route get 10.0.0.7"] = route
    ((check, said_),) = failed(part(host, **changes))
    assert check == "nccl_rendezvous" and cause in said_ and host.started == []
    alone = "members" in changes and len(changes["members"]) == 1
    assert company.left == ([] if alone else ["stayed away"])


def test_a_host_without_address_is_its_own_finding_and_nobody_waits_for_it(company: type[StubCompany]) -> None:
    for members in ((Member("n0", ""), MEMBERS[0]), (MEMBERS[0], Member("n2", ""))):
        (finding,) = part(Node(), members=members)["findings"]
        assert finding["verdict"] == "skipped" and "has no address on its interface" in finding["cause"]
    ((check, cause),) = failed(part(Node(), members=(Member("n0", "10.0.0.7"), Member("n1", ""))))
    assert check == "nccl_rendezvous" and "no address is declared" in cause
    assert company.left == []
