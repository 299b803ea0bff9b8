# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lookup: the program that role node_agent installs, built on the control node."""

from __future__ import annotations

DOCUMENTATION = r"""
name: agent_program
short_description: Build the program that applies the saved policy on a node
version_added: 0.1.0
description:
  - Packs the collection's own code into one file that needs nothing but Python's standard library.
    Returns its path.
  - The file is in Ansible's temporary folder on the control node and goes with the run.
    The same version of the collection always gives the same bytes.
options:
  python:
    description: Path of Python 3.9 or newer on the node.
    type: path
    default: /usr/bin/python3
seealso:
  - module: lossless.roce.roce_node
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Install the program
  ansible.builtin.copy:
    src: "{{ lookup('lossless.roce.agent_program') }}"
    dest: /usr/local/sbin/lossless-roce
    owner: root
    group: root
    mode: "0755"
"""

RETURN = r"""
_raw:
  description: Path of the file, one item.
  type: list
  elements: path
"""

import typing as t
from pathlib import Path

from ansible import constants
from ansible.plugins.lookup import LookupBase
from ansible_collections.lossless.roce.plugins.plugin_utils.program import stored


class LookupModule(LookupBase):
    """The path of the program."""

    def run(self, terms: list[t.Any], variables: dict[str, t.Any] | None = None, **kwargs: t.Any) -> list[str]:
        """Build it, and say where it is."""
        self.set_options(var_options=variables, direct=kwargs)
        return [str(stored("agent.py", self.get_option("python"), Path(constants.DEFAULT_LOCAL_TMP)))]
