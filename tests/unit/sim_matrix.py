# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A matrix of tests with faults put into it."""

from __future__ import annotations

import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.fabric.analysis import Measured

Bad = t.Callable[[str, str, int], bool]


def matrix(count: int, rails: int, bad: Bad) -> list[Measured]:
    """All pairs of n0 … on all rails, both directions; ``bad`` says which client, server, rail fail."""
    names = [f"n{number}" for number in range(count)]
    return [
        Measured(client, server, rail, not bad(client, server, rail), 5.0 if bad(client, server, rail) else 97.0)
        for rail in range(rails)
        for client in names
        for server in names
        if client != server
    ]
