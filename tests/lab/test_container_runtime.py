# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""docker, containerd and podman on a node: what they run with afterwards is asked of them, and seen in containers."""

from __future__ import annotations

import json
import typing as t

import pytest
from roce_lab import Lab, Node
from run_ansible import Ansible, Bootstrap

DAEMON_JSON = "/etc/docker/daemon.json"
FORMER = '{\n\t"debug": true,\n\t"log-opts": {"max-size": "10m"}\n}\n'
BROKEN = '{\n    "registry-mirrors": [] },\n    "debug": true\n}\n'
ALL = ["rdma_cm", "uverbs0", "uverbs1"]
# A system limit of the baseline would hide what the engines do: their units begin with a finite one.
FINITE = "[Service]\nLimitMEMLOCK=8M\n"
UNITS = ("docker", "containerd")
# The image is some programs of the node with their libraries.
IMAGE = """
programs="/bin/sh /bin/cat /bin/sleep /bin/ls"
tar -chf /root/tiny.tar $programs $(ldd $programs | grep -oE '/[^ ]+\\.so[^ ]*' | sort -u) 2>/dev/null
docker import /root/tiny.tar tiny && podman import /root/tiny.tar tiny
"""
CLEAN = """
docker ps -aq | xargs -r docker rm -f; podman rm -fa -t 0; podman rmi -f tiny; docker rmi -f tiny
systemctl stop docker.socket docker containerd
rm -rf /etc/cdi /etc/containers/containers.conf.d /etc/docker/daemon.json* /root/tiny.tar /run/lossless-roce-*.pending
rm -rf /etc/systemd/system/docker.service.d /etc/systemd/system/containerd.service.d
cp /root/config.toml /etc/containerd/config.toml; rm -f /etc/containerd/config.toml.*
systemctl daemon-reload
"""


@pytest.fixture(scope="module")
def node(lab: Lab, bootstrap: Bootstrap) -> t.Iterator[Node]:
    """The second node with its engines started, and with a file of the user's; bare again at the end."""
    assert bootstrap.first.rc == 0, bootstrap.first.output
    node = lab.node(2)
    node.check("cp /etc/containerd/config.toml /root/config.toml")
    for unit in UNITS:
        node.check(f"mkdir -p /etc/systemd/system/{unit}.service.d")
        write(node, f"/etc/systemd/system/{unit}.service.d/40-lab.conf", FINITE)
    write(node, DAEMON_JSON, FORMER)
    try:
        node.check("systemctl daemon-reload && systemctl start docker", timeout=180)
        node.check(IMAGE, timeout=120)
        yield node
    finally:
        node.ssh(CLEAN, timeout=180)


def write(node: Node, path: str, text: str) -> None:
    """Put a text into a file."""
    assert node.ssh(f"cat > {path}", stdin=text).rc == 0


def invocation(node: Node, unit: str) -> str:
    """Changes with each start of a service."""
    return node.check(f"systemctl show -p InvocationID --value {unit}").strip()


def four_calls(ansible: Ansible, **arguments: t.Any) -> dict[str, t.Any]:
    """check, real, real, check: changed, changed, unchanged, unchanged. The result of the real one."""
    results = [call(ansible, check=check, **arguments) for check in (True, False, False, True)]
    for result in results:
        assert not result.get("failed"), result
    assert [result["changed"] for result in results] == [True, True, False, False]
    predicted, done, again, _last = results
    assert predicted["diff"] == done["diff"] and predicted["commands"] == done["commands"]
    assert again["commands"] == []
    for result in (done, again):
        assert {f["verdict"] for f in result["findings"]} == {"pass"}, result["findings"]
    return done


def call(ansible: Ansible, *, check: bool = False, **arguments: t.Any) -> dict[str, t.Any]:
    """One call of the module."""
    return ansible.module("node2", "container_runtime", arguments, check=check, timeout=400)


def inside(node: Node, engine: str, *words: str) -> tuple[list[str], str]:
    """Verbs nodes and limit on locked memory that a container sees. The client's own limit is a finite one."""
    look = "sh -c 'ls /dev/infiniband 2>/dev/null; cat /proc/self/limits'"
    run = f"ulimit -l 8192; {engine} run --rm --network host {' '.join(words)} tiny {look}"
    lines = node.check(run, timeout=120).splitlines()
    limit = next(line.split()[3] for line in lines if line.startswith("Max locked memory"))
    return sorted(line for line in lines if line.startswith(("uverbs", "rdma_cm"))), limit


