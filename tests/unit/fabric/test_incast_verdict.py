# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What counters of an incast mean: recorded readings, and one thing after the other that is wrong."""

from __future__ import annotations

import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast import told_counters
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast_verdict import Part, judge
from ansible_collections.lossless.roce.plugins.module_utils.findings import Finding
from ansible_collections.lossless.roce.plugins.module_utils.parsers.statistics import parse_statistics
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"
POLICY = parse_policy({"link_gbps": 100})
QUIET = {"rx_discards_phy": 0, "tx_discards_phy": 0, "out_of_sequence": 0, "packet_seq_err": 0}
GOOD = {"rx_prio3_bytes": 10**11, "rx_prio0_bytes": 900, **QUIET}
# ECN holds three senders: marks, CNPs there and back, no pause.
RECEIVER = {**GOOD, "np_ecn_marked_roce_packets": 9000, "np_cnp_sent": 4000, "rp_cnp_handled": 0, "tx_prio3_pause": 0}
SENDER = {**GOOD, "rp_cnp_handled": 1300, "rp_cnp_ignored": 0, "np_cnp_sent": 0, "rx_prio3_pause": 0}


def run(peer: str, gbps: float | None, failure: str = "", cause: str = "") -> dict[str, t.Any]:
    return {"peer": peer, "gbps": gbps, "failure": failure, "cause": cause, "command": "ib_write_bw"}


def parts(receiver: dict[str, int] = RECEIVER, sender: dict[str, int] = SENDER, gbps: float = 32.0) -> list[Part]:
    """n0 receives from n1, n2 and n3."""
    senders = [Part(f"n{number}", "sender", 0, "eth0", sender, (), [run("n0", gbps)]) for number in (1, 2, 3)]
    return [Part("n0", "receiver", 0, "eth0", receiver, (), [run(f"n{n}", None) for n in (1, 2, 3)]), *senders]


def judged(found: list[Part], policy: t.Any = POLICY) -> Finding:
    return judge(found, policy, receiver="n0", senders=["n1", "n2", "n3"], rail=0)


def without(counters: dict[str, int], *names: str) -> dict[str, int]:
    return {name: value for name, value in counters.items() if name not in names}


def test_ecn_holds_the_senders_and_nothing_is_lost() -> None:
    finding = judged(parts())
    assert (finding.verdict, finding.check, finding.host, finding.port) == ("pass", "incast", "n0", "eth0")
    seen = finding.observed
    assert seen["gbps_total"] == 96.0 and seen["senders"] == ["n1", "n2", "n3"] and seen["simulated"] == []
    assert seen["lossless"] is True and seen["reacted"] is True and seen["paused"] is False
    assert seen["deltas"]["receiver np_cnp_sent"] == 4000 and seen["deltas"]["senders rp_cnp_handled"] == 3900
    assert seen["deltas"]["receiver rx_discards_phy"] == 0, "what was looked for and did not grow is shown"
    assert finding.cause == finding.remedy == ""


def test_what_the_port_counted_is_told_beside_what_senders_that_took_turns_add_up_to() -> None:
    """Three averages of 48 Gb/s are more than the link carries; 10^11 bytes in 10 s are not."""
    receiver, *senders = parts(gbps=48.0)
    seen = judged([replace(receiver, seconds=10.0), *senders]).observed
    assert (seen["gbps_total"], seen["gbps_received"], seen["seconds"]) == (144.0, 80.000001, 10.0)


def test_no_rate_is_made_up_without_the_time_or_the_bytes() -> None:
    assert judged(parts()).observed["gbps_received"] is None
    receiver, *senders = parts(receiver=without(RECEIVER, "rx_prio3_bytes", "rx_prio0_bytes"))
    assert judged([replace(receiver, seconds=10.0), *senders]).observed["gbps_received"] is None


def test_pauses_beside_cnps_are_how_it_is_meant_to_be() -> None:
    finding = judged(parts(sender={**SENDER, "rx_prio3_pause": 70}))
    assert finding.verdict == "pass" and finding.observed["paused"] is True


def test_pfc_off_on_the_receiver_turns_the_verdict() -> None:
    """Discards, and no pause counters of the priority: mlx5 has them only where PFC is on."""
    lossy = {**without(RECEIVER, "tx_prio3_pause"), "rx_discards_phy": 812, "out_of_sequence": 40}
    finding = judged(parts(receiver=lossy))
    assert finding.verdict == "fail" and finding.observed["lossless"] is False
    assert "n0 (eth0) dropped 812 packets" in finding.cause and "PFC is off there" in finding.cause
    assert "lossless.roce.pfc" in finding.remedy


