# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters on the control node."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.declared_errors import declared_errors
from ansible_collections.lossless.roce.plugins.filter.findings import findings
from ansible_collections.lossless.roce.plugins.filter.policy import policy
from ansible_collections.lossless.roce.plugins.filter.task_findings import task_findings

ROOT = Path(__file__).resolve().parents[2]


def test_every_filter_has_a_description_of_its_own() -> None:
    tool = Path(sys.executable).with_name("ansible-doc")
    done = subprocess.run(
        [tool, "-t", "filter", "-l", "-j", "lossless.roce"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    descriptions: dict[str, str] = json.loads(done.stdout)
    assert len(descriptions) > 15
    assert len(set(descriptions.values())) == len(descriptions), descriptions


def test_policy_is_refused_with_everything_that_is_wrong() -> None:
    with pytest.raises(
        AnsibleFilterError, match="roce_policy: data_prio and cnp_prio are both 6.*cnp_prio 6 is in pfc"
    ):
        policy({"data_prio": 6})


def test_policy_gives_the_threshold() -> None:
    assert policy({"link_gbps": 200})["min_gbps"] == 180


def test_findings_of_all_hosts_carry_the_hosts_name() -> None:
    hosts: list[dict[str, t.Any]] = [
        {
            "inventory_hostname": "node1",
            "roce_policy_findings": [{"check": "pfc", "verdict": "fail"}],
            "node_agent_findings": [{"check": "boot_unit", "verdict": "fail"}],
        },
        {
            "inventory_hostname": "node2",
            "roce_failures": [{"check": "drift", "verdict": "fail"}],
            "fabric_test_findings": None,
            "fabric_test_analysis": [{"check": "fabric", "host": "node1"}, {"check": "fabric", "host": ""}],
        },
    ]
    assert findings(hosts) == [
        {"check": "boot_unit", "verdict": "fail", "host": "node1"},
        {"check": "pfc", "verdict": "fail", "host": "node1"},
        {"check": "fabric", "host": "node1"},
        {"check": "fabric", "host": ""},
        {"check": "drift", "verdict": "fail", "host": "node2"},
    ]


PORT = {"name": "ens1np0", "rail": 0, "address": "198.51.100.1"}


def declared(**variables: t.Any) -> list[str]:
    """What is wrong with one host that declares this."""
    return declared_errors([{"inventory_hostname": "node1", **variables}])


def test_what_is_declared_rightly_or_not_at_all() -> None:
    assert declared() == declared(roce_policy=None) == declared(roce_policy={}, roce_ports=[PORT, {"name": "x"}]) == []
    assert declared(roce_ports=[{**PORT, "rail": "1"}]) == [], "numbers come as text from -e"
    assert declared(roce_policies=[{"ports": ["ens1np0"], "policy": {"mtu": 4200}}]) == []


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"roce_policy": {"data_prio": 6}}, "roce_policy: data_prio and cnp_prio are both 6"),
        ({"roce_policy": [1]}, "roce_policy: [1] … a mapping was expected"),
        ({"roce_policy": {"mqprio": {"num_tc": 3}}}, "roce_policy: mqprio"),
        ({"roce_policies": {"ports": []}}, "roce_policies: {'ports': []} … a list was expected"),
        (
            {"roce_policies": [{"ports": ["a"], "policy": {"mtuu": 1}}]},
            "roce_policies[0]: policy: unknown field 'mtuu'",
        ),
        ({"roce_policies": [{"policy": {}}]}, "roce_policies[0]: {'policy': {}} … {ports: [NAME, …], policy: {…}}"),
        ({"roce_policies": [{"ports": "ens1np0", "policy": {}}]}, "roce_policies[0]: ports 'ens1np0' … a list of"),
        ({"roce_ports": ["ens1np0"]}, "roce_ports[0]: 'ens1np0' … {name, rail, address} was expected"),
        ({"roce_ports": [{"nmae": "x"}]}, "roce_ports[0]: unknown field nmae … one of name, rail, address"),
        ({"roce_ports": [{"rail": 0}]}, "roce_ports[0]: name None … the name of a netdev"),
        ({"roce_ports": [{**PORT, "rail": "zero"}]}, "roce_ports[0]: rail 'zero' … 0 to 1023 was expected"),
        (
            {"roce_ports": [{**PORT, "address": "10.100.0.999"}]},
            "roce_ports[0]: address '10.100.0.999' … an IPv4 address",
        ),
        (
            {"roce_ports": [{**PORT, "address": "2001:db8::1"}]},
            "roce_ports[0]: address '2001:db8::1' … an IPv4 address",
        ),
    ],
)
def test_each_wrong_declaration_names_host_variable_and_value(variables: dict[str, t.Any], error: str) -> None:
    found = declared(**variables)
    assert found and any(one.startswith(f"node1: {error}") for one in found), found


