# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ACS on the bridges above NICs and GPUs: it sends traffic between devices up to the root complex.

Sources: PCI Express base specification (ACS), NCCL's notes on GPUDirect, rdma_topo of rdma-core.
"""

from __future__ import annotations

import typing as t

from ..errors import RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.acs import Function, parse_acs
from ..pci_tree import bridges_above
from ..ports import functions_of

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

EVIDENCE = "lspci -D -vvv"
# Bits that turn requests or completions between devices away from the direct path. SrcValid only
# checks who sends, TransBlk concerns translated addresses, DirectTrans opens a path.
REDIRECTING = ("ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl")


def diagnose(host: Host, context: Context) -> list[Finding]:
    """One finding on the bridges that the option acs_bridges names, or all above declared ports and GPUs."""
    own = [pci for port in context.ports for pci in functions_of(port)]
    devices = [*own, *(gpu["pci"] for gpu in context.facts.get("gpus", []))]
    bridges = context.options.get("acs_bridges") or bridges_above(host, devices)
    if not bridges:
        return [
            Finding(
                "acs", SKIPPED, evidence="/sys/bus/pci/devices", cause="no PCI bridge is above the RDMA ports and GPUs"
            )
        ]
    try:
        functions = read_acs(host)
        machine = host.run("uname", "-m").out.strip()
    except RoceError as exc:
        return [
            Finding(
                "acs", UNKNOWN, evidence=EVIDENCE, cause=str(exc), remedy="apply the role baseline if a tool is missing"
            )
        ]
    return [judge([functions.get(bridge, Function(bridge, denied=True)) for bridge in bridges], machine)]


def read_acs(host: Host) -> dict[str, Function]:
    """All PCI functions of the node."""
    return parse_acs(host.run("lspci", "-D", "-vvv").out)


def judge(functions: t.Sequence[Function], machine: str = "x86_64") -> Finding:
    """A verdict on these bridges; some bits on is worse than something that can't be read."""
    redirecting = {f.address: [bit for bit in f.on if bit in REDIRECTING] for f in functions if f.on}
    redirecting = {address: bits for address, bits in redirecting.items() if bits}
    problems = {f.address: f.problem() for f in functions if f.problem()}
    observed = {f.address: list(f.on) for f in functions if f.on is not None}
    if redirecting and machine == "aarch64":
        # Grace with Direct NIC wants certain bits on: which ones, the rdma_topo tool of rdma-core knows.
        return _finding(
            UNKNOWN, observed, "on this platform some bits must be on", "compare with rdma_topo of rdma-core"
        )
    if redirecting:
        return _finding(FAIL, observed, _cause(redirecting), _remedy(redirecting))
    if problems or not functions:
        told = "; ".join(f"{address}: {why}" for address, why in problems.items()) or "no bridge was listed"
        return _finding(UNKNOWN, observed, told, "run lspci -vvv as root; see dmesg for a device that does not answer")
    return _finding(PASS, observed)


def _finding(verdict: str, observed: t.Any, cause: str = "", remedy: str = "") -> Finding:
    expected = f"{', '.join(REDIRECTING)} off on every bridge above NICs and GPUs"
    return Finding("acs", verdict, observed, expected, EVIDENCE, cause, remedy)


def _cause(redirecting: dict[str, list[str]]) -> str:
    bits = "; ".join(f"{address} has {', '.join(on)} on" for address, on in redirecting.items())
    return f"ACS sends traffic between devices up to the root complex, which slows or breaks GPUDirect: {bits}"


def _remedy(redirecting: dict[str, list[str]]) -> str:
    commands = " && ".join(f"setpci -s {address} ECAP_ACS+6.w=0000" for address in redirecting)
    return (
        "unless devices are handed to virtual machines, whom ACS keeps apart: baseline_disable_acs: true,"
        f" or until the next boot: {commands}"
    )
