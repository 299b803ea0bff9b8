# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which PCI bridges stand above a function, from the kernel's own tree. Private to the collection."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from .host import Host

PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def bridges_above(host: Host, functions: t.Iterable[str]) -> list[str]:
    """Addresses of every root port and switch port above the functions, sorted, each once."""
    above: set[str] = set()
    for function in functions:
        path = host.realpath(f"/sys/bus/pci/devices/{function}")
        above.update(part for part in path.split("/")[:-1] if PCI_ADDRESS.fullmatch(part))
    return sorted(above)
