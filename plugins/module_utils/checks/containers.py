# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Containers that are meant to run RDMA, and the fault by which they lose their GPUs.

Looks only at engines that run: asking a stopped docker would start it through its socket.
"""

from __future__ import annotations

import re
import typing as t

from ..containers.daemon_reload import diagnose_daemon_reload
from ..containers.units import read_service
from ..errors import HostError, RoceError
from ..findings import FAIL, PASS, UNKNOWN, Finding
from ..parsers.json_output import read_json

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

Inspect = dict[str, t.Any]

_DEV = "/dev/infiniband"
_KIND = "lossless.roce/rdma="
# A rule of --device-cgroup-rule that lets verbs devices be opened: the kernel gave them the major number 231.
_RULE = re.compile(r"a|c (?:231|\*):")
_UNLIMITED = -1
_LIMIT = re.compile(r"^Max locked memory\s+(\S+)", re.MULTILINE)


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Findings on the running containers and on the daemon-reload fault.

    Option ``rdma_containers`` names containers that are meant to run RDMA; others are judged when
    they were given RDMA devices.
    """
    found = list(diagnose_daemon_reload(host).values())
    named = context.options.get("rdma_containers") or []
    netns = _netns_mode(host)
    if _docker_runs(host):
        found += _containers(host, "docker", named, netns)
    if host.which("podman") is not None:
        found += _containers(host, "podman", named, netns)
    return found


# -- a container: pure ---------------------------------------------------------------------------


def check_container(inspect: Inspect, limits: str | None = None, netns_mode: str = "shared") -> list[Finding]:
    """Findings on one container that is meant to run RDMA. Pure.

    inspect: what ``docker inspect`` or ``podman inspect`` says of it (one object)
    limits: /proc/PID/limits of its first process, the truth where there is one
    netns_mode: of the RDMA devices (``rdma system show``): shared or exclusive
    """
    config = inspect.get("HostConfig") or {}
    name = str(inspect.get("Name", "")).lstrip("/")
    return [_devices(name, config), _memlock(name, config, limits), _network(name, config, netns_mode)]


def has_rdma_devices(inspect: Inspect) -> bool:
    """Whether the container was given a verbs device by any of the usual ways but ``--privileged``."""
    config = inspect.get("HostConfig") or {}
    return bool(_given(config) or _mounted(config))


def _given(config: dict[str, t.Any]) -> list[str]:
    """What of /dev/infiniband was asked for: nodes, folders and CDI names."""
    devices = [str(device.get("PathOnHost", "")) for device in config.get("Devices") or []]
    names = [str(i) for request in config.get("DeviceRequests") or [] for i in request.get("DeviceIDs") or []]
    return [
        *(path for path in devices if path == _DEV or path.startswith(f"{_DEV}/uverbs")),
        *(name for name in names if name.startswith(_KIND)),
    ]


def _mounted(config: dict[str, t.Any]) -> list[str]:
    """Folders with the nodes that are mounted: by themselves they let nothing be opened."""
    binds = [str(bind).split(":", maxsplit=1)[0] for bind in config.get("Binds") or []]
    mounts = [str(mount.get("Source", "")) for mount in config.get("Mounts") or [] if mount.get("Type") == "bind"]
    return [path for path in (*binds, *mounts) if path.rstrip("/") in ("/dev", _DEV)]


def _devices(name: str, config: dict[str, t.Any]) -> Finding:
    given, mounted = _given(config), _mounted(config)
    allowed = any(_RULE.match(str(rule)) for rule in config.get("DeviceCgroupRules") or [])
    right = bool(given or config.get("Privileged") or (mounted and allowed))
    return _finding(
        "container_devices",
        right,
        given or mounted or ("privileged" if right else []),
        "verbs devices",
        name,
        f"{', '.join(mounted)} is only mounted: the nodes are seen inside, and the container's device rules do not let"
        " them be opened (ibv_open_device fails)"
        if mounted
        else "the container was given no verbs device: libibverbs finds none, and NCCL falls back to sockets",
        "start it with --device lossless.roce/rdma=all (CDI), or --device /dev/infiniband",
    )


def _memlock(name: str, config: dict[str, t.Any], limits: str | None) -> Finding:
    limit = _limit_of_process(limits) if limits else _limit_of_config(config)
    if limit is None:
        return Finding(
            check="container_memlock",
            verdict=UNKNOWN,
            expected="unlimited",
            evidence=f"inspect {name}",
            cause="the container names no limit of its own and does not run: the engine's default counts",
            remedy="look at /proc/self/limits inside",
        )
    return _finding(
        "container_memlock",
        limit == "unlimited",
        limit,
        "unlimited",
        name,
        "locked memory is limited inside: memory regions of RDMA cannot be registered (Cannot allocate memory)",
        "start it with --ulimit memlock=-1, or module lossless.roce.container_runtime and a new container",
    )


def _limit_of_process(limits: str) -> str | None:
    found = _LIMIT.search(limits)
    return found.group(1) if found else None


def _limit_of_config(config: dict[str, t.Any]) -> str | None:
    for limit in config.get("Ulimits") or []:
        if str(limit.get("Name", "")).lower() in ("memlock", "rlimit_memlock"):
            return "unlimited" if limit.get("Soft") == _UNLIMITED else str(limit.get("Soft"))
    return None


