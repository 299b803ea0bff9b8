# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Texts that a diagnosis judges: NCCL variables, advice that circulates, saved outputs of tools."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import advice, nccl_env, netplan, review
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context, read_review
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"
POLICY = parse_policy({"link_gbps": 100})


def reviewed(*names: str, ports: t.Sequence[str] = (), **policy: t.Any) -> list[Finding]:
    """Findings of every check of texts on recorded cases that lie on a node."""
    paths = [f"/root/{name}" for name in names]
    host = FakeHost({path: (CASES / name).read_text() for path, name in zip(paths, names, strict=True)})
    known = tuple(Port(f"mlx5_{number}", 1, name) for number, name in enumerate(ports))
    context = Context(known, parse_policy({"link_gbps": 100, **policy}), {"ports": []}, {}, read_review(host, paths))  # type: ignore[arg-type]
    checks = (nccl_env, advice, review)
    return [f for check in checks for f in check.diagnose(host, context) if f.verdict != "skipped"]  # type: ignore[arg-type]


def failed(found: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in found if finding.verdict == "fail"}


# -- the cases -----------------------------------------------------------------------------------


def test_g01_traffic_class_for_some_queue_pairs_only() -> None:
    found = reviewed("g01-tclass-only-for-some-qps.txt", data_dscp=59, data_prio=5, cnp_prio=6)
    causes = " | ".join(finding.cause for finding in found if finding.verdict == "fail")
    assert "NCCL_IB_TC is not set" in causes and "traffic class 236 is DSCP 59 with ECN bits 00" in causes
    assert any("NCCL_GIN_IB_TC=236" in finding.remedy for finding in found)


def test_g02_peermem_loaded_and_not_registered() -> None:
    finding = failed(reviewed("g02-peermem-loaded-not-registered.txt"))["gpudirect"]
    assert "not registered with ib_core" in finding.cause and "proves nothing" in finding.cause


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("g03-memlock-8192.txt", "container_memlock", "too small for NCCL's buffers"),
        ("g04-provider-missing-in-image.txt", "container_provider", "no provider for these devices in the image"),
        ("g06-macvlan-container-no-netdev.txt", "container_network", "the GIDs belong to the host's netdev"),
        ("c16-cable-too-slow.txt", "cable", "40 Gb/s"),
        ("d07-ibstat-vf-node-guid-zero.txt", "node_guid", "rdma_cm"),
        ("c12-pause-params-on.txt", "pause", "a port does one or the other"),
        ("c08-counters-global-pause-active.txt", "pause_frames", "global (802.3x) pause"),
    ],
)
def test_a_saved_output_gives_its_verdict(name: str, check: str, words: str) -> None:
    finding = failed(reviewed(name))[check]
    assert words in finding.cause and f"/root/{name}" in finding.evidence


def test_g07_the_file_says_9000_and_that_is_no_pass() -> None:
    names = ("g07-netplan-mtu-without-match.netplan.yaml", "g07-netplan-mtu-without-match.ip-link.txt")
    (finding,) = reviewed(*names)
    assert finding.verdict == "fail" and finding.layers == {"on_disk": 9000, "running": 1500}
    assert "matched by its MAC address" in finding.cause


@pytest.mark.parametrize("order", [("before", "after"), ("after", "before")])
def test_c10_by_two_readings(order: tuple[str, str]) -> None:
    found = failed(reviewed(*(f"c10-rdma-traffic-on-prio0.{when}.txt" for when in order)))
    assert "by the lossless priority 3" in found["traffic_prio"].cause


def test_g12_fabric_ports_without_an_address_of_the_fabric() -> None:
    ports = ["enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1"]
    found = reviewed("g12-fabric-port-169-254.txt", ports=ports)
    causes = {finding.cause.split(" ")[0]: finding.cause for finding in found}
    assert [finding.verdict for finding in found] == ["fail"] * 4
    assert "169.254.127.30 (autoconfiguration)" in causes["enp1s0f1np1"]
    assert "has no IPv4 address" in causes["enP2p1s0f1np1"]
    assert "declared and down" in causes["enp1s0f0np0"] and "declared and down" in causes["enP2p1s0f0np0"]
    assert reviewed("g12-fabric-port-169-254.txt", ports=["enP7s7"])[0].verdict == "pass"


