# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters around the tests between hosts: which ports take part, whom they reach, what was not tested."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError, RoceError, brief
from ansible_collections.lossless.roce.plugins.module_utils.fabric import analysis, blame
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import TOOLS
from ansible_collections.lossless.roce.plugins.module_utils.fabric.coverage import (
    absent_host,
    broken_pairs,
    fabric_ports,
    lonely_rails,
    matrix_hosts,
    peers_of,
    skipped_tests,
)
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast import plan, wanted_names
from ansible_collections.lossless.roce.plugins.module_utils.fabric.incast_verdict import judge, parse_parts
from ansible_collections.lossless.roce.plugins.module_utils.fabric.leaves import known_leaves, parse_leaves
from ansible_collections.lossless.roce.plugins.module_utils.fabric.part import parse
from ansible_collections.lossless.roce.plugins.module_utils.fabric.spec import JUDGE_SPEC, MATRIX_SPEC, RUN_SPEC
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy

_PORTS = ("roce_ports", "host: [{name, rail, address}, …] with one port on a rail")
_FINDINGS = ("findings", "of each host a list of {check, verdict, observed: {client, server, rail, gbps}}")


def _told(function: t.Callable[..., t.Any], what_it_takes: tuple[str, str] = _PORTS) -> t.Callable[..., t.Any]:
    """The function, with what is wrong with its input as one clear error."""
    name, expected = what_it_takes

    @functools.wraps(function)
    def checked(*arguments: t.Any) -> t.Any:
        try:
            return function(*arguments)
        except (KeyError, TypeError, AttributeError, ValueError) as exc:
            what = str(exc) if isinstance(exc, ValueError) else repr(exc)
            raise AnsibleFilterError(f"{name}: {what} … {expected} was expected") from exc

    return checked


def _refused(function: t.Callable[..., t.Any]) -> t.Callable[..., t.Any]:
    """The function, with what it refuses as an error of the filter."""

    @functools.wraps(function)
    def checked(*arguments: t.Any, **options: t.Any) -> t.Any:
        try:
            return function(*arguments, **options)
        except RoceError as exc:
            raise AnsibleFilterError(str(exc)) from exc

    return checked


def peers(
    host: str, ports: t.Mapping[str, t.Any], options: t.Mapping[str, t.Any] | None = None
) -> list[dict[str, t.Any]]:
    """The other ends of a host's rails; with options of fabric_bandwidth only of the hosts that it tests with."""
    found = peers_of(host, ports)
    if options is None or not found:
        return found
    spec = {key: rule for key, rule in {**MATRIX_SPEC, **RUN_SPEC, **JUDGE_SPEC}.items() if key != "hosts"}
    given = {key: value for key, value in options.items() if value is not None}
    checked = ArgumentSpecValidator(spec).validate(given)
    if checked.error_messages:
        raise PolicyError("; ".join(checked.error_messages))
    matrix, _options = parse({**checked.validated_parameters, "hosts": matrix_hosts(ports)})
    partners = matrix.partners_of(host)
    return [peer for peer in found if peer["name"] in partners]


Findings = t.Iterable[t.Mapping[str, t.Any]]


def _measured(
    hosts: t.Iterable[Findings],
) -> tuple[list[analysis.Measured], list[analysis.Absence]]:
    """What the findings of hosts say of the matrix. Joined here: jinja's flatten takes minutes for 512 hosts."""
    findings = [finding for own in hosts for finding in own if finding["check"] in TOOLS]
    return analysis.measured_from(findings, TOOLS), analysis.absences_from(findings, TOOLS)


def suspects(hosts: t.Iterable[Findings], leaves: t.Any = None) -> list[dict[str, t.Any]]:
    """The pairs that are to be tested again, from the findings of each host; none when nothing is suspected."""
    measured, absences = _measured(hosts)
    return blame.suspects(measured, parse_leaves(leaves), absences)


def analysed(
    hosts: t.Iterable[Findings], leaves: t.Any = None, again: t.Iterable[Findings] | None = None
) -> list[dict[str, t.Any]]:
    """Findings on what explains the failed tests among the findings of each host.

    leaves: as parse_leaves takes them. again: the findings of each host on the pairs that were tested again.
    """
    measured, absences = _measured(hosts)
    second = None if again is None else _measured(again)[0]
    return [found.as_dict() for found in blame.findings(measured, parse_leaves(leaves), absences, second)]


def incast_verdict(
    parts: t.Iterable[t.Mapping[str, t.Any]], planned: t.Mapping[str, t.Any], policy: t.Mapping[str, t.Any]
) -> list[dict[str, t.Any]]:
    """The finding on an incast from the parts of its hosts, as a list."""
    keys = ("receiver", "senders", "rail")
    if not isinstance(planned, dict) or not set(keys) <= set(planned) or not isinstance(planned["senders"], list):
        raise PolicyError(f"planned: {brief(planned)} … what incast_plan returned was expected")
    who = {key: planned[key] for key in keys}
    return [judge(parse_parts(parts), parse_policy(policy), **who).as_dict()]


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        functions: dict[str, t.Callable[..., t.Any]] = {
            "matrix_hosts": matrix_hosts,
            "peers": _refused(peers),
            "fabric_ports": fabric_ports,
            "lonely_rails": lonely_rails,
            "absent_host": absent_host,
            "leaves": known_leaves,
        }
        of_findings: dict[str, t.Callable[..., t.Any]] = {
            "broken_pairs": broken_pairs,
            "skipped_tests": skipped_tests,
            "analysed": analysed,
            "suspects": suspects,
        }
        refusing: dict[str, t.Callable[..., t.Any]] = {
            "incast_plan": plan,
            "incast_names": wanted_names,
            "incast_verdict": incast_verdict,
        }
        return {
            **{name: _refused(_told(function)) for name, function in functions.items()},
            **{name: _refused(_told(function, _FINDINGS)) for name, function in of_findings.items()},
            **{name: _refused(function) for name, function in refusing.items()},
        }
