# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Containers that are meant to run RDMA, and the daemon-reload fault."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import containers
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.containers import daemon_reload, units
from fake_host import FakeHost

CASES = Path(__file__).parent / "recorded" / "cases"
LIMITS = "Max locked memory         {0}            {0}            bytes     \n"


def case(name: str) -> str:
    """Text of a recorded case."""
    return (CASES / name).read_text()


def inspect(**config: t.Any) -> dict[str, t.Any]:
    """What docker inspect says of a container that is right, with changes."""
    right = {
        "NetworkMode": "host",
        "Devices": [],
        "DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ["lossless.roce/rdma=all"]}],
        "Ulimits": [{"Name": "memlock", "Hard": -1, "Soft": -1}],
        "Privileged": False,
        "Binds": None,
    }
    return {"Name": "/job", "State": {"Pid": 7}, "HostConfig": {**right, **config}}


def failed(found: list[t.Any]) -> dict[str, t.Any]:
    """Failed findings by check; each has a cause and a remedy."""
    bad = {finding.check: finding for finding in found if finding.verdict == "fail"}
    assert all(finding.cause and finding.remedy for finding in bad.values())
    return bad


def test_a_right_container_passes() -> None:
    podman = inspect(
        DeviceRequests=None,
        Devices=[{"PathOnHost": "/dev/infiniband/uverbs0"}],
        Ulimits=[{"Name": "RLIMIT_MEMLOCK", "Soft": -1, "Hard": -1}],
    )
    bound = {"DeviceRequests": None, "Binds": ["/dev/infiniband:/dev/infiniband"]}
    allowed = inspect(**bound, DeviceCgroupRules=["c 231:* rwm"])
    for right in (inspect(), podman, allowed, inspect(**bound, Privileged=True)):
        assert {finding.verdict for finding in containers.check_container(right)} == {"pass"}


def test_missing_devices_a_finite_limit_and_a_bridge() -> None:
    wrong = inspect(DeviceRequests=None, Ulimits=[{"Name": "memlock", "Soft": 65536, "Hard": -1}], NetworkMode="bridge")
    assert set(failed(containers.check_container(wrong))) == {
        "container_devices",
        "container_memlock",
        "container_network",
    }


def test_a_folder_that_is_only_mounted_does_not_open() -> None:
    """The nodes are seen inside, and the container's device rules refuse them: ibv_open_device fails."""
    for binds, rules in ((["/dev/infiniband:/dev/infiniband"], None), (["/dev:/dev"], ["c 195:* rwm"])):
        mounted = inspect(DeviceRequests=None, Binds=binds, DeviceCgroupRules=rules)
        assert containers.has_rdma_devices(mounted)
        finding = failed(containers.check_container(mounted))["container_devices"]
        assert "only mounted" in finding.cause and "--device" in finding.remedy


def test_the_limit_of_the_process_is_the_truth() -> None:
    no_limits = inspect(Ulimits=[])
    by_check = {f.check: f.verdict for f in containers.check_container(no_limits)}
    assert by_check["container_memlock"] == "unknown"
    assert not failed(containers.check_container(no_limits, LIMITS.format("unlimited")))
    found = failed(containers.check_container(inspect(), LIMITS.format("8388608")))
    assert found["container_memlock"].observed == "8388608"


@pytest.mark.parametrize(("mode", "netns"), [("container:abc", "shared"), ("bridge", "exclusive")])
def test_a_network_that_cannot_be_judged_is_unknown(mode: str, netns: str) -> None:
    network = containers.check_container(inspect(NetworkMode=mode), None, netns)[2]
    assert network.verdict == "unknown" and network.cause


def test_g06_macvlan() -> None:
    """The container of the case's command line, and what NCCL printed in it."""
    assert "--net mynet" in case("g06-macvlan-container-no-netdev.txt")
    devices = [{"PathOnHost": "/dev/infiniband"}]
    found = failed(containers.check_container(inspect(NetworkMode="mynet", Devices=devices, DeviceRequests=None)))
    assert set(found) == {"container_network"} and "network namespace" in found["container_network"].cause
    printed = failed(containers.check_output(case("g06-macvlan-container-no-netdev.txt")))
    assert set(printed) == {"container_network"} and "network namespace" in printed["container_network"].cause


def test_g04_provider_missing_in_the_image() -> None:
    found = failed(containers.check_output(case("g04-provider-missing-in-image.txt")))["container_provider"]
    assert found.observed == {"without driver": [f"uverbs{n}" for n in range(5)]}
    assert "ibverbs-providers" in found.cause and "/dev/infiniband" in found.remedy


def test_g03_memlock() -> None:
    found = failed(containers.check_output(case("g03-memlock-8192.txt")))["container_memlock"]
    assert found.observed == "8192 KiB" and "unit" in found.remedy and "login" in found.remedy


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("Call to ibv_modify_qp failed with 19 No such device, on dev mlx5_0:1", "container_network"),
        ("Call to ibv_create_cq failed with error Cannot allocate memory", "container_memlock"),
        ("Call to ibv_create_qp failed with 12 Cannot allocate memory", "container_memlock"),
        ("max locked memory           (kbytes, -l) 8192\n", "container_memlock"),
        ("libibverbs: Warning: couldn't load driver 'libmlx5-rdmav34.so': libmlx5", "container_provider"),
    ],
)
def test_other_words_for_the_same(text: str, check: str) -> None:
    assert containers.SAID_INSIDE.search(text) and set(failed(containers.check_output(text))) == {check}


@pytest.mark.parametrize(
    "text",
    ["max locked memory       (kbytes, -l) unlimited\n", "", "$ ulimit -l\nunlimited\n", "1 HCAs found:\n\tmlx5_0\n"],
)
def test_what_says_nothing_gives_no_finding(text: str) -> None:
    assert containers.check_output(text) == []


