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
from role_files import evaluate, tasks


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


# -- secrets -------------------------------------------------------------------------------------

SECRET = "s3cr3t"
PROXY = f"http://me:{SECRET}@proxy.example.com:3128"
# The way in which docker's builder prints steps; the last line is its error.
FAILED_BUILD = f"""\
#7 [python 2/2] RUN pip install --index-url https://token:{SECRET}@pypi.example.com/simple torch
#7 0.413 WARNING: {PROXY}: connection refused
#7 ERROR: process "/bin/sh -c pip install" did not complete successfully: exit code: 1
ERROR: failed to solve: process "/bin/sh -c pip install --index-url https://a:{SECRET}@b/c" did not complete
"""


def told_of_a_build(**result: t.Any) -> tuple[str, list[str]]:
    """What a build that failed is told as: the message, and the lines of docker before it."""
    found = tasks("pytorch_image", "build")
    given: dict[str, t.Any] = {
        "pytorch_image_built": {"rc": 1, "msg": "Building pytorch-cuda:v2.8 failed", "stdout": "", **result},
        **found["Build the image, and tell without secrets how it ended"]["vars"],
    }
    message = evaluate("pytorch_image", found["End where the build failed"]["ansible.builtin.fail"]["msg"], **given)
    lines = evaluate("pytorch_image", found["Show the end of docker's output"]["ansible.builtin.debug"]["msg"], **given)
    return message, lines


def test_a_build_that_fails_shows_why_and_no_secret() -> None:
    message, lines = told_of_a_build(stderr=FAILED_BUILD)
    assert message.startswith("Building pytorch-cuda:v2.8 failed: ERROR: failed to solve")
    assert "#7 0.413 WARNING: http://***@proxy.example.com:3128: connection refused" in lines
    assert SECRET not in message + "".join(lines)


def test_what_the_role_itself_says_in_a_build_is_the_message() -> None:
    said = "pytorch_image_uid: 1000 is ubuntu in ubuntu:24.04 … another number was expected"
    step = '#5 [final 2/3] RUN if getent; then echo "pytorch_image_uid: 1000 is ${taken} …"; fi'
    assert told_of_a_build(stderr=f"{step}\n#5 0.213 {said}\n{FAILED_BUILD}")[0] == said


def test_a_build_that_was_ended_by_its_limit_says_so() -> None:
    ended = "async task did not complete within the requested time - 7200s"
    message, lines = told_of_a_build(msg=ended)
    assert (message, lines) == (ended, [])


def test_tasks_that_handle_secrets_print_none() -> None:
    build = tasks("pytorch_image", "build")
    assert build["Build the image"]["no_log"] is True
    written = build["Write the Dockerfile and what goes with it"]
    assert written["diff"] is False
    # With -v the items of a loop are printed.
    assert all(set(item) <= {"name", "mode"} for item in written["loop"])
    modes = {item["name"]: item.get("mode", "0600") for item in written["loop"]}
    assert modes["Dockerfile"] == modes["apt/mirror.sources"] == "0600"
    assert modes["ca.crt"] == "0644", "it is copied into the image as it is"
    fetch = build["Fetch the source of nccl-tests"]
    for url, hidden in ((f"https://me:{SECRET}@example.com/a.tar.gz", True), ("https://example.com/a.tar.gz", False)):
        assert evaluate("pytorch_image", fetch["no_log"], pytorch_image_nccl_tests_url=url) is hidden
    start = tasks("pytorch_image", "run")["Start the container"]
    services = {"pytorch_image_run": {"services": {"JUPYTER_TOKEN": SECRET}}}
    assert evaluate("pytorch_image", start["no_log"], **services) is True
