# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""All that is known to go wrong on a node, looked for in one read-only call. Private to the collection."""

from __future__ import annotations

import typing as t

from .checks.base import Context, read_review
from .checks.links import check_ports, missing_port
from .checks.registry import CHECKS
from .errors import PolicyError, RoceError
from .findings import CONVERGE, FAIL, PASS, SKIPPED, UNKNOWN, Finding
from .gids import read_gids
from .info import gather
from .node import assign_ports, examine
from .parsers.gids import choose
from .policy import Policy, parse_policy
from .ports import Port, find_ports, select_ports, unfit, with_members
from .settings.registry import SETTINGS, policy_state

if t.TYPE_CHECKING:
    from .host import Host
    from .saved import Declared, Demand

# What must be the same on all ports of a node, whatever the policy says.
_AGREE = ("pfc", "trust", "ets", "cnp")


def diagnose(
    host: Host,
    declared: list[dict[str, t.Any]],
    policy: Policy | None,
    options: dict[str, t.Any],
    own: Declared | None = None,
) -> list[Finding]:
    """Findings on a node. ``declared``: [{name, rail, address}]; options go to the checks. Raises PolicyError.

    own: policies of single ports, as roce_node takes them; ``policy`` then counts for the node and the fabric.
    """
    demands = own.demands() if own else []
    review = read_review(host, options.get("review") or [])
    try:
        facts, found = gather(host), find_ports(host)
    except RoceError as exc:
        return [_no_rdma(str(exc)), *_run(host, Context((), policy, {"ports": [], "gpus": []}, options, review))]
    names = [port["name"] for port in declared]
    ports, missing = select_ports(found, names) if names else ([port for port in found if not unfit(port)], {})
    demanded, absent = assign_ports(found, demands)
    beside = [port for port in demanded if port not in ports]
    ports, declared = [*ports, *beside], [*declared, *({"name": port.netdev} for port in beside)]
    policies = _by_netdev(own, demanded) if own else {}
    indexes = [choose(read_gids(host, port.ibdev, port.ibport), _address(port, declared)) for port in ports]
    options = {**options, "gid_indexes": [index for index in indexes if index is not None]}
    findings = [missing_port(name, reason) for name, reason in {**missing, **absent}.items()]
    findings += [] if names else _left_out(found)
    own_gbps = {netdev: own_policy.link_gbps for netdev, own_policy in policies.items()}
    findings += check_ports(declared, facts, policy.link_gbps if policy else None, own_gbps)
    findings += _own_settings(host, ports, demanded) if own else _settings(host, ports, policy)
    for alike in _alike(ports, demanded):
        findings += agreement(facts, alike)
    return findings + _run(host, Context(tuple(ports), policy, facts, options, review, policies))


def _by_netdev(own: Declared, demanded: dict[Port, Demand]) -> dict[str, Policy]:
    """The policy of each port that one selects, and of the members of a bond."""
    policies = {demand.label: parse_policy(raw) for demand, (_ports, raw) in zip(own.demands(), own.policies)}
    return {each.netdev: policies[demand.label] for port, demand in demanded.items() for each in with_members([port])}


def _alike(ports: list[Port], demanded: dict[Port, Demand]) -> list[list[Port]]:
    """Ports that are meant to be the same: those of one policy."""
    groups: dict[str | None, list[Port]] = {}
    for port in ports:
        groups.setdefault(demanded[port].label if port in demanded else None, []).append(port)
    return list(groups.values())


def _address(port: Port, declared: list[dict[str, t.Any]]) -> str:
    own = (wanted.get("address") for wanted in declared if wanted["name"] in (port.netdev, port.ibdev))
    return next(own, None) or ""


def _left_out(found: list[Port]) -> list[Finding]:
    """Where nothing is declared, ports that RoCE cannot use may be meant to be so."""
    reasons = {port.label(): unfit(port) for port in found}
    return [
        Finding("port", SKIPPED, evidence="rdma -j link show", cause=f"{name} {reason}", port=name)
        for name, reason in reasons.items()
        if reason
    ]


def _no_rdma(reason: str) -> Finding:
    return Finding(
        check="rdma",
        verdict=FAIL,
        observed=reason,
        expected="RDMA devices",
        evidence="rdma -j link show",
        cause=f"RDMA cannot be looked at on this node: {reason}",
        remedy="apply role lossless.roce.baseline (packages and kernel modules); look for the card: lspci -d 15b3:",
    )


def _settings(host: Host, ports: list[Port], policy: Policy | None) -> list[Finding]:
    """Every setting of the policy against what runs."""
    return examine(host, ports, SETTINGS, policy_state(policy)) if policy else []


def _own_settings(host: Host, ports: list[Port], demanded: dict[Port, Demand]) -> list[Finding]:
    """Every setting of each port's own policy against what runs."""
    found: list[Finding] = []
    for port in ports:
        if port in demanded:
            found += examine(host, [port], SETTINGS, demanded[port].wanted)
        else:
            cause = f"no entry of policies selects {port.netdev}: what it should run is not declared"
            found.append(Finding("policy", SKIPPED, evidence="policies", cause=cause, port=port.netdev))
    return found


def agreement(facts: dict[str, t.Any], ports: list[Port]) -> list[Finding]:
    """Whether all ports run the same: one that differs from the others is wrong even without a policy."""
    names = {port.netdev for port in ports}
    own = {port["netdev"]: port["settings"] for port in facts["ports"] if port["netdev"] in names}
    if len(own) < 2:
        return []
    found = []
    for setting in _AGREE:
        values = {netdev: settings[setting] for netdev, settings in own.items() if setting in settings}
        groups: dict[str, list[str]] = {}
        for netdev, value in values.items():
            groups.setdefault(repr(value), []).append(netdev)
        if values:
            found.append(_agree(setting, values, sorted(groups.values(), key=len)))
    return found


def _agree(setting: str, values: dict[str, t.Any], groups: list[list[str]]) -> Finding:
    right = len(groups) == 1
    odd = [netdev for group in groups[:-1] for netdev in group]
    return Finding(
        check=f"{setting}_agrees",
        verdict=PASS if right else FAIL,
        observed=None if right else {netdev: values[netdev] for netdev in values},
        expected="the same on all ports",
        evidence="the settings of all ports",
        cause="" if right else f"{setting} of {', '.join(odd)} differs from {', '.join(groups[-1])}",
        remedy="" if right else CONVERGE,
    )


def _run(host: Host, context: Context) -> list[Finding]:
    """All checks; one that cannot be made is unknown, and the others go on. Raises PolicyError for a wrong option."""
    found: list[Finding] = []
    for name, check in CHECKS:
        try:
            found += check(host, context)
        except PolicyError:
            raise
        except RoceError as exc:
            found.append(Finding(name, UNKNOWN, cause=str(exc)))
    return found
