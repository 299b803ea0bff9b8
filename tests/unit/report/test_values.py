# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plain values of the report."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.plugin_utils.report import values
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_node2_comes_before_node10() -> None:
    assert sorted(["node10", "node2", "Node1", "10", "2", "", "²"], key=values.natural) == [
        "",
        "2",
        "10",
        "Node1",
        "node2",
        "node10",
        "²",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("", '""'),
        (True, "true"),
        (0.9 * 0.1, "0.09"),
        (180.0, "180"),
        ([], "none"),
        ({}, "none"),
        ([3, 6], "3, 6"),
        ({"enabled_prios": [3], "queues": [[4, 0], [4, 4]]}, "enabled_prios: [3], queues: [[4, 0], [4, 4]]"),
        ({"map": {"a": 1}}, "map: {a: 1}"),
        ({str(dscp): dscp // 8 for dscp in range(24)}, "0-7: 0, 8-15: 1, 16-23: 2"),
        ({"10": 1, "9": 1, "12": 1}, "9-10: 1, 12: 1"),
    ],
)
def test_values_read_as_people_write_them(value: t.Any, text: str) -> None:
    assert values.show(value) == text


@given(JSON)
def test_every_json_value_can_be_shown_and_stays_what_it_is(value: t.Any) -> None:
    assert isinstance(values.show(value), str)
    assert values.plain(value) == json.loads(json.dumps(value))


@given(st.text())
def test_text_for_the_terminal_is_one_line_without_escapes(text: str) -> None:
    line = values.printable(text)
    assert line.isprintable()


def test_a_terminal_escape_is_spelled_out() -> None:
    assert values.printable("a\x1b[31m\n b") == "a\\x1b[31m b"


@pytest.mark.parametrize(("gbps", "text"), [(185.24, "185"), (99.96, "100"), (45.67, "45.7"), (0.04561, "0.0456")])
def test_rates_have_three_digits(gbps: float, text: str) -> None:
    assert values.rate(gbps) == text


def test_many_names_are_cut() -> None:
    assert values.listed(["a", "b", "c", "d"]) == "a, b, c, d"
    assert values.listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
