# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``nvidia-smi topo -m`` -> data. Pure.

Columns are named by the head line, and where that has lost its separators by the rows themselves. A row's own
cell is X: that is how a matrix whose columns are not what they seem is found out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import ParseError
from .rdma import natural

# From near to far.
LEVELS = ("PIX", "PXB", "PHB", "NODE", "SYS")
# With and without the escape byte, which does not survive copying.
_ESCAPES = re.compile(r"\x1b?\[[0-9;]*m")
_CELL = re.compile(r"X|NV[0-9]+|PSB|PIX|PXB|PHB|NODE|SYS")
_GPU = re.compile(r"GPU[0-9]+")
_NUMBERED = re.compile(r"GPU[0-9]+|NIC[0-9]+|[A-Za-z][\w.-]*_[0-9]+", re.ASCII)
_LABEL = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Topology:
    """Distance of each GPU to each NIC, by label.

    names: label -> RDMA device, where that is told
    complete: whether each GPU among the columns has its row
    """

    distances: dict[str, dict[str, str]]
    names: dict[str, str]
    complete: bool

    def name(self, label: str) -> str:
        """The RDMA device of a label, or the label where the listing does not tell."""
        return self.names.get(label, label)

    def nearest(self) -> dict[str, tuple[str, list[str]]]:
        """By GPU: the shortest distance to a NIC, and the NICs that are so near."""
        found = {}
        for gpu, row in self.distances.items():
            if row:
                level = min(row.values(), key=LEVELS.index)
                found[gpu] = (level, [self.name(nic) for nic in row if row[nic] == level])
        return found

    def unattached(self) -> list[str]:
        """NICs that are nearest to no GPU: for storage or management, no rails. None are known from a cut matrix."""
        if not self.complete:
            return []
        near = {nic for _level, nics in self.nearest().values() for nic in nics}
        labels = dict.fromkeys(nic for row in self.distances.values() for nic in row)
        return [self.name(label) for label in labels if self.name(label) not in near]


def parse_topology(text: str) -> Topology:
    """The matrix. Raises ParseError when it is none, or when its rows do not fit its columns."""
    lines = [_ESCAPES.sub("", line) for line in text.splitlines()]
    rows = _rows(lines)
    if not any(_GPU.fullmatch(label) for label, _cells in rows):
        raise ParseError(f"nvidia-smi topo: no row of a GPU in {text.strip()[:80]!r}")
    columns = _columns(lines, rows)
    distances = {}
    for label, cells in rows:
        _check_row(label, cells, columns)
        if _GPU.fullmatch(label):
            pairs = zip(columns, cells)
            distances[label] = {name: cell for name, cell in pairs if not _GPU.fullmatch(name) and cell in LEVELS}
    ordered = {gpu: distances[gpu] for gpu in sorted(distances, key=natural)}
    return Topology(ordered, _legend(lines), {name for name in columns if _GPU.fullmatch(name)} == set(ordered))


def _rows(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Label and cells of each row; the affinity columns behind the cells are left out."""
    rows: list[tuple[str, list[str]]] = []
    for line in lines:
        label, *words = line.split() or [""]
        cells: list[str] = []
        for word in words:
            if not _CELL.fullmatch(word):
                break
            cells.append(word)
        if _NUMBERED.fullmatch(label) and words and not cells and not _LABEL.fullmatch(words[0]):
            raise ParseError(f"nvidia-smi topo: row {label} begins with {words[0]!r}, which is no distance")
        if cells and _LABEL.fullmatch(label) and not _CELL.fullmatch(label):
            rows.append((label, cells))
    labels = [label for label, _cells in rows]
    if len(set(labels)) != len(labels):
        raise ParseError(f"nvidia-smi topo: a row is there twice: {', '.join(labels)}")
    return rows


def _columns(lines: list[str], rows: list[tuple[str, list[str]]]) -> list[str]:
    width = len(rows[0][1])
    for line in lines:
        head = re.split(r"CPU Affinity", line)[0]
        if "GPU0" not in head or _CELL.fullmatch([*head.split(), "", ""][1]):
            continue  # no head line: the second word of a row is a cell
        for names in (head.split(), re.findall(r"(?:GPU|NIC)[0-9]+?(?=GPU|NIC|\s|$)", head)):
            if len(names) == len(set(names)) == width:
                return names
    labels = [label for label, _cells in rows]
    if len(labels) == width:
        return labels
    raise ParseError(f"nvidia-smi topo: rows have {width} cells, and no head line names as many columns")


def _check_row(label: str, cells: list[str], columns: list[str]) -> None:
    own = [name for name, cell in zip(columns, cells) if cell == "X"]
    if len(cells) != len(columns) or own != [label]:
        raise ParseError(f"nvidia-smi topo: row {label} has {len(cells)} cells with X under {own or 'no column'}")


def _legend(lines: list[str]) -> dict[str, str]:
    found = (re.fullmatch(r"\s*(NIC[0-9]+): (\S+)\s*", line) for line in lines)
    return {match.group(1): match.group(2) for match in found if match}
