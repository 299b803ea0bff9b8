# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The matrix without a control node: by Slurm's srun, and by Open MPI's mpirun over ssh."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from roce_lab import Node
from run_ansible import Ansible

pytestmark = pytest.mark.full

PROGRAM = "/usr/local/bin/lossless-roce-fabric"
MATRIX = "/etc/fabric-matrix.json"
SLURM_CONF = """\
ClusterName=lab
SlurmctldHost=node1({address})
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmUser=root
StateSaveLocation=/run/slurm-ctl
SlurmdSpoolDir=/run/slurm-d
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ReturnToService=2
MpiDefault=none
NodeName=node1 NodeAddr={address}
NodeName=node2 NodeAddr={other}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def put(node: Node, path: str, content: bytes, mode: str = "644") -> None:
    """Write a file on a node."""
    done = node.ssh(f"base64 -d > {path} && chmod {mode} {path}", stdin=base64.b64encode(content).decode())
    assert done.rc == 0, done.err


@pytest.fixture(scope="module")
def program(ansible: Ansible, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the program and its file, as playbook fabric_program leaves them."""
    folder = tmp_path_factory.mktemp("fabric")
    options = {"iterations": 50, "time_limit": 60}
    run = ansible.playbook("fabric_program", fabric_program_path=str(folder), fabric_program_options=options)
    assert run.rc == 0, run.output
    return folder


@pytest.fixture
def nodes(program: Path, node1: Node, node2: Node) -> t.Iterator[list[Node]]:
    """Both nodes with the program on them; no process of a test is left."""
    both = [node1, node2]
    for node in both:
        put(node, PROGRAM, (program / "lossless-roce-fabric").read_bytes(), "755")
        put(node, MATRIX, (program / "matrix.json").read_bytes())
    yield both
    for node in both:
        assert node.ssh("pgrep -a ib_write_bw").out == ""
        node.check(f"rm -rf {PROGRAM} {MATRIX} /run/fabric")


def report(program: Path, nodes: list[Node], folder: Path) -> tuple[int, str]:
    """What the report says of the results that the nodes have; they share no folder."""
    folder.mkdir()
    for node in nodes:
        (folder / f"{node.name}.json").write_text(node.check(f"cat /run/fabric/{node.name}.json"))
    argv = [sys.executable, str(program / "lossless-roce-fabric"), "report", str(program / "matrix.json"), str(folder)]
    done = subprocess.run([*argv, "--pairs"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def assert_all_pass(program: Path, nodes: list[Node], folder: Path, run: str) -> None:
    """Both rails and directions were measured by that run, and are right."""
    status, text = report(program, nodes, folder)
    assert status == 0, text
    assert "rail 0: 2 of 2 pass" in text and "rail 1: 2 of 2 pass" in text
    results = [json.loads((folder / f"{node.name}.json").read_text()) for node in nodes]
    assert all(result["run"].startswith(run) and len(result["timing"]) == 4 for result in results)
    assert len({result["run"] for result in results}) == 1


def test_srun_on_two_nodes(program: Path, nodes: list[Node], tmp_path: Path) -> None:
    key = base64.b64encode(bytes(range(128))).decode()
    conf = SLURM_CONF.format(address=nodes[0].address(0), other=nodes[1].address(0))
    for node in nodes:
        node.check("apt-get install -y slurm-wlm munge", timeout=600)
        # Started by hand below: the lab needs no units of them.
        node.ssh("systemctl stop slurmctld slurmd munge")
        put(node, "/etc/slurm/slurm.conf", conf.encode())
        put(node, "/etc/slurm/cgroup.conf", b"CgroupPlugin=disabled\n")
        node.check(f"echo {key} | base64 -d > /etc/munge/munge.key && chown munge: /etc/munge/munge.key"
                   " && chmod 400 /etc/munge/munge.key && systemctl start munge"
                   " && mkdir -p /run/slurm-ctl /run/slurm-d")  # fmt: skip
    try:
        nodes[0].check("slurmctld")
        for node in nodes:
            node.check("slurmd")
        idle = "for i in $(seq 60); do test $(sinfo -h -t idle -o %D) = 2 && break; sleep 1; done"
        nodes[0].check(idle, timeout=120)
        run = f"{PROGRAM} run {MATRIX} --output /run/fabric"
        done = nodes[0].ssh(f"srun --nodes=2 --ntasks-per-node=1 --cpu-bind=none {run}", timeout=400)
        assert done.rc == 0, done.out + done.err
        assert_all_pass(program, nodes, tmp_path / "srun", "slurm-")
        twice = nodes[0].ssh(f"srun --nodes=2 --ntasks=4 --overcommit {run}", timeout=120)
        assert twice.rc == 2 and "2 processes were started on one host" in twice.err
    finally:
        for node in nodes:
            node.ssh("for f in /run/slurmd.pid /run/slurmctld.pid; do test -e $f && kill $(cat $f); done;"
                     " systemctl stop munge; rm -f /etc/slurm/slurm.conf /etc/slurm/cgroup.conf")  # fmt: skip


def test_mpirun_over_ssh(program: Path, nodes: list[Node], tmp_path: Path) -> None:
    for node in nodes:
        # What mpirun is linked with, and its own files; see UNPACKED_PACKAGES of the image.
        node.check("apt-get install -y libpmix2t64 libhwloc15 libmunge2 libevent-pthreads-2.1-7t64", timeout=300)
        node.check("for f in openmpi-bin openmpi-common libopenmpi40; do dpkg-deb -x /srv/lab-repo/${f}_*.deb /; done;"
                   " ldconfig", timeout=300)  # fmt: skip
    nodes[0].check("test -e /root/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519")
    public = nodes[0].check("cat /root/.ssh/id_ed25519.pub").strip()
    nodes[1].check(f"echo '{public}' >> /root/.ssh/authorized_keys")
    nodes[0].check("printf 'StrictHostKeyChecking no\\nLogLevel ERROR\\n' > /root/.ssh/config")
    try:
        mpirun = "mpirun.openmpi --allow-run-as-root --host node1,node2 --map-by ppr:1:node --bind-to none"
        done = nodes[0].ssh(f"{mpirun} {PROGRAM} run {MATRIX} --output /run/fabric --exit-zero", timeout=400)
        assert done.rc == 0, done.out + done.err
        assert_all_pass(program, nodes, tmp_path / "mpirun", "mpi-")
    finally:
        nodes[0].ssh("rm -f /root/.ssh/config /root/.ssh/id_ed25519 /root/.ssh/id_ed25519.pub")
        keys = "/root/.ssh/authorized_keys"
        nodes[1].ssh(f"grep -vF '{public}' {keys} > /root/k; cat /root/k > {keys}; rm /root/k")
