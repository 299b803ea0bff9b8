# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The program on a node as one file: a zip archive that Python runs. Private to the collection.

The same sources always give the same bytes, on whatever control node: sorted names, one fixed time, and
nothing compressed, since the compressors of two machines differ.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tempfile
import typing as t
import zipfile
from pathlib import Path, PurePosixPath

PACKAGE = "lossless_roce"
_SOURCES = Path(__file__).resolve().parents[1] / "module_utils"
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows
_UNIX, _MODE = 3, 0o100644 << 16


def build(folder: Path, start: str, python: str) -> bytes:
    """An executable archive of ``start`` (a file in ``folder`` with a ``main``) and of all that it imports there."""
    needed = needed_files(folder, start)
    texts = {f"{PACKAGE}/{name}": (folder / name).read_bytes() for name in needed}
    folders = {str(parent) for name in texts for parent in PurePosixPath(name).parents} - {"."}
    texts |= {f"{name}/__init__.py": b"" for name in folders}
    module = ".".join(PurePosixPath(f"{PACKAGE}/{start}").with_suffix("").parts)
    texts["__main__.py"] = f"import sys\n\nfrom {module} import main\n\nsys.exit(main())\n".encode()
    # -I: neither the environment nor the working folder has a say in what a root service imports.
    return f"#!{python} -I\n".encode() + _archive(texts)


def stored(start: str, python: str, folder: Path) -> Path:
    """The program of ``start`` (a file of module_utils) as a file in ``folder``, built anew, which takes a moment.

    Hosts that share the folder write the same bytes.
    """
    content = build(_SOURCES, start, python)
    path = folder / f"lossless-roce-{hashlib.sha256(content).hexdigest()}"
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)
    return path


def _archive(texts: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(texts):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = _UNIX, _MODE
            archive.writestr(entry, texts[name])
    return buffer.getvalue()


def needed_files(folder: Path, start: str) -> list[str]:
    """``start`` and the files that it imports from the same folder, directly or not, by their relative names."""
    found: set[str] = set()
    to_read = [start]
    while to_read:
        name = to_read.pop()
        if name not in found:
            found.add(name)
            to_read += imported(folder, name)
    return sorted(found)


def imported(folder: Path, name: str) -> t.Iterator[str]:
    """Files that one file imports by relative imports, wherever these stand in it."""
    for node in ast.walk(ast.parse((folder / name).read_text(encoding="utf-8"), name)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = PurePosixPath(name).parents[node.level - 1]
            module = base.joinpath(*node.module.split(".")) if node.module else base
            candidates = [f"{module}.py", *(str(module / f"{alias.name}.py") for alias in node.names)]
            yield from (candidate for candidate in candidates if (folder / candidate).is_file())
