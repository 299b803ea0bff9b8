# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""CDI specifications: the node's RDMA devices by one of our own, its GPUs by nvidia-ctk.

Engines watch these folders: a new specification needs no restart.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..errors import RoceError
from ..findings import FAIL, PASS, Finding
from .engine import Engine, FileEdit, Options, Plan, judge

if t.TYPE_CHECKING:
    from ..host import Host

FOLDER = "/etc/cdi"
SPECIFICATION = f"{FOLDER}/lossless-roce.json"
KIND = "lossless.roce/rdma"
NVIDIA_SPECIFICATION = f"{FOLDER}/nvidia.yaml"
# From toolkit 1.18 a service keeps this one: a second copy would name each device twice.
_NVIDIA_OWN = "/var/run/cdi/nvidia.yaml"
_GENERATE = ("nvidia-ctk", "cdi", "generate", "--format", "yaml")
_SYSFS = "/sys/class/infiniband_verbs"
_DEV = "/dev/infiniband"


def specification(devices: dict[str, str], rdma_cm: bool) -> str:
    """A specification of the RDMA devices (device -> uverbs node), the same text for the same devices. Pure."""
    common = [f"{_DEV}/rdma_cm"] if rdma_cm else []
    ordered = sorted(devices.items(), key=lambda pair: _natural(pair[0]))
    named = [("all", [node for _name, node in ordered]), *((name, [node]) for name, node in ordered)]
    content = {
        "cdiVersion": "0.3.0",
        "kind": KIND,
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in [*common, *nodes]]}}
            for name, nodes in named
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def named_devices(text: str | None) -> list[str]:
    """The devices that a specification names, besides ``all``; none for a text that is none. Pure."""
    try:
        return sorted(str(device["name"]) for device in json.loads(text or "{}")["devices"] if device["name"] != "all")
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _natural(name: str) -> list[tuple[int, str]]:
    """mlx5_2 before mlx5_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def rdma_devices(host: Host) -> dict[str, str]:
    """The verbs node of every RDMA device that has one."""
    found = {}
    for name in host.listdir(_SYSFS):
        device = (host.read_optional(f"{_SYSFS}/{name}/ibdev") or "").strip()
        if device and host.exists(f"{_DEV}/{name}"):
            found[device] = f"{_DEV}/{name}"
    return found


class RdmaCdi(Engine):
    """The specification of the RDMA devices."""

    name = "cdi"

    def plan(self, host: Host, options: Options) -> Plan:
        """Write it when the devices differ. A node without any is left as it is: see the finding."""
        plan = Plan("cdi", folders=[FOLDER])
        devices = rdma_devices(host)
        if not devices:
            return plan
        after = specification(devices, host.exists(f"{_DEV}/rdma_cm"))
        before = host.read_optional(SPECIFICATION)
        if before != after:
            plan.edits.append(FileEdit(SPECIFICATION, before, after))
        return plan

    def findings(self, host: Host, options: Options, pending: str) -> list[Finding]:
        """Whether it names exactly the devices that are there."""
        devices = rdma_devices(host)
        if not devices:
            return [
                Finding(
                    check="rdma_cdi",
                    verdict=FAIL,
                    observed=[],
                    expected="RDMA devices",
                    evidence=_SYSFS,
                    cause="no RDMA device has a verbs node: driver or module ib_uverbs is not loaded",
                    remedy="role lossless.roce.baseline, then this role again",
                )
            ]
        text = host.read_optional(SPECIFICATION)
        found = judge(
            "rdma_cdi",
            text == specification(devices, host.exists(f"{_DEV}/rdma_cm")),
            named_devices(text),
            sorted(devices),
            SPECIFICATION,
            "no specification is there" if text is None else "devices or their nodes changed since it was written",
            "module lossless.roce.container_runtime",
        )
        return [found, _rdma_cm(host)]


def _rdma_cm(host: Host) -> Finding:
    there = host.exists(f"{_DEV}/rdma_cm")
    return judge(
        "rdma_cm",
        there,
        there,
        True,
        f"{_DEV}/rdma_cm",
        "module rdma_ucm is not loaded: connections by RDMA-CM fail, in containers as well",
        "role lossless.roce.baseline, then this role again",
    )


class NvidiaCdi(Engine):
    """The specification of the GPUs, by nvidia-ctk."""

    name = "nvidia_cdi"

    def plan(self, host: Host, options: Options) -> Plan:
        """Ask nvidia-ctk for it, and write it when it differs."""
        plan = Plan("nvidia_cdi", folders=[FOLDER])
        if host.exists(_NVIDIA_OWN):
            return plan
        done = host.run(*_GENERATE, check=False)
        if done.rc or not done.out.strip():
            raise RoceError(f"{' '.join(_GENERATE)}: exit status {done.rc}: {done.text()} … a CDI specification")
        before = host.read_optional(NVIDIA_SPECIFICATION)
        if before != done.out:
            plan.edits.append(FileEdit(NVIDIA_SPECIFICATION, before, done.out))
        return plan

    def findings(self, host: Host, options: Options, pending: str) -> list[Finding]:
        """Whether there is one, and only one."""
        files = [path for path in (NVIDIA_SPECIFICATION, _NVIDIA_OWN) if host.exists(path)]
        if len(files) == 1:
            return [Finding(check="nvidia_cdi", verdict=PASS, observed=files, expected="one file", evidence=files[0])]
        return [
            judge(
                "nvidia_cdi",
                False,
                files,
                "one file",
                "nvidia-ctk cdi list",
                "each GPU is named twice" if files else "there is no specification of the GPUs",
                f"remove {NVIDIA_SPECIFICATION}" if files else "module lossless.roce.container_runtime, nvidia: cdi",
            )
        ]
