# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the containers of the smoke test are started with."""

from __future__ import annotations

import typing as t

import pytest
from role_files import evaluate

PORTS = [{"name": "ens1np0", "rail": 0, "address": "198.51.100.1"}]


def options(**variables: t.Any) -> list[str]:
    """The options that are given unless a user names others."""
    return t.cast("list[str]", evaluate("nccl_smoke", "{{ nccl_smoke_container_options }}", **variables))


@pytest.mark.parametrize(("engine", "gpus"), [("docker", "--gpus=all"), ("podman", "--device=nvidia.com/gpu=all")])
def test_each_engine_is_asked_for_gpus_in_its_own_way(engine: str, gpus: str) -> None:
    assert options(nccl_smoke_engine=engine, nccl_smoke_ports=PORTS) == [
        "--network=host",
        "--ulimit=memlock=-1",
        "--shm-size=8g",
        "--device=lossless.roce/rdma=all",
        gpus,
    ]
    assert "gpu" not in "".join(options(nccl_smoke_engine=engine, nccl_smoke_backend="gloo"))
