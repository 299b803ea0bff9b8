# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Roles without a playbook: what their variables come to, and their tasks as they are written."""

from __future__ import annotations

import functools
import typing as t
import warnings
from pathlib import Path

from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template

REPOSITORY = Path(__file__).parents[2]


@functools.cache
def _plugins() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ansible warns when it is set up twice in one process
        init_plugin_loader([str(REPOSITORY / "build" / "collections")])


def load(role: str, path: str) -> t.Any:
    """A YAML file of a role, with its templates as they are written; None where there is none."""
    file = REPOSITORY / "roles" / role / path
    return DataLoader().load_from_file(str(file), trusted_as_template=True) if file.exists() else None


def tasks(role: str, path: str) -> dict[str, dict[str, t.Any]]:
    """The tasks of a file by their names, those of blocks too."""
    found: dict[str, dict[str, t.Any]] = {}

    def collect(listed: t.Sequence[dict[str, t.Any]]) -> None:
        for task in listed:
            found[task["name"]] = task
            for part in ("block", "rescue", "always"):
                collect(task.get(part, []))

    collect(load(role, f"tasks/{path}.yml"))
    return found


def evaluate(role: str, template: t.Any, **variables: t.Any) -> t.Any:
    """What a template comes to with the role's defaults and vars, and ``variables`` in place of or beside them.

    Filters of this collection are not found: give what they would derive.
    """
    _plugins()
    folder = REPOSITORY / "roles" / role
    own = {**(load(role, "defaults/main.yml") or {}), **(load(role, "vars/main.yml") or {})}
    hosts = {"inventory_hostname": "node1", "ansible_play_hosts_all": ["node1", "node2"]}
    paths = {"role_path": str(folder), "ansible_search_path": [str(folder)]}
    templar = Templar(loader=DataLoader(), variables={**hosts, **paths, **own, **variables})
    return templar.template(trust_as_template(template) if isinstance(template, str) else template)