def test_discards_without_a_pause_and_in_spite_of_pauses() -> None:
    finding = judged(parts(receiver={**RECEIVER, "rx_discards_phy": 5}))
    assert finding.verdict == "fail" and "without one pause frame of priority 3" in finding.cause
    finding = judged(parts(receiver={**RECEIVER, "rx_discards_phy": 5, "tx_prio3_pause": 9}))
    assert finding.verdict == "fail" and "although it sent 9 pause frames" in finding.cause
    assert "headroom" in finding.remedy


def test_ecn_off_leaves_pfc_alone_with_it() -> None:
    receiver = {**RECEIVER, "np_ecn_marked_roce_packets": 0, "np_cnp_sent": 0}
    finding = judged(parts(receiver, {**SENDER, "rp_cnp_handled": 0, "rx_prio3_pause": 5000}))
    assert finding.verdict == "fail" and finding.observed["reacted"] is False
    assert "15000 pause frames" in finding.cause and "head-of-line" in finding.cause and "ECN is off" in finding.cause


def test_marks_without_cnps_and_cnps_that_nobody_handles() -> None:
    finding = judged(parts({**RECEIVER, "np_cnp_sent": 0}, {**SENDER, "rp_cnp_handled": 0}))
    assert finding.verdict == "fail" and "n0 got 9000 marked packets and sent no CNP" in finding.cause
    finding = judged(parts(sender={**SENDER, "rp_cnp_handled": 0, "rp_cnp_ignored": 7}))
    assert finding.verdict == "fail" and "21 were ignored" in finding.cause
    finding = judged(parts(sender={**SENDER, "rp_cnp_handled": 0}))
    assert finding.verdict == "fail" and "sent 4000 CNPs and no sender handled one" in finding.cause


def test_the_wrong_priority_proves_nothing_of_the_right_one() -> None:
    finding = judged(parts({**RECEIVER, "rx_prio3_bytes": 0, "rx_prio0_bytes": 10**11}))
    assert finding.verdict == "fail" and "the data rode priority 0" in finding.cause and "--tclass" in finding.remedy


def test_loss_in_the_switch_and_time_outs() -> None:
    finding = judged(parts(receiver={**RECEIVER, "out_of_sequence": 31}))
    assert finding.verdict == "fail" and "the switch lost them" in finding.cause
    finding = judged(parts(sender={**SENDER, "local_ack_timeout_err": 2}))
    assert finding.verdict == "fail" and "6 requests were sent again" in finding.cause


def test_nothing_congested_proves_nothing() -> None:
    receiver = {**RECEIVER, "np_ecn_marked_roce_packets": 0, "np_cnp_sent": 0}
    finding = judged(parts(receiver, {**SENDER, "rp_cnp_handled": 0}, gbps=10.0))
    assert finding.verdict == "unknown" and finding.observed["congested"] is False
    assert "nothing was congested: 3 sender(s) sent 30 Gb/s in sum of 100 Gb/s" in finding.cause


def test_a_full_port_without_a_trace_is_not_judged() -> None:
    receiver = {**RECEIVER, "np_ecn_marked_roce_packets": 0, "np_cnp_sent": 0}
    finding = judged(parts(receiver, {**SENDER, "rp_cnp_handled": 0}))
    assert finding.verdict == "unknown" and "RTT" in finding.cause


def test_a_missing_counter_is_not_zero() -> None:
    finding = judged(parts(without(RECEIVER, "np_cnp_sent"), without(SENDER, "rp_cnp_handled", "np_cnp_sent")))
    assert finding.verdict == "unknown" and "no counter np_cnp_sent on n0 and rp_cnp_handled" in finding.cause
    bare = {"rx_prio3_bytes": 10**11}
    finding = judged(parts(bare, bare))
    assert finding.verdict == "unknown" and finding.observed["lossless"] is None


