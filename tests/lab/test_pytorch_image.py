# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One image from build to collectives in containers on both nodes: registry, digest, and each fault one finding.

The base is Debian 12 with the tools; PyTorch is a build for CPUs, from wheels. No node reaches a mirror.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from roce_lab import Lab, Node
from roce_lab.image import cache_folder
from run_ansible import Ansible, Bootstrap, PlaybookRun

pytestmark = pytest.mark.full

TORCH = "torch==2.13.0"
PACKAGES = "python3,python3-pip,rdma-core,ibverbs-providers,ibverbs-utils,perftest,numactl,iproute2"
EXCLUDED = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
CONTEXT = "/var/lib/lossless-roce/pytorch_image"
CLEAN = f"""
docker ps -aq | xargs -r docker rm -f; docker images -aq | sort -u | xargs -r docker rmi -f; docker builder prune -af
systemctl disable --now docker-registry; systemctl stop docker.socket docker containerd
rm -rf {CONTEXT} /etc/docker/certs.d /etc/docker/registry/tls /var/lib/docker-registry/docker /root/base.tar
"""


def build_once(target: Path, build: t.Callable[[Path], None]) -> Path:
    """A file or folder of the lab's cache, which gets its name when it is complete."""
    if not target.exists():
        draft = target.with_name(f"draft-{target.name}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.unlink(missing_ok=True)
        build(draft)
        draft.rename(target)
    return target


def make_base(path: Path) -> None:
    """A root file system of Debian 12, for the Python that the wheels are for."""
    argv = ["mmdebstrap", "--mode=root", "--variant=apt", "--format=tar", *EXCLUDED]
    argv += ['--aptopt=APT::Install-Recommends "false"', f"--include={PACKAGES}", "bookworm", str(path)]
    subprocess.run(argv, check=True, capture_output=True, timeout=900)


def fetch_wheels(folder: Path) -> None:
    """PyTorch and what it needs."""
    argv = [sys.executable, "-m", "pip", "download", "-q", "-d", str(folder), "--python-version", "3.11"]
    subprocess.run([*argv, "--only-binary=:all:", TORCH], check=True, capture_output=True, timeout=900)


def send(node: Node, source: Path, command: str) -> None:
    """A tar stream into a command on the node."""
    with subprocess.Popen(["tar", "-C", str(source.parent), "-c", source.name], stdout=subprocess.PIPE) as tar:
        subprocess.run(
            [*node.ssh_argv("-o", "BatchMode=yes"), "--", command], stdin=tar.stdout, check=True, timeout=600
        )
    assert tar.returncode == 0


@pytest.fixture(scope="module")
def nodes(lab: Lab, bootstrap: Bootstrap) -> t.Iterator[list[Node]]:
    """Both nodes with docker; the first has base and wheels. Bare again at the end."""
    assert bootstrap.first.rc == 0, bootstrap.first.output
    base = build_once(cache_folder() / "bookworm.tar", make_base)
    wheels = build_once(cache_folder() / "wheels", fetch_wheels)
    both = [lab.node(1), lab.node(2)]
    try:
        for node in both:
            node.check("systemctl start docker", timeout=180)
        send(both[0], base, "tar -xC /root && docker import /root/bookworm.tar lab-base:12 && rm /root/bookworm.tar")
        send(both[0], wheels, f"mkdir -p {CONTEXT} && tar -xC {CONTEXT}")
        yield both
    finally:
        for node in both:
            node.ssh(CLEAN, timeout=300)


def image(ansible: Ansible, node: Node, *words: str, **variables: t.Any) -> PlaybookRun:
    """The playbook; by default it takes the image that is there. ``words`` go to its command line."""
    common = {
        "pytorch_image_registry": f"{node.address()}:5000",
        "pytorch_image_gpus": "none",
        "pytorch_image_shm_size": "64M",
        "pytorch_image_torch_version": "2.13",
    }
    return ansible.playbook("image", *words, timeout=2400, **{**common, **variables})


def failed(ansible: Ansible, title: str = "image") -> list[tuple[str, str]]:
    """Host and check of what failed."""
    return [(f["host"], f["check"]) for f in ansible.findings(title) if f["verdict"] == "fail"]


def name_of(node: Node) -> str:
    """The image, as every node knows it."""
    return f"{node.address()}:5000/pytorch-cuda:v2.8"


NETWORK = ["--network=host", "--shm-size=64m"]
DEVICES, UNLIMITED = "--device=/dev/infiniband", "--ulimit=memlock=-1"


def smoke(ansible: Ansible, nodes: list[Node], **variables: t.Any) -> list[dict[str, t.Any]]:
    """Findings of collectives by gloo in containers of the image. No container is left, however it ends."""
    options: dict[str, t.Any] = {
        "nccl_smoke_backend": "gloo",
        "nccl_smoke_image": name_of(nodes[0]),
        "nccl_smoke_container_options": [*NETWORK, DEVICES, UNLIMITED],
        "nccl_smoke_end": 65536,
        "nccl_smoke_iterations": 2,
        "nccl_smoke_warmup": 1,
        # PyTorch is imported twice, on an emulated processor.
        "nccl_smoke_start_limit": 600,
        "nccl_smoke_time_limit": 900,
        "nccl_smoke_write": False,
    }
    done = ansible.playbook("nccl", timeout=1800, **{**options, **variables})
    found = ansible.findings("nccl")
    assert (done.rc != 0) == any(f["verdict"] == "fail" for f in found), done.output
    assert [node.check("docker ps -aq") for node in nodes] == ["", ""]
    return found


BUILD: dict[str, t.Any] = {
    "pytorch_image_source": "build",
    "pytorch_image_base": "lab-base:12",
    "pytorch_image_apt_packages": [],
    "pytorch_image_pip_needs": [],
    "pytorch_image_pip_packages": [TORCH],
    "pytorch_image_pip_options": ["--no-index", "--find-links", "/run/context/wheels"],
    "pytorch_image_build_network": "host",
    "pytorch_image_distribute": "registry",
    "pytorch_image_serve_registry": True,
}


def test_check_mode_tells_what_would_be_done_and_does_nothing(ansible: Ansible, nodes: list[Node]) -> None:
    # Whether python3-requests is there depends on the tests before: without it the answer is unknown as well.
    run = image(ansible, nodes[0], "--check", **BUILD)
    assert run.rc == 0 and run.recap("failed") == 0, run.output
    # One line for both nodes, or one for each where what docker says names the node.
    hosts = ", ".join(re.findall(r"^ *unknown +image_digest +(.+)$", run.output, re.MULTILINE)).split(", ")
    assert run.recap("changed") > 0 and sorted(hosts) == ["node1", "node2"], run.output
    assert not any("pytorch-cuda" in node.check("docker image ls") for node in nodes)


def test_built_pushed_pulled_by_digest_and_proven_inside(ansible: Ansible, nodes: list[Node]) -> None:
    run = image(ansible, nodes[0], **BUILD)
    assert run.rc == 0, run.output
    found = {(f["host"], f["check"], f["verdict"]) for f in ansible.findings("image")}
    for host in ("node1", "node2"):
        for check in ("image_digest", "image_torch", "image_verbs", "container_devices", "container_gid"):
            assert (host, check, "pass") in found
        assert (host, "image_cuda", "skipped") in found  # a build for CPUs
    again = image(ansible, nodes[0], **BUILD)
    assert (again.rc, again.recap("changed")) == (0, 0), again.output


def test_a_container_without_devices_and_one_with_little_memlock(ansible: Ansible, nodes: list[Node]) -> None:
    assert image(ansible, nodes[0], pytorch_image_rdma="none").rc != 0
    assert failed(ansible) == [("node1", "container_devices"), ("node2", "container_devices")]
    assert image(ansible, nodes[0], pytorch_image_memlock=8388608).rc != 0
    assert failed(ansible) == [("node1", "container_memlock"), ("node2", "container_memlock")]


def test_collectives_in_containers_prove_plumbing_and_say_so(ansible: Ansible, nodes: list[Node]) -> None:
    found = smoke(ansible, nodes)
    assert failed(ansible, "nccl") == [], found
    for host in ("node1", "node2"):
        (ran,) = (f for f in found if (f["host"], f["check"]) == (host, "nccl_smoke"))
        assert ran["verdict"] == "pass" and "nothing of NCCL" in ran["cause"]
        assert (host, "nccl_path", "skipped") in {(f["host"], f["check"], f["verdict"]) for f in found}


def test_what_a_container_lacks_is_one_finding(ansible: Ansible, nodes: list[Node]) -> None:
    no_devices, limited = [*NETWORK, UNLIMITED], [*NETWORK, DEVICES, "--ulimit=memlock=8388608"]
    by_host = f"{{{{ {no_devices} if inventory_hostname == 'node1' else {limited} }}}}"
    smoke(ansible, nodes, nccl_smoke_container_options=by_host)
    assert failed(ansible, "nccl") == [("node1", "nccl_devices"), ("node2", "nccl_memlock")]


def test_a_rank_that_is_killed_in_its_container_is_one_finding(ansible: Ansible, nodes: list[Node]) -> None:
    # torchrun starts ranks with -u: neither itself nor docker's client is meant.
    kill = "pkill -KILL -f -- '-u [/]var/lib/lossless-roce/nccl/smoke_worker.py'"
    nodes[1].check(f'nohup timeout 900 sh -c "until {kill}; do sleep 1; done" >/dev/null 2>&1 </dev/null &')
    found = smoke(ansible, nodes)
    assert failed(ansible, "nccl") == [("node2", "nccl_smoke")]
    assert any("rank 1 died: signal 9" in f["cause"] for f in found)


def test_a_container_that_cannot_start_is_one_finding(ansible: Ansible, nodes: list[Node]) -> None:
    by_host = f"{{{{ 'nothing:here' if inventory_hostname == 'node2' else '{name_of(nodes[0])}' }}}}"
    found = smoke(ansible, nodes, nccl_smoke_image=by_host)
    assert failed(ansible, "nccl") == [("node2", "nccl_smoke")]
    (missing,) = [f for f in found if f["host"] == "node2" and f["verdict"] == "fail"]
    # No image is pulled, so that docker says no more than that.
    assert "No such image: nothing:here" in missing["cause"] and "role pytorch_image" in missing["remedy"]


def test_another_image_under_the_same_name(ansible: Ansible, nodes: list[Node]) -> None:
    name = name_of(nodes[0])
    change = f"docker create --name other {name} true && docker commit other {name} && docker rm other"
    nodes[1].check(change, timeout=120)
    assert image(ansible, nodes[0], pytorch_image_verify=False).rc != 0
    assert failed(ansible) == [("node2", "image_digest")]


def test_macvlan_is_refused_and_nothing_is_left(ansible: Ansible, nodes: list[Node]) -> None:
    run = image(ansible, nodes[0], pytorch_image_network="macvlan0")
    assert run.rc != 0 and "host was expected" in run.output
    assert [node.check("docker ps -aq") for node in nodes] == ["", ""]
