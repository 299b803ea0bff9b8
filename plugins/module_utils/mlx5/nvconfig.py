# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""mstconfig, or mlxconfig where that is what is installed: query and set. Private to the collection."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..errors import HostError, NotApplicable, PolicyError, ToolMissing, Unreadable
from ..operations import Run
from ..parsers import mstconfig

if t.TYPE_CHECKING:
    from ..host import Host

# A query of all parameters of a card takes seconds; firmware that is busy makes it wait.
_LIMIT_S = 120.0


@dataclass(frozen=True)
class Tools:
    """Names of the programs: mstflint's, or those of NVIDIA's own package, which are called the same ways."""

    config: str
    reset: str


def find_tools(host: Host) -> Tools:
    """The installed programs. Raises ToolMissing naming the package."""
    for config, reset in (("mstconfig", "mstfwreset"), ("mlxconfig", "mlxfwreset")):
        if host.which(config):
            return Tools(config, reset)
    raise ToolMissing("mstconfig", "mstflint")


def query_argv(tools: Tools, pci: str, names: t.Sequence[str] = ()) -> tuple[str, ...]:
    """The command that shows default, current and next-boot values; of all parameters without names."""
    return (tools.config, "-d", pci, "-e", "query", *names)


def query(host: Host, tools: Tools, pci: str, names: t.Sequence[str] = ()) -> mstconfig.Device:
    """The device's parameters.

    Raises PolicyError for a name that it does not have, NotApplicable for a card that the tool does
    not support, Unreadable for one that does not answer.
    """
    argv = query_argv(tools, pci, names)
    done = host.run(*argv, check=False, timeout=_LIMIT_S)
    if done.rc:
        _refuse(pci, tools, names, _error_of(done.out, done.err))
    device = _block(pci, done.out)
    for name in names:
        if name not in device.parameters:
            raise Unreadable(f"{pci}: {name}: not in the output of {' '.join(argv)}")
    return device


def _block(pci: str, text: str) -> mstconfig.Device:
    blocks = [device for device in mstconfig.parse_query(text).devices if device.parameters]
    if len(blocks) != 1:
        raise Unreadable(f"{pci}: a query of one device printed {len(blocks)} blocks")
    return blocks[0]


def _error_of(out: str, err: str) -> str:
    """The tool's own words: its -E- lines, else all that it said."""
    lines = [line.strip()[3:].strip() for line in out.splitlines() if line.strip().startswith("-E-")]
    return "; ".join(lines) or " ".join((err or out).split()) or "no message"


def _refuse(pci: str, tools: Tools, names: t.Sequence[str], error: str) -> t.NoReturn:
    unknown = next((name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", error)), "")
    if unknown:
        raise PolicyError(f"{pci}: {unknown}: this device's firmware has no such parameter ({tools.config}: {error})")
    if re.search(r"unsupported device", error, re.IGNORECASE):
        raise NotApplicable(f"{pci}: {tools.config} does not support this card ({error})")
    raise Unreadable(f"{pci}: {tools.config} cannot read this device: {error}")


def set_operation(tools: Tools, pci: str, values: dict[str, t.Any]) -> Run:
    """The one command that writes these values for the next boot."""
    pairs = (f"{name}={mstconfig.as_argument(value)}" for name, value in values.items())
    return Run((tools.config, "-d", pci, "-y", "set", *pairs))


def reset_operation(tools: Tools, pci: str) -> Run:
    """The command that resets the firmware of a card, at the lowest level that loads the configuration."""
    return Run((tools.reset, "-d", pci, "-y", "reset"))


def perform(host: Host, operation: Run, limit: float = 600.0) -> None:
    """Run one of the two with time enough. Raises HostError with the tool's own words."""
    done = host.run(*operation.argv, check=False, timeout=limit)
    if done.rc or re.search(r"^\s*-E-", done.out, re.MULTILINE):
        raise HostError(f"{' '.join(operation.argv)}: exit status {done.rc}: {_error_of(done.out, done.err)}")