def test_made_up_counters_prove_nothing_but_show_trouble() -> None:
    def simulated(found: list[Part]) -> list[Part]:
        return [Part(**{**part.__dict__, "simulated": ["np_cnp_sent", "rx_discards_phy"]}) for part in found]

    quiet = {**RECEIVER, "np_ecn_marked_roce_packets": 0, "np_cnp_sent": 0}
    for receiver, verdict in ((RECEIVER, "unknown"), (quiet, "unknown"), ({**quiet, "rx_discards_phy": 3}, "fail")):
        finding = judged(simulated(parts(receiver, {**SENDER, "rp_cnp_handled": 0, "rx_prio3_pause": 4})))
        assert finding.verdict == verdict
        assert "receiver np_cnp_sent" in finding.observed["simulated"]
    assert "dropped 3 packets" in finding.cause
    marked = judged(simulated(parts()))
    assert marked.verdict == "unknown" and "made up by the simulated card" in marked.cause


def test_a_sender_that_failed_and_one_that_is_lost() -> None:
    found = parts()
    found[2] = Part("n2", "sender", 0, "eth0", SENDER, (), [run("n0", None, "data_path", "no data came through")])
    finding = judged(found[:3])
    assert finding.verdict == "fail"
    assert "n3 gave no result" in finding.cause and "n2: no data came through" in finding.cause


def test_without_the_receiver_there_is_nothing() -> None:
    finding = judged(parts()[1:])
    assert finding.verdict == "fail" and finding.host == "n0" and "n0 gave no result" in finding.cause
    assert judged([]).verdict == "fail" and judged(parts()[:1]).verdict == "fail"


def recorded(name: str) -> dict[str, int]:
    return parse_statistics((CASES / name).read_text())


def test_c08_global_pause_in_use_is_no_pfc() -> None:
    after = recorded("c08-counters-global-pause-active.txt")
    before = dict.fromkeys(after, 0)
    receiver = {**GOOD, **t.cast("dict[str, int]", told_counters(before, after, simulated=False)["deltas"])}
    finding = judged(parts(receiver={"rx_prio3_bytes": 10**11, **receiver}))
    assert finding.verdict == "fail" and "global (802.3x) pause is in use (1266552 frames)" in finding.cause


def test_c10_all_traffic_rode_priority_0() -> None:
    before, after = recorded("c10-rdma-traffic-on-prio0.before.txt"), recorded("c10-rdma-traffic-on-prio0.after.txt")
    deltas = told_counters(before, after, simulated=False)["deltas"]
    finding = judged(parts(receiver=deltas))
    assert finding.verdict == "fail" and "(136571931490 of 136571931490 bytes)" in finding.cause
    prio0 = parse_policy({"data_prio": 0, "data_dscp": 0, "tos": 2, "pfc": [0], "ecn": {"0": True}})
    right = judged(parts(receiver=deltas), prio0)
    assert "rode priority" not in right.cause


def with_n2(counters: dict[str, int], **more: t.Any) -> list[Part]:
    """All three as they should be, but for what n2 counted."""
    found = parts()
    found[2] = Part(**{**found[2].__dict__, "deltas": counters, **more})
    return found


def test_a_sender_that_ignores_its_cnps_is_not_hidden_by_the_others() -> None:
    finding = judged(with_n2({**SENDER, "rp_cnp_handled": 0, "rp_cnp_ignored": 5000}))
    assert finding.verdict == "fail" and finding.observed["reacted"] is False
    assert "n2 ignored 5000 of its CNPs and handled 0" in finding.cause and "reaction point" in finding.cause
    assert "n1" not in finding.cause and "n3" not in finding.cause
    mostly = judged(with_n2({**SENDER, "rp_cnp_handled": 7, "rp_cnp_ignored": 5000}))
    assert mostly.verdict == "fail" and "n2 ignored 5000 of its CNPs and handled 7" in mostly.cause


def test_a_sender_that_got_no_cnp_or_does_not_count_them_is_not_taken_for_the_others() -> None:
    finding = judged(with_n2({**SENDER, "rp_cnp_handled": 0}))
    assert finding.verdict == "unknown" and finding.observed["reacted"] is False
    assert "n2 handled none of the 4000 CNPs that n0 sent" in finding.cause
    finding = judged(with_n2(without(SENDER, "rp_cnp_handled", "rp_cnp_ignored")))
    assert finding.verdict == "unknown" and "no counter rp_cnp_handled on n2" in finding.cause


LOSS = ("rx_discards_phy", "tx_discards_phy", "out_of_sequence", "packet_seq_err")