@pytest.mark.parametrize(
    ("text", "verdict", "words"),
    [
        ("ens1.100@ens1    UP             10.0.0.1/24 \n", "pass", ""),
        ("ens1.100@ens1    LOWERLAYERDOWN 10.0.0.1/24 \n", "fail", "declared and down"),
        ("ens1             DORMANT        10.0.0.1/24 \nens1.100@ens1    DORMANT \n", "fail", "declared and down"),
        ("ens1             UP             10.0.0.1/24 \n", "unknown", "ens1.100 is not listed"),
    ],
)
def test_brief_addresses_of_a_vlan(text: str, verdict: str, words: str) -> None:
    context = Context((Port("mlx5_0", 1, "ens1.100"),), POLICY, {}, {}, read_review(FakeHost(), []))  # type: ignore[arg-type]
    (finding,) = review.review("/a", text, context)
    assert finding.verdict == verdict and words in finding.cause


def test_e01_a_topology_with_escape_codes_is_recognised() -> None:
    assert [finding.check for finding in reviewed("e01-hgx-b300-escape-codes.txt")] == ["gpu_nics"]


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("d20-mlxconfig-pending.txt", "pending", "CRYPTO_POLICY"),
        ("d22-mlxconfig-one-column.txt", "unknown", "no -e"),
        ("d24-mstconfig-unsupported.txt", "unknown", "Unsupported device"),
    ],
)
def test_saved_mstconfig(name: str, verdict: str, words: str) -> None:
    (finding,) = reviewed(name)
    assert finding.verdict == verdict and words in finding.cause


def test_g15_commands_that_do_not_do_what_they_say() -> None:
    causes = [f.cause for f in reviewed("g15-vf-dscp-no-permission.txt") if f.check == "copied_command"]
    assert len([cause for cause in causes if "dash of typography" in cause]) == 2
    assert len([cause for cause in causes if "redirects file descriptor" in cause]) == 4
    assert "'106>' redirects file descriptor 106: nothing is written into the file" in causes


QOS = (CASES / "c01-mlnx-qos-vendor-crossed.txt").read_text()
# The classes as the default policy has them.
QOS_RIGHT = QOS[: QOS.index("tc: 0")] + (
    "tc: 0 ratelimit: unlimited, tsa: ets, bw: 50%\n"
    + "".join(f"         priority:  {prio}\n" for prio in (0, 1, 2, 4, 5, 7))
    + "tc: 3 ratelimit: unlimited, tsa: ets, bw: 50%\n         priority:  3\n"
    + "tc: 6 ratelimit: unlimited, tsa: strict\n         priority:  6\n"
)


def qos(text: str) -> Finding:
    (finding,) = review.review("/a", text, Context((), POLICY, {}, {}, read_review(FakeHost(), [])))  # type: ignore[arg-type]
    return finding


def test_saved_mlnx_qos_that_is_right() -> None:
    assert qos(QOS_RIGHT).verdict == "pass" and qos(QOS_RIGHT.replace("\n", "\r\n")).verdict == "pass"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (QOS, "declares: ets"),
        (QOS_RIGHT.replace("27,26,25", "27,25").replace("dscp:07", "dscp:26,07"), "declares: dscp_prio"),
        (QOS_RIGHT.replace("49,48,", "49,").replace("dscp:07", "dscp:48,07"), "declares: dscp_prio"),
        (QOS_RIGHT.replace("state: dscp", "state: pcp"), "declares: trust"),
        (QOS_RIGHT.replace("state: dscp", "state: pcp").split("PFC conf")[0], "declares: trust"),
        (QOS_RIGHT.replace("0   0   0   1", "1   0   0   1"), "declares: pfc"),
    ],
)
def test_saved_mlnx_qos_that_differs_names_what_differs(text: str, words: str) -> None:
    assert qos(text).verdict == "fail" and qos(text).cause.endswith(words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (QOS_RIGHT.replace("Priority trust state: dscp\n", ""), "compared: trust"),
        (QOS_RIGHT.replace("27,26,25", "27,25"), "compared: dscp_prio"),
        (QOS_RIGHT[: QOS_RIGHT.index("PFC conf")], "compared: pfc, ets"),
    ],
)
def test_saved_mlnx_qos_that_is_cut_is_no_verdict(text: str, words: str) -> None:
    assert qos(text).verdict == "unknown" and qos(text).cause.endswith(words)


