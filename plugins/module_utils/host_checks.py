# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The checks of what is not a port's own: IOMMU, ACS, packet filter, kernel. Private to the collection."""

from __future__ import annotations

import typing as t

from .checks import acs, firewall, iommu, kernel, neighbours
from .checks.base import Context
from .errors import ToolMissing
from .findings import UNKNOWN, Finding
from .info import find_gpus
from .ports import find_ports

if t.TYPE_CHECKING:
    from .host import Host


def check_host(host: Host, params: t.Mapping[str, t.Any]) -> list[Finding]:
    """All findings, with the parameters of the module as options. Raises PolicyError for a wrong one."""
    names = set(params["ports"])
    try:
        ports = tuple(port for port in find_ports(host) if names & {port.netdev, port.ibdev})
    except ToolMissing as exc:
        return [Finding("host", UNKNOWN, cause=f"unknown until baseline is applied: {exc}")]
    context = Context(ports, None, {"gpus": find_gpus(host)}, dict(params))
    checks = (iommu, acs, firewall, kernel, neighbours)
    return [finding for check in checks for finding in check.diagnose(host, context)]
