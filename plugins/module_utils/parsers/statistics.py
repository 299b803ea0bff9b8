# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Counters as ``ethtool -S`` prints them: lines ``     name: value``. Pure."""

from __future__ import annotations

import re

_LINE = re.compile(r"([A-Za-z0-9_\[\]. -]+)(?<=[A-Za-z0-9_\]]):[ \t]*([0-9]{1,20})")


def parse_statistics(text: str) -> dict[str, int]:
    """Counters by name. A counter that is not there is not 0: which ones there are depends on the driver."""
    found = (_LINE.fullmatch(line.strip(" \t")) for line in text.splitlines())
    return {match.group(1): int(match.group(2)) for match in found if match}


def growth(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """By how much counters grew that both readings have; one that went back was reset and is left out."""
    return {name: after[name] - value for name, value in before.items() if after.get(name, -1) >= value}
