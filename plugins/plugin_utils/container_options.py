# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What community.docker.docker_container is given, so that RDMA works in a container. Pure.

Every option follows from what the role was asked for; what cannot work is refused here, before a host is touched.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.values import integer

GPUS = ("none", "gpus", "cdi")
RDMA = ("none", "devices", "cdi")
_NODE_MAX = 1023  # the kernel's own: CONFIG_NODES_SHIFT is 10 at most
_CPUS = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class OptionError(RoceError):
    """An option of the container that is not allowed, or cannot work."""


def container_options(asked: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Arguments of docker_container. Raises OptionError.

    asked: gpus (none, gpus, cdi), gpu_devices, rdma (none, devices, cdi), network, netns_mode (shared or exclusive,
    None where nobody looked), memlock (bytes, -1 for no limit), shm_size, capabilities, cpus, numa_cpus, numa_node,
    mounts ({source, target, read_only}), env, nccl
    """
    _check_network(str(asked.get("network") or ""), asked.get("netns_mode"))
    memlock = _limit(asked.get("memlock", -1))
    options: dict[str, t.Any] = {
        "network_mode": str(asked.get("network") or "host"),
        "devices": ["/dev/infiniband:/dev/infiniband:rwm"] if asked.get("rdma") == "devices" else [],
        "device_requests": [*_gpu_requests(asked), *_rdma_requests(asked)],
        "ulimits": [f"memlock:{memlock}:{memlock}", "stack:67108864:67108864"],
        "capabilities": [str(name).upper() for name in asked.get("capabilities") or []],
        # Where SELinux confines containers, they may read no mount and open no verbs device.
        "security_opts": ["label=disable"],
        "mounts": [_mount(mount) for mount in asked.get("mounts") or []],
        "env": _environment(asked),
        **_processors(asked),
    }
    if asked.get("shm_size"):
        options["shm_size"] = str(asked["shm_size"])
    return options


def _check_network(network: str, netns_mode: t.Any) -> None:
    if network in ("", "host") or netns_mode == "exclusive":
        return
    raise OptionError(
        f"pytorch_image_network: {network} is not the host's network, and RDMA devices are in mode"
        f" {netns_mode or 'unknown'}: the GIDs belong to the host's netdev, and modify_qp would fail … host was"
        " expected (another one needs `rdma system set netns exclusive`, and port and device moved into the container)"
    )


def _limit(value: t.Any) -> int:
    try:
        limit = int(str(value))
    except ValueError:
        limit = -2
    if limit < -1:
        raise OptionError(f"pytorch_image_memlock: {value!r} … bytes or -1 (no limit) were expected")
    return limit


def _gpu_requests(asked: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    kind, devices = _choice(asked, "gpus", GPUS), [str(name) for name in asked.get("gpu_devices") or ["all"]]
    if kind == "none":
        return []
    if kind == "cdi":
        return [{"driver": "cdi", "device_ids": [f"nvidia.com/gpu={name}" for name in devices]}]
    request: dict[str, t.Any] = {"driver": "", "capabilities": [["gpu"]]}
    return [{**request, "count": -1} if devices == ["all"] else {**request, "device_ids": devices}]


def _rdma_requests(asked: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    return (
        [{"driver": "cdi", "device_ids": ["lossless.roce/rdma=all"]}] if _choice(asked, "rdma", RDMA) == "cdi" else []
    )


def _choice(asked: Mapping[str, t.Any], key: str, allowed: Sequence[str]) -> str:
    value = str(asked.get(key) or "none")
    if value not in allowed:
        raise OptionError(f"pytorch_image_{key}: {value!r} … one of {', '.join(allowed)} was expected")
    return value


def _mount(mount: t.Any) -> dict[str, t.Any]:
    known = {"source", "target", "read_only"}
    if not isinstance(mount, Mapping) or not {"source", "target"} <= set(mount) <= known:
        raise OptionError(f"pytorch_image_mounts: {mount!r} … source, target and perhaps read_only were expected")
    for key in ("source", "target"):
        if not str(mount[key]).startswith("/"):
            raise OptionError(f"pytorch_image_mounts: {key}: {mount[key]!r} … an absolute path was expected")
    # A bind that has no source is refused by docker: it makes no empty folder where data should be.
    return {
        "type": "bind",
        "source": str(mount["source"]),
        "target": str(mount["target"]),
        "read_only": bool(mount.get("read_only", False)),
    }


def _environment(asked: Mapping[str, t.Any]) -> dict[str, str]:
    """NCCL's variables, then the user's own."""
    env = {**(asked.get("nccl") or {}), **(asked.get("env") or {})}
    for name in env:
        if not _VARIABLE.fullmatch(str(name)):
            raise OptionError(f"pytorch_image_env: {name!r} … the name of a variable was expected")
    return {str(name): _text(value) for name, value in env.items()}


def _text(value: t.Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _processors(asked: Mapping[str, t.Any]) -> dict[str, str]:
    """A NUMA node's processors and memory, or the processors that were named."""
    node, named = asked.get("numa_node"), str(asked.get("cpus") or "")
    if named and not _CPUS.fullmatch(named):
        raise OptionError(f"pytorch_image_cpus: {named!r} … numbers and ranges such as 0-15,32 were expected")
    if node is None or node == "":
        return {"cpuset_cpus": named} if named else {}
    try:
        integer(node, 0, _NODE_MAX)
    except ValueError:
        raise OptionError(
            f"pytorch_image_numa_node: {node!r} … the number of one NUMA node was expected"
            f" (0 to {_NODE_MAX}; pytorch_image_cpus takes processors of several)"
        ) from None
    cpus = named or str(asked.get("numa_cpus") or "").strip()
    if not cpus:
        raise OptionError(f"pytorch_image_numa_node: {node} is not a NUMA node with processors on this host")
    return {"cpuset_cpus": cpus, "cpuset_mems": str(node)}