def test_a_file_that_is_not_known_or_not_there_is_named() -> None:
    host = FakeHost({"/a": "some words\n"})
    context = Context((), POLICY, {}, {}, read_review(host, ["/a", "/b"]))  # type: ignore[arg-type]
    found = review.diagnose(host, context)  # type: ignore[arg-type]
    assert [(finding.verdict, finding.evidence) for finding in found] == [("unknown", "/b"), ("unknown", "/a")]
    assert "No such file" in found[0].cause


# -- NCCL's variables ----------------------------------------------------------------------------


def checked(name: str, value: str, **node: t.Any) -> list[Finding]:
    """Findings on one variable, without the one that says that NCCL_IB_TC is missing."""
    about = nccl_env.Node(**{"ibdevs": ("mlx5_0", "mlx5_1", "mlx5_10"), **node})
    return nccl_env.check([nccl_env.Setting(name, value, "job.sh:1")], about)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("NCCL_NTHREADS", "4", "it uses 512"),
        ("NCCL_NTHREADS", "32", "it uses 64"),
        ("NCCL_NTHREADS", "100", "it uses 512"),
        ("NCCL_IB_TIMEOUT", "32", "out of range"),
        ("NCCL_IB_RETRY_CNT", "-1", "out of range"),
        ("NCCL_MAX_NCHANNELS", "0", "out of range"),
        ("NCCL_PROTO", "LL,Fast", "does not know that word"),
        ("NCCL_NET_GDR_LEVEL", "NEAR", "does not know that word"),
        ("NCCL_MNNVL", "1", "knows no variable NCCL_MNNVL"),
        ("NCCL_IB_DISABLE", "1", "over TCP sockets"),
        ("NCCL_NET", "Socket", "TCP sockets"),
        ("NCCL_IB_HCA", "mlx5_1", "selects mlx5_10 as well"),
        ("NCCL_IB_DISABLE", "0x1", "over TCP sockets"),
        ("NCCL_IB_DISABLE", "2", "over TCP sockets"),
        ("NCCL_NET_GDR_LEVEL", "LOC", "GPUDirect RDMA is switched off"),
        ("NCCL_NET_GDR_LEVEL", "0", "GPUDirect RDMA is switched off"),
        ("NCCL_IB_FIFO_TC", "256", "out of range"),
        ("NCCL_GIN_IB_TC", "-2", "out of range"),
        ("NCCL_LL128_NTHREADS", "64", "out of range"),
        ("NCCL_MAX_NCHANNELS", "2", "few channels bound NCCL's bandwidth"),
        ("NCCL_MAX_CTAS", "4", "few channels bound NCCL's bandwidth"),
    ],
)
def test_values_that_are_wrong_by_themselves(name: str, value: str, words: str) -> None:
    (finding,) = checked(name, value)
    assert finding.verdict == "fail" and words in finding.cause and finding.remedy
    assert finding.evidence == "job.sh:1" and finding.observed == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_NTHREADS", "256"),
        ("NCCL_IB_TIMEOUT", "22"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_ALGO", "allreduce:ring,tree"),
        ("NCCL_IB_HCA", "=mlx5_1"),
        ("NCCL_IB_HCA", "^mlx5_1"),
        ("NCCL_IB_HCA", "mlx5_0:1,mlx5_10:1"),
        ("NCCL_NET_GDR_LEVEL", "SYS"),
        ("NCCL_IB_DISABLE", "0"),
        ("NCCL_MAX_NCHANNELS", "16"),
        ("NCCL_IB_FIFO_TC", "-1"),
        ("NCCL_NET", "IB"),
        ("NCCL_DEBUG", "INFO"),
    ],
)
def test_values_that_are_right(name: str, value: str) -> None:
    assert [finding.verdict for finding in checked(name, value)] == ["pass"]


@pytest.mark.parametrize(("value", "words"), [("0", "is 106"), ("26", "not the DSCP"), ("104", "ECN bits differ")])
def test_a_traffic_class_against_the_policy(value: str, words: str) -> None:
    (finding,) = checked("NCCL_IB_TC", value, policy=POLICY)
    assert finding.verdict == "fail" and words in finding.cause and finding.expected == 106


