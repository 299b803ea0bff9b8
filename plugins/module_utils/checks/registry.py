# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every check of a node that a diagnosis runs. A new one is a file beside this one and a line here."""

from __future__ import annotations

import typing as t

from . import (
    acs,
    addresses,
    advice,
    cable,
    congestion,
    containers,
    counters,
    dcb_masters,
    driver,
    firewall,
    firmware,
    gpudirect,
    iommu,
    kernel,
    memlock,
    nccl_env,
    neighbours,
    netplan,
    placement,
    port_kinds,
    review,
)

if t.TYPE_CHECKING:
    from ..findings import Finding
    from ..host import Host
    from .base import Context

Check = t.Callable[["Host", "Context"], "list[Finding]"]

# From the card outwards: what stands first explains what comes after it.
CHECKS: tuple[tuple[str, Check], ...] = (
    ("driver", driver.diagnose),
    ("firmware", firmware.diagnose),
    ("cable", cable.diagnose),
    ("port_kind", port_kinds.diagnose),
    ("placement", placement.diagnose),
    ("iommu", iommu.diagnose),
    ("acs", acs.diagnose),
    ("gpudirect", gpudirect.diagnose),
    ("dcb_masters", dcb_masters.diagnose),
    ("congestion", congestion.diagnose),
    ("address", addresses.diagnose),
    ("netplan_mtu", netplan.diagnose),
    ("firewall", firewall.diagnose),
    ("neighbours", neighbours.diagnose),
    ("kernel", kernel.diagnose),
    ("memlock_services", memlock.diagnose),
    ("containers", containers.diagnose),
    ("counters", counters.diagnose),
    ("nccl_env", nccl_env.diagnose),
    ("advice", advice.diagnose),
    ("review", review.diagnose),
)
