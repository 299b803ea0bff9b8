# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NCCL's variables, from the policy and from what the node is; and the files in which jobs find them. Pure.

Sources: NCCL's param.cc (nccl.conf), net_ib.cc, socket.cc, 2.18 to 2.30.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t
from dataclasses import dataclass

from ..checks.nccl_env import Node, Setting, check
from ..errors import PolicyError
from ..findings import FAIL

if t.TYPE_CHECKING:
    from ..policy import Policy

ENV_FILE = "/etc/lossless-roce/nccl.env"
ENV_HEADER = "# Written by lossless.roce from the policy."
# From this release on NCCL finds the GID by itself, and takes a range of addresses to choose among several.
FINDS_GID = (2, 21)
# A range as wide as this would choose nothing.
_WIDEST_PREFIX = 8
# What means something to a shell in an assignment.
_OF_SHELLS = set(";&|<>()$`\\\"'~")
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,100}")
# A line of nccl.conf as NCCL reads it: a carriage return belongs to the value.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.\d{1,4}){0,2}")


@dataclass(frozen=True)
class PortFacts:
    """A declared port as it is on the node: RDMA device and port, its address with its network, its GID index."""

    ibdev: str
    ibport: int
    address: str = ""
    prefix: int = 32
    gid_index: int | None = None


def parse_version(text: str) -> tuple[int, int] | None:
    """``2.28.9`` -> (2, 28); None for an empty text. Raises PolicyError."""
    if not text:
        return None
    found = _VERSION.fullmatch(text)
    if found is None:
        raise PolicyError(f"nccl_version: {text!r} … a version such as 2.28.9 was expected")
    return int(found.group(1)), int(found.group(2))


def derive(
    policy: Policy,
    ports: t.Sequence[PortFacts],
    *,
    version: tuple[int, int] | None = None,
    interface: str = "",
    tuning: t.Mapping[str, t.Any] | None = None,
) -> dict[str, str]:
    """Variables by name. Without a version a release that finds GIDs by itself is assumed.

    interface: for bootstrap and sockets; tuning: the user's own, which may add and not contradict.
    Raises PolicyError naming each variable that is out of range or against the policy.
    """
    derived = {**policy.nccl()} if ports else {}
    if ports:
        # The leading = is exact: mlx5_1 alone would take mlx5_10 to mlx5_19 as well.
        derived["NCCL_IB_HCA"] = "=" + ",".join(f"{port.ibdev}:{port.ibport}" for port in ports)
        derived.update(_gid(ports, version))
    if interface:
        derived["NCCL_SOCKET_IFNAME"] = f"={interface}"
    given = {str(name): _text(name, value) for name, value in (tuning or {}).items()}
    _refuse(policy, ports, derived, given)
    return {**derived, **given}


def _gid(ports: t.Sequence[PortFacts], version: tuple[int, int] | None) -> dict[str, str]:
    if version is None or version >= FINDS_GID:
        wide = address_range(ports)
        return {"NCCL_IB_ADDR_RANGE": wide} if wide else {}
    indexes = {port.gid_index for port in ports if port.gid_index is not None}
    missing = [port.ibdev for port in ports if port.gid_index is None]
    if missing:
        raise PolicyError(f"NCCL_IB_GID_INDEX: {missing[0]} has no RoCE v2 GID for its declared address")
    if len(indexes) > 1:
        raise PolicyError(
            f"NCCL_IB_GID_INDEX: the ports' GIDs have the indexes {sorted(indexes)}, and NCCL before 2.21 takes one for"
            " all: use a newer NCCL, or give all ports the same addresses in the same order"
        )
    return {"NCCL_IB_GID_INDEX": str(indexes.pop())}


def address_range(ports: t.Sequence[PortFacts]) -> str:
    """The smallest network that holds all ports' networks; empty when it would be too wide to choose anything."""
    networks = [ipaddress.ip_network(f"{port.address}/{port.prefix}", strict=False) for port in ports if port.address]
    if not networks or len({network.version for network in networks}) > 1:
        return ""
    wide = networks[0]
    while not all(network.subnet_of(wide) for network in networks):  # type: ignore[arg-type]
        wide = wide.supernet()
    return str(wide) if wide.prefixlen >= _WIDEST_PREFIX else ""


def _text(name: t.Any, value: t.Any) -> str:
    text = str(value).strip()
    if not _NAME.fullmatch(str(name)):
        raise PolicyError(f"environment: {name!r} … a name of capitals, digits and _ was expected")
    if not text.isprintable() or any(letter.isspace() for letter in text):
        raise PolicyError(f"environment: {name}={text!r} … a value without blanks and line ends was expected")
    return text


def _refuse(
    policy: Policy, ports: t.Sequence[PortFacts], derived: t.Mapping[str, str], given: t.Mapping[str, str]
) -> None:
    """Raise PolicyError for variables that NCCL does not take, or that contradict what follows from the policy."""
    both = {**derived, **given}
    node = Node(
        policy if ports else None,
        tuple(port.ibdev for port in ports),
        tuple(port.gid_index for port in ports if port.gid_index is not None),
    )
    found = check([Setting(name, value, "environment") for name, value in both.items()], node)
    problems = [f"{bad.evidence}: {bad.cause} … expected: {bad.expected}" for bad in found if bad.verdict == FAIL]
    own, wanted = given.get("NCCL_IB_HCA"), derived.get("NCCL_IB_HCA")
    if own is not None and wanted is not None and own != wanted:
        problems.append(f"environment: NCCL_IB_HCA={own}, and the policy and the node's ports make it {wanted}")
    if problems:
        raise PolicyError("; ".join(problems))


# -- files -----------------------------------------------------------------------------------------


def merged_conf(text: str, variables: t.Mapping[str, str]) -> str:
    """nccl.conf with these variables; each other line stays as it is, and where it is."""
    left = dict(variables)
    lines = []
    for line in _LINE.findall(text):
        # NCCL takes what is before the first = as it stands; people write blanks and export.
        name = line.partition("=")[0].strip().removeprefix("export ").strip()
        if line.startswith("#") or name not in variables:
            lines.append(line)
        elif name in left:
            lines.append(f"{name}={left.pop(name)}\n")
    if left and lines and not lines[-1].endswith("\n"):
        lines.append("\n")
    return "".join([*lines, *(f"{name}={value}\n" for name, value in left.items())])


def env_file(variables: t.Mapping[str, str]) -> str:
    """A file for a shell, for EnvironmentFile= of a unit and for --env-file of docker and podman alike.

    Raises PolicyError for a value that a shell would not take as it stands: docker takes quotes for a part of it.
    """
    for name, value in variables.items():
        found = "".join(sorted(_OF_SHELLS & set(value)))
        if found:
            raise PolicyError(
                f"environment: {name}={value} holds {found}, which a shell that reads the file takes for its own"
                " … a value without it, or env_file empty (NCCL reads nccl.conf by itself), was expected"
            )
    return f"{ENV_HEADER}\n" + "".join(f"{name}={value}\n" for name, value in variables.items())