@pytest.mark.parametrize("name", ["NCCL_IB_FIFO_TC", "NCCL_GIN_IB_TC"])
def test_the_other_traffic_classes_against_the_policy(name: str) -> None:
    def judged(value: str) -> list[Finding]:
        settings = [nccl_env.Setting("NCCL_IB_TC", "106", "c:1"), nccl_env.Setting(name, value, "c:2")]
        return nccl_env.check(settings, nccl_env.Node(POLICY))

    (finding,) = judged("26")
    assert finding.verdict == "fail" and "not the DSCP" in finding.cause and finding.remedy == f"{name}=106"
    assert [judged(value)[0].verdict for value in ("106", "-1")] == ["pass", "pass"], "-1 is the same as NCCL_IB_TC"


def test_a_service_level_against_a_policy_that_trusts_pcp() -> None:
    pcp = parse_policy({"trust": "pcp"})
    found = [f for f in checked("NCCL_IB_SL", "0", policy=pcp) if "NCCL_IB_SL" in f.observed]
    assert [f.verdict for f in found] == ["fail"] and "the priority is the service level" in found[0].cause
    assert not [f for f in checked("NCCL_IB_SL", "3", policy=pcp) if "NCCL_IB_SL" in f.observed]
    assert not [f for f in checked("NCCL_IB_SL", "0", policy=POLICY) if "NCCL_IB_SL" in f.observed]


def test_a_hard_wired_gid_index_is_held_against_this_node() -> None:
    (finding,) = checked("NCCL_IB_GID_INDEX", "3", gid_indexes=(5,))
    assert finding.verdict == "fail" and "have [5]" in finding.cause
    assert checked("NCCL_IB_GID_INDEX", "3", gid_indexes=(3, 3))[0].verdict == "pass"


def test_lines_of_nccl_conf_that_nccl_reads_otherwise() -> None:
    text = (
        "# ours\nNCCL_IB_TC=106\nNCCL_IB_SL = 0\nexport NCCL_DEBUG=INFO\nNCCL_PROTO=LL # fast\n"
        "NCCL_IB_HCA=\"mlx5_0\"\nNCCL_SOCKET_IFNAME='eth0'\nNCCL_NET=IB\r\n # indented\n"
    )
    settings, findings = nccl_env.parse_conf(text, "/etc/nccl.conf")
    assert [(setting.name, setting.value) for setting in settings] == [("NCCL_IB_TC", "106")]
    assert [finding.evidence for finding in findings] == [f"/etc/nccl.conf:{line}" for line in range(3, 10)]
    assert "carriage return" in findings[5].cause


