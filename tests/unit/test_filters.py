# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters on the control node."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.findings import findings
from ansible_collections.lossless.roce.plugins.filter.policy import policy
from ansible_collections.lossless.roce.plugins.filter.task_findings import task_findings


def test_policy_is_refused_with_everything_that_is_wrong() -> None:
    with pytest.raises(
        AnsibleFilterError, match="roce_policy: data_prio and cnp_prio are both 6.*cnp_prio 6 is in pfc"
    ):
        policy({"data_prio": 6})


def test_policy_gives_the_threshold() -> None:
    assert policy({"link_gbps": 200})["min_gbps"] == 180


def test_findings_of_all_hosts_carry_the_hosts_name() -> None:
    hosts = [
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
    assert found["remedy"] == "run playbook lossless.roce.drift with enforce=true"


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
