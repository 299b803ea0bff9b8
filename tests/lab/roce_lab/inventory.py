"""The Ansible inventory of a lab, written by hand: no YAML library is needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .network import address

SSH_ARGS = (
    "-F /dev/null -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    " -o IdentitiesOnly=yes -o LogLevel=ERROR -o ControlMaster=auto"
    " -o ControlPersist=60s -o ServerAliveInterval=10 -o ConnectTimeout=20"
)


@dataclass(frozen=True)
class Host:
    """How a node is reached."""

    index: int
    name: str
    port: int


def netdev_name(rail: int) -> str:
    """The network device of a rail on every node."""
    return f"ens{rail + 1}np0"


def _host_lines(host: Host, rails: int) -> list[str]:
    lines = [
        f"        {host.name}:",
        f"          ansible_port: {host.port}",
        "          roce_ports:",
    ]
    for rail in range(rails):
        lines += [
            f"            - name: {netdev_name(rail)}",
            f"              rail: {rail}",
            f"              address: {address(host.index, rail)}",
        ]
    return lines


def inventory_text(hosts: list[Host], rails: int, key: Path) -> str:
    """The inventory: group `roce_nodes` with what each node's rails are."""
    lines = [
        "# Written by tests/lab/labctl.py up; `labctl.py down` deletes it.",
        "---",
        "all:",
        "  children:",
        "    roce_nodes:",
        "      vars:",
        "        ansible_host: 127.0.0.1",
        "        ansible_user: root",
        f"        ansible_ssh_private_key_file: {_quote(str(key))}",
        f"        ansible_ssh_common_args: {_quote(SSH_ARGS)}",
        "        ansible_python_interpreter: /usr/bin/python3",
        "      hosts:",
    ]
    for host in hosts:
        lines += _host_lines(host, rails)
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
