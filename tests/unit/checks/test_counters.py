# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Counters: recorded readings with their verdicts, and what made-up ones must say."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import counters
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.parsers.statistics import growth, parse_statistics
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"


def case(name: str) -> dict[str, int]:
    return parse_statistics((CASES / name).read_text())


def judged(before: dict[str, int], after: dict[str, int], prio: int | None = 3) -> dict[str, Finding]:
    return {finding.check: finding for finding in counters.judge("p", before, after, data_prio=prio, lossless=True)}


def test_c08_global_pause_is_active_and_this_nic_sends_it() -> None:
    seen = case("c08-counters-global-pause-active.txt")
    assert seen["tx_global_pause_duration"] == 555665182
    finding = judged(seen, seen)["pause_frames"]
    assert finding.verdict == "fail" and "1266552 frames sent and 0 received" in finding.cause
    assert "no priority has PFC" in finding.cause and "receiver is the congested one" in finding.cause


def test_c10_all_rdma_traffic_rides_priority_0() -> None:
    before, after = case("c10-rdma-traffic-on-prio0.before.txt"), case("c10-rdma-traffic-on-prio0.after.txt")
    grown = growth(before, after)
    assert (grown["rx_prio0_bytes"], grown["tx_prio0_packets"]) == (136571931490, 126724196)
    finding = judged(before, after)["traffic_prio"]
    assert finding.verdict == "fail" and "by priority 0, 0 by the lossless priority 3" in finding.cause
    assert "1078 bytes on average, so the RDMA MTU is about 1024" in finding.cause
    assert judged(before, after, prio=0)["traffic_prio"].verdict == "pass"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rx_discards_phy", "not lossless"),
        ("rx_prio3_buf_discard", "not lossless"),
        ("tx_pause_storm_error_events", "pause storm"),
        ("out_of_sequence", "out of order"),
        ("req_transport_retries_exceeded", "not answered in time"),
        ("rx_crc_errors_phy", "corrupts frames"),
    ],
)
def test_trouble_that_grows_fails_and_trouble_of_old_is_only_shown(name: str, words: str) -> None:
    still = judged({name: 7, "x": 1}, {name: 7, "x": 2})["counters"]
    assert still.verdict == "pass" and still.observed == {"growing": {}, "since_start": {name: 7}}
    growing = judged({name: 7}, {name: 9})["counters"]
    assert growing.verdict == "fail" and f"{name} +2" in growing.cause and words in growing.cause and growing.remedy


@pytest.mark.parametrize(
    ("name", "who"), [("rx_prio3_pause_duration", "the switch pauses"), ("tx_prio3_pause_duration", "this port pauses")]
)
def test_a_port_that_is_paused_most_of_the_time_is_in_a_pause_storm(name: str, who: str) -> None:
    def judged_after(microseconds: int, interval: float) -> Finding:
        before, after = {name: 10, "x": 1}, {name: 10 + microseconds, "x": 2}
        found = counters.judge("p", before, after, data_prio=None, lossless=True, interval=interval)
        return next(finding for finding in found if finding.check == "counters")

    storm = judged_after(1_800_000, 2.0)
    assert storm.verdict == "fail" and who in storm.cause and "90 % of the time" in storm.cause and storm.remedy
    assert judged_after(200_000, 2.0).verdict == "pass", "some pause is what PFC is for"
    assert judged_after(1_800_000, 0.0).verdict == "pass", "two files of unknown distance tell no share"


def test_adaptive_retransmissions_are_loss() -> None:
    assert "not answered in time" in judged({"roce_adp_retrans": 1}, {"roce_adp_retrans": 5})["counters"].cause


def test_a_missing_counter_is_not_zero() -> None:
    found = judged({}, {})
    assert {found["counters"].verdict, found["pause_frames"].verdict} == {"unknown"}
    assert judged({"rx_prio0_bytes": 5}, {"rx_prio0_bytes": 9})["traffic_prio"].verdict == "skipped"
    assert growth({"a": 5, "b": 5, "c": 5}, {"a": 4, "b": 6}) == {"b": 1}


def test_pfc_in_use_is_no_global_pause() -> None:
    seen = {"rx_prio3_pause": 5, "tx_prio3_pause": 9, "tx_pause_ctrl_phy": 9}
    assert judged(seen, seen)["pause_frames"].verdict == "pass"


@pytest.mark.parametrize("frames", [0, 9])
def test_counters_of_global_pause_alone_say_that_no_priority_has_pfc(frames: int) -> None:
    seen = {"rx_global_pause": frames, "tx_global_pause": 0, "rx_prio0_bytes": 5}
    finding = judged(seen, seen)["pause_frames"]
    assert finding.verdict == "fail" and "no priority has PFC" in finding.cause
    assert ("is in use" in finding.cause) == bool(frames)


