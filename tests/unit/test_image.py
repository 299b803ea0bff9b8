# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is said of an image, of its container, and what containers are given."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.filter.image_findings import (
    image_findings,
    image_pinned,
    options,
    request,
    same_image,
)
from ansible_collections.lossless.roce.plugins.module_utils.checks.image import check_image, parse_facts
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from hypothesis import given
from hypothesis import strategies as st
from role_files import evaluate, tasks

GID = "0000:0000:0000:0000:0000:ffff:c633:6401"  # 198.51.100.1
GOOD: dict[str, t.Any] = {
    "torch": {
        "version": "2.8.0+cu128",
        "cuda": "12.8",
        "cudnn": 91002,
        "cudnn_cuda": 12080,
        "nccl": [2, 27, 3],
        "gloo": True,
        "gpus": 8,
        "driver_cuda": 13000,
    },
    "verbs": {
        "providers": ["mlx5", "rxe"],
        "devices": [{"ibdev": "mlx5_0", "active_mtu": 4096, "register_error": ""}],
    },
    "tools": {"ib_write_bw": "/usr/bin/ib_write_bw", "numactl": "/usr/bin/numactl"},
    "memlock": None,
    "shm": 8 << 30,
    "device_nodes": ["rdma_cm", "uverbs0"],
    "gids": [{"ibdev": "mlx5_0", "index": 3, "gid": GID, "type": "RoCE v2", "netdev": "ens1np0"}],
    "netdevs": {"lo": 65536, "ens1np0": 9000},
}
PORTS = [{"name": "ens1np0", "rail": 0, "address": "198.51.100.1"}]
# What verify_image.py printed in a container of Debian 12 without PyTorch and without a device.
RECORDED = (
    '{"torch": {"error": "ModuleNotFoundError: No module named \'torch\'"}, "verbs": {"providers": ["mlx5", "rxe"],'
    ' "devices": []}, "tools": {"ibv_devices": "/usr/bin/ibv_devices", "all_reduce_perf": null}, "memlock": 8388608,'
    ' "shm": 268435456, "device_nodes": [], "gids": [], "netdevs": {"lo": 65536}}'
)


def facts(**changes: t.Any) -> dict[str, t.Any]:
    """The good facts with some parts changed; a mapping is merged."""
    changed = copy.deepcopy(GOOD)
    for key, value in changes.items():
        changed[key] = {**changed[key], **value} if isinstance(value, dict) and key != "netdevs" else value
    return changed


def wrong(said: dict[str, t.Any], **image: t.Any) -> list[tuple[str, str]]:
    """Check and cause of what failed."""
    found = image_findings(
        json.dumps(said),
        {"cuda": True, "nccl_min": "2.21", "torch": "2.8", **image},
        {"ports": PORTS, "mtu": 9000, "rdma_mtu": 4096, "gpus": 8, "shm": 8 << 30},
    )
    assert all(finding["remedy"] for finding in found if finding["verdict"] == "fail")
    return [(finding["check"], finding["cause"]) for finding in found if finding["verdict"] == "fail"]


def test_a_right_image_and_container_pass() -> None:
    assert wrong(GOOD) == []


@pytest.mark.parametrize(
    ("changes", "check", "cause"),
    [
        ({"torch": {"error": "No module named 'torch'"}}, "image_torch", "cannot be imported"),
        ({"torch": {"version": "2.7.1"}}, "image_torch", "another version"),
        ({"torch": {"cuda": None, "nccl": None}}, "image_cuda", "build for CPUs"),
        ({"torch": {"cudnn_cuda": 11080}}, "image_cuda", "cuDNN was built for CUDA 11, PyTorch for CUDA 12.8"),
        ({"torch": {"cudnn": None}}, "image_cuda", "no cuDNN"),
        ({"torch": {"driver_cuda": 11040}}, "image_cuda", "driver knows CUDA 11 at most"),
        ({"torch": {"nccl": [2, 20, 5]}}, "image_nccl", "older"),
        ({"torch": {"gpus": 7}}, "container_gpus", "another number"),
        ({"verbs": {"providers": ["rxe"]}}, "image_verbs", "no provider for mlx5"),
        ({"verbs": {"error": "libibverbs.so.1: cannot open", "devices": []}}, "image_verbs", "cannot be loaded"),
        ({"tools": {"ib_write_bw": None}}, "image_tools", "ib_write_bw"),
        ({"shm": 1 << 26}, "container_shm", "smaller"),
        ({"verbs": {"devices": []}, "device_nodes": []}, "container_devices", "given no verbs device"),
        (
            {"verbs": {"devices": [{"ibdev": "mlx5_0", "error": "ibv_open_device: No such file or directory"}]}},
            "container_devices",
            "mlx5_0: ibv_open_device",
        ),
        ({"memlock": 8388608}, "container_memlock", "8388608 bytes"),
        (
            {
                "memlock": 65536,
                "verbs": {
                    "devices": [{"ibdev": "mlx5_0", "active_mtu": 4096, "register_error": "Cannot allocate memory"}]
                },
            },
            "container_memlock",
            "65536 bytes",
        ),
        ({"gids": []}, "container_gid", "has no RoCE v2 GID of 198.51.100.1"),
        ({"netdevs": {"lo": 65536}, "gids": []}, "container_gid", "not in the container's network namespace"),
        ({"netdevs": {"ens1np0": 1500}}, "container_mtu", "another MTU"),
    ],
)
def test_each_fault_is_one_finding(changes: dict[str, t.Any], check: str, cause: str) -> None:
    ((found, why),) = wrong(facts(**changes))
    assert found == check and cause in why


