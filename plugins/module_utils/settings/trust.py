# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Trust state and DSCP map: one setting, since on inbox mlx5 drivers trust follows from APP entries.

mlx5 (en_dcbnl.c): the first DSCP entry switches the port to DSCP trust, deleting the last one
switches back to PCP, and a deleted entry falls to priority 0, not back to DSCP>>3. So DSCP trust
always means all 64 entries written out, and entries are deleted only to return to PCP.
"""

from __future__ import annotations

import typing as t

from ..operations import Operation, Run
from ..parsers.dcb import DSCPS, parse_app_dscp
from .base import Setting, State, Value
from .dcb_tool import show

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


def full_map(overrides: dict[int, int]) -> dict[str, int]:
    """All 64 DSCPs: the firmware's own DSCP>>3 plus the overrides. Keys are text, as in JSON."""
    return {str(dscp): overrides.get(dscp, dscp >> 3) for dscp in range(DSCPS)}


class Trust(Setting):
    """``{"trust": "dscp", "dscp_prio": {"0": 0, … "63": 7}}`` or ``{"trust": "pcp", "dscp_prio": {}}``.

    What is read holds the listed entries only; the port may map others in ways nobody can read.
    """

    name = "trust"
    rank = 30
    # Switching to DSCP trust may raise the minimum inline mode, which restarts the channels.
    disturbs = True
    risk = "RoCE packets are classified by VLAN priority or land in the wrong, lossy class"

    def read(self, host: Host, port: Port) -> Value:
        listed = parse_app_dscp(show(host, "app", port.netdev))
        return {
            "trust": "dscp" if listed else "pcp",
            "dscp_prio": {str(dscp): prio for dscp, prio in listed.items()},
        }

    def evidence(self, port: Port) -> str:
        return f"dcb -j app show dev {port.netdev}"

    def wanted(self, policy: Policy) -> Value | None:
        if policy.trust == "pcp":
            return {"trust": "pcp", "dscp_prio": {}}
        return {"trust": "dscp", "dscp_prio": full_map(policy.dscp_overrides())}

    def equal(self, wanted: Value, actual: Value) -> bool:
        listed = actual["dscp_prio"]
        return wanted["trust"] == actual["trust"] and all(
            listed.get(dscp) == prio for dscp, prio in wanted["dscp_prio"].items()
        )

    def predicted(self, wanted: Value, actual: Value) -> Value:
        if wanted["trust"] == "pcp":
            return wanted
        return {"trust": "dscp", "dscp_prio": _effective(wanted)}

    def differing(self, wanted: Value, actual: Value) -> tuple[Value, Value]:
        wrong = [d for d, prio in wanted["dscp_prio"].items() if actual.get("dscp_prio", {}).get(d) != prio]
        observed = {dscp: actual.get("dscp_prio", {}).get(dscp) for dscp in wrong}
        expected = {dscp: wanted["dscp_prio"][dscp] for dscp in wrong}
        return (
            {"trust": actual.get("trust"), **({"dscp_prio": observed} if wrong else {})},
            {"trust": wanted["trust"], **({"dscp_prio": expected} if wrong else {})},
        )

    def operations(self, port: Port, wanted: Value, state: State) -> tuple[Operation, ...]:
        if wanted["trust"] == "pcp":
            return (Run(("dcb", "app", "flush", "dev", port.netdev, "dscp-prio")),)
        listed = state[self.name]["dscp_prio"]
        pairs = [f"{dscp}:{prio}" for dscp, prio in _effective(wanted).items() if listed.get(dscp) != prio]
        # add, not replace: "dcb app replace" exits 0 whatever happens, and mlx5 drops the old entry itself.
        return (Run(("dcb", "app", "add", "dev", port.netdev, "dscp-prio", *pairs)),)

    def cannot_restore(self, before: Value) -> str:
        if before["trust"] == "dscp" and len(before["dscp_prio"]) < DSCPS:
            return "DSCPs that were not listed come back as DSCP>>3: nothing tells what the port did with them"
        return ""


def _effective(value: Value) -> dict[str, int]:
    """The whole map that a value stands for."""
    return full_map({int(dscp): prio for dscp, prio in value["dscp_prio"].items()})
