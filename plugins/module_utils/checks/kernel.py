# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Settings of the whole kernel that large RDMA jobs feel: NUMA balancing, huge pages, processor frequency.

Sources: linux Documentation/admin-guide/sysctl/kernel.rst, vm.rst, cpu-freq.rst.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import RoceError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding

if t.TYPE_CHECKING:
    from ..host import Host
    from .base import Context

_BALANCING = "/proc/sys/kernel/numa_balancing"
_NODES = "/sys/devices/system/node"
_POLICIES = "/sys/devices/system/cpu/cpufreq"


def diagnose(host: Host, context: Context) -> list[Finding]:
    """numa_balancing (option: off when asked), hugepages (option: how many were asked for), cpu_governor."""
    options = context.options
    nodes = [name for name in host.listdir(_NODES) if re.fullmatch(r"node[0-9]+", name)]
    policies = [name for name in host.listdir(_POLICIES) if name.startswith("policy")]
    governors = {(host.read_optional(f"{_POLICIES}/{name}/scaling_governor") or "").strip() for name in policies}
    try:
        huge = hugepages(options.get("hugepages"), host.read("/proc/meminfo"))
    except RoceError as exc:
        huge = Finding("hugepages", UNKNOWN, evidence="/proc/meminfo", cause=str(exc))
    balancing = numa_balancing(options.get("numa_balancing"), host.read_optional(_BALANCING), len(nodes))
    return [balancing, huge, cpu_governor(governors - {""})]


def numa_balancing(asked: str | None, text: str | None, nodes: int) -> Finding:
    """asked: "off", or None when nobody asked. One NUMA node, or a kernel without it, is as good as off."""
    value = (text or "").strip()
    if text is None or value == "0" or nodes == 1:
        return Finding("numa_balancing", PASS, value or "not in this kernel", 0, _BALANCING)
    if not re.fullmatch(r"[0-9]+", value):
        return Finding("numa_balancing", UNKNOWN, value, 0, _BALANCING, "the value was not understood")
    cause = "the kernel moves pages between NUMA nodes while a job runs, away from its NIC and GPU"
    if asked != "off":
        cause = f"nothing was asked for. It is on: {cause}; baseline_disable_numa_balancing turns it off"
        return Finding("numa_balancing", SKIPPED, int(value), None, _BALANCING, cause)
    return Finding(
        "numa_balancing",
        FAIL,
        int(value),
        0,
        _BALANCING,
        cause,
        "sysctl -w kernel.numa_balancing=0, or apply the role baseline",
    )


def hugepages(asked: int | None, meminfo: str) -> Finding:
    """asked: how many of the default size, or None. Nobody is told off for more than asked."""
    figures = dict(re.findall(r"^(HugePages_Total|HugePages_Free|Hugepagesize):\s+([0-9]+)", meminfo, re.MULTILINE))
    evidence = "/proc/meminfo"
    if asked is None:
        total = int(figures["HugePages_Total"]) if "HugePages_Total" in figures else None
        return Finding("hugepages", SKIPPED, total, None, evidence, "nothing was asked for")
    if "HugePages_Total" not in figures:
        return Finding("hugepages", UNKNOWN, None, asked, evidence, "the kernel does not tell its huge pages")
    total = int(figures["HugePages_Total"])
    if total >= asked:
        return Finding("hugepages", PASS, total, asked, evidence)
    size = f"{figures.get('Hugepagesize', '?')} kB"
    cause = f"{total} of {asked} huge pages of {size} are there: memory is too small or too fragmented"
    remedy = "reboot (they are taken early at boot), or ask for fewer: baseline_hugepages"
    return Finding("hugepages", FAIL, total, asked, evidence, cause, remedy)


def cpu_governor(governors: t.Collection[str]) -> Finding:
    """Reported only: what a governor other than performance does depends on the driver below it."""
    evidence = f"{_POLICIES}/policy*/scaling_governor"
    if not governors:
        return Finding(
            "cpu_governor", SKIPPED, [], None, evidence, "the kernel does not scale this processor's frequency"
        )
    if set(governors) == {"performance"}:
        return Finding("cpu_governor", PASS, ["performance"], "performance", evidence)
    cause = "some drivers clock up fast enough under other governors as well, some do not"
    remedy = "compare ib_write_bw with cpupower frequency-set -g performance"
    return Finding("cpu_governor", UNKNOWN, sorted(governors), "performance", evidence, cause, remedy)
