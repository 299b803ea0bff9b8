# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL's variables need to know of a node, and writing them where jobs find them. Private to the collection."""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass, field

from ..checks.nccl_env import CONF
from ..errors import HostError, PolicyError, RoceError
from ..gids import read_gids
from ..operations import Backup, MakeDir, Operation, Write
from ..parsers.addresses import Interface, parse_networks
from ..parsers.gids import choose
from ..policy import parse_policy
from ..ports import Port, find_ports, select_ports
from .env import ENV_FILE, ENV_HEADER, PortFacts, derive, env_file, merged_conf, parse_version

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
    def gid_indexes(self) -> str:
        """The indexes of the ports' RoCE v2 GIDs: ``3``, or ``3,5`` where they differ; ``none`` for a port without."""
        indexes = {fact.gid_index for fact in self.facts}
        return ",".join(
            [*map(str, sorted(i for i in indexes if i is not None)), *(["none"] if None in indexes else [])]
        )


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
    """What nccl_env was asked for. Paths are absolute; an empty one leaves that file alone."""

    ports: DeclaredPorts
    policy: t.Mapping[str, t.Any]
    interface: str = ""
    version: str = ""
    tuning: t.Mapping[str, t.Any] = field(default_factory=dict)
    conf: str = CONF
    env_file: str = ENV_FILE


def converge(host: Host, wanted: Wanted, dry_run: bool) -> dict[str, t.Any]:
    """Write what differs: {changed, variables, commands, diff} as plain JSON.

    Raises RoceError; the files are as before then.
    """
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
    former = {path: host.read_exact(path) if host.exists(path) else None for path in _paths(host, wanted)}
    before = {path: text or "" for path, text in former.items()}
    texts = {}
    if wanted.conf:
        texts[wanted.conf] = merged_conf(before[wanted.conf], variables)
    if wanted.env_file:
        texts[wanted.env_file] = env_file(variables)
    steps = [step for path, text in texts.items() if before[path] != text for step in _steps(path, before[path], text)]
    if not dry_run:
        _perform(host, steps, former)
    return {
        "changed": bool(steps),
        "variables": variables,
        "commands": [step.shown() for step in steps],
        "diff": {"before": before, "after": texts},
    }


# -- the files -------------------------------------------------------------------------------------


def _paths(host: Host, wanted: Wanted) -> list[str]:
    """The files to write. Raises PolicyError for a place where none can be."""
    named = {"conf": wanted.conf, "env_file": wanted.env_file}
    for name, path in named.items():
        if path and (path[0] != "/" or path[-1] == "/" or "\0" in path):
            raise PolicyError(f"{name}: {path!r} … the absolute path of a file was expected")
        parent = _folder(path).rpartition("/")[0]
        if parent and not host.exists(parent):
            raise PolicyError(f"{name}: {path!r} is in a folder in {parent}, which is not there … make it first")
    if wanted.conf and wanted.conf == wanted.env_file:
        raise PolicyError(f"env_file: {wanted.env_file!r} is conf as well … another file was expected")
    return [path for path in named.values() if path]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _steps(path: str, before: str, text: str) -> list[Operation]:
    """What writes a file. One that has somebody's lines is copied first."""
    theirs = before and not before.startswith(ENV_HEADER)
    folder = [] if _folder(path) in ("", "/etc") else [MakeDir(_folder(path))]
    return [*([Backup(path)] if theirs else []), *folder, Write(path, text)]


def _perform(host: Host, steps: t.Sequence[Operation], former: t.Mapping[str, str | None]) -> None:
    """All steps or none: files that were written before one fails are put back. Raises HostError."""
    written: list[str] = []
    try:
        for step in steps:
            step.perform(host)
            if isinstance(step, Write):
                written.append(step.path)
    except RoceError as exc:
        raise HostError(f"{exc}; {_put_back(host, {path: former[path] for path in written})}") from exc


def _put_back(host: Host, former: t.Mapping[str, str | None]) -> str:
    try:
        for path, text in former.items():
            if text is None:
                host.remove(path)
            else:
                host.write(path, text)
    except RoceError as exc:
        return f"rolling back failed: {exc}"
    return "rolled back: the former files are in place"
