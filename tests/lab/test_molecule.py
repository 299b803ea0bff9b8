# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The molecule scenario of every role, on the lab that all tests share."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from roce_lab import Lab
from run_ansible import BIN, ROOT, Bootstrap

SCENARIOS = sorted(path.name for path in (ROOT / "molecule").iterdir() if (path / "converge.yml").exists())

# Their roles are seen working by other tests of `make test`, or take minutes.
SLOW = ("baseline", "container_runtime", "fabric_test", "nccl_smoke", "node_agent", "pytorch_image", "roce_policy")


def test_every_role_has_a_scenario() -> None:
    assert sorted(path.name for path in (ROOT / "roles").iterdir()) == SCENARIOS


@pytest.mark.parametrize(
    "scenario", [pytest.param(name, marks=pytest.mark.full) if name in SLOW else name for name in SCENARIOS]
)
def test_scenario(lab: Lab, bootstrap: Bootstrap, tmp_path: Path, scenario: str) -> None:
    # The lab is up already: creating it again is a no-op, and it must not be destroyed here.
    env = {
        **os.environ,
        "LAB_NAME": lab.name,
        "LAB_INVENTORY": str(lab.inventory.parent.relative_to(ROOT)),
        "MOLECULE_GLOB": "molecule/*/molecule.yml",
        "XDG_CACHE_HOME": str(tmp_path),
        "LAB_CACHE": str(lab.image.folder.parent.parent),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }
    for action in ("converge", "idempotence", "verify"):
        argv = [str(BIN / "molecule"), action, "--scenario-name", scenario, "--no-command-borders"]
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
