# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL's variables need to know of a node, and writing them where jobs find them. Private to the collection."""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass, field

from ..checks.nccl_env import CONF
from ..errors import PolicyError
from ..gids import read_gids
from ..operations import MakeDir, Operation, Write
from ..parsers.addresses import Interface, parse_networks
from ..parsers.gids import choose
from ..policy import parse_policy
from ..ports import Port, find_ports, select_ports
from .env import ENV_FILE, PortFacts, derive, env_file, merged_conf, parse_version

if t.TYPE_CHECKING:
    from ..host import Host

DeclaredPorts = t.Sequence[t.Mapping[str, t.Any]]


@dataclass
class NodeFacts:
    """The declared ports as they are, and all addresses of the node by netdev."""

    ports: list[Port] = field(default_factory=list)
    facts: list[PortFacts] = field(default_factory=list)
    networks: dict[str, list[Interface]] = field(default_factory=dict)

    @property
    def gid_index(self) -> int | None:
        """The index of the ports' RoCE v2 GIDs, where it is one for all."""
        indexes = {fact.gid_index for fact in self.facts}
        return indexes.pop() if len(indexes) == 1 else None


def look(host: Host, declared: DeclaredPorts) -> NodeFacts:
    """Facts of the declared ports ({name, address}). Raises PolicyError naming a port that is not there."""
    networks = parse_networks(host.run("ip", "-j", "address", "show").out)
    if not declared:
        return NodeFacts(networks=networks)
    ports, missing = select_ports(find_ports(host), [port["name"] for port in declared])
    if missing:
        raise PolicyError("; ".join(missing.values()))
    facts = [_facts(host, port, str(wanted.get("address") or ""), networks) for port, wanted in zip(ports, declared)]
    return NodeFacts(ports, facts, networks)


def _facts(host: Host, port: Port, address: str, networks: dict[str, list[Interface]]) -> PortFacts:
    own = networks.get(port.netdev, [])
    declared = next((interface for interface in own if str(interface.ip) == address), None)
    if address and declared is None:
        has = ", ".join(str(interface.ip) for interface in own) or "none"
        raise PolicyError(f"ports: {port.netdev} does not have its declared address {address} … it has {has}")
    found = declared or next((one for one in own if isinstance(one, ipaddress.IPv4Interface)), None)
    if found is None:
        return PortFacts(port.ibdev, port.ibport)
    index = choose(read_gids(host, port.ibdev, port.ibport), str(found.ip))
    return PortFacts(port.ibdev, port.ibport, str(found.ip), found.network.prefixlen, index)


@dataclass(frozen=True)
class Wanted:
    """What nccl_env was asked for. An empty path leaves that file alone."""

    ports: DeclaredPorts
    policy: t.Mapping[str, t.Any]
    interface: str = ""
    version: str = ""
    tuning: t.Mapping[str, t.Any] = field(default_factory=dict)
    conf: str = CONF
    env_file: str = ENV_FILE


def converge(host: Host, wanted: Wanted, dry_run: bool) -> dict[str, t.Any]:
    """Write what differs: {changed, variables, commands, diff} as plain JSON. Raises RoceError."""
    if dry_run:
        return _converge(host, wanted, dry_run)
    with host.lock():
        return _converge(host, wanted, dry_run)


def _converge(host: Host, wanted: Wanted, dry_run: bool) -> dict[str, t.Any]:
    node = look(host, wanted.ports)
    if wanted.interface and wanted.interface not in node.networks:
        there = ", ".join(node.networks) or "none"
        raise PolicyError(f"interface: {wanted.interface!r} is not on this node … there are {there}")
    variables = derive(
        parse_policy(wanted.policy),
        node.facts,
        version=parse_version(wanted.version),
        interface=wanted.interface,
        tuning=wanted.tuning,
    )
    before = {path: host.read_optional(path) or "" for path in (wanted.conf, wanted.env_file) if path}
    texts = {}
    if wanted.conf:
        texts[wanted.conf] = merged_conf(before[wanted.conf], variables)
    if wanted.env_file:
        texts[wanted.env_file] = env_file(variables)
    operations = [operation for path, text in texts.items() if before[path] != text for operation in _write(path, text)]
    if not dry_run:
        for operation in operations:
            operation.perform(host)
    return {
        "changed": bool(operations),
        "variables": variables,
        "commands": [operation.shown() for operation in operations],
        "diff": {"before": before, "after": texts},
    }


def _write(path: str, text: str) -> list[Operation]:
    folder = path.rpartition("/")[0]
    return [Write(path, text)] if folder in ("", "/etc") else [MakeDir(folder), Write(path, text)]