def test_assignments_in_scripts() -> None:
    text = (
        "export NCCL_IB_TC=106; NCCL_DEBUG='INFO' torchrun x\n# NCCL_IB_SL=9\n"
        'mpirun -x NCCL_IB_HCA="=mlx5_0,mlx5_1" -x NCCL_PROTO app\ndocker run -e NCCL_NET=IB --env NCCL_ALGO=Ring i\n'
    )
    found = [(setting.name, setting.value, setting.where) for setting in nccl_env.parse_assignments(text, "j")]
    assert found == [
        ("NCCL_IB_TC", "106", "j:1"),
        ("NCCL_DEBUG", "INFO", "j:1"),
        ("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "j:3"),
        ("NCCL_NET", "IB", "j:4"),
        ("NCCL_ALGO", "Ring", "j:4"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        'os.environ["NCCL_NTHREADS"] = "4"',
        "os.environ.setdefault('NCCL_NTHREADS', '4')",
        '      NCCL_NTHREADS: "4"',
        "  - NCCL_NTHREADS: 4",
        '  "NCCL_NTHREADS": "4",',
        "ENV NCCL_NTHREADS 4",
        "ENV NCCL_NTHREADS=4",
        "setenv NCCL_NTHREADS 4",
        "mpirun -genv NCCL_NTHREADS 4 app",
        "Environment=NCCL_NTHREADS=4",
        "NCCL_NTHREADS=4\r",
    ],
)
def test_assignments_in_programs_and_in_files_of_containers(line: str) -> None:
    found = [(setting.name, setting.value) for setting in nccl_env.parse_assignments(f"x\n{line}\n", "j")]
    assert found == [("NCCL_NTHREADS", "4")]


@pytest.mark.parametrize(
    "line",
    [
        "n:1:1 [0] NCCL INFO NCCL_IB_TC set by environment to 106.",
        "echo the default of NCCL_NTHREADS: it depends",
        'if os.environ["NCCL_NTHREADS"] == "4":',
        "# NCCL_NTHREADS: 4",
    ],
)
def test_what_is_no_assignment(line: str) -> None:
    assert nccl_env.parse_assignments(f"{line}\n", "j") == []


# -- advice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("echo 1 > /sys/class/net/eth0/queues/tx-0/pfc_enable", "pfc_enable"),
        ("for q in x; do echo 1 > /sys/class/net/eth0/queues/tx-*/pfc_enable; done", "pfc_enable"),
        ("for q in /sys/class/net/eth0/queues/tx-*; do echo 1 > $q/pfc_enable; done", "pfc_enable"),
        ("export NCCL_SOCKET_IFNAME=eth0   # or it falls back to TCP", "socket_ifname"),
        ("# NCCL uses TCP instead of RDMA:\nexport NCCL_SOCKET_IFNAME=eth0", "socket_ifname"),
        ("nethogs ens1np0", "nethogs"),
        ("tc qdisc add dev eth0 root mqprio num_tc 3 map 2 2 1 0 queues 1@0 1@1 2@2 hw 1", "mqprio"),
        ("tc qdisc replace dev eth0 root mqprio num_tc 8 hw 1", "mqprio_replace"),
        ("tc qdisc add dev eth0 root \\\n  mqprio num_tc 8 hw 1", "mqprio"),
        ("tc qdisc add dev eth0 root \\\r\n  mqprio num_tc 8 hw 1\r", "mqprio"),
        ("export NCCL_IB_GID_INDEX=3", "gid_index_3"),
        ("ib_write_bw -d mlx5_0 -x 3 host", "gid_index_3"),
        ("ib_write_bw -d mlx5_0 --gid-index=3 host", "gid_index_3"),
        ("/sbin/tc qdisc add dev eth0 root mqprio num_tc 3", "mqprio"),
        ("watch -n1 nethogs -t", "nethogs"),
        ("# bidir\nib_write_bw -d mlx5_0 host", "one_way"),
        ("dcb app replace dev eth0 dscp-prio 26:3 && echo done", "app_replace"),
        ("# measure bidirectional bandwidth\nib_write_bw -d mlx5_0 host", "one_way"),
    ],
)
def test_advice_that_does_not_help(line: str, what: str) -> None:
    found = advice.check_text(f"#!/bin/sh\n{line}\n", "job.sh")
    assert what in [finding.observed["what"] for finding in found]
    assert all(finding.verdict == "fail" and finding.cause and finding.remedy for finding in found)
    assert all("job.sh:" in finding.evidence for finding in found)


@pytest.mark.parametrize(
    "line",
    [
        "# echo 1 > /sys/class/net/eth0/queues/tx-0/pfc_enable",
        "dcb pfc set dev eth0 prio-pfc all:off 3:on",
        "echo 106 > /sys/class/infiniband/mlx5_0/tc/1/traffic_class",
        "make 2> errors; echo done >> log; exec 3> file",
        "export NCCL_MAX_NCHANNELS=32",
        "# both directions at once\nib_write_bw -b -d mlx5_0 host",
        "# both directions at once\nib_write_bw -d mlx5_0 \\\n  -b host",
        "export NCCL_SOCKET_IFNAME=eth0",
        "# the network of the nodes' own addresses\nmpirun -x NCCL_SOCKET_IFNAME==eth0 app",
        "ib_write_bw -d mlx5_0 host",
        "export NCCL_IB_GID_INDEX=33",
        "tc qdisc del dev eth0 root",
        "export NCCL_MAX_NCHANNELS=128",
    ],
)
def test_lines_that_are_right(line: str) -> None:
    assert advice.check_text(f"#!/bin/sh\nset -e\n{line}\n", "job.sh") == []


def test_the_line_where_a_long_command_begins_is_named() -> None:
    text = "#!/bin/sh\n# eth0 \\\ntc qdisc add dev eth0 \\\n root mqprio num_tc 8\nnload\n"
    found = {finding.observed["what"]: finding.evidence for finding in advice.check_text(text, "job.sh")}
    assert found == {"mqprio": "job.sh:3", "nethogs": "job.sh:5"}