def _network(name: str, config: dict[str, t.Any], netns_mode: str) -> Finding:
    mode = str(config.get("NetworkMode", ""))
    if mode.startswith("container:") or (netns_mode != "shared" and mode != "host"):
        why = "it shares another container's" if mode.startswith("container:") else "RDMA devices have their own"
        return Finding(
            check="container_network",
            verdict=UNKNOWN,
            observed=mode,
            expected="host",
            evidence=f"inspect {name}",
            cause=f"{why} network namespace: the port's netdev must be in it",
            remedy="show_gids or ibv_devinfo -v inside lists the GIDs that can be used",
        )
    return _finding(
        "container_network",
        mode == "host",
        mode,
        "host",
        name,
        "the GIDs belong to the host's netdev, which is not in the container's network namespace:"
        " modify_qp fails with No such device",
        "start it with --network host (or give port and RDMA device their own namespace, mode exclusive)",
    )


def _finding(check: str, right: bool, observed: t.Any, expected: t.Any, name: str, cause: str, remedy: str) -> Finding:
    return Finding(
        check=check,
        verdict=PASS if right else FAIL,
        observed=observed,
        expected=expected,
        evidence=f"inspect {name}",
        cause="" if right else f"{name}: {cause}",
        remedy="" if right else remedy,
    )


# -- what is printed inside: pure ----------------------------------------------------------------

_NO_DRIVER = re.compile(
    r"(?:no userspace device-specific driver found for \S*/|couldn't load driver ')"
    r"(uverbs[0-9]+|libmlx5-rdmav[0-9]+\.so)"
)
# "failed with error TEXT" or "failed with NUMBER TEXT", by the version of NCCL.
_NO_NETDEV = re.compile(r"ibv_modify_qp failed with (?:error|[0-9]{1,4}) No such device")
_NO_MEMORY = re.compile(
    r"ibv_(?:reg_mr\w*|create_cq|create_qp) failed with (?:error|[0-9]{1,4}) Cannot allocate memory"
)
# "ulimit -l" or the line of "ulimit -a", in KiB.
_ULIMIT = re.compile(r"(?:ulimit -l\s*\n\s*|max locked memory\s+\(kbytes, -l\)\s+)([0-9]+|unlimited)\b", re.ASCII)
# What a text is known by that check_output can judge.
SAID_INSIDE = re.compile("|".join(pattern.pattern for pattern in (_NO_DRIVER, _NO_NETDEV, _NO_MEMORY, _ULIMIT)))


def check_output(text: str) -> list[Finding]:
    """Findings on what libibverbs, NCCL or a shell printed inside a container; none for unknown text. Pure."""
    found = []
    nodes = sorted(set(_NO_DRIVER.findall(text)))
    if nodes:
        found.append(
            _said(
                "container_provider",
                {"without driver": nodes},
                "a provider for each device",
                "libibverbs has no provider for these devices in the image (for mlx5: package ibverbs-providers,"
                " rdma-core, or OFED's user space); devices may also be missing in /dev/infiniband",
                "install ibverbs-providers (rdma-core on RHEL) in the image, and pass all of /dev/infiniband",
            )
        )
    if _NO_NETDEV.search(text):
        found.append(
            _said(
                "container_network",
                "No such device",
                "host",
                "network namespace: the GIDs belong to the host's netdev, which is not in the container's",
                "start it with --network host",
            )
        )
    limit = _ULIMIT.search(text)
    if _NO_MEMORY.search(text) or (limit and limit.group(1) != "unlimited"):
        found.append(
            _said(
                "container_memlock",
                f"{limit.group(1)} KiB" if limit else "Cannot allocate memory",
                "unlimited",
                "the limit on locked memory is too small for NCCL's buffers; perftest's small ones may still fit",
                "unlimited memlock in limits.conf and in the unit of the launcher or engine, then a new login or"
                " container",
            )
        )
    return found


def _said(check: str, observed: t.Any, expected: t.Any, cause: str, remedy: str) -> Finding:
    return Finding(
        check=check,
        verdict=FAIL,
        observed=observed,
        expected=expected,
        evidence="what was printed inside the container",
        cause=cause,
        remedy=remedy,
    )


# -- reading -------------------------------------------------------------------------------------


def _docker_runs(host: Host) -> bool:
    try:
        return read_service(host, "docker").active
    except HostError:
        return False


def _containers(host: Host, engine: str, named: t.Sequence[str], netns_mode: str) -> list[Finding]:
    """Findings on the running containers of an engine that have RDMA devices or were named."""
    try:
        inspected = _inspect(host, engine)
        return [finding for one in inspected for finding in _container(host, one, named, netns_mode)]
    except RoceError as exc:
        cause = str(exc)
    except (ValueError, TypeError, AttributeError):  # JSON of another shape
        cause = f"what '{engine} inspect' printed was not understood"
    return [Finding(check=f"{engine}_containers", verdict=UNKNOWN, evidence=f"{engine} inspect", cause=cause)]


def _container(host: Host, one: Inspect, named: t.Sequence[str], netns_mode: str) -> list[Finding]:
    if not has_rdma_devices(one) and str(one.get("Name", "")).lstrip("/") not in named:
        return []
    pid = (one.get("State") or {}).get("Pid")
    limits = host.read_optional(f"/proc/{pid}/limits") if pid else None
    return check_container(one, limits, netns_mode)


def _inspect(host: Host, engine: str) -> list[Inspect]:
    ids = host.run(engine, "ps", "-q").out.split()
    found = read_json(host.run(engine, "inspect", *ids).out, f"{engine} inspect") if ids else []
    if not (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
        raise ValueError
    return found


def _netns_mode(host: Host) -> str:
    """shared (the kernel's default) or exclusive."""
    try:
        return "exclusive" if "netns exclusive" in host.run("rdma", "system", "show").out else "shared"
    except HostError:
        return "shared"
