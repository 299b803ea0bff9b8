# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What was tried already in this boot, so that nothing is restarted twice in vain. Private to the collection.

/run is empty after a boot: what is noted there holds for this boot only.
"""

from __future__ import annotations

import typing as t

from ..operations import MakeDir, Write

if t.TYPE_CHECKING:
    from ..host import Host

FOLDER = "/run/lossless-roce"


def tried(host: Host, what: str, reason: str) -> bool:
    """Whether ``what`` was done in this boot for the same reason."""
    return host.read_optional(_path(what)) == reason


def operations(what: str, reason: str) -> tuple[MakeDir, Write]:
    """What keeps in mind that ``what`` is done for this reason."""
    return MakeDir(FOLDER), Write(_path(what), reason)


def noted(host: Host, what: str) -> str:
    """The reason that was noted in this boot, or an empty string."""
    return host.read_optional(_path(what)) or ""


def _path(what: str) -> str:
    return f"{FOLDER}/{what}"