def test_docker_keeps_the_file_restarts_once_and_containers_see_rdma(ansible: Ansible, node: Node) -> None:
    assert inside(node, "docker") == ([], "8388608")
    before = invocation(node, "docker")
    done = four_calls(ansible, engines=["docker"])
    restarts = [command for command in done["commands"] if command[:2] == ["systemctl", "restart"]]
    assert restarts == [["systemctl", "restart", "docker"]]
    assert invocation(node, "docker") != before
    text = node.check(f"cat {DAEMON_JSON}")
    assert text.startswith('{\n\t"debug": true,\n\t"log-opts": {"max-size": "10m"},\n\t"')
    assert json.loads(text) == {
        **json.loads(FORMER),
        "default-ulimits": {"memlock": {"Name": "memlock", "Hard": -1, "Soft": -1}},
        "features": {"cdi": True},
    }
    assert node.check(f"cat {done['backup'][DAEMON_JSON]}") == FORMER
    assert inside(node, "docker") == ([], "unlimited")
    assert inside(node, "docker", "--device lossless.roce/rdma=all") == (ALL, "unlimited")
    verbs = node.check("grep -lx mlx5_1 /sys/class/infiniband_verbs/*/ibdev").split("/")[-2]
    assert inside(node, "docker", "--device lossless.roce/rdma=mlx5_1") == (["rdma_cm", verbs], "unlimited")


@pytest.mark.full
def test_docker_under_a_running_container_is_refused_reloaded_or_forced(ansible: Ansible, node: Node) -> None:
    call(ansible, engines=["docker"])  # all but the values below is in place already
    node.check("docker run -d --name job --network none tiny sleep 1000", timeout=120)
    before, text = invocation(node, "docker"), node.check(f"cat {DAEMON_JSON}")
    refused = call(ansible, engines=["docker"], cgroup_driver="systemd")
    assert refused["failed"] and "docker: job" in refused["msg"] and "when_busy" in refused["msg"]
    assert node.check(f"cat {DAEMON_JSON}") == text
    reloaded = call(ansible, engines=["docker"], shm_size="128m")
    assert reloaded["commands"][-1] == ["systemctl", "reload", "docker"], reloaded
    assert invocation(node, "docker") == before and "job" in node.check("docker ps --format '{{.Names}}'")
    forced = call(ansible, engines=["docker"], cgroup_driver="systemd", when_busy="force")
    assert forced["changed"] and not forced.get("failed"), forced
    assert invocation(node, "docker") != before and "job" not in node.check("docker ps --format '{{.Names}}'")


def test_docker_s_broken_file_stays_and_docker_runs_on(ansible: Ansible, node: Node) -> None:
    former, before = node.check(f"cat {DAEMON_JSON}"), invocation(node, "docker")
    try:
        write(node, DAEMON_JSON, BROKEN)
        result = call(ansible, engines=["docker"], shm_size="256m")
        assert result["failed"] and f"{DAEMON_JSON}: line 2, column 29: " in result["msg"], result["msg"]
        assert node.check(f"cat {DAEMON_JSON}") == BROKEN
        write(node, DAEMON_JSON, '{"hosts": ["unix:///var/run/docker.sock"]}')
        result = call(ansible, engines=["docker"])
        assert result["failed"] and "conflict" in result["msg"] and "-H fd://" in result["msg"]
    finally:
        write(node, DAEMON_JSON, former)
    assert invocation(node, "docker") == before


# docker does not start with a file that validates: only the start itself shows it.
REFUSES = "[Service]\nExecStartPre=/bin/sh -c '! grep -q cdi /etc/docker/daemon.json'\n"


def test_docker_that_does_not_come_back_gets_its_file_back(ansible: Ansible, node: Node) -> None:
    drop_in = "/etc/systemd/system/docker.service.d/60-lab.conf"
    try:
        write(node, drop_in, REFUSES)
        write(node, DAEMON_JSON, FORMER)
        node.check("systemctl daemon-reload")
        result = call(ansible, engines=["docker"])
        assert result["failed"] and "rolled back: the former files are in place" in result["msg"], result
        assert node.check(f"cat {DAEMON_JSON}") == FORMER
        assert node.check("systemctl is-active docker").strip() == "active"
    finally:
        node.ssh(f"rm {drop_in}; systemctl daemon-reload")


def test_podman_and_containerd(ansible: Ansible, node: Node) -> None:
    assert inside(node, "podman") == ([], "8388608")
    done = four_calls(ansible, engines=["podman", "containerd"])
    assert ["systemctl", "restart", "containerd"] in done["commands"]
    assert inside(node, "podman") == ([], "unlimited")
    assert inside(node, "podman", "--device lossless.roce/rdma=all") == (ALL, "unlimited")
    dump = node.check("containerd config dump")
    assert "enable_cdi = true" in dump and 'bin_dir = "/usr/lib/cni"' in dump
    limits = node.check("cat /proc/$(systemctl show -p MainPID --value containerd)/limits")
    assert "unlimited" in next(line for line in limits.splitlines() if line.startswith("Max locked memory"))
    added = set(node.check("cat /etc/containerd/config.toml").splitlines()) - set(
        node.check("cat /root/config.toml").splitlines()
    )
    assert [line.strip() for line in added] == ["enable_cdi = true"]