def test_a_build_for_cpus_is_right_where_there_are_no_gpus() -> None:
    said = facts(torch={"cuda": None, "nccl": None})
    found = {f.check: f for f in check_image(said, cuda=False, nccl_min="2.21")}
    assert found["image_nccl"].verdict == "skipped" and found["image_nccl"].observed == "gloo only"


def test_what_was_printed_inside_is_read_behind_a_banner() -> None:
    assert parse_facts(f"== PyTorch ==\nNVIDIA\n\n{RECORDED}\n")["memlock"] == 8388608
    checks = [check for check, _cause in wrong(json.loads(RECORDED))]
    assert checks == ["image_torch", "image_tools", "container_shm", "container_devices", "container_memlock"]


@given(st.text())
def test_garbage_is_one_finding(text: str) -> None:
    try:
        parse_facts(text)
    except ParseError:
        assert [f["check"] for f in image_findings(text, {"cuda": True}, {})] == ["image_verify"]


ONE = {"Id": "sha256:1", "RepoDigests": ["192.0.2.1:5000/pytorch-cuda@sha256:a"]}
OTHER = {"Id": "sha256:2", "RepoDigests": ["192.0.2.1:5000/pytorch-cuda@sha256:b"]}


@pytest.mark.parametrize(
    ("image", "wanted", "verdict"),
    [
        (ONE, "", "pass"),
        (ONE, "sha256:a", "pass"),
        ({**ONE, "RepoDigests": []}, "", "pass"),  # loaded from an archive
        ({**ONE, "RepoDigests": []}, "sha256:a", "pass"),
        ({**ONE, "Id": "sha256:9"}, "", "pass"),  # another image store
        (OTHER, "", "fail"),
        (OTHER, "sha256:a", "fail"),
        ({}, "", "fail"),
    ],
)
def test_the_same_image_everywhere(image: dict[str, t.Any], wanted: str, verdict: str) -> None:
    found = same_image({"node1": ONE, "node2": image}, "node2", "node1", wanted)
    assert [f["verdict"] for f in found] == [verdict]
    assert [f["verdict"] for f in same_image({"node1": ONE, "node2": image}, "node1", "node1", wanted)] == ["pass"]


def test_where_docker_keeps_images_in_containerd_the_id_is_the_digest() -> None:
    built = {"Id": "sha256:a", "RepoDigests": []}
    for wanted, verdict in (("sha256:a", "pass"), ("sha256:b", "fail")):
        (finding,) = same_image({"node1": built}, "node1", "node1", wanted)
        assert finding["verdict"] == verdict


PINNED = f"registry.example.com:5000/pytorch@sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("bases", "packages", "verdict", "named"),
    [
        (
            [PINNED],
            ["torch==2.8.0", "mine @ https://example.com/mine-1.0.tar.gz", "/a-1.whl", "a==1; b<'2'"],
            "pass",
            [],
        ),
        (["pytorch:latest"], [], "unknown", ["pytorch:latest"]),
        (["pytorch"], [], "unknown", ["pytorch"]),
        (["registry.example.com:5000/pytorch@sha256:abc"], [], "unknown", ["@sha256:abc"]),
        ([PINNED, "cuda:12"], ["torch>=2", "pandas==2.*"], "unknown", ["cuda:12", "torch>=2", "pandas==2.*"]),
        ([PINNED], ['numpy; python_version=="3.11"'], "unknown", ["numpy"]),
    ],
)
def test_what_another_build_may_find_changed_is_named(
    bases: list[str], packages: list[str], verdict: str, named: list[str]
) -> None:
    (found,) = image_pinned(bases, packages)
    assert (found["check"], found["verdict"]) == ("image_pinned", verdict)
    assert all(name in found["cause"] for name in named) and (PINNED in found["cause"]) is False
    assert bool(found["remedy"]) is (verdict != "pass")