INFO = {"Runtimes": {"nvidia": {}}, "CgroupDriver": "systemd"}
DUMP = (CASES / "f16-containerd-v2-right.toml").read_text()


def test_daemon_reload_without_links() -> None:
    found = daemon_reload.check_daemon_reload("docker", {"nvidia": True}, ["nvidia0", "nvidiactl"], {"195:255"})
    assert found.verdict == "fail" and found.observed == ["/dev/char/195:0 -> ../nvidia0"]
    assert "daemon-reload" in found.cause and "CDI" in found.remedy
    assert daemon_reload.check_daemon_reload("docker", {"nvidia": True}, ["nvidia0"], {"195:0"}).verdict == "pass"


@pytest.mark.parametrize(
    ("runtimes", "nodes"), [({"nvidia": True}, []), ({}, ["nvidia0"]), ({"nvidia": False}, ["nvidia0"])]
)
def test_daemon_reload_where_it_does_no_harm(runtimes: dict[str, bool], nodes: list[str]) -> None:
    found = daemon_reload.check_daemon_reload("docker", runtimes, nodes, set())
    assert found.verdict == "skipped" and found.cause


def node(**outputs: t.Any) -> FakeHost:
    """A node on which docker runs."""
    host = FakeHost({"/proc/7/limits": LIMITS.format("65536"), "/dev/nvidia0": ""})
    show = "LoadState=loaded\nActiveState=active\n"
    host.outputs = {
        "rdma system show": "netns shared",
        f"systemctl show -p {units._PROPERTIES} docker.service": show,
        f"systemctl show -p {units._PROPERTIES} containerd.service": "LoadState=not-found\nActiveState=inactive\n",
        "docker info --format {{json .}}": json.dumps(INFO),
        "docker ps -q": "a\nb\n",
        "docker inspect a b": json.dumps([inspect(), {**inspect(DeviceRequests=None), "Name": "/web"}]),
        **outputs,
    }
    host.missing_tools = {"podman"}
    return host


def test_diagnose_judges_containers_with_rdma_devices_and_named_ones() -> None:
    found = containers.diagnose(node(), Context((), None, {}))
    assert set(failed(found)) == {"daemon_reload", "container_memlock"}
    assert all("web" not in finding.evidence for finding in found)
    found = containers.diagnose(node(), Context((), None, {}, {"rdma_containers": ["web"]}))
    assert any(f.check == "container_devices" and f.verdict == "fail" and "web" in f.evidence for f in found)


def test_diagnose_starts_no_docker_and_survives_garbage() -> None:
    host = node()
    host.outputs = {line: "LoadState=loaded\nActiveState=inactive\n" for line in host.outputs if "systemctl" in line}
    host.outputs["rdma system show"] = ""
    assert containers.diagnose(host, Context((), None, {})) == []
    for garbage in ("no JSON", "{}", "7", '["a"]', '[{"HostConfig": {"Devices": [1]}}]'):
        found = containers.diagnose(node(**{"docker inspect a b": garbage}), Context((), None, {}))
        assert [(f.check, f.verdict) for f in found][-1] == ("docker_containers", "unknown"), garbage
        assert found[-1].cause


def kubernetes_node(dump: t.Any = DUMP) -> FakeHost:
    """A node on which containerd runs for Kubernetes, and no docker."""
    binary = "ExecStart={ path=/usr/bin/containerd ; argv[]=/usr/bin/containerd ; ignore_errors=no ; }\n"
    host = node(**{"/usr/bin/containerd --config /etc/containerd/config.toml config dump": dump})
    docker, containerd = (line for line in host.outputs if line.startswith("systemctl"))
    host.outputs[docker] = "LoadState=not-found\nActiveState=inactive\n"
    host.outputs[containerd] = f"LoadState=loaded\nActiveState=active\n{binary}"
    host.files["/etc/containerd/config.toml"] = "version = 2\n"
    return host


def test_diagnose_judges_the_daemon_reload_fault_by_containerd_too() -> None:
    (found,) = containers.diagnose(kubernetes_node(), Context((), None, {}))
    assert (found.check, found.verdict, found.observed) == ("daemon_reload", "fail", ["/dev/char/195:0 -> ../nvidia0"])
    assert "containerd config dump" in found.evidence and "pods" in found.remedy
    linked = kubernetes_node()
    linked.files["/dev/char/195:0"] = ""
    (found,) = containers.diagnose(linked, Context((), None, {}))
    assert found.verdict == "pass"


@pytest.mark.parametrize(
    "dump",
    [
        DUMP.replace("SystemdCgroup = true", "SystemdCgroup = false"),
        DUMP.replace("/usr/bin/nvidia-container-runtime", "/usr/local/nvidia/toolkit/nvidia-container-runtime.cdi"),
        'disabled_plugins = ["cri"]\n' + DUMP,
    ],
)
def test_containerd_without_the_hook_or_without_systemd_s_cgroups_does_no_harm(dump: str) -> None:
    (found,) = containers.diagnose(kubernetes_node(dump), Context((), None, {}))
    assert (found.check, found.verdict) == ("daemon_reload", "skipped") and found.cause


@pytest.mark.parametrize("dump", [(1, "", "permission denied"), "[[[", "version = 99\n"])
def test_a_configuration_that_cannot_be_read_leaves_the_daemon_reload_fault_unknown(dump: t.Any) -> None:
    (found,) = containers.diagnose(kubernetes_node(dump), Context((), None, {}))
    assert (found.check, found.verdict) == ("daemon_reload", "unknown") and "containerd" in found.evidence
    assert found.cause
