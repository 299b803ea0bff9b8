# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why a run ended without a result: what torchrun, Python, docker and podman print, with cause and remedy. Pure."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .results import MARK

_ROOT_CAUSE = re.compile(
    r"Root Cause.{0,400}?rank\s+: (?P<rank>[0-9]{1,6}) \(local_rank: [0-9]{1,4}\)\s+exitcode\s+: "
    r"(?P<code>-?[0-9]{1,4})",
    re.DOTALL,
)
_EXCEPTION = re.compile(
    r"^(?:\[rank[0-9]{1,6}\]: ?)?((?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b: [^\n]{1,300})", re.MULTILINE
)
_JOINED = re.compile(r"waiting for clients\. ([0-9]{1,6})/([0-9]{1,6}) clients joined")
_UNREACHED = re.compile(r"trying to connect to \(([^,)]{1,64}), ([0-9]{1,5})\)")


@dataclass(frozen=True)
class Failure:
    """One failure. ``consequence``: it may well follow from what happened on another host."""

    kind: str
    cause: str
    remedy: str
    consequence: bool = False


Build = t.Callable[["re.Match[str]"], Failure]

_KNOWN: tuple[tuple[str, Build], ...] = (
    (
        r"No module named '?torch\b",
        lambda _m: Failure(
            "no_torch",
            "PyTorch is not installed for the Python that was started",
            "an image that holds it (role pytorch_image), or nccl_smoke_python naming a Python that has it",
        ),
    ),
    (
        r"(?:env|timeout|exec)[^\n]{0,60}: [^\n]{0,60}No such file or directory|executable file[^\n]{0,80}not found",
        lambda m: Failure("no_program", m.group(0), "the program must be there where the ranks run"),
    ),
    (
        r"can't open file '([^']{1,200})'",
        lambda m: Failure(
            "no_worker",
            f"{m.group(1)} is not there where the ranks run",
            "mount the folder of the worker into the container under the same path (SELinux: label=disable)",
        ),
    ),
    (
        # The worker's own word, and torchrun's where it counts the ranks by the GPUs (``gpu``).
        r'"kind": "no_gpu"|ValueError: Cuda is not available',
        lambda _m: Failure(
            "no_gpu",
            "PyTorch sees no GPU where the ranks run",
            "give the container its GPUs (--gpus all, or --device nvidia.com/gpu=all); without GPUs backend gloo",
        ),
    ),
    (
        r'"kind": "gid_index", "text": "([^"]{1,300})"',
        lambda m: Failure(
            "gid_index",
            m.group(1),
            "NCCL 2.21 or newer, which finds GIDs by itself; or give all ports the same addresses in the same order",
        ),
    ),
    (
        r"EADDRINUSE|[Aa]ddress already in use",
        lambda _m: Failure(
            "port_taken",
            "the TCP port of the rendezvous is taken on this host",
            "end the other job, or choose another nccl_smoke_port",
        ),
    ),
    (
        r"Unable to find (?:address|interface)[^\n]{0,80}|[Nn]o socket interface found",
        lambda m: Failure(
            "interface",
            f"the interface declared for the rendezvous cannot be used where the ranks run ({m.group(0)})",
            "name an interface that is there and has an address; a container needs --network host",
        ),
    ),
    (
        r"CUDA out of memory|OutOfMemoryError",
        lambda _m: Failure("gpu_memory", "the GPU's memory is full", "end other jobs, or a smaller nccl_smoke_end"),
    ),
)
# What an engine says. Before a container that did start it may have said as much, such as that it pulls the image.
_ENGINE: tuple[tuple[str, Build], ...] = (
    (
        r"(?:Unable to find image|No such image|pull access denied|manifest unknown|image not known)[^\n]{0,160}",
        lambda m: Failure("no_image", m.group(0), "role pytorch_image brings the image to every node"),
    ),
    (
        r"(?:Cannot connect to the Docker daemon|Error response from daemon:|(?:^|\n)Error: )[^\n]{0,240}",
        lambda m: Failure("engine", f"the container was not started: {m.group(0).strip()}", "see the engine's message"),
    ),
)
_STARTED = re.compile(rf"{MARK}|Traceback \(most recent call last\)|\bNCCL (?:INFO|WARN|version)\b")
_PEER = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|[Rr]emote process (?:has )?(?:exited|terminated)"
    r"|ncclRemoteError|recvValue failed|Watchdog caught collective operation timeout|Socket [Tt]imeout"
    r"|Timed out waiting|wait timeout after|DistNetworkError|DistStoreError|Connect(?:ion)? (?:call failed|refused)"
)


def explain(text: str, rc: int, limit: float | None = None) -> Failure:
    """The failure of a run that ended with ``rc``, or was ended after ``limit`` seconds."""
    named = _first(_KNOWN, text) or _killed(text) or _rendezvous(text)
    if named is None and not _STARTED.search(text):
        named = _first(_ENGINE, text)
    if named is not None:
        return named
    said = _last_exception(text)
    if limit is not None:
        return Failure(
            "time_limit",
            f"the run was ended after {limit:g} s" + (f": {said}" if said else ", and had not said why it hung"),
            "a collective that hangs waits for a rank or for packets: look at the path between the nodes first",
            consequence=bool(_PEER.search(text)),
        )
    if _PEER.search(text):
        cause = f"a rank lost its peer{f': {said}' if said else ''}"
        return Failure("peer_gone", cause, "look at the rank that failed first", consequence=True)
    return Failure("exit", f"the run ended with status {rc}{f': {said}' if said else ''}", "see the log of the run")


def _first(known: tuple[tuple[str, Build], ...], text: str) -> Failure | None:
    """The failure of the first pattern that fits."""
    hits = ((build, re.search(pattern, text)) for pattern, build in known)
    return next((build(found) for build, found in hits if found), None)


def _killed(text: str) -> Failure | None:
    """A rank that a signal ended. torchrun ends the ranks beside it by SIGTERM: that is no cause."""
    found = _ROOT_CAUSE.search(text)
    if found is None or int(found["code"]) >= 0 or int(found["code"]) == -15:
        return None
    signal = -int(found["code"])
    hint = " (as the kernel does when memory runs out, or somebody by hand)" if signal == 9 else ""
    cause = f"rank {found['rank']} died: signal {signal}{hint}"
    return Failure("rank_died", cause, "dmesg of this node (out of memory, Xid), and the log of the run")


def _rendezvous(text: str) -> Failure | None:
    if found := _JOINED.search(text):
        cause = f"rendezvous: only {found.group(1)} of {found.group(2)} hosts came in time"
        return Failure("rendezvous", cause, _REACH, consequence=True)
    if found := _UNREACHED.search(text):
        cause = f"rendezvous: {found.group(1)} port {found.group(2)} could not be reached"
        return Failure("rendezvous", cause, _REACH, consequence=True)
    return None


_REACH = (
    "the TCP port of the rendezvous must be open on the first host, on the declared interface"
    " (baseline_firewall: open), and the other hosts' parts must have started"
)


def _last_exception(text: str) -> str:
    """The first exception of a rank: torchrun's own comes after it."""
    found = [said for said in _EXCEPTION.findall(text) if "ChildFailedError" not in said]
    return found[0] if found else ""
