# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a rank does before it needs PyTorch. Only the attributes of PyTorch that are asked for are there."""

from __future__ import annotations

import importlib.util
import json
import os
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.nccl.explain import explain
from ansible_collections.lossless.roce.plugins.module_utils.nccl.results import parse_events

FILE = Path(__file__).parents[3] / "roles" / "nccl_smoke" / "files" / "smoke_worker.py"
SPEC = importlib.util.spec_from_file_location("smoke_worker", FILE)
assert SPEC is not None and SPEC.loader is not None
worker: t.Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(worker)


def torch_with(version: tuple[int, ...]) -> types.SimpleNamespace:
    nccl = types.SimpleNamespace(version=lambda: version)
    return types.SimpleNamespace(cuda=types.SimpleNamespace(nccl=nccl))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCCL_IB_GID_INDEX", raising=False)
    monkeypatch.setenv("NCCL_IB_ADDR_RANGE", "10.0.0.0/24")


@pytest.mark.parametrize(
    ("version", "indexes", "index", "by_range"),
    [
        ((2, 20, 5), "3", "3", False),
        ((2, 20, 5), "", None, True),
        ((2, 21, 5), "3", None, True),
        ((2, 21, 5), "3,5", None, True),
    ],
)
def test_the_gid_by_index_or_by_range(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], indexes: str, index: str | None, by_range: bool
) -> None:
    monkeypatch.setenv("LOSSLESS_ROCE_GID_INDEX", indexes)
    worker.choose_gid(torch_with(version), "nccl")
    assert os.environ.get("NCCL_IB_GID_INDEX") == index
    assert ("NCCL_IB_ADDR_RANGE" in os.environ) == by_range


@pytest.mark.parametrize("indexes", ["3,5", "3,none", "none"])
def test_an_old_nccl_does_not_run_on_a_gid_that_is_not_that_of_all_ports(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], indexes: str
) -> None:
    monkeypatch.setenv("LOSSLESS_ROCE_GID_INDEX", indexes)
    with pytest.raises(SystemExit):
        worker.choose_gid(torch_with((2, 20, 5)), "nccl")
    said = capsys.readouterr().out
    assert json.loads(said.strip().removeprefix(worker.MARK))["kind"] == "gid_index"
    failure = explain(said, 3)
    assert failure.kind == "gid_index" and "2.20.5" in failure.cause and failure.cause.endswith(indexes)


def test_no_line_is_longer_than_what_a_pipe_takes_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """512 ranks of 64 hosts, as rank 0 tells of them."""
    hosts = [f"gpu-node-{number:03d}.cluster.example.org" for number in range(64) for _gpu in range(8)]
    argv = ["smoke_worker.py", "--backend", "gloo", "--begin", "1", "--end", "1", "--operations", "all_reduce"]
    monkeypatch.setattr(worker.sys, "argv", argv)
    dist = types.SimpleNamespace(get_rank=lambda: 0, barrier=lambda: None, destroy_process_group=lambda: None)
    monkeypatch.setattr(worker, "connect", lambda *_options: (None, dist, None))
    monkeypatch.setattr(worker, "gather_names", lambda *_group: hosts)
    monkeypatch.setattr(worker, "measure", lambda *_what: {"operation": "all_reduce", "size": 1})
    worker.main()
    said = capsys.readouterr().out
    assert parse_events(said).hosts == dict.fromkeys(hosts, 8)
    assert max(map(len, said.splitlines())) < 4096
