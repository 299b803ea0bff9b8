# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The fault by which running containers lose their GPUs: a daemon-reload of systemd. Private to the collection.

A hook of the nvidia runtime gives the devices, so that they are in no rule that systemd knows; a reload
writes systemd's own rules again. Not so by CDI, nor where /dev/char names the devices.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import HostError, RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from .containerd import nvidia_runtimes, read_config
from .docker import read_info
from .engine import Options
from .units import Service, read_service

if t.TYPE_CHECKING:
    from ..host import Host

_MAJOR = 195  # assigned to NVIDIA by the kernel's list of devices
_EXPECTED = "CDI, or a link in /dev/char to each GPU device"
_EVIDENCE = {"docker": "docker info", "containerd": "containerd config dump"}


def diagnose_daemon_reload(host: Host) -> dict[str, Finding]:
    """A finding for each engine that runs, by its name; one that cannot be asked is unknown."""
    nodes = [name for name in host.listdir("/dev") if re.fullmatch(r"nvidia([0-9]+|ctl)", name)]
    links = set(host.listdir("/dev/char")) if nodes else set()
    services = [service for service in (_running(host, engine) for engine in _EVIDENCE) if service]
    return {service.name: _diagnose(host, service, nodes, links) for service in services}


def _running(host: Host, engine: str) -> Service | None:
    try:
        service = read_service(host, engine)
    except HostError:
        return None
    return service if service.active else None


def _diagnose(host: Host, service: Service, nodes: list[str], links: set[str]) -> Finding:
    try:
        runtimes = _read_runtimes(host, service) if nodes else {}
    except RoceError as exc:
        return _finding(service.name, UNKNOWN, cause=str(exc))
    return check_daemon_reload(service.name, runtimes, nodes, links)


def _read_runtimes(host: Host, service: Service) -> dict[str, bool]:
    if service.name == "containerd":
        return nvidia_runtimes(read_config(host, service, Options()))
    info = read_info(host)
    systemd = info.get("CgroupDriver") == "systemd"
    return {"nvidia": systemd} if "nvidia" in (info.get("Runtimes") or {}) else {}


def check_daemon_reload(
    engine: str, runtimes: t.Mapping[str, bool], nodes: t.Sequence[str], links: t.Collection[str]
) -> Finding:
    """Whether ``systemctl daemon-reload`` may take the GPUs from running containers. Pure.

    runtimes: those that give GPUs by the hook, each with whether it leaves cgroups to systemd
    nodes: the GPU device nodes there are (``nvidia0``, ``nvidiactl``)
    links: names in /dev/char, as MAJOR:MINOR
    """
    if not nodes:
        return _finding(engine, SKIPPED, cause="this node has no NVIDIA device node")
    if not runtimes:
        cause = f"{engine} has no nvidia runtime: GPUs reach containers by CDI or --device"
        return _finding(engine, SKIPPED, cause=cause)
    if not any(runtimes.values()):
        return _finding(engine, SKIPPED, cause=f"{engine} does not leave cgroups to systemd")
    missing = [f"/dev/char/{_number(node)} -> ../{node}" for node in nodes if _number(node) not in links]
    if not missing:
        return _finding(engine, PASS, missing)
    return _finding(
        engine,
        FAIL,
        missing,
        "with systemd's cgroups and the nvidia runtime, systemctl daemon-reload (every package upgrade that"
        " brings a unit does one) may take the GPUs from running containers: systemd does not know their devices",
        "give GPUs by CDI (nvidia: cdi, --device nvidia.com/gpu=all; to pods by a device plugin that uses CDI), or make"
        " the links in /dev/char at boot; a container that has lost them must be started anew",
    )


def _finding(engine: str, verdict: str, observed: t.Any = None, cause: str = "", remedy: str = "") -> Finding:
    return Finding(
        check="daemon_reload",
        verdict=verdict,
        observed=observed,
        expected=_EXPECTED,
        evidence=f"{_EVIDENCE[engine]}; ls /dev/char/{_MAJOR}:*",
        cause=cause,
        remedy=remedy,
    )


def _number(node: str) -> str:
    minor = "255" if node == "nvidiactl" else node[len("nvidia") :]
    return f"{_MAJOR}:{minor}"
