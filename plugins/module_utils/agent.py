# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The program on a node: bring its ports to the saved policy, or say what differs. Private to the collection.

Role node_agent installs it as one file, made of this one and all that it imports. The boot unit and
udev start it; it changes a port by the same engine as the modules, and waits for the same lock.
"""

from __future__ import annotations

import argparse
import json
import sys
import typing as t

from .command_line import say, start
from .errors import HostError, ToolMissing
from .findings import FAIL, PASS, SKIPPED, UNKNOWN, VERDICTS, Finding
from .host import Host
from .node import Options, assign_ports, converge_all
from .ports import Port, find_ports, with_members
from .saved import Demand, load_saved
from .settings.registry import SETTINGS

RIGHT, WRONG = 0, 1
_PAUSE_S = 1.0
_IFF_UP = 1  # include/uapi/linux/if.h


def main(argv: list[str] | None = None, host: Host | None = None) -> int:
    """Exit status: 0 as declared, 1 not as declared, 2 it could not be told (no policy, a broken one)."""
    return start(_parser(), argv, host)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lossless-roce", description="The saved RoCE policy of this node.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    apply_ = commands.add_parser("apply", help="bring the ports to the saved policy")
    apply_.add_argument("--port", default="", metavar="NAME", help="this netdev only (its path in sysfs will do)")
    apply_.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="for ports and carriers, and for another run"
    )
    apply_.add_argument("--lock-wait", type=float, metavar="SECONDS", help="for another run, if not as long as --wait")
    apply_.set_defaults(command=apply)
    check_ = commands.add_parser("check", help="say what differs, and change nothing")
    check_.add_argument("--json", action="store_true", help="all findings as JSON")
    check_.set_defaults(command=check)
    return parser


# -- apply -----------------------------------------------------------------------------------------


def apply(host: Host, args: argparse.Namespace) -> int:
    """Wait for the ports, apply, and print a line for each change."""
    saved = load_saved(host)
    netdev = args.port.rpartition("/")[2]
    demands = saved.demands()
    wait_for_ports(host, demands, netdev, args.wait)
    if netdev:
        demands = _only(netdev, find_ports(host), demands)
        if not demands:
            say(f"{netdev}: not among the declared ports; nothing to do")
            return RIGHT
    lock_wait = args.wait if args.lock_wait is None else args.lock_wait
    # A job's port is left alone and named: at boot there is none, and a driver reload ended it.
    options = Options(allow_management=saved.allow_management, lock_wait=lock_wait)
    result = converge_all(host, demands, SETTINGS, options)
    for line in result.lines():
        say(line)
    if result.message():
        say(f"lossless-roce: {result.message()}", sys.stderr)
        return WRONG
    say(f"as declared: {', '.join(run.port.netdev for run in result.runs)}")
    return RIGHT


def wait_for_ports(host: Host, demands: list[Demand], netdev: str, limit: float) -> None:
    """Wait until all declared ports (or that one) are there with a carrier; at the limit the run goes on without."""
    deadline = host.now() + limit
    while not _ready(host, demands, netdev) and host.now() < deadline:
        host.sleep(_PAUSE_S)


def _ready(host: Host, demands: list[Demand], netdev: str) -> bool:
    try:
        found = find_ports(host)
    except ToolMissing:
        raise
    except HostError:  # early in a boot, before the RDMA core is loaded
        return False
    if any(port.netdev == netdev and _has_link(host, port) for port in with_members(found)):
        return True
    chosen, missing = assign_ports(found, demands)
    return not missing and all(_has_link(host, port) for port in chosen)


def _has_link(host: Host, port: Port) -> bool:
    """A port that nobody has switched on has no carrier to wait for."""
    flags = (host.read_optional(f"/sys/class/net/{port.netdev}/flags") or "").strip()
    up = int(flags, 16) & _IFF_UP if flags.startswith("0x") else False
    return not up or (host.read_optional(f"/sys/class/net/{port.netdev}/carrier") or "").strip() == "1"


def _only(netdev: str, found: list[Port], demands: list[Demand]) -> list[Demand]:
    """The demand on one port, if there is one; for a bond's port that on the bond."""
    chosen, _missing = assign_ports(found, demands)
    return [
        Demand((port.netdev,), demand.wanted)
        for port, demand in chosen.items()
        if netdev in [each.netdev for each in with_members([port])]
    ]


# -- check -----------------------------------------------------------------------------------------


def check(host: Host, args: argparse.Namespace) -> int:
    """Print what differs from the saved policy; everything is right only when nothing failed or stayed unknown."""
    saved = load_saved(host)
    options = Options(dry_run=True, allow_management=saved.allow_management, when_busy="force", save=saved)
    result = converge_all(host, saved.demands(), SETTINGS, options)
    findings = list(result.findings())
    if args.json:
        say(json.dumps([finding.as_dict() for finding in findings], indent=2))
    else:
        for line in _report(findings):
            say(line)
    return WRONG if any(finding.verdict not in (PASS, SKIPPED) for finding in findings) else RIGHT


def _report(findings: list[Finding]) -> t.Iterator[str]:
    for finding in findings:
        if finding.verdict in (FAIL, UNKNOWN):
            where = f"{finding.port}: {finding.check}" if finding.port else finding.check
            yield f"{finding.verdict}: {where}: {finding.observed} … {finding.expected} was expected: {finding.cause}"
            yield f"  {finding.remedy}"
    counts = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in VERDICTS}
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
