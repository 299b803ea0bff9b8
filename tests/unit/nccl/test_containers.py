# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the containers of the smoke test are started with."""

from __future__ import annotations

import typing as t

import pytest
from role_files import evaluate, tasks

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


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_worker_can_be_read_where_selinux_confines_containers(engine: str) -> None:
    own = tasks("nccl_smoke", "run")["Start the smoke test"]["vars"]
    started = evaluate(
        "nccl_smoke",
        "{{ nccl_smoke_container_prefix }}",
        **own,
        nccl_smoke_engine=engine,
        nccl_smoke_run="20261203",
        nccl_smoke_image="pytorch-cuda:v2.8",
        nccl_smoke_container_options=["--network=host"],
    )
    folder = "/var/lib/lossless-roce/nccl"
    assert started[:2] == [engine, "run"] and started[-2:] == ["--network=host", "pytorch-cuda:v2.8"]
    assert "--pull=never" in started and started[started.index("--name") + 1].endswith("-20261203")
    assert started[started.index("--volume") + 1] == f"{folder}:{folder}:ro"
    assert "--security-opt=label=disable" in started