def test_pause_of_the_whole_port_does_not_tell_whose() -> None:
    seen = {"rx_pause_ctrl_phy": 991, "tx_pause_ctrl_phy": 0, "rx_prio0_bytes": 5}
    finding = judged(seen, seen)["pause_frames"]
    assert finding.verdict == "unknown" and "not by priority" in finding.cause


def test_counters_that_went_back_are_no_verdict() -> None:
    before = {"rx_discards_phy": 7, "rx_prio3_bytes": 10**9, "outbound_pci_stalled_wr": 9}
    after = {"rx_discards_phy": 9, "rx_prio3_bytes": 5, "outbound_pci_stalled_wr": 1}
    found = judged(before, after)
    assert found["counters"].verdict == "unknown" and "rx_prio3_bytes" in found["counters"].cause
    assert "outbound" not in found["counters"].cause and "traffic_prio" not in found
    percent = judged({**before, "rx_prio3_bytes": 1}, after)["counters"]
    assert percent.verdict == "fail" and "rx_discards_phy +2" in percent.cause


def test_little_rdma_traffic_among_much_tcp_is_judged_by_itself() -> None:
    before = {"rx_prio0_bytes": 0, "rx_prio3_bytes": 0, "rx_vport_rdma_unicast_bytes": 0}
    good = {"rx_prio0_bytes": 10**10, "rx_prio3_bytes": 10**7, "rx_vport_rdma_unicast_bytes": 10**7}
    assert judged(before, good)["traffic_prio"].verdict == "pass"
    bad = {"rx_prio0_bytes": 10**10, "rx_prio3_bytes": 0, "rx_vport_rdma_unicast_bytes": 10**7}
    assert judged(before, bad)["traffic_prio"].verdict == "fail"


def test_two_readings_of_a_node() -> None:
    port = Port("mlx5_0", 1, "ens1np0")
    texts = iter(["NIC statistics:\n     rx_discards_phy: 1\n", "NIC statistics:\n     rx_discards_phy: 4\n"])
    host = FakeHost({"/sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan": "10\n"})
    host.outputs["ethtool -S ens1np0"] = lambda: next(texts)
    context = Context((port,), parse_policy({}), {}, {"interval": 1.5})
    found = {finding.check: finding for finding in counters.diagnose(host, context)}  # type: ignore[arg-type]
    assert "rx_discards_phy +3" in found["counters"].cause and host.slept == 1.5


@pytest.mark.parametrize("interval", [-1, 601, float("nan"), float("inf")])
def test_an_interval_that_is_none(interval: float) -> None:
    context = Context((), None, {}, {"interval": interval})
    with pytest.raises(PolicyError, match="interval: .* 0 to 600 seconds was expected"):
        counters.diagnose(FakeHost(), context)  # type: ignore[arg-type]


@given(st.text())
def test_garbage_is_no_counter_of_any_consequence(text: str) -> None:
    seen = parse_statistics(text)
    assert all(isinstance(value, int) and value >= 0 for value in seen.values())
    counters.judge("p", seen, seen, data_prio=3, lossless=True)


def test_of_a_bond_pause_is_judged_by_its_ports_and_requests_by_its_rdma_device() -> None:
    members = tuple(Port("mlx5_bond_0", 1, name, kind="port of a RoCE LAG") for name in ("ens1np0", "ens2np0"))
    ports = (Port("mlx5_bond_0", 1, "bond0", kind="bond", members=members),)
    host = FakeHost({"/sys/class/infiniband/mlx5_bond_0/ports/1/hw_counters/out_of_sequence": "7\n"})
    host.outputs = {
        "ethtool -S bond0": (1, "", "no stats available"),
        "ethtool -S ens1np0": "NIC statistics:\n     tx_global_pause: 5\n     rx_global_pause: 0\n",
        "ethtool -S ens2np0": "NIC statistics:\n     tx_global_pause: 0\n     rx_prio3_pause: 1\n",
    }
    found = counters.diagnose(host, Context(ports, parse_policy({}), {}))
    assert {(f.port, f.verdict) for f in found if f.check == "pause_frames"} == {
        ("ens1np0", "fail"),
        ("ens2np0", "pass"),
    }
    assert {f.port: f.observed["since_start"] for f in found if f.check == "counters"} == {
        "bond0": {"out_of_sequence": 7},
        "ens1np0": {},
        "ens2np0": {},
    }
