# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters on the control node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.findings import findings
from ansible_collections.lossless.roce.plugins.filter.policy import policy

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
    hosts = [
        {"inventory_hostname": "node1", "roce_policy_findings": [{"check": "pfc", "verdict": "fail"}]},
        {
            "inventory_hostname": "node2",
            "roce_failures": [{"check": "drift", "verdict": "fail"}],
            "fabric_test_findings": None,
            "fabric_test_analysis": [{"check": "fabric", "host": "node1"}, {"check": "fabric", "host": ""}],
        },
    ]
    assert findings(hosts) == [
        {"check": "pfc", "verdict": "fail", "host": "node1"},
        {"check": "fabric", "host": "node1"},
        {"check": "fabric", "host": ""},
        {"check": "drift", "verdict": "fail", "host": "node2"},
    ]
