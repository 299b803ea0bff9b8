# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Advice that circulates and does not help, where it stands in scripts. Pure judgement.

A line that does nothing is a failure of the file it stands in: its author believes in an effect that is
not there. Comments are left out.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, replace

from ..findings import FAIL, PASS, SKIPPED, Finding
from .copied_commands import check_commands

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

# Where people put such lines.
USUAL_PLACES = ("/etc/rc.local", "/etc/rc.d/rc.local", "/etc/infiniband/post-start-hook.sh")
# What a script is known by; other texts (logs, tables) are not judged.
_SCRIPT = re.compile(
    r"^\s*(?:#!|export\s|echo\s|set\s+-|mpirun\b|srun\b|torchrun\b|docker\s+run|tc\s|mlnx_qos\b|ib_\w+_bw\b"
    r"|NCCL_\w+=|nethogs\b|sysctl\b|ulimit\b|dcb\s|ethtool\s|sudo\s|watch\s)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Advice:
    """What is looked for, why it does not help, and what does.

    beside: words in the same or the two commands before, without which the line may be meant otherwise
    """

    name: str
    pattern: re.Pattern[str]
    cause: str
    remedy: str
    beside: re.Pattern[str]


def _advice(name: str, pattern: str, cause: str, remedy: str, beside: str = "") -> Advice:
    return Advice(name, re.compile(pattern), cause, remedy, re.compile(beside, re.IGNORECASE))


ADVICE: tuple[Advice, ...] = (
    _advice(
        "pfc_enable",
        r"/pfc_enable\b",
        "the kernel has no such file: a transmit queue has tx_timeout, traffic_class, xps_*, tx_maxrate and"
        " byte_queue_limits (net-sysfs.c), and writing it makes nothing lossless",
        "dcb pfc set dev PORT prio-pfc 3:on, or the policy's field pfc",
    ),
    _advice(
        "socket_ifname",
        r"NCCL_SOCKET_IFNAME=",
        "NCCL_SOCKET_IFNAME chooses the interface for bootstrap and sockets: it cures no fallback to TCP, which comes"
        " from an RDMA device, GID, library or driver that is missing",
        "keep it only if bootstrap takes a wrong interface; for the fallback look at NET/IB lines (NCCL_DEBUG=INFO,"
        " NCCL_DEBUG_SUBSYS=INIT,NET) and set NCCL_NET=IB, so that it fails instead",
        beside=r"\bf[ae]ll\w*[ -]?back|\bTCP\b.*\binstead\b|\binstead of\b",
    ),
    _advice(
        "nethogs",
        r"\b(?:nethogs|iftop|nload|bmon)\b",
        "RDMA traffic bypasses the kernel's network stack: such tools show nothing of it",
        "ethtool -S PORT (rx_vport_rdma_unicast_bytes, rx_prioN_bytes), or rdma statistic show",
    ),
    _advice(
        "mqprio_replace",
        r"\btc\s+qdisc\s+(?:replace|change)\b.*\bmqprio\b",
        "mqprio can't be changed in place: the kernel answers 'Change operation not supported by specified qdisc'",
        "tc qdisc del dev PORT root, then add; RDMA needs no mqprio at all",
    ),
    _advice(
        "mqprio",
        r"\btc\s+qdisc\s+add\b.*\bmqprio\b",
        "RDMA traffic bypasses qdiscs: mqprio prioritises TCP/IP of the kernel only, and PFC does not need it",
        "trust, ETS and PFC of the port do that for RDMA (the policy's fields trust, ets, pfc)",
    ),
    _advice(
        "gid_index_3",
        r"NCCL_IB_GID_INDEX=[\"']?3\b|\bib_\w+\b.*\s(?:-x\s*|--gid-index[= ]\s*)3\b",
        "the index of the RoCE v2 GID moves with VLANs, IPv6 and the order of addresses: 3 is right by chance only",
        "leave it out: NCCL from 2.21 on and perftest find it; else look it up by the address (show_gids)",
    ),
    _advice(
        "app_replace",
        r"\bdcb\s+app\s+replace\b.*(?:&&|\|\||;\s*if)",
        "dcb app replace always exits with 0, whatever went wrong: its exit status decides nothing",
        "read the table back (dcb -j app show), or use add and del",
    ),
    _advice(
        "one_way",
        r"\bib_(?:write|read|send)_bw\b(?!.*(?:\s-[A-Za-z]*b\b|--bidirectional))",
        "without -b the test sends one way only; with -b the figure is the sum of both directions",
        "add -b on both ends, and judge by twice the link rate",
        beside=r"bi-?\s?dir|both directions|full.?duplex",
    ),
)


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Findings on the usual places, and on files of the option review."""
    texts = {path: host.read_optional(path) or "" for path in USUAL_PLACES if host.exists(path)}
    texts |= context.review.texts
    found = [finding for path, text in texts.items() for finding in check_text(text, path)]
    if not any(is_script(text) for text in texts.values()):
        return [Finding("advice", SKIPPED, cause="no script was given to look at (option review)")]
    return found or [Finding("advice", PASS, evidence=", ".join(texts))]


def is_script(text: str) -> bool:
    """Whether a text is something that is meant to be run."""
    return bool(_SCRIPT.search(text))


def check_text(text: str, source: str) -> list[Finding]:
    """A finding on each kind of such advice in a script, with the lines where it stands."""
    if not is_script(text):
        return []
    commands = _commands(text)
    found = [_finding(advice, hits, source) for advice in ADVICE for hits in [_hits(advice, commands)] if hits]
    return found + [replace(finding, evidence=source) for finding in check_commands(_code(text))]


def _commands(text: str) -> list[tuple[int, str]]:
    """Each command with the number of its first line: after a backslash it goes on in the next one."""
    found: list[tuple[int, str]] = []
    goes_on = False
    for number, line in enumerate(text.splitlines(), 1):
        first, head = found.pop() if goes_on else (number, "")
        goes_on = line.endswith("\\") and (bool(head) or not _is_comment(line))
        found.append((first, head + (line[:-1] if goes_on else line)))
    return found


def _hits(advice: Advice, commands: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [
        (number, line)
        for place, (number, line) in enumerate(commands)
        if not _is_comment(line)
        and advice.pattern.search(line)
        and advice.beside.search("\n".join(text for _number, text in commands[max(place - 2, 0) : place + 1]))
    ]


def _code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not _is_comment(line))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _finding(advice: Advice, hits: list[tuple[int, str]], source: str) -> Finding:
    return Finding(
        check="advice",
        verdict=FAIL,
        observed={"what": advice.name, "line": hits[0][1].strip()[:200]},
        expected="a line that does what it is there for",
        evidence=", ".join(f"{source}:{number}" for number, _line in hits[:5]),
        cause=advice.cause,
        remedy=advice.remedy,
    )
