# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The time of rounds, from the steps of all hosts."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.fabric_timing import FilterModule
from ansible_collections.lossless.roce.plugins.plugin_utils.report.timing import parse_timing, run_timing
from ansible_collections.lossless.roce.plugins.plugin_utils.report.values import InputError
from hypothesis import given
from hypothesis import strategies as st

fabric_timing = FilterModule().filters()["fabric_timing"]


def _step(step: int, round_: int, seconds: float) -> dict[str, t.Any]:
    return {"step": step, "round": round_, "seconds": seconds}


def test_a_step_counts_with_its_slowest_host() -> None:
    node1 = [_step(0, 0, 2.5), _step(1, 0, 2.0), _step(2, 1, 2.25), _step(3, 1, 2.25)]
    node2 = [_step(0, 0, 2.25), _step(1, 0, 3.0)]
    node3 = [_step(2, 1, 5.0)]
    assert fabric_timing([node1, node2, node3], 2) == {
        "rounds": [{"round": 0, "seconds": 5.5, "ideal_s": 4.0}, {"round": 1, "seconds": 7.25, "ideal_s": 4.0}],
        "wall_s": 12.75,
        "ideal_s": 8.0,
        "ratio": 1.594,
    }


def test_without_an_ideal_there_is_no_ratio() -> None:
    timing = fabric_timing([[_step(0, 0, 2.0)]], None)
    assert timing["rounds"] == [{"round": 0, "seconds": 2.0, "ideal_s": None}]
    assert (timing["ideal_s"], timing["ratio"]) == (None, None)


def test_rails_at_once_are_one_step() -> None:
    timing = fabric_timing([[_step(0, 0, 2.0), _step(0, 0, 2.5)], [_step(0, 0, 2.25)]], 2)
    assert timing["rounds"] == [{"round": 0, "seconds": 2.5, "ideal_s": 2.0}]


def test_the_time_on_the_clock_goes_before_the_sum() -> None:
    timing = fabric_timing([[_step(0, 0, 3.0)]], 2, wall_s=2.2)
    assert (timing["wall_s"], timing["ratio"]) == (2.2, 1.1)


def test_hosts_that_did_nothing_leave_an_empty_timing() -> None:
    assert fabric_timing([[], []], 2) == {"rounds": [], "wall_s": 0, "ideal_s": 0, "ratio": None}


@pytest.mark.parametrize(
    ("hosts", "test_s", "message"),
    [
        (None, 2, "timing: None … one list of steps a host was expected"),
        ([{"step": 1}], 2, r"timing\[0\]: .* … a list of mappings"),
        ([[], [{"step": 0, "round": 0}]], 2, r"timing\[1\]\[0\]\.seconds: None … a number from 0"),
        ([[_step(0, 0, -1)]], 2, r"timing\[0\]\[0\]\.seconds: -1 … a number from 0"),
        ([[_step(0, 0, 10**400)]], 2, r"timing\[0\]\[0\]\.seconds: 1000.* … a number from 0"),
        ([[{**_step(0, 0, 1), "round": "x"}]], 2, r"timing\[0\]\[0\]\.round: 'x' … a whole number"),
        ([[{**_step(0, 0, 1), "step": True}]], 2, r"timing\[0\]\[0\]\.step: True … a whole number"),
        ([], "fast", "test_s: 'fast' … a number"),
    ],
)
def test_what_is_wrong_is_one_clear_error(hosts: t.Any, test_s: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message) as caught:
        fabric_timing(hosts, test_s)
    assert "\n" not in str(caught.value)


STEPS = st.lists(
    st.builds(_step, st.integers(0, 20), st.integers(0, 5), st.floats(0, 1000, allow_nan=False)), max_size=20
)


@given(st.lists(STEPS, max_size=6), st.floats(0.1, 100))
def test_no_round_is_shorter_than_any_of_its_steps(hosts: list[list[dict[str, t.Any]]], test_s: float) -> None:
    timing = run_timing(hosts, test_s)
    rounds = {item["round"]: item["seconds"] for item in timing["rounds"]}
    for step in (step for steps in hosts for step in steps):
        assert rounds[step["round"]] >= step["seconds"] - 0.001
    assert parse_timing(timing) == timing


KEYS = st.sampled_from(["rounds", "round", "seconds", "ideal_s", "wall_s", "ratio"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
)


@given(ANYTHING)
def test_garbage_is_refused_or_whole(raw: t.Any) -> None:
    try:
        timing = parse_timing(raw)
    except InputError:
        return
    assert {"rounds", "wall_s", "ideal_s", "ratio"} <= set(timing)
