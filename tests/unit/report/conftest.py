# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Findings that the tests of the report share."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.plugin_utils.report.run import Run, build_run

TIME = "2026-12-01T12:00:00Z"

Finding = dict[str, t.Any]


@pytest.fixture(name="make_finding")
def _make_finding() -> t.Callable[..., Finding]:
    """A finding as a task gives it; a pass on a port unless told otherwise."""

    def make(**fields: t.Any) -> Finding:
        return {"check": "pfc", "verdict": "pass", "host": "node1", "port": "ens1np0", **fields}

    return make


@pytest.fixture(name="make_pair")
def _make_pair(make_finding: t.Callable[..., Finding]) -> t.Callable[..., Finding]:
    """A finding on the bandwidth from one node to another, of at least 180 Gb/s."""

    def make(client: str, server: str, gbps: float | None, rail: int = 0, **fields: t.Any) -> Finding:
        verdict = "pass" if gbps is not None and gbps >= 180 else "fail"
        observed = {"gbps": gbps, "client": client, "server": server, "rail": rail, "iterations": 5000}
        given = {"observed": observed, "expected": {"gbps": 180}, "verdict": verdict, **fields}
        return make_finding(check="ib_write_bw", host=client, **given)

    return make


@pytest.fixture(name="make_run")
def _make_run() -> t.Callable[..., Run]:
    """A run of the given findings."""

    def make(
        findings: list[Finding],
        hosts: t.Sequence[str] = (),
        title: str = "verify",
        generated: str = TIME,
        **parts: t.Any,
    ) -> Run:
        return build_run(title, findings, list(hosts), generated=generated, version="1.2.3", **parts)

    return make
