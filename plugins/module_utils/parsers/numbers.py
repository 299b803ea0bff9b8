# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Numbers in JSON output of tools. Pure."""

from __future__ import annotations

import typing as t


def is_int(value: t.Any) -> t.TypeGuard[int]:
    """Whether a JSON value is a whole number; true and false are none, though Python counts them."""
    return isinstance(value, int) and not isinstance(value, bool)
