# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""systemd reads changed files again, and not while running containers would lose their GPUs by it."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import RoceError
from ansible_collections.lossless.roce.plugins.module_utils.service_manager import ManagerRun, converge
from fake_host import FakeHost
from role_files import REPOSITORY

UNIT = "lossless-roce.service"
INSTANCES = "lossless-roce@*.service"
HOOKED = {"Runtimes": {"nvidia": {}}, "CgroupDriver": "systemd"}


class ManagedNode(FakeHost):
    """A node whose systemd has read older files than there are on disk; docker runs, with GPUs."""

    def __init__(self, stale: str = "", limit: str = "infinity", containers: str = "", info: t.Any = None) -> None:
        super().__init__({"/dev/nvidia0": "", "/dev/nvidiactl": ""})
        self.stale = {name for name in stale.split(",") if name}
        self.limit, self.limit_on_disk = limit, "infinity"
        self.containers = containers
        self.info: t.Any = json.dumps(HOOKED if info is None else info)
        self.docker = "active"

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> t.Any:
        self.outputs[" ".join(argv)] = self._answer(argv)
        return super().run(*argv, check=check, timeout=timeout)

    def _answer(self, argv: tuple[str, ...]) -> t.Any:
        if argv in (("systemctl", "daemon-reload"), ("systemctl", "daemon-reexec")):
            self.stale.clear()
            if argv[1] == "daemon-reexec":
                self.limit = self.limit_on_disk
            return ""
        if "--property=DefaultLimitMEMLOCK" in argv:
            return f"{self.limit}\n"
        if "NeedDaemonReload" in argv:
            return "\n\n".join(f"NeedDaemonReload={'yes' if unit in self.stale else 'no'}" for unit in argv[4:])
        if argv[-1] in ("docker.service", "containerd.service"):
            return f"LoadState=loaded\nActiveState={self.docker if argv[-1] == 'docker.service' else 'inactive'}\n"
        return self.containers if argv[1] == "ps" else self.info

    def done(self) -> list[str]:
        """Commands that change something."""
        return [argv[1] for argv in self.ran if argv[0] == "systemctl" and argv[1] != "show"]


def manage(node: ManagedNode, dry_run: bool = False, memlock: str = "unlimited") -> ManagerRun:
    return converge(node, [UNIT, INSTANCES], memlock, dry_run)


def verdicts(run: ManagerRun) -> list[str]:
    return [finding["verdict"] for finding in run.as_dict()["findings"]]


def test_four_calls() -> None:
    for stale, limit, command in ((INSTANCES, "infinity", "daemon-reload"), ("", "65536", "daemon-reexec")):
        node = ManagedNode(stale, limit)
        predicted = manage(node, dry_run=True)
        assert node.done() == [] and verdicts(predicted) == ["fail"]
        done = manage(node)
        assert node.done() == [command] and verdicts(done) == ["pass"]
        for run in (predicted, done):
            assert run.as_dict()["changed"] and run.as_dict()["commands"] == [["systemctl", command]]
        for dry_run in (False, True):
            again = manage(node, dry_run)
            assert not again.as_dict()["changed"] and verdicts(again) == ["pass"]
        assert node.done() == [command]


@pytest.mark.parametrize(("stale", "limit", "command"), [(UNIT, "infinity", "reload"), (UNIT, "65536", "reexec")])
def test_it_waits_for_containers_that_would_lose_their_gpus_and_is_done_when_they_have_ended(
    stale: str, limit: str, command: str
) -> None:
    node = ManagedNode(stale, limit, containers="train\nserve\n")
    for dry_run in (True, False):
        run = manage(node, dry_run)
        assert node.done() == [] and not run.as_dict()["changed"] and run.as_dict()["commands"] == []
        assert verdicts(run) == ["pending"]
        assert f"systemctl daemon-{command}" in run.pending and "train, serve" in run.pending
        assert run.as_dict()["pending"] == run.pending
    node.containers = ""
    assert manage(node).as_dict()["changed"] and node.done() == [f"daemon-{command}"]


def test_it_waits_for_no_container_that_keeps_its_gpus() -> None:
    linked, plain, bare, stopped = (ManagedNode(UNIT, containers="train\n") for _ in range(4))
    linked.files |= {"/dev/char/195:0": "", "/dev/char/195:255": ""}
    plain.info = json.dumps({**HOOKED, "CgroupDriver": "cgroupfs"})
    bare.files.clear()
    stopped.docker = "inactive"
    for node in (linked, plain, bare, stopped):
        assert verdicts(manage(node)) == ["pass"] and node.done() == ["daemon-reload"]


def test_an_engine_that_does_not_answer_is_no_leave_to_reload() -> None:
    for garbage in ((1, "", "permission denied"), "no JSON"):
        node = ManagedNode(UNIT, containers="train\n")
        node.info = garbage
        run = manage(node)
        assert node.done() == [] and verdicts(run) == ["pending"] and "docker" in run.pending
    node = ManagedNode(UNIT)
    node.containers = t.cast("str", (1, "", "permission denied"))
    run = manage(node)
    assert node.done() == [] and verdicts(run) == ["pending"] and "permission denied" in run.pending


def test_a_limit_in_kib_and_one_that_nobody_asks_for() -> None:
    node = ManagedNode(limit="65536")
    node.limit_on_disk = "8388608"
    assert manage(node, memlock="8192").as_dict()["changed"] and node.limit == "8388608"
    assert not manage(node, memlock="8192").as_dict()["changed"]
    assert not manage(node, memlock="").as_dict()["changed"]
    with pytest.raises(RoceError, match="memlock: '8M' … unlimited or a number of KiB was expected"):
        manage(node, memlock="8M")


def test_a_limit_that_another_file_sets_is_an_error_that_says_so() -> None:
    node = ManagedNode(limit="65536")
    node.limit_on_disk = "65536"
    with pytest.raises(RoceError, match=r"DefaultLimitMEMLOCK is 65536 .* infinity was expected.*system\.conf\.d"):
        manage(node)


def test_no_role_reloads_systemd_past_the_guard() -> None:
    files = [file for part in ("tasks", "handlers") for file in (REPOSITORY / "roles").glob(f"*/{part}/*.yml")]
    assert files
    for file in files:
        assert not re.search(r"daemon[_-]re(load|exec)|systemctl (enable|disable)", file.read_text()), file
