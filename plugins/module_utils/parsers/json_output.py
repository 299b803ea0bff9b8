# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a tool prints as JSON -> data, for all parsers. Pure."""

from __future__ import annotations

import json
import typing as t

from ..errors import ParseError


def read_json(text: str, tool: str) -> t.Any:
    """The value that a tool printed, of any shape. Raises ParseError that names the tool."""
    try:
        return json.loads(text)
    # Endless digits are a ValueError, too; what is nested too deep is none.
    except (ValueError, RecursionError) as exc:
        raise ParseError(f"{tool}: {text.strip()[:80]!r} … JSON was expected") from exc
