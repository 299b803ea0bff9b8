# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every check of a node gets to know. Private to the collection.

A file of this folder offers ``diagnose(host, context) -> list[Finding]``: it reads through the host,
never changes anything, and leaves the judgement to pure functions beside it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..errors import HostError

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from ..ports import Port


@dataclass(frozen=True)
class Context:
    """A node as far as it is known already, and what was asked.

    ports: the declared ports that are there
    policy: the fabric's policy, or None when only the node is looked at
    facts: what ``info.gather`` returned
    options: options of single checks, by name (``tcp_ports``, ``minimum_firmware``, ...)
    """

    ports: tuple[Port, ...]
    policy: Policy | None
    facts: dict[str, t.Any]
    options: dict[str, t.Any] = field(default_factory=dict)


def reviewed(host: Host, context: Context) -> tuple[dict[str, str], dict[str, str]]:
    """The files of the option review: texts by path, and by path why others cannot be read."""
    texts, refused = {}, {}
    for path in context.options.get("review") or []:
        try:
            texts[path] = host.read_named(path)
        except HostError as exc:
            refused[path] = str(exc)
    return texts, refused
