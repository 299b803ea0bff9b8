# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One lab of two bare nodes for all lab tests, and Ansible to work on it."""

from __future__ import annotations

import os
import typing as t

import pytest
from roce_lab import Lab, LabError, Node
from roce_lab.state import Shape
from run_ansible import Ansible, Bootstrap


@pytest.fixture(scope="session")
def lab() -> t.Iterator[Lab]:
    """Two bare nodes with two rails, gone at the end, whatever happens."""
    try:
        name = os.environ.get("LAB_NAME", "test")  # a lab that is up already is used, and stays up
        with Lab(name, Shape(nodes=2, rails=2, memory=2048), owner_pid=os.getpid()) as lab_:
            lab_.up()
            yield lab_
    except LabError as exc:
        pytest.fail(f"the lab cannot run here: {exc}", pytrace=False)


@pytest.fixture(scope="session")
def ansible(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Ansible:
    """Ansible on the lab."""
    return Ansible(lab, tmp_path_factory.mktemp("ansible"))


@pytest.fixture(scope="session")
def bootstrap(ansible: Ansible) -> Bootstrap:
    """Bare nodes, brought to the policy once for all tests."""
    return Bootstrap(
        ansible.playbook("bootstrap", "--check"), ansible.playbook("bootstrap"), ansible.playbook("bootstrap")
    )


@pytest.fixture
def node1(lab: Lab, bootstrap: Bootstrap) -> Node:
    """The first node, at the policy."""
    assert bootstrap.first.rc == 0, bootstrap.first.output
    return lab.node(1)


@pytest.fixture
def node2(lab: Lab, bootstrap: Bootstrap) -> Node:
    """The second node, at the policy."""
    assert bootstrap.first.rc == 0, bootstrap.first.output
    return lab.node(2)


@pytest.fixture
def restored(ansible: Ansible, bootstrap: Bootstrap) -> t.Iterator[None]:
    """After a test that breaks settings of ports: they are back at the policy."""
    yield
    run = ansible.role("roce_nodes", "roce_policy")
    assert run.rc == 0, run.output
