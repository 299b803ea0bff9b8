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
class Review:
    """Scripts, environment files and saved outputs: texts by path, and by path why others cannot be read."""

    texts: dict[str, str]
    unreadable: dict[str, str]


@dataclass(frozen=True)
class Context:
    """A node as far as it is known already, and what was asked.

    ports: the declared ports that are there
    policy: the fabric's policy, or None when only the node is looked at
    policies: the policies of ports that have one of their own, by netdev
    facts: what ``info.gather`` returned
    options: options of single checks, by name (``tcp_ports``, ``minimum_firmware``, ...)
    review: what was given to look at
    """

    ports: tuple[Port, ...]
    policy: Policy | None
    facts: dict[str, t.Any]
    options: dict[str, t.Any] = field(default_factory=dict)
    review: Review = field(default_factory=lambda: Review({}, {}))
    policies: t.Mapping[str, Policy] = field(default_factory=dict)

    def policy_of(self, netdev: str) -> Policy | None:
        """The policy of a port: its own where it has one, else the fabric's."""
        return self.policies.get(netdev, self.policy)

    def link_gbps_of(self, netdev: str) -> float | None:
        """The link rate that is declared for a port, in Gb/s."""
        policy = self.policy_of(netdev)
        return policy.link_gbps if policy else None


def read_review(host: Host, paths: t.Sequence[str]) -> Review:
    """Each file once: a pipe can be read only once, and several checks look at the same text."""
    texts, unreadable = {}, {}
    for path in paths:
        try:
            texts[path] = host.read_named(path)
        except HostError as exc:
            unreadable[path] = str(exc)
    return Review(texts, unreadable)
