# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The driver's modules, options and namespaces on a real kernel. The real mlx5_core finds no card there: harmless."""

from __future__ import annotations

import json
import typing as t

import pytest
from roce_lab import Node
from run_ansible import Ansible

DEFAULTS = {"gpu_direct": "auto"}  # no option at all is no JSON for ansible
LOAD_FILE, OPTIONS_FILE = "/etc/modules-load.d/lossless-roce.conf", "/etc/modprobe.d/lossless-roce.conf"


@pytest.fixture
def node(node2: Node) -> t.Iterator[Node]:
    """A node with the modules loaded and RDMA devices shared, before and after."""
    yield node2
    node2.ssh("ip netns del other; rdma system set netns shared")
    node2.check(f"rm -f {OPTIONS_FILE}; modprobe -a mlx5_core mlx5_ib rdma_ucm")


def verdicts(result: dict[str, t.Any]) -> dict[str, str]:
    """Check -> verdict."""
    return {finding["check"]: finding["verdict"] for finding in result["findings"]}


def test_modules_are_loaded_and_kept(ansible: Ansible, node: Node) -> None:
    node.check(f"rm -f {LOAD_FILE}; modprobe -r rdma_ucm; modprobe -r mlx5_ib mlx5_core")
    results = [ansible.module("node2", "mlx5_driver", DEFAULTS, check=check) for check in (True, False, False, True)]
    planned, done, again, _last = results
    assert [result["changed"] for result in results] == [True, True, False, False]
    assert planned["commands"] == done["commands"] and planned["diff"] == done["diff"]
    assert again["commands"] == []
    for name in ("mlx5_core", "mlx5_ib", "rdma_ucm"):
        assert node.check(f"grep -w ^{name} /proc/modules") and node.check(f"grep -x {name} {LOAD_FILE}")
    assert verdicts(done)["kernel_modules"] == verdicts(done)["driver_stack"] == "pass"
    assert verdicts(done)["gpudirect"] == "skipped"
    links = json.loads(node.check("rdma -j link show"))
    assert [link["state"] for link in links] == ["ACTIVE", "ACTIVE"], "loading the real driver disturbs no port"


def test_what_the_kernel_does_not_have_is_named(ansible: Ansible, node: Node) -> None:
    result = ansible.module("node2", "mlx5_driver", {"modules": ["ib_uverbs", "no_such_rdma"]})
    assert result["failed"] and "this kernel has no module no_such_rdma" in result["msg"]
    result = ansible.module("node2", "mlx5_driver", {"options": {"ib_core": {"netmode": 1}}})
    assert result["failed"] and "netns_mode" in result["msg"]
    assert node.ssh(f"test -e {OPTIONS_FILE}").rc != 0, "refused before anything was written"
    assert not ansible.module("node2", "mlx5_driver", DEFAULTS).get("failed")


def test_namespaces_now_or_at_the_next_boot(ansible: Ansible, node: Node) -> None:
    node.check("ip netns add other")
    result = ansible.module("node2", "mlx5_driver", {"netns": "exclusive"})
    assert verdicts(result)["rdma_netns"] == "pending", "the kernel refuses while there is another namespace"
    assert "netns shared" in node.check("rdma system show")
    assert node.check(f"grep 'options ib_core netns_mode=0' {OPTIONS_FILE}")
    node.check("ip netns del other")
    result = ansible.module("node2", "mlx5_driver", {"netns": "exclusive"})
    assert "netns exclusive" in node.check("rdma system show")
    assert verdicts(result)["rdma_netns"] == "pass"
    assert not ansible.module("node2", "mlx5_driver", {"netns": "exclusive"})["changed"]
