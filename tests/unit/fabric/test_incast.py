# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of an incast, and what is refused."""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.fabric_ports import FilterModule
from ansible_collections.lossless.roce.plugins.module_utils.errors import (
    CommandTimeout,
    PolicyError,
    RoceError,
    ToolMissing,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric import incast as incast_module
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import Options
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast import Incast, plan, run_incast, wanted_names
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import parse_hosts
from ansible_collections.lossless.roce.plugins.module_utils.host import Done
from fake_host import FakeHost
from role_files import evaluate, tasks

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
EXCHANGED = " local address: LID 0000 QPN 0x0012\n remote address: LID 0000 QPN 0x0013\n"
ROWS = (
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    " 65536      5000             0.00              32.50              0.184059\n"
)
RAW = [
    {"name": f"n{n}", "ports": [{"name": "eth0", "rail": 0, "address": f"198.51.100.{n + 1}"}]} for n in range(4)
] + [{"name": "n4", "ports": [{"name": "eth1", "rail": 1, "address": "203.0.113.5"}]}]
INCAST = Incast(parse_hosts(RAW), "n0", ("n1", "n2", "n3"), 0)
OPTIONS = Options(duration=5, time_limit=30)


class Process:
    """Prints a result at once."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self.argv = argv

    def wait(self, timeout: float) -> Done | None:
        return Done(self.argv, 0, EXCHANGED + ROWS, "")

    def end(self) -> Done:
        raise AssertionError("it had ended")


class Node(FakeHost):
    """Host n<number> with one port; its counters grow by what ``grows`` says with each reading."""

    def __init__(self, number: int, qps: str = "[]", **grows: int) -> None:
        link = {"ifindex": 0, "ifname": "mlx5_0", "port": 1, "state": "ACTIVE", "netdev": "eth0"}
        super().__init__(
            {
                f"{PORT}/gids/3": f"0000:0000:0000:0000:0000:ffff:c633:64{number + 1:02x}\n",
                f"{PORT}/gid_attrs/types/3": "RoCE v2\n",
                f"{PORT}/gid_attrs/ndevs/3": "eth0\n",
            },
            {
                "rdma -j link show": json.dumps([link]),
                "rdma -j resource show qp": qps,
                "ib_write_bw --help": (1, "  -a, --all\n", ""),
                "ethtool -S eth0": self._statistics,
            },
        )
        self.grows, self.readings = grows, 0
        self.started: list[tuple[str, ...]] = []
        self._lock = threading.Lock()

    def _statistics(self) -> str:
        self.readings += 1
        lines = [f"     {name}: {amount * self.readings}" for name, amount in self.grows.items()]
        return "\n".join(["NIC statistics:", *lines, ""])

    def start(self, *argv: str) -> Process:
        assert self.readings == 1, "nobody sends before counters were read"
        with self._lock:
            self.started.append(argv)
        return Process(argv)


class Partners:
    """A meeting in which only those in ``lost`` do not come."""

    lost: t.ClassVar[set[str]] = set()

    def __init__(self, host: t.Any, status: t.Any, partners: dict[str, list[str]], *, step_limit: float) -> None:
        self.partners = partners

    def gather(self, limit: float) -> None:
        assert limit > 0

    def meet(self, name: str, step: int) -> str:
        assert name in self.partners
        return "did not come to the start within 120 s" if name in self.lost else ""


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """How hosts meet has tests of its own."""
    monkeypatch.setattr(incast_module, "Meeting", Partners)
    monkeypatch.setattr(incast_module, "tell", lambda status: contextlib.nullcontext())
    monkeypatch.setattr(Partners, "lost", set())


def part_of(node: Node, name: str, **more: t.Any) -> dict[str, t.Any]:
    return run_incast(node, INCAST, OPTIONS, name=name, run="r", **more)  # type: ignore[arg-type]


def test_the_receiver_serves_each_sender_on_a_port_of_its_own() -> None:
    node = Node(0, np_cnp_sent=3, rx_packets=9)
    part = part_of(node, "n0")["part"]
    assert sorted(argv[argv.index("-p") + 1] for argv in node.started) == ["18515", "18516", "18517"]
    assert all(argv[argv.index("-D") + 1] == "5" for argv in node.started)
    assert not any("198.51" in word for argv in node.started for word in argv)
    assert (part["role"], part["deltas"], part["simulated"]) == ("receiver", {"np_cnp_sent": 3}, [])
    assert [run["gbps"] for run in part["runs"]] == [None] * 3, "the senders have the figures"


def test_the_receiver_tells_how_long_it_took_from_when_all_had_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """All have met after 2 s; the last run ends at 12.25 s."""
    node = Node(0)
    monkeypatch.setattr(Partners, "gather", lambda self, limit: node.sleep(2.0))

    class Slow(Process):
        def wait(self, timeout: float) -> Done | None:
            node.slept = 12.25
            return super().wait(timeout)

    monkeypatch.setattr(Node, "start", lambda self, *argv: Slow(argv))
    assert part_of(node, "n0")["part"]["seconds"] == 10.25


def test_a_sender_calls_the_receiver_on_the_port_that_is_its_own() -> None:
    node = Node(2, rp_cnp_handled=7)
    node.files["/sys/module/mlx5sim"] = ""
    part = part_of(node, "n2")["part"]
    (argv,) = node.started
    assert argv[argv.index("-p") + 1] == "18516" and argv[-1] == "198.51.100.1"
    assert (part["host"], part["role"], part["netdev"], part["rail"]) == ("n2", "sender", "eth0", 0)
    assert part["simulated"] == ["rp_cnp_handled"]
    assert [(run["peer"], run["gbps"], run["failure"]) for run in part["runs"]] == [("n0", 32.5, "")]


def test_a_program_that_hangs_in_the_kernel_leaves_counters_and_the_other_runs() -> None:
    class Hanging(Process):
        """No signal ends it."""

        def wait(self, timeout: float) -> Done | None:
            return None

        def end(self) -> Done:
            raise CommandTimeout("ib_write_bw: killed, and not gone 5 s later: process 77 hangs in the kernel")

    class OneHangs(Node):
        """The server of the second sender hangs."""

        def start(self, *argv: str) -> Process:
            process = super().start(*argv)
            return Hanging(argv) if "18516" in argv else process

    part = part_of(OneHangs(0, np_cnp_sent=3), "n0")["part"]
    assert [run["failure"] for run in part["runs"]] == ["", "hung", ""] and part["deltas"] == {"np_cnp_sent": 3}
    assert "process 77" in part["runs"][1]["cause"]


def test_who_does_not_come_costs_its_own_run_only() -> None:
    Partners.lost = {"n2"}
    node = Node(0)
    part = part_of(node, "n0")["part"]
    assert len(node.started) == 2
    assert [run["failure"] for run in part["runs"]] == ["", "absent", ""]
    Partners.lost = {"n0"}
    sender = Node(1)
    part = part_of(sender, "n1")["part"]
    assert sender.started == [] and part["runs"][0]["cause"] == "n0 did not come to the start within 120 s"


def test_a_host_without_a_part_does_nothing() -> None:
    assert part_of(Node(4), "n4") == {"part": None, "outcomes": [], "limit_s": 285}


def test_a_dry_run_plans_only() -> None:
    node = Node(0)
    result = part_of(node, "n0", dry_run=True)
    assert result["part"] is None and len(result["outcomes"]) == 3 and node.started == [] and node.readings == 0
    assert "-D 5" in " ".join(result["outcomes"][0]["command"])


def test_a_job_on_the_port_is_not_disturbed_unless_forced() -> None:
    qps = '[{"ifname":"mlx5_0","lqpn":18,"pid":77,"comm":"python3"}]'
    with pytest.raises(RoceError, match=r"python3 \(pid 77\).*when_busy"):
        part_of(Node(0, qps), "n0")
    assert part_of(Node(0, qps), "n0", refuse_busy=False)["part"]["role"] == "receiver"


def test_a_missing_program_and_a_missing_port() -> None:
    node = Node(1)
    node.missing_tools = {"ib_write_bw"}
    with pytest.raises(ToolMissing, match="perftest"):
        part_of(node, "n1")
    bare = Node(1)
    bare.outputs["rdma -j link show"] = "[]"
    part = part_of(bare, "n1")["part"]
    assert part["runs"][0]["failure"] == "wrong_device" and part["deltas"] == {}


@pytest.mark.parametrize(
    ("receiver", "senders", "rail", "words"),
    [
        ("n0", (), 0, "senders: none"),
        ("n0", ("n0",), 0, "n0 stands twice"),
        ("n0", ("n1", "n1"), 0, "n1 stands twice"),
        ("n9", ("n1",), 0, "'n9' on rail 0 … one of n0, n1, n2, n3"),
        ("n0", ("n4",), 0, "'n4' on rail 0"),
        ("n0", ("n1",), 7, "on rail 7 … one of none"),
    ],
)
def test_who_cannot_take_part(receiver: str, senders: tuple[str, ...], rail: int, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        run_incast(Node(0), Incast(INCAST.hosts, receiver, senders, rail), OPTIONS, name="n0", run="r")  # type: ignore[arg-type]


def test_without_a_duration_they_would_not_overlap() -> None:
    with pytest.raises(PolicyError, match="duration: 0"):
        run_incast(Node(0), INCAST, Options(), name="n0", run="r")  # type: ignore[arg-type]


def test_what_a_user_leaves_out_is_filled_in() -> None:
    everybody = {"receiver": "n0", "rail": 0, "senders": ["n1", "n2", "n3"], "taking_part": ["n0", "n1", "n2", "n3"]}
    assert plan({"rail": 0}, RAW) == everybody
    assert plan({"receiver": "n2", "senders": 2}, RAW)["taking_part"] == ["n2", "n0", "n1"]
    assert plan({"receiver": "n1", "senders": ["n3"]}, RAW)["taking_part"] == ["n1", "n3"]


def test_a_host_that_is_lost_stays_in_the_plan_for_the_verdict() -> None:
    planned = plan({"receiver": "n0", "senders": ["n1", "n7"]}, RAW)
    assert planned["senders"] == ["n1", "n7"] and planned["taking_part"] == ["n0", "n1"]
    (finding,) = FilterModule().filters()["incast_verdict"]([], planned, {})
    assert finding["verdict"] == "fail" and "n7" in finding["cause"]
    assert plan({"receiver": "n8"}, RAW)["taking_part"] == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"reciever": "n0"}, "reciever … receiver, rail and senders"),
        ({"rail": "x"}, "rail 'x' … a number"),
        ({"rail": 5}, "rail 5 … one of the rails .*: 0, 1"),
        ({"rail": True}, "rail True … a number"),
        ({"senders": 0}, "senders 0"),
        ({"senders": 9}, "senders: 9 … at most 3"),
        ({"senders": ["n1", "n1"]}, "n1 stands twice"),
        ({"receiver": "n1", "senders": ["n1"]}, "n1 stands twice"),
        ({"senders": ["n4"]}, "'n4' on rail 0"),
        (["n0"], "a mapping"),
    ],
    ids=str,
)
def test_wishes_that_cannot_be(wanted: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        FilterModule().filters()["incast_plan"](wanted, RAW)


NO_RAILS = [float("inf"), float("nan"), 1.9, True, "1.5", "\u0663", -1, None]


@pytest.mark.parametrize(
    "hosts",
    [
        None,
        3,
        "n0",
        [{}],
        [3],
        [{"name": "n0"}],
        [{"name": "n0", "ports": None}],
        [{"name": "n0", "ports": [{"rail": 0}]}],
        *([{"name": "n0", "ports": [{"name": "e", "rail": rail, "address": "198.51.100.1"}]}] for rail in NO_RAILS),
    ],
)
def test_hosts_of_another_form_are_refused(hosts: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="hosts: .* was expected"):
        FilterModule().filters()["incast_plan"]({}, hosts)


@pytest.mark.parametrize("wanted", [{"receiver": ["n0"]}, {"senders": [["n1"]]}, {"senders": ["n1", None]}])
@pytest.mark.parametrize("name", ["incast_plan", "incast_names"])
def test_a_name_is_a_name(wanted: t.Any, name: str) -> None:
    arguments = (wanted, RAW) if name == "incast_plan" else (wanted,)
    with pytest.raises(AnsibleFilterError, match="incast: (receiver|senders) .* the name of a host was expected"):
        FilterModule().filters()[name](*arguments)


RUN = {"peer": "n0", "gbps": 1.0, "failure": "", "cause": "", "command": ""}
PART = {"host": "n1", "role": "sender", "rail": 0, "netdev": "eth0", "deltas": {}, "runs": [RUN], "simulated": []}


@pytest.mark.parametrize(
    "parts",
    [
        None,
        3,
        "n0",
        [3],
        ["s"],
        [{"host": "r"}],
        [{"x": 1}],
        [{**PART, "x": 1}],
        [{**PART, "deltas": None}],
        [{**PART, "deltas": {"np_cnp_sent": "5"}}],
        [{**PART, "runs": [3]}],
        [{**PART, "runs": [{"peer": "n0"}]}],
        [{**PART, "runs": [{**RUN, "gbps": float("nan")}]}],
        [{**PART, "runs": [{**RUN, "gbps": "50"}]}],
        [{**PART, "simulated": ["np_cnp_sent"]}],
    ],
)
def test_parts_of_another_form_are_refused(parts: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="parts: .* was expected"):
        FilterModule().filters()["incast_verdict"](parts, plan({}, RAW), {})


@pytest.mark.parametrize(
    "planned", [None, {}, {"receiver": "n0", "rail": 0}, {"receiver": "n0", "rail": 0, "senders": 3}]
)
def test_a_plan_of_another_form_is_refused(planned: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="planned: .* was expected"):
        FilterModule().filters()["incast_verdict"]([PART], planned, {})


def test_the_names_that_a_wish_has() -> None:
    assert wanted_names({"receiver": "n0", "senders": ["n1"]}) == ["n0", "n1"]
    assert wanted_names({"senders": 3}) == wanted_names({}) == []


def test_from_the_parts_to_the_verdict() -> None:
    planned = plan({}, RAW)
    quiet = {"rx_discards_phy": 0, "out_of_sequence": 0}
    counted = {"rx_prio3_bytes": 10**9, **quiet, "np_cnp_sent": 5, "rp_cnp_handled": 5}
    found = [part_of(Node(n, **counted), f"n{n}")["part"] for n in range(4)]
    (finding,) = FilterModule().filters()["incast_verdict"]([*found, {}, None], planned, {"link_gbps": 100})
    assert finding["verdict"] == "pass" and finding["observed"]["gbps_total"] == 97.5
    with pytest.raises(AnsibleFilterError, match="roce_policy"):
        FilterModule().filters()["incast_verdict"](found, planned, {"data_prio": 9})


@pytest.mark.parametrize(("selects", "rate"), [("ens1np0", 400), ("mlx5_0", 400), ("rail0", 400), ("ens2np0", 200)])
def test_it_is_judged_by_the_policy_of_the_port_that_receives(selects: str, rate: int) -> None:
    """A policy selects a port by its name as declared, its netdev or its RDMA device; else roce_policy holds."""
    task = tasks("fabric_test", "incast")["Keep the policy of the port that receives"]
    other = {"name": "ens2np0", "netdev": "ens2np0", "ibdev": "mlx5_1", "rail": 1}
    policy = evaluate(
        "fabric_test",
        task["ansible.builtin.set_fact"]["fabric_test_incast_policy"],
        **task["vars"],
        roce_policy={"link_gbps": 200},
        roce_policies=[{"ports": [selects], "policy": {"link_gbps": 400}}],
        fabric_test_incast_plan={"receiver": "node1", "rail": 0},
        fabric_test_info={"declared": [other, {"name": "rail0", "netdev": "ens1np0", "ibdev": "mlx5_0", "rail": 0}]},
    )
    assert policy == {"link_gbps": rate}
