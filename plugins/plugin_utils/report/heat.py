# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Heat maps of bandwidth: one a rail, a row a server and a column a client. Pure.

Small ones are tables. Large ones are drawn by the page's script, from numbers that stand compressed in the page: a
table of a quarter million cells would be neither small nor readable.
"""

from __future__ import annotations

import sys
import typing as t
import zlib
from array import array
from base64 import b64encode

from ansible_collections.lossless.roce.plugins.module_utils.findings import FAIL

from .bandwidth import Pair
from .values import natural, rate

# Shades: least share of the reference, and what the legend says.
SHADES = ((0.0, "under 50 %"), (0.5, "50 to 80 %"), (0.8, "80 to 100 %"), (1.0, "100 to 105 %"), (1.05, "over 105 %"))
MOST_IN_A_TABLE = 24  # hosts a side
_GUESSED_SHARE = 0.9  # where no least rate is known, this share of the best pair is the reference

View = dict[str, t.Any]
Cell = tuple[str, int, str]  # text, shade (a number of SHADES, -1 where nothing was measured), verdict


def matrices(pairs: list[Pair]) -> list[View]:
    """One heat map a rail, in natural order."""
    rails: dict[str, list[Pair]] = {}
    for pair in pairs:
        rails.setdefault(pair["rail"], []).append(pair)
    return [_matrix(rail, rails[rail]) for rail in sorted(rails, key=natural)]


def _matrix(rail: str, pairs: list[Pair]) -> View:
    """A map with its figures; ``rows`` of cells where it is small, else ``packed``."""
    servers = sorted({pair["server"] for pair in pairs}, key=natural)
    clients = sorted({pair["client"] for pair in pairs}, key=natural)
    rates = [pair["gbps"] for pair in pairs if pair["gbps"] is not None]
    wanted = {pair["min_gbps"] for pair in pairs if pair["min_gbps"] is not None}
    best = max(rates, default=0.0)
    cells = {(pair["server"], pair["client"]): _cell(pair, best) for pair in pairs}
    small = max(len(servers), len(clients)) <= MOST_IN_A_TABLE
    return {
        "rail": rail,
        "servers": servers,
        "clients": clients,
        "rows": _rows(servers, clients, cells) if small else [],
        "packed": None if small else _packed(servers, clients, cells),
        "failed": sum(pair["verdict"] == FAIL for pair in pairs),
        "total": len(pairs),
        "least": rate(min(rates)) if rates else "",
        "most": rate(best) if rates else "",
        "wanted": " to ".join(rate(edge) for edge in sorted({min(wanted), max(wanted)})) if wanted else "",
    }


def _cell(pair: Pair, best: float) -> Cell:
    gbps = pair["gbps"]
    reference = pair["min_gbps"] or _GUESSED_SHARE * best
    if gbps is None:
        return ("none", -1, pair["verdict"])
    shade = sum(gbps / reference >= share for share, _label in SHADES[1:]) if reference > 0 else -1
    return (rate(gbps), shade, pair["verdict"])


def _rows(servers: list[str], clients: list[str], cells: dict[tuple[str, str], Cell]) -> list[View]:
    keys = ("text", "shade", "verdict")
    return [
        {
            "server": server,
            "cells": [
                dict(zip(keys, cell, strict=True)) if (cell := cells.get((server, client))) else None
                for client in clients
            ],
        }
        for server in servers
    ]


def _packed(servers: list[str], clients: list[str], cells: dict[tuple[str, str], Cell]) -> View:
    """``{servers, clients, kinds, cells}``: each distinct cell once, and for each place which one it has.

    ``cells`` is base64 of zlib of unsigned 32-bit integers, the lowest byte first, row by row: 0 where nothing was to
    be measured, else 1 + the place in ``kinds``.
    """
    row = {server: index for index, server in enumerate(servers)}
    column = {client: index for index, client in enumerate(clients)}
    kinds: dict[Cell, int] = {}
    places = array("I", bytes(4 * len(servers) * len(clients)))
    for (server, client), cell in cells.items():
        places[row[server] * len(clients) + column[client]] = 1 + kinds.setdefault(cell, len(kinds))
    if sys.byteorder == "big":
        places.byteswap()
    text = b64encode(zlib.compress(places.tobytes(), 9)).decode()
    return {"servers": servers, "clients": clients, "kinds": list(kinds), "cells": text}
