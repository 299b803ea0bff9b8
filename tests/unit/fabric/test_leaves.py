# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every port has a leaf of its own, by LLDP or as declared."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.fabric_ports import FilterModule
from ansible_collections.lossless.roce.plugins.module_utils.fabric.blame import findings
from ansible_collections.lossless.roce.plugins.module_utils.fabric.leaves import parse_leaves
from sim_matrix import matrix

leaves = FilterModule().filters()["leaves"]


def ports(**switches: list[str]) -> dict[str, list[dict[str, t.Any]]]:
    """Of each host its rails; LLDP heard that switch there, or nothing where it has no name."""
    return {
        host: [
            {"name": f"eth{rail}", "rail": rail, "leaf": {"chassis": name, "port": "swp1"} if name else None}
            for rail, name in enumerate(names)
        ]
        for host, names in switches.items()
    }


def test_a_port_hangs_on_the_switch_that_it_hears_and_a_silent_one_on_none() -> None:
    heard = ports(n0=["leaf1", "leaf1"], n1=["leaf1", "leaf2"], n2=["leaf2", ""], n3=["", ""])
    assert leaves(heard) == {"n0": {0: "leaf1", 1: "leaf1"}, "n1": {0: "leaf1", 1: "leaf2"}, "n2": {0: "leaf2"}}


def test_what_is_declared_is_stronger_port_by_port() -> None:
    heard = ports(n0=["a", "b"], n1=["a", "b"], n2=["", ""])
    declared = {"n0": "x", "n1": {"1": "y"}, "n2": {0: "z"}, "elsewhere": "w"}
    assert leaves(heard, declared) == {"n0": {0: "x", 1: "x"}, "n1": {0: "a", 1: "y"}, "n2": {0: "z"}}


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (["leaf1"], r"fabric_test_leaves: \['leaf1'\] … a mapping of hosts was expected"),
        ({"n0": 7}, "fabric_test_leaves: n0: 7 … the name of a switch was expected"),
        ({"n0": ""}, "fabric_test_leaves: n0: '' … the name of a switch"),
        ({"n0": {0: None}}, "fabric_test_leaves: n0: rail 0: None … the name of a switch"),
        (
            {"n0": {"one": "leaf1"}},
            "fabric_test_leaves: n0: rail 'one' is no whole number from 0 … the number of a rail",
        ),
        ({"n0": {"0": "leaf1", 0: "leaf2"}}, "fabric_test_leaves: n0: rail 0 is there twice"),
    ],
)
def test_leaves_that_are_none_are_one_clear_error(declared: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words):
        leaves(ports(n0=["a"]), declared)


RAILS = 3
# Two units of four hosts, in which every rail has a leaf of its own; JSON has text for keys.
UNITS = parse_leaves(
    {f"n{host}": {str(rail): f"unit{host // 4}-leaf{rail}" for rail in range(RAILS)} for host in range(8)}
)


def unit(host: str) -> int:
    return int(host[1:]) // 4


def test_a_bad_leaf_of_one_rail_is_one_cause() -> None:
    (finding,) = findings(matrix(8, RAILS, lambda c, s, r: r == 1 and 0 in (unit(c), unit(s))), UNITS)
    assert (finding.observed["kind"], finding.observed["rails"]) == ("leaf", [1])
    assert finding.cause.startswith("leaf unit0-leaf1 (n0, n1, n2, n3; rail 1)")


def test_bad_uplinks_of_one_rail_are_one_cause() -> None:
    (finding,) = findings(matrix(8, RAILS, lambda c, s, r: r == 1 and unit(c) != unit(s)), UNITS)
    assert (finding.observed["kind"], finding.observed["rails"]) == ("leaf", [1])
    assert finding.cause.startswith("the uplinks between leaf unit0-leaf1 and leaf unit1-leaf1 (")
