# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Dockerfile that the role pytorch_image writes, and the files that it puts into the image."""

from __future__ import annotations

import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
from role_files import evaluate


def instructions(**variables: t.Any) -> list[str]:
    """The instructions of the Dockerfile in their order, each on one line, without comments."""
    text = evaluate("pytorch_image", "{{ pytorch_image_dockerfile }}", pytorch_image_base="debian:12", **variables)
    joined = re.sub(r" *\\\n *", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [line for line in joined.splitlines() if line]


def stand_in(folder: Path, name: str, script: str) -> None:
    """A program of a shell script, found before the system's own."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def shell(script: str, programs: Path) -> subprocess.CompletedProcess[str]:
    """What docker would run for RUN."""
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False, env=env)


# -- the user ------------------------------------------------------------------------------------

# What getent says on Ubuntu 24.04, whose image has a user of its own.
UBUNTU = 'case "$2" in 1000|ubuntu) echo ubuntu:x:1000:1000:Ubuntu:/home/ubuntu:/bin/bash;; *) exit 2;; esac'


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, ""),
        ({"pytorch_image_uid": 1000}, "pytorch_image_uid: 1000 is ubuntu in debian:12 … another number was expected"),
        (
            {"pytorch_image_user": "ubuntu"},
            "pytorch_image_user: ubuntu is in debian:12 already … another name was expected",
        ),
    ],
)
def test_a_user_is_made_unless_the_base_has_one_of_that_name_or_number(
    tmp_path: Path, variables: dict[str, t.Any], said: str
) -> None:
    stand_in(tmp_path / "bin", "getent", UBUNTU)
    for name in ("useradd", "install"):
        stand_in(tmp_path / "bin", name, f"echo {name} $@")
    lines = instructions(**{"pytorch_image_user": "trainer", **variables})
    (step,) = (line for line in lines if "useradd" in line)
    done = shell(step[len("RUN ") :], tmp_path / "bin")
    assert (done.returncode != 0, done.stderr.strip()) == (bool(said), said)
    made = [
        "useradd --create-home --uid 10001 --shell /bin/bash trainer",
        "install -d -o trainer /workspace",
    ]
    assert done.stdout.splitlines() == ([] if said else made)
    assert f"USER {variables.get('pytorch_image_user', 'trainer')}" in lines[lines.index(step) :]