def test_loss_that_nobody_counts_where_it_would_show_is_not_none() -> None:
    finding = judged(parts(receiver=without(RECEIVER, *LOSS)))
    assert finding.verdict == "unknown" and finding.observed["lossless"] is None
    assert "no counter of loss is there on n0" in finding.cause
    # The port's own drops only: what the switch loses shows in the sequence, or at the sender that sends it again.
    blind = parts(receiver=without(RECEIVER, "out_of_sequence", "packet_seq_err"))
    assert judged(blind).verdict == "pass", "each sender counts what it has to send again"
    blind[2] = with_n2({**without(SENDER, *LOSS), "rx_discards_phy": 0})[2]
    finding = judged(blind)
    assert finding.verdict == "unknown" and finding.observed["lossless"] is None
    assert "loss in the switch would show nowhere: n0 and n2 count no packets out of sequence" in finding.cause
    lost = judged([*blind[:3], Part(**{**blind[3].__dict__, "deltas": {**SENDER, "packet_seq_err": 4}})])
    assert lost.verdict == "fail" and lost.observed["lossless"] is False, "what is counted counts"


def test_senders_that_hardly_send_do_not_pass() -> None:
    """All signs of a good reaction, at 0.002 Gb/s: the port was not full, so that the reaction is the fault."""
    finding = judged(parts(gbps=0.001))
    assert finding.verdict == "fail" and finding.observed["gbps_total"] == 0.003
    assert "3 sender(s) sent 0.003 Gb/s in sum, less than half of 100 Gb/s" in finding.cause
    assert finding.remedy
    assert judged(parts(gbps=17.0)).verdict == "pass", "congestion control may leave some of the link unused"


def test_senders_that_took_turns_do_not_pass() -> None:
    """More in sum than the link carries: each had it to itself for a while."""
    finding = judged(parts(gbps=98.0))
    assert finding.verdict == "unknown" and "294 Gb/s in sum, which a link of 100 Gb/s does not carry" in finding.cause
    assert judged(parts(gbps=40.0)).verdict == "pass", "starts and ends never fall together"


def test_a_pass_needs_the_rate_of_every_sender_and_of_the_link() -> None:
    finding = judged(with_n2(SENDER, runs=[run("n0", None)]))
    assert finding.verdict == "unknown" and "no rate is known of n2" in finding.cause
    finding = judged(with_n2(SENDER, runs=[]))
    assert finding.verdict == "unknown" and "no rate is known of n2" in finding.cause
    finding = judged(parts(), parse_policy({}))
    assert finding.verdict == "unknown" and "the policy declares no link_gbps" in finding.cause


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tx_pause_storm_error_events", "n2 (eth0) stood in a pause storm"),
        ("tx_pause_storm_warning_events", "n2 (eth0) stood in a pause storm"),
        ("link_down_events_phy", "the link of n2 (eth0) went down 3 times"),
    ],
)
def test_storms_and_links_that_went_down_fail(name: str, words: str) -> None:
    finding = judged(with_n2({**SENDER, name: 3}))
    assert finding.verdict == "fail" and words in finding.cause and finding.remedy
    assert judged(with_n2({**SENDER, name: 0})).verdict == "pass"


NAMES = sorted({*RECEIVER, *SENDER, "tx_global_pause", "local_ack_timeout_err", "rx_ecn_mark"})
COUNTERS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 10**6))


@given(receiver=COUNTERS, sender=COUNTERS, gbps=st.floats(0, 40))
def test_a_pass_always_rests_on_counters_that_are_there(
    receiver: dict[str, int], sender: dict[str, int], gbps: float
) -> None:
    finding = judged(parts(receiver, sender, gbps))
    assert (finding.cause == "") == (finding.verdict == "pass")
    if finding.verdict == "pass":
        assert receiver["np_cnp_sent"] > 0 and sender["rp_cnp_handled"] > 0
        lost = ("rx_discards_phy", "tx_discards_phy", "out_of_sequence", "packet_seq_err", "local_ack_timeout_err")
        assert not any(counters.get(name) for counters in (receiver, sender) for name in lost)
        assert any(name in counters for counters in (receiver, sender) for name in lost)


@pytest.mark.parametrize("simulated", [False, True])
def test_what_is_told_of_two_readings(simulated: bool) -> None:
    before = {"np_cnp_sent": 5, "rx_prio3_bytes": 1, "rx_packets": 7, "out_of_seq_request": 1, "rx_prio3_pause": 4}
    told = told_counters(before, {name: value + 3 for name, value in before.items()}, simulated=simulated)
    assert told["deltas"] == dict.fromkeys(sorted(set(before) - {"rx_packets"}), 3)
    assert told["simulated"] == (["np_cnp_sent", "rx_prio3_pause"] if simulated else [])