@pytest.mark.parametrize(
    ("source", "host", "told"),
    [("build", "node1", True), ("build", "node2", False), ("pull", "node1", False), ("present", "node1", False)],
)
def test_the_first_host_tells_of_pins_where_it_builds(source: str, host: str, told: bool) -> None:
    say = tasks("pytorch_image", "main")["Say what may be another thing in the next build"]
    given_ = {"pytorch_image_source": source, "inventory_hostname": host}
    assert all(evaluate("pytorch_image", f"{{{{ {when} }}}}", **given_) for when in say["when"]) is told


def test_no_image_to_compare_with_is_unknown() -> None:
    assert same_image({"node1": {}, "node2": ONE}, "node2", "node1")[0]["verdict"] == "unknown"


def test_a_container_is_given_all_that_rdma_needs() -> None:
    given_ = options(
        {
            "gpus": "cdi",
            "rdma": "cdi",
            "network": "host",
            "shm_size": "8G",
            "capabilities": ["ipc_lock"],
            "numa_node": "1",
            "numa_cpus": "32-63\n",
            "mounts": [{"source": "/data", "target": "/data", "read_only": True}],
            "nccl": {"NCCL_IB_TC": 106},
            "env": {"NCCL_DEBUG": "INFO", "FLAG": True},
        }
    )
    assert given_ == {
        "network_mode": "host",
        "devices": [],
        "device_requests": [
            {"driver": "cdi", "device_ids": ["nvidia.com/gpu=all"]},
            {"driver": "cdi", "device_ids": ["lossless.roce/rdma=all"]},
        ],
        "ulimits": ["memlock:-1:-1", "stack:67108864:67108864"],
        "capabilities": ["IPC_LOCK"],
        "security_opts": ["label=disable"],
        "mounts": [{"type": "bind", "source": "/data", "target": "/data", "read_only": True}],
        "env": {"NCCL_IB_TC": "106", "NCCL_DEBUG": "INFO", "FLAG": "1"},
        "cpuset_cpus": "32-63",
        "cpuset_mems": "1",
        "shm_size": "8G",
    }
    by_docker = options({"gpus": "gpus", "rdma": "devices"})
    assert by_docker["devices"] == ["/dev/infiniband:/dev/infiniband:rwm"]
    assert by_docker["device_requests"] == [{"driver": "", "capabilities": [["gpu"]], "count": -1}]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"network": "macvlan0", "netns_mode": "shared"},
            "pytorch_image_network: macvlan0 .*shared.*host was expected",
        ),
        ({"memlock": -5}, "pytorch_image_memlock: -5 "),
        ({"gpus": "some"}, "pytorch_image_gpus: 'some' "),
        ({"mounts": [{"source": "data", "target": "/data"}]}, "pytorch_image_mounts: source: 'data' .*absolute"),
        ({"mounts": ["/data:/data"]}, "pytorch_image_mounts: '/data:/data' "),
        ({"env": {"A B": "1"}}, "pytorch_image_env: 'A B' "),
        ({"numa_node": "0,1", "numa_cpus": "0-3"}, "pytorch_image_numa_node: '0,1' … the number of one NUMA node was"),
        ({"numa_node": "foo", "cpus": "0-3"}, "pytorch_image_numa_node: 'foo' … the number of one NUMA node was"),
        ({"numa_node": True}, "pytorch_image_numa_node: True … the number of one NUMA node was"),
        ({"cpus": "all"}, "pytorch_image_cpus: 'all' … numbers and ranges such as 0-15,32 were expected"),
        ({"numa_node": "7", "numa_cpus": ""}, "pytorch_image_numa_node: 7 is not a NUMA node"),
    ],
)
def test_what_cannot_work_is_refused(asked: dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        options(asked)


def test_the_container_is_started_with_all_of_these_options() -> None:
    start = tasks("pytorch_image", "run")["Start the container"]["community.docker.docker_container"]
    told = {name for name, value in start.items() if f"pytorch_image_container_options.{name}" in str(value)}
    everything = {"shm_size": "8G", "numa_node": 0, "numa_cpus": "0-3"}
    assert told == set(options(everything))


NODE = {"variables": {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_IB_TC": "106", "NCCL_SOCKET_IFNAME": "=ens1np0"}}


def nccl_in_container(**variables: t.Any) -> tuple[bool, dict[str, str]]:
    """Whether the node is asked for NCCL's variables, and those that the container is started with."""
    found = tasks("pytorch_image", "run")
    ask, start = found["Derive NCCL's variables from the policy and the node"], found["Start the container"]
    given = {"pytorch_image_ports": PORTS, "pytorch_image_derived": {"nccl": {"NCCL_IB_TC": 106}}, **variables}
    asked = all(evaluate("pytorch_image", f"{{{{ {condition} }}}}", **given) for condition in ask["when"])
    given[ask["register"]] = NODE if asked else {"skipped": True}
    request = tasks("pytorch_image", "options")["Derive the options of the container"]["vars"]["pytorch_image_asked"]
    own = {key: evaluate("pytorch_image", request[key], **given) for key in ("nccl", "env")}
    given["pytorch_image_container_options"] = options(own)
    env = evaluate("pytorch_image", start["community.docker.docker_container"]["env"], **given)
    return asked, {name: value for name, value in env.items() if name.startswith("NCCL_")}


def test_a_container_is_given_ports_and_interface_of_the_node() -> None:
    assert nccl_in_container() == (True, NODE["variables"])
    own = {"NCCL_IB_HCA": "=mlx5_1:1", "NCCL_DEBUG": "INFO"}
    assert nccl_in_container(pytorch_image_env=own) == (True, {**NODE["variables"], **own})


@pytest.mark.parametrize(
    ("variables", "env"),
    [
        ({"pytorch_image_nccl": {"NCCL_IB_TC": 98}}, {"NCCL_IB_TC": "98"}),
        ({"pytorch_image_nccl": {}}, {}),
        ({"pytorch_image_ports": []}, {"NCCL_IB_TC": "106"}),
        # The ports are moved into such a container: the node has them no more.
        ({"pytorch_image_network": "macvlan0", "netns_mode": "exclusive"}, {"NCCL_IB_TC": "106"}),
    ],
)
def test_the_node_is_not_asked_where_it_has_nothing_to_say(variables: dict[str, t.Any], env: dict[str, str]) -> None:
    assert nccl_in_container(**variables) == (False, env)


def test_the_node_is_asked_and_nothing_is_written() -> None:
    ask = tasks("pytorch_image", "run")["Derive NCCL's variables from the policy and the node"]
    given = {"pytorch_image_ports": PORTS, "pytorch_image_policy": {"mtu": 9000}}
    told = evaluate("pytorch_image", ask["lossless.roce.nccl_env"], **given)
    assert told == {"ports": PORTS, "policy": {"mtu": 9000}, "interface": "ens1np0", "conf": "", "env_file": ""}
    assert evaluate("pytorch_image", "{{ pytorch_image_interface }}", nccl_smoke_interface="eth0", **given) == "eth0"


@pytest.mark.parametrize("node", ["0,1", "foo", "1"])
def test_the_processors_are_those_of_the_node_that_was_named(node: str) -> None:
    ask = tasks("pytorch_image", "options")["Ask for the processors of the NUMA node"]
    argv = evaluate("pytorch_image", ask["ansible.builtin.command"], pytorch_image_numa_node=node)["argv"]
    assert argv == ["cat", f"/sys/devices/system/node/node{node}/cpulist"]


def test_macvlan_passes_in_exclusive_mode() -> None:
    assert options({"network": "macvlan0", "netns_mode": "exclusive"})["network_mode"] == "macvlan0"


ASKED: dict[str, t.Any] = {
    "name": "pytorch-cuda",
    "tag": "v2.8",
    "source": "present",
    "base": "",
    "builder": "node1",
    "hosts": ["node1", "node2"],
    "distribute": "none",
    "registry": "",
    "serve_registry": False,
    "digest": "",
    "nccl_tests_url": "",
    "nccl_tests_checksum": "",
    "user": "",
    "uid": 10001,
    "sshd": False,
    "ssh_keys": [],
    "jupyter": False,
    "token_length": 0,
}
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source": "build", "base": "debian:12", "distribute": "archive", "user": "trainer", "uid": "1001"},
        {"uid": 0},  # of nobody
        {"source": "present", "distribute": "registry", "registry": "192.0.2.1:5000", "serve_registry": True},
        # Docker's own registry has no name of its own, and is pulled from without one.
        {"source": "pull", "name": "pytorch/pytorch", "digest": DIGEST, "distribute": "registry"},
        {"registry": "registry.example.com/team/images", "distribute": "registry"},
        {"nccl_tests_url": "https://example.com/a.tar.gz", "nccl_tests_checksum": DIGEST},
        {"sshd": True, "ssh_keys": ["ssh-ed25519 AAAAC3Nz me@example.com"], "jupyter": True, "token_length": 16},
    ],
)
def test_what_fits_together_is_taken(changes: dict[str, t.Any]) -> None:
    assert request({**ASKED, **changes}) is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "build"}, "pytorch_image_base: '' … an image to build upon was expected, since .*_source is build"),
        ({"distribute": "registry"}, "pytorch_image_registry: '' … host:port was expected, since .*_distribute is"),
        ({"registry": "https://192.0.2.1:5000"}, "pytorch_image_registry: 'https://192.0.2.1:5000' … host:port"),
        ({"registry": "192.0.2.1:5000/"}, "pytorch_image_registry: '192.0.2.1:5000/' "),
        ({"serve_registry": True}, "pytorch_image_serve_registry: true, and .*_distribute is none … registry"),
        ({"digest": "a" * 64}, "pytorch_image_digest: 'a{64}' … sha256: and 64 hex digits"),
        (
            {"digest": DIGEST, "source": "build", "base": "b"},
            "pytorch_image_digest: .*, and pytorch_image_source is build … none was expected",
        ),
        (
            {"nccl_tests_url": "https://example.com/a.tar.gz"},
            "pytorch_image_nccl_tests_checksum: '' … sha256: and 64 hex digits .*_nccl_tests_url",
        ),
        ({"user": "Me And You"}, "pytorch_image_user: 'Me And You' … a name of a Linux user"),
        ({"user": "root"}, "pytorch_image_user: 'root' … another user was expected, or none for the base's own"),
        ({"user": "trainer", "uid": 0}, "pytorch_image_uid: 0 … a number from 1 to 2147483647 was expected"),
        ({"user": "trainer", "uid": "1e3"}, "pytorch_image_uid: '1e3' … a number from 1 to "),
        ({"builder": "node9"}, "pytorch_image_builder: 'node9' … one of node1, node2 was expected"),
        ({"name": "PyTorch"}, "pytorch_image_name: 'PyTorch' … "),
        ({"tag": "v2:8"}, "pytorch_image_tag: 'v2:8' … "),
        ({"sshd": True}, "pytorch_image_ssh_keys: "),
        ({"sshd": True, "ssh_keys": ["hunter2"]}, "one line of a .pub file"),
        ({"jupyter": True, "token_length": 5}, "pytorch_image_jupyter_token: has 5 characters"),
    ],
)
def test_each_wrong_option_has_a_message_of_its_own(changes: dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message) as raised:
        request({**ASKED, **changes})
    assert str(raised.value).count(" … ") == 1, "nothing else is said"