def test_few_channels_are_found_wherever_nccl_reads_them() -> None:
    own = "NCCL_MAX_NCHANNELS=2\n"
    host = FakeHost({"/etc/nccl.conf": own, "/root/.nccl.conf": own, "/j.sh": "mpirun -x NCCL_MAX_NCHANNELS=4 app\n"})
    review_ = read_review(host, ["/j.sh"])  # type: ignore[arg-type]
    context = Context((), None, {}, {"nccl_env": {"NCCL_MAX_NCHANNELS": 1}}, review_)
    found = nccl_env.diagnose(host, context)  # type: ignore[arg-type]
    assert [(finding.evidence, finding.verdict) for finding in found] == [
        ("/root/.nccl.conf:1", "fail"),
        ("/etc/nccl.conf:1", "fail"),
        ("nccl_env", "fail"),
        ("/j.sh:1", "fail"),
    ]


def test_of_two_lines_nccl_takes_the_first() -> None:
    host = FakeHost({"/etc/nccl.conf": "NCCL_IB_TC=106\nNCCL_IB_SL=3\nNCCL_IB_SL=3\nNCCL_IB_TC=0\n"})
    settings, (late,) = nccl_env.on_disk(host)  # type: ignore[arg-type]
    assert {name: one.where for name, one in nccl_env.that_count(settings).items()} == {
        "NCCL_IB_TC": "/etc/nccl.conf:1",
        "NCCL_IB_SL": "/etc/nccl.conf:2",
    }
    assert (late.verdict, late.evidence, late.expected) == ("fail", "/etc/nccl.conf:4", "106")
    host.files = {"/root/.nccl.conf": "NCCL_IB_TC=0\n", "/etc/nccl.conf": "NCCL_IB_TC=106\n"}
    settings, (late,) = nccl_env.on_disk(host)  # type: ignore[arg-type]
    assert nccl_env.that_count(settings)["NCCL_IB_TC"].value == "0"
    assert late.evidence == "/etc/nccl.conf:1" and "first line of a name, /root/.nccl.conf:1 NCCL_IB_TC=0" in late.cause


@pytest.mark.parametrize(
    "line", ["sudo nethogs ens1np0", "watch nethogs", "sudo tc qdisc add dev e root mqprio num_tc 8"]
)
def test_a_line_by_itself_is_a_script(line: str) -> None:
    assert advice.check_text(f"{line}\n", "job.sh")


def test_a_log_is_no_script() -> None:
    assert advice.check_text("node1:1:1 [0] NCCL INFO NCCL_SOCKET_IFNAME=eth0 set by environment\n", "log") == []


def test_the_usual_places_are_looked_at() -> None:
    host = FakeHost({"/etc/rc.local": "#!/bin/sh\necho 1 > /sys/class/net/e/queues/tx-0/pfc_enable\n"})
    (finding,) = advice.diagnose(host, Context((), None, {}))  # type: ignore[arg-type]
    assert finding.evidence == "/etc/rc.local:2"
    assert advice.diagnose(FakeHost(), Context((), None, {}))[0].verdict == "skipped"  # type: ignore[arg-type]


# -- netplan -------------------------------------------------------------------------------------


def test_netplan_by_indentation() -> None:
    text = (
        "network:\n  version: 2\n  ethernets:\n    eth0:\n      match:\n        macaddress: 00:00:5e:00:53:01\n"
        "      mtu: 9000 # jumbo\n    eth1:\n      mtu: 1500\n  bonds:\n    bond0:\n      mtu: 4200\n"
    )
    assert netplan.parse_mtus(text) == {"eth0": (9000, True), "eth1": (1500, False)}


@given(st.text())
def test_no_text_ends_in_a_traceback_or_a_pass(text: str) -> None:
    netplan.parse_mtus(text)
    nccl_env.parse_conf(text, "f")
    found = review.review("f", text, Context((), POLICY, {"ports": []}))
    assert all(finding.verdict != "pass" for finding in found)
    advice.check_text(text, "f")


@given(st.sampled_from(sorted(path.name for path in CASES.iterdir())), st.integers(0, 3000), st.text(max_size=9))
def test_garbled_cases_end_in_no_traceback(name: str, place: int, noise: str) -> None:
    text = (CASES / name).read_text()
    review.review("f", text[:place] + noise + text[place:], Context((), POLICY, {"ports": []}))
    advice.check_text(text[place:], "f")
