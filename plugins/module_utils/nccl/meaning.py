# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL's warnings mean, and which of many is the cause. Pure."""

from __future__ import annotations

import typing as t

from ..findings import FAIL, Finding
from ..parsers.nccl_log import NcclLog, Trouble

CHECK = "nccl_error"
# What follows from something else: told only when nothing else is.
_CONSEQUENCES = ("flush", "peer_gone", "cuda", "other")
# Advice that is no failure of the run, or is told by the path's own finding.
_NOT_HERE = ("token", "no_network")
# enum ibv_wc_status
_STATUS = {
    4: (
        "local protection error: the card may not read or write the memory that was registered",
        "look at GPUDirect (ACS and IOMMU off or passed through, nvidia_peermem built for this driver)",
    ),
    5: ("flushed: the queue pair had failed before", "look for the first error, on this rank or its peer"),
    10: ("remote access error: the peer's memory was not registered as this rank believes", "look at the peer's log"),
    12: (
        "transport retries exhausted: packets or their acknowledgements do not arrive",
        (
            "path between these two GIDs: PFC and drops on switches, MTU, routes between rails, UDP 4791 filtered in"
            " the fabric, or the peer's process died (its log says so)"
        ),
    ),
    13: ("receiver not ready for too long: the peer posts no receive buffers", "look at the peer: it hangs or died"),
}
_OPEN = (
    "its node /dev/infiniband/uverbs* must be there, and allowed for the ranks' user: in a container"
    " --device lossless.roce/rdma=all"
)
_MEANING = {
    "memlock": (
        "memory could not be registered: the limit on locked memory is too low",
        "memlock unlimited for the login, the unit or the container (--ulimit memlock=-1), then start anew",
    ),
    "register": (
        "memory could not be registered with the card",
        "GPU memory: nvidia_peermem or dma-buf must work; host memory: memlock",
    ),
    "async_event": ("the port reported an error while the job ran", "look at dmesg and the link of that port"),
    "link_types": (
        "InfiniBand and Ethernet ports are to work together: two ends of a connection, or two ports merged into one",
        "NCCL_IB_HCA with ports of one link type on all nodes",
    ),
    "versions": ("ranks run different versions of NCCL", "the same image on all nodes"),
    "same_gpu": (
        "two ranks use the same GPU",
        "one rank a GPU; for a test of two ranks on one GPU give each its own NCCL_HOSTID",
    ),
    "no_interface": (
        "NCCL found no IP interface",
        "correct NCCL_SOCKET_IFNAME: it must name an interface with an address",
    ),
    "verbs": ("a verbs call failed", "the text names the call; ibv_devinfo where the ranks run shows what is there"),
    "peer_gone": ("another rank ended or its connection broke", "look at the first rank that failed"),
    "cuda": ("CUDA failed", "nvidia-smi and dmesg of this node (Xid)"),
    "other": ("NCCL warned", "see the text"),
}


def failures(log: NcclLog, ibdevs: t.Collection[str] = ()) -> list[Finding]:
    """A finding for each cause among the warnings. What only follows from a cause is left out.

    ibdevs: RDMA devices that NCCL is to use; empty: any
    """
    told = [(_kind(trouble), trouble) for trouble in log.troubles if _matters(trouble, log, ibdevs)]
    causes = [(kind, trouble) for kind, trouble in told if kind not in (*_CONSEQUENCES, *_NOT_HERE)]
    if not causes:
        # An unknown warning beside channels that work is no failure: the run's own end decides.
        ended = [(kind, trouble) for kind, trouble in told if kind in _CONSEQUENCES and kind != "other"]
        causes = ended[:1]
    seen: dict[t.Hashable, Finding] = {}
    for kind, trouble in causes:
        seen.setdefault(_sameness(kind, trouble), _finding(kind, trouble))
    return list(seen.values())


def _matters(trouble: Trouble, log: NcclLog, ibdevs: t.Collection[str]) -> bool:
    """NCCL opens all devices before it looks at NCCL_IB_HCA, and a container has only those that it was given."""
    if trouble.kind != "open_device":
        return True
    device = trouble.facts.get("device")
    if device is not None and ibdevs:
        return device in ibdevs
    # The library's warning names no device, NCCL's that follows does.
    named = any(other.kind == "open_device" and "device" in other.facts for other in log.troubles)
    return not log.channels and (device is not None or not named)


def _kind(trouble: Trouble) -> str:
    return "flush" if trouble.kind == "completion" and trouble.facts.get("status") == 5 else trouble.kind


def _sameness(kind: str, trouble: Trouble) -> t.Hashable:
    keys = ("status", "errno", "device", "local_gid", "remote_gid")
    return (kind, *(trouble.facts.get(key) for key in keys))


def _finding(kind: str, trouble: Trouble) -> Finding:
    cause, remedy = _meaning(kind, trouble)
    return Finding(
        check=CHECK,
        verdict=FAIL,
        observed={**trouble.facts, "process": trouble.process, "line": trouble.text},
        evidence="NCCL WARN",
        cause=cause,
        remedy=remedy,
    )


def _meaning(kind: str, trouble: Trouble) -> tuple[str, str]:
    facts = trouble.facts
    if kind in ("completion", "flush"):
        status = facts.get("status")
        cause, remedy = _STATUS.get(status or 0, (f"completion with status {status}", "see enum ibv_wc_status"))
        return f"status {status}, {cause}{_gids(facts)}", remedy
    if kind == "modify_qp":
        return _modify_qp(facts)
    if kind == "open_device":
        return f"{facts.get('device', 'an RDMA device')} could not be opened where the ranks run", _OPEN
    return _MEANING[kind]


def _gids(facts: dict[str, t.Any]) -> str:
    if "local_gid" not in facts:
        return f" (peer {facts['peer']})" if "peer" in facts else ""
    return f" (GID {facts['local_gid']} to {facts['remote_gid']})"


def _modify_qp(facts: dict[str, t.Any]) -> tuple[str, str]:
    place = f" on {facts['device']}" if "device" in facts else ""
    errno = facts.get("errno")
    if errno in (101, 110, 113):  # ENETUNREACH, ETIMEDOUT, EHOSTUNREACH
        return (
            f"the peer's GID could not be resolved{place}: no route or no answer to ARP{_gids(facts)}",
            "NCCL_CROSS_NIC=0 where rails have no route to each other, or routes between the rails' networks",
        )
    if errno == 22:
        index = f" ({facts['gid_index']})" if "gid_index" in facts else ""
        return (
            f"wrong GID index or type{index}{place}{_gids(facts)}",
            (
                "leave NCCL_IB_GID_INDEX out from NCCL 2.21 on (NCCL_IB_ADDR_RANGE narrows it down); below it is the"
                " index of the RoCE v2 GID, which show_gids tells"
            ),
        )
    number = "" if errno is None else f", errno {errno}"
    return (
        f"the queue pair could not be brought up{place}{number}{_gids(facts)}",
        "in a container: its network namespace lacks the port's netdev (--network host)"
        if errno == 19
        else "look at dmesg of this node and at the port's GIDs (show_gids)",
    )