def test_several_wrong_options_are_told_together() -> None:
    with pytest.raises(AnsibleFilterError, match=r"pytorch_image_base: .*; pytorch_image_builder: "):
        request({**ASKED, "source": "build", "builder": ""})


@pytest.mark.parametrize("selected", ["ens1np0", "mlx5_0"])
def test_a_port_with_a_policy_of_its_own_is_held_against_its_mtu(selected: str) -> None:
    said = facts(netdevs={"ens1np0": 4200})
    container = {
        "ports": PORTS,
        "mtu": 9000,
        "rdma_mtu": 4096,
        "policies": [[[selected], {"mtu": 4200, "rdma_mtu": 4096}]],
    }
    (mtu,) = [f for f in image_findings(json.dumps(said), {"cuda": True}, container) if f["check"] == "container_mtu"]
    assert mtu["verdict"] == "pass" and mtu["expected"] == {"mtu": 4200, "active_mtu": 4096}
    container["policies"] = [[["ens7np0"], {"mtu": 4200, "rdma_mtu": 4096}]]
    (mtu,) = [f for f in image_findings(json.dumps(said), {"cuda": True}, container) if f["check"] == "container_mtu"]
    assert mtu["verdict"] == "fail" and mtu["expected"] == {"mtu": 9000, "active_mtu": 4096}
