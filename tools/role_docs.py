# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write the option tables of the roles' README.md from their argument_specs.yml.

    python tools/role_docs.py           write them
    python tools/role_docs.py --check   say which are out of date, and fail

The table stands between two marker lines; everything else in a README is written by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
import typing as t
from pathlib import Path

import yaml

ROLES = Path(__file__).resolve().parents[1] / "roles"
START, END = "<!-- options: written by tools/role_docs.py -->", "<!-- end of options -->"


def table(options: dict[str, dict[str, t.Any]]) -> str:
    """A Markdown table of a role's options."""
    rows = ["| variable | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, spec in options.items():
        kind = spec.get("type", "str") + (f" of {spec['elements']}" if "elements" in spec else "")
        default = "required" if spec.get("required") else _default(spec.get("default"))
        rows.append(f"| `{name}` | {kind} | {default} | {_text(spec)} |")
    return "\n".join(rows)


def _default(value: t.Any) -> str:
    if value is None:
        return "–"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _text(spec: dict[str, t.Any]) -> str:
    description = spec["description"]
    text = " ".join(description) if isinstance(description, list) else description
    choices = f" One of {', '.join(f'`{choice}`' for choice in spec['choices'])}." if "choices" in spec else ""
    return re.sub(r"[CMOV]\(([^)]*)\)", r"`\1`", text + choices).replace("|", r"\|")


def readme(role: Path) -> str:
    """The README of a role with a fresh table."""
    spec = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
    fresh = f"{START}\n{table(spec.get('options', {}))}\n{END}"
    path = role / "README.md"
    text = (
        path.read_text() if path.exists() else f"# {role.name}\n\n{' '.join(spec['description'])}\n\n{START}\n{END}\n"
    )
    before, _start, rest = text.partition(START)
    return before + fresh + rest.partition(END)[2]


def main() -> int:
    """Write or check all roles."""
    parser = argparse.ArgumentParser(description="Option tables of the roles' README.md")
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a table is out of date")
    check = parser.parse_args().check
    stale = []
    for role in sorted(path for path in ROLES.iterdir() if (path / "meta" / "argument_specs.yml").exists()):
        path, fresh = role / "README.md", readme(role)
        if not path.exists() or path.read_text() != fresh:
            stale.append(role.name)
            if not check:
                path.write_text(fresh)
    for name in stale:
        print(
            f"roles/{name}/README.md: option table {'is out of date; run tools/role_docs.py' if check else 'written'}"
        )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