def test_all_that_is_wrong_is_told_at_once_and_each_error_once() -> None:
    wrong = {"roce_policy": {"data_dscpp": 1, "mtu": "x"}}
    hosts = [{"inventory_hostname": f"node{number}", **wrong, "roce_ports": [PORT]} for number in (1, 2)]
    policy_error, shared = declared_errors(hosts)
    assert (
        policy_error.startswith("all hosts: roce_policy: mtu: 'x' …") and "unknown field 'data_dscpp'" in policy_error
    )
    assert shared.startswith("address 198.51.100.1 is that of roce_ports[0] of node1 and of roce_ports[0] of node2")
    some = [{"inventory_hostname": f"n{number}", **(wrong if number else {})} for number in range(7)]
    assert declared_errors(some)[0].startswith("n1, n2, n3, n4 and 2 more: roce_policy")


MEMLOCK = {
    "check": "memlock_file",
    "evidence": "/etc/security/limits.d/50-lossless-roce.conf",
    "expected": "memlock unlimited for * and root",
    "risk": "logins may lock too little memory for RDMA",
}
# As Ansible registers them.
RIGHT = {"changed": False, "failed": False}
NOT_ASKED = {"changed": False, "skipped": True, "skip_reason": "Conditional result was False", "false_condition": "x"}
WOULD_RUN = {"changed": False, "skipped": True, "rc": 0, "msg": "Command would have run if not in check mode"}
OF_ITEMS = {
    "changed": True,
    "results": [{"changed": True, "item": "*"}, {"changed": False, "item": "root"}, {**NOT_ASKED, "item": "nobody"}],
}


def judged(result: dict[str, t.Any], only_look: bool) -> list[tuple[str, t.Any]]:
    return [
        (finding["verdict"], finding["observed"])
        for finding in task_findings([{**MEMLOCK, "result": result}], only_look=only_look)
    ]


def test_what_a_task_would_change_is_a_failure_with_cause_and_remedy() -> None:
    (found,) = task_findings([{**MEMLOCK, "result": OF_ITEMS}], only_look=True)
    assert (found["check"], found["verdict"]) == ("memlock_file", "fail")
    assert found["observed"] == "missing or different: *"
    assert found["expected"] == MEMLOCK["expected"] and found["evidence"] == MEMLOCK["evidence"]
    assert MEMLOCK["risk"] in found["cause"]
    assert found["remedy"] == "run playbook lossless.roce.bootstrap, or drift with enforce=true"


def test_a_command_that_check_mode_keeps_from_running_is_a_difference() -> None:
    assert judged(WOULD_RUN, only_look=True) == [("fail", "missing or different")]
    items = {"changed": False, "skipped": True, "results": [{**WOULD_RUN, "item": "22/tcp"}]}
    assert judged(items, only_look=True) == [("fail", "missing or different: 22/tcp")]


def test_what_was_seen_is_told_where_the_task_tells_it() -> None:
    entry = {**MEMLOCK, "result": {**RIGHT, "changed": True}, "observed": "disabled"}
    assert task_findings([entry], only_look=True)[0]["observed"] == "disabled"
    assert task_findings([entry], only_look=False)[0]["observed"] == MEMLOCK["expected"]


def test_what_was_repaired_passes_and_says_so() -> None:
    (found,) = task_findings([{**MEMLOCK, "result": OF_ITEMS}], only_look=False)
    assert (found["verdict"], found["cause"], found["remedy"]) == ("pass", "repaired by this run", "")
    assert found["observed"] == found["expected"] == MEMLOCK["expected"]


@pytest.mark.parametrize("only_look", [True, False])
def test_what_is_right_passes_and_what_nobody_asked_for_is_not_judged(only_look: bool) -> None:
    assert judged(RIGHT, only_look) == [("pass", MEMLOCK["expected"])]
    assert judged(NOT_ASKED, only_look) == []
    assert judged({"changed": False, "failed": True, "rc": 1, "msg": "no"}, only_look) == []  # the playbook tells
    assert judged({}, only_look) == []  # its file of tasks was not included
    assert judged({"changed": False, "skipped": True, "results": []}, only_look) == []
    assert judged({"changed": False, "skipped": True, "results": [{**NOT_ASKED, "item": "x"}]}, only_look) == []
