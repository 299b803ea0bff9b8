# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the roles hand to their modules, by Ansible's own templates: a given 0 is a number, and no omission."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROLES = Path(__file__).resolve().parents[2] / "roles"


def argument(role: str, tasks: str, module: str, key: str, **variables: t.Any) -> dict[str, t.Any]:
    """One argument of the task that calls a module, as {key: value}; empty when it is omitted."""
    defaults = yaml.safe_load((ROLES / role / "defaults" / "main.yml").read_text())
    listed = yaml.safe_load((ROLES / role / "tasks" / tasks).read_text())
    raw = next(task[f"lossless.roce.{module}"][key] for task in listed if f"lossless.roce.{module}" in task)
    templates = {key: trust_as_template(value) if isinstance(value, str) else value for key, value in defaults.items()}
    templar = Templar(DataLoader(), variables={**templates, **variables})  # type: ignore[no-untyped-call]
    return t.cast("dict[str, t.Any]", templar.template({key: trust_as_template(raw)}))


@pytest.mark.parametrize(
    ("role", "tasks", "module", "key", "variable"),
    [
        ("fabric_test", "bandwidth.yml", "fabric_bandwidth", "cuda", "fabric_test_cuda"),
        ("fabric_test", "bandwidth.yml", "fabric_bandwidth", "max_latency_usec", "fabric_test_max_latency_usec"),
        ("nccl_smoke", "run.yml", "nccl_smoke", "min_busbw", "nccl_smoke_min_busbw"),
    ],
)
def test_a_number_of_0_is_handed_on_and_nothing_is_omitted(
    role: str, tasks: str, module: str, key: str, variable: str
) -> None:
    for number in (0, 0.0, 3, "0"):
        assert argument(role, tasks, module, key, **{variable: number}) == {key: number}
    for nothing in ({}, {variable: None}, {variable: ""}):
        assert argument(role, tasks, module, key, **nothing) == {}


@pytest.mark.parametrize(("hosts", "forks", "limit"), [(2, 5, 120), (64, 5, 120), (512, 5, 367), (512, 50, 120)])
def test_hosts_wait_for_those_that_have_no_fork_yet(hosts: int, forks: int, limit: int) -> None:
    names = [f"n{number}" for number in range(hosts)]
    for role, tasks, module in (
        ("fabric_test", "bandwidth.yml", "fabric_bandwidth"),
        ("fabric_test", "incast.yml", "fabric_incast"),
        ("nccl_smoke", "run.yml", "nccl_smoke"),
    ):
        given = {f"{role}_hosts": names, "ansible_forks": forks}
        assert argument(role, tasks, module, "barrier_limit", **given) == {"barrier_limit": limit}
