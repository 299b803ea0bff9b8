"""The inventory that the lab writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from roce_lab.inventory import Host, inventory_text

HOSTS = [Host(1, "node1", 2201), Host(2, "node2", 2202)]


def test_text_of_one_host() -> None:
    text = inventory_text(HOSTS[:1], 1, Path("/lab/key"))
    assert text.endswith(
        "        node1:\n"
        "          ansible_port: 2201\n"
        "          roce_ports:\n"
        "            - name: ens1np0\n"
        "              rail: 0\n"
        "              address: 10.100.0.1\n"
    )


def test_it_is_yaml_for_ansible() -> None:
    yaml = pytest.importorskip("yaml")
    data = yaml.safe_load(inventory_text(HOSTS, 2, Path('/odd "path"/key')))
    group = data["all"]["children"]["roce_nodes"]
    assert group["vars"]["ansible_host"] == "127.0.0.1"
    assert group["vars"]["ansible_ssh_private_key_file"] == '/odd "path"/key'
    assert "StrictHostKeyChecking=no" in group["vars"]["ansible_ssh_common_args"]
    assert group["hosts"]["node2"] == {
        "ansible_port": 2202,
        "roce_ports": [
            {"name": "ens1np0", "rail": 0, "address": "10.100.0.2"},
            {"name": "ens2np0", "rail": 1, "address": "10.101.0.2"},
        ],
    }
