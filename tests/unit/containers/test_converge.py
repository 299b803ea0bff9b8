# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Engines on a fake node: what is refused, done, put back, and left outstanding."""

from __future__ import annotations

import json
import tomllib
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.containers import cdi, containerd, podman
from ansible_collections.lossless.roce.plugins.module_utils.containers.converge import (
    converge,
    make_options,
    resolve_nvidia,
)
from ansible_collections.lossless.roce.plugins.module_utils.containers.engine import Options
from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError, ParseError, RoceError
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parents[1] / "recorded"
CASES = RECORDED / "cases"
DUMP = (RECORDED / "containers" / "containerd-1.7.24-config-dump.toml").read_text()
PROPERTIES = (
    "LoadState,ActiveState,MainPID,InvocationID,ExecStart,Environment,EnvironmentFiles,DropInPaths,FragmentPath,"
    "LimitMEMLOCK,NeedDaemonReload"
)
DAEMON_JSON = "/etc/docker/daemon.json"
VERBS = {
    "/sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_10\n",
    "/sys/class/infiniband_verbs/uverbs1/ibdev": "mlx5_2\n",
    "/dev/infiniband/uverbs0": "",
    "/dev/infiniband/uverbs1": "",
    "/dev/infiniband/rdma_cm": "",
}


class Node(FakeHost):
    """A node with docker and containerd, whose services obey systemctl."""

    def __init__(self, files: dict[str, str] | None = None, flags: str = "-H fd://", active: bool = True) -> None:
        super().__init__({**VERBS, **(files or {})})
        self.missing_tools = {"nvidia-container-runtime", "nvidia-ctk"}
        self.flags = flags
        self.active = active
        self.invocation = 1
        self.running = self.pods = ""
        self.starts = True
        self.loaded = self.files.get(DAEMON_JSON, "{}")
        self.limit = "8388608"
        self.unit_limit = "8388608"
        self.drop_ins: list[str] = []
        self.reload_due = False

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> t.Any:
        line = " ".join(argv)
        answer = self._answer(argv)
        if answer is not None:
            self.outputs[line] = answer
        return super().run(*argv, check=check, timeout=timeout)

    def did(self, word: str) -> int:
        """How many commands hold the word."""
        return sum(word in " ".join(argv) for argv in self.ran)

    def _answer(self, argv: tuple[str, ...]) -> t.Any:
        line = " ".join(argv)
        if argv[:2] == ("systemctl", "show"):
            return self._show(argv[-1])
        if argv[0] == "systemctl":
            return self._systemctl(argv[1], argv[-1])
        if "--validate" in argv:
            both = "hosts" in self.files["/tmp/private/daemon.json"] and "-H" in argv
            return (1, "", "specified both as a flag and in the configuration file") if both else "configuration OK"
        if line.startswith("docker ps"):
            return self.running
        if line.startswith("docker info"):
            return self._info()
        if argv[0] == "ctr":
            return "moby\n" if "namespaces" in argv else self.running
        if argv[:2] == ("podman", "ps"):
            return self.pods
        if "/usr/bin/containerd" in argv or argv[0] == "env":
            return self._dump(argv)
        return None

    def _show(self, unit: str) -> str:
        name = unit.removesuffix(".service")
        binary = {"docker": "/usr/sbin/dockerd", "containerd": "/usr/bin/containerd"}[name]
        flags = self.flags if name == "docker" else ""
        return (
            f"LoadState=loaded\nActiveState={'active' if self.active else 'inactive'}\nMainPID=7\n"
            f"InvocationID={self.invocation}\nLimitMEMLOCK={self.unit_limit}\nFragmentPath=/lib/{unit}\n"
            f"DropInPaths={' '.join(self.drop_ins)}\nNeedDaemonReload={'yes' if self.reload_due else 'no'}\n"
            f"ExecStart={{ path={binary} ; argv[]={binary} {flags} ; ignore_errors=no ; }}\n"
        )

    def _systemctl(self, action: str, _unit: str) -> t.Any:
        if action == "daemon-reload" and containerd.DROP_IN in self.files:
            self.unit_limit = "infinity"
            self.reload_due = False
        if action == "restart":
            if not self.starts:
                self.starts = True
                return (1, "", "Job for docker.service failed")
            self.invocation += 1
            self.limit = "unlimited" if self.unit_limit == "infinity" else self.limit
            self.files["/proc/7/limits"] = f"Max locked memory   {self.limit}   {self.limit}   bytes\n"
        if action in ("restart", "reload"):
            self.loaded = self.files.get(DAEMON_JSON, "{}")
        return ""

    def _info(self) -> str:
        config = json.loads(self.loaded)
        folders = ["/etc/cdi"] if config.get("features", {}).get("cdi") else []
        return json.dumps({"Runtimes": {"runc": {}, **config.get("runtimes", {})}, "CDISpecDirs": folders})

    def _dump(self, argv: tuple[str, ...]) -> str:
        """What the file sets, on top of the defaults."""
        if argv[0] == "env":
            return "systemd"
        if "default" in argv:
            return DUMP
        written = "enable_cdi = true" in self.files[argv[2]]
        return DUMP.replace("enable_cdi = false", "enable_cdi = true") if written else DUMP


DOCKER = Options(shm_size="1g")


def verdicts(result: t.Any) -> dict[str, str]:
    """Verdict by check."""
    return {finding.check: finding.verdict for finding in result.findings}


def test_docker_four_calls() -> None:
    node = Node({DAEMON_JSON: '{"debug": true}'})
    predicted = converge(node, ["docker"], DOCKER, dry_run=True).as_dict()
    assert node.files[DAEMON_JSON] == '{"debug": true}' and not node.did("restart")
    done = converge(node, ["docker"], DOCKER, dry_run=False)
    assert {key: predicted[key] for key in ("changed", "commands", "diff")} == {
        key: done.as_dict()[key] for key in ("changed", "commands", "diff")
    }
    assert done.as_dict()["commands"] == [
        ["write", cdi.SPECIFICATION],
        ["write", DAEMON_JSON],
        ["systemctl", "restart", "docker"],
    ]
    assert node.files[done.backup[DAEMON_JSON]] == '{"debug": true}'
    assert set(verdicts(done).values()) == {"pass"}
    for dry_run in (False, True):
        again = converge(node, ["docker"], DOCKER, dry_run).as_dict()
        assert not again["changed"] and again["commands"] == [] and again["diff"] == []
    assert node.did("restart") == 1
    assert node.files[DAEMON_JSON].startswith('{"debug": true, ')


def test_a_runtime_alone_is_reloaded_also_beside_containers() -> None:
    node = Node()
    node.running = "job\n"
    options = Options(nvidia_runtime=True, rdma_devices=False, memlock="keep")
    done = converge(node, ["docker"], options, dry_run=False)
    assert done.as_dict()["commands"][-1] == ["systemctl", "reload", "docker"]
    assert verdicts(done) == {"docker_nvidia_runtime": "pass"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_running_containers_refuse_a_restart_and_nothing_is_changed(dry_run: bool) -> None:
    node = Node()
    node.running = "job\n"
    with pytest.raises(RoceError, match=r"1 containers run \(docker: job\); nothing was changed"):
        converge(node, ["docker"], DOCKER, dry_run)
    assert [path for path, _text in node.written if not path.startswith("/tmp")] == []
    assert not node.did("restart")


def test_force_restarts_beside_containers() -> None:
    node = Node()
    node.running = "job\n"
    assert not converge(node, ["docker"], Options(when_busy="force"), dry_run=False).failed
    assert node.did("restart") == 1


def test_restart_never_leaves_a_pending_finding_and_the_next_run_restarts_once() -> None:
    node = Node()
    node.running = "job\n"
    done = converge(node, ["docker"], Options(restart="never"), dry_run=False)
    assert not node.did("restart") and verdicts(done)["docker_memlock"] == "pending"
    assert verdicts(done)["docker_cdi"] == "pending"
    again = converge(node, ["docker"], Options(restart="never"), dry_run=False)
    assert not again.as_dict()["changed"] and verdicts(again)["docker_memlock"] == "pending"
    node.running = ""
    assert converge(node, ["docker"], Options(), dry_run=False).as_dict()["commands"] == [
        ["systemctl", "restart", "docker"]
    ]
    last = converge(node, ["docker"], Options(), dry_run=False)
    assert node.did("restart") == 1 and set(verdicts(last).values()) == {"pass"}


def test_a_restart_by_somebody_else_settles_what_was_outstanding() -> None:
    node = Node()
    converge(node, ["docker"], Options(restart="never"), dry_run=False)
    node.run("systemctl", "restart", "docker.service")
    assert not converge(node, ["docker"], Options(), dry_run=False).as_dict()["changed"]
    assert node.did("restart") == 1


def test_a_docker_that_is_off_is_written_and_not_started() -> None:
    node = Node(active=False)
    done = converge(node, ["docker"], Options(), dry_run=False)
    assert done.as_dict()["changed"] and not node.did("restart") and not node.did("docker info")
    assert verdicts(done)["docker_running"] == "skipped"


def test_a_docker_that_does_not_come_back_is_put_back() -> None:
    node = Node({DAEMON_JSON: '{"debug": true}'})
    node.starts = False
    done = converge(node, ["docker"], Options(), dry_run=False)
    assert node.files[DAEMON_JSON] == '{"debug": true}' and node.loaded == '{"debug": true}'
    assert "Job for docker.service failed; rolled back: the former files are in place" in done.message()
    assert verdicts(done)["docker_config"] == "fail"
    assert node.ran[-2:] == [
        ("systemctl", "reset-failed", "docker.service"),
        ("systemctl", "restart", "docker.service"),
    ]


def test_a_file_that_cannot_be_written_leaves_the_service_alone() -> None:
    node = Node({DAEMON_JSON: '{"debug": true}'})
    former = node.write

    def full(path: str, content: str) -> None:
        if path == DAEMON_JSON and "cdi" in content:
            raise HostError(f"{path}: cannot write: No space left on device")
        former(path, content)

    node.write = full  # type: ignore[method-assign]
    done = converge(node, ["docker"], Options(), dry_run=False)
    assert "No space left on device; rolled back" in done.message()
    assert not node.did("restart") and node.files[DAEMON_JSON] == '{"debug": true}'


def test_f02_broken_file_stays_byte_for_byte_and_docker_is_not_touched() -> None:
    text = (CASES / "f02-stray-brace.json").read_text()
    node = Node({DAEMON_JSON: text})
    with pytest.raises(ParseError, match=rf"{DAEMON_JSON}: line 3, column 5\d: Extra data .*left as it is"):
        converge(node, ["docker"], Options(), dry_run=False)
    assert node.files[DAEMON_JSON] == text and node.written == [] and not node.did("restart")


def test_f01_and_f14_contradict_the_unit_and_nothing_is_changed() -> None:
    hosts = (CASES / "f01-hosts-with-tabs.json").read_text()
    runtime = Options(nvidia_runtime=True, rdma_devices=False, memlock="keep")
    for text, flags, expected in (
        (hosts, "-H fd://", r"conflict: .*hosts \(flag: -H fd://\).*/lib/docker.service"),
        ("{}", "--add-runtime nvidia=/usr/bin/x", r"runtimes \(flag: --add-runtime nvidia=/usr/bin/x\)"),
    ):
        node = Node({DAEMON_JSON: text}, flags)
        with pytest.raises(RoceError, match=expected):
            converge(node, ["docker"], runtime, dry_run=False)
        assert node.written == []


def test_f06_right_file_that_docker_has_not_read_is_no_change_and_a_failure() -> None:
    node = Node({DAEMON_JSON: (CASES / "f06-already-there-bare-path.json").read_text()})
    node.loaded = "{}"
    done = converge(node, ["docker"], Options(nvidia_runtime=True, rdma_devices=False, memlock="keep"), dry_run=False)
    assert not done.as_dict()["changed"] and not node.did("restart")
    assert verdicts(done) == {"docker_nvidia_runtime": "fail"}


def test_f10_a_byte_order_mark_goes_when_the_file_is_written_and_the_user_is_told() -> None:
    node = Node({DAEMON_JSON: (CASES / "f10-utf8-bom.json").read_bytes().decode()})
    done = converge(node, ["docker"], Options(), dry_run=False)
    assert json.loads(node.files[DAEMON_JSON])["debug"] is True
    assert any("byte order mark was left out" in note for note in done.notes())


def test_the_unit_says_which_file_docker_reads() -> None:
    node = Node({"/srv/d.json": "{}"}, "--config-file=/srv/d.json -H fd://")
    converge(node, ["docker"], Options(), dry_run=False)
    assert "cdi" in node.files["/srv/d.json"] and DAEMON_JSON not in node.files


# -- containerd ----------------------------------------------------------------------------------


def test_containerd_gets_cdi_and_its_limit_with_one_restart() -> None:
    text = "version = 2\n# mine\n"
    node = Node({"/etc/containerd/config.toml": text, "/proc/7/limits": "Max locked memory  8388608  8388608  bytes\n"})
    done = converge(node, ["containerd"], Options(), dry_run=False)
    assert done.as_dict()["commands"] == [
        ["write", cdi.SPECIFICATION],
        ["write", "/etc/containerd/config.toml"],
        ["write", containerd.DROP_IN],
        ["systemctl", "daemon-reload"],
        ["systemctl", "restart", "containerd"],
    ]
    assert node.files["/etc/containerd/config.toml"].startswith(text)
    assert set(verdicts(done).values()) == {"pass"}
    assert not converge(node, ["containerd"], Options(), dry_run=False).as_dict()["changed"]
    assert containerd.DROP_IN in done.as_dict()["diff"][-1]["after_header"]


def test_a_daemon_reload_is_refused_beside_containers_of_any_engine() -> None:
    node = Node({"/etc/containerd/config.toml": "version = 2\n"}, active=False)
    node.pods = "pod\n"
    with pytest.raises(RoceError, match=r"needs systemctl daemon-reload and a restart.*podman: pod"):
        converge(node, ["containerd"], Options(), dry_run=False)


def test_a_containerd_that_started_before_the_limit_was_lifted_is_restarted() -> None:
    dump = {"/etc/containerd/config.toml": "enable_cdi = true"}
    node = Node({**dump, "/proc/7/limits": "Max locked memory  8388608  8388608  bytes\n"})
    node.unit_limit = "infinity"
    assert converge(node, ["containerd"], Options(), dry_run=False).as_dict()["commands"][-1][1] == "restart"
    assert not converge(node, ["containerd"], Options(), dry_run=False).as_dict()["changed"]


def test_containerd_that_refuses_its_file_names_line_and_column() -> None:
    node = Node({"/etc/containerd/config.toml": "version = 2\nx = [\n"})
    message = "containerd: failed to load TOML: /etc/containerd/config.toml: (3, 2): unescaped control character"
    node._dump = lambda _argv: (1, "", message)  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(ParseError, match=r"config.toml: line 3, column 2: .*left as it is"):
        converge(node, ["containerd"], Options(), dry_run=False)
    assert node.written == []


def newer(node: Node, version: str) -> None:
    """The node's containerd is one that dumps this version, with the plugin's name since version 3."""
    dump = DUMP.replace("version = 2", version).replace("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
    node._dump = lambda argv: (  # type: ignore[method-assign]
        dump.replace("enable_cdi = false", "enable_cdi = true") if "enable_cdi" in node.files[argv[2]] else dump
    )


@pytest.mark.parametrize("written", [False, True])
def test_a_drop_in_that_overrides_containerd_s_limit_is_named_and_nothing_restarts(written: bool) -> None:
    other = "/etc/systemd/system/containerd.service.d/99-site.conf"
    node = Node({other: "[Service]\nLimitMEMLOCK = 8388608\n"})
    if written:
        node.files[containerd.DROP_IN] = containerd.DROP_IN_TEXT
    node.drop_ins = [*([containerd.DROP_IN] if written else []), other]
    with pytest.raises(RoceError, match=f"LimitMEMLOCK is 8388608 by {other} … infinity"):
        converge(node, ["containerd"], Options(), dry_run=False)
    assert not node.did("restart") and not node.did("daemon-reload")
    assert written or containerd.DROP_IN not in node.files


def test_a_drop_in_before_ours_is_no_obstacle_and_the_limit_is_set_once() -> None:
    early = "/etc/systemd/system/containerd.service.d/10-site.conf"
    node = Node({early: "[Service]\nLimitMEMLOCK=8388608\n"})
    node.drop_ins = [early]
    done = converge(node, ["containerd"], Options(), dry_run=False)
    assert node.did("restart") == 1 and verdicts(done)["containerd_memlock"] == "pass"
    assert not converge(node, ["containerd"], Options(), dry_run=False).as_dict()["changed"]


def test_a_drop_in_that_systemd_has_not_read_yet_is_taken_over() -> None:
    node = Node({containerd.DROP_IN: containerd.DROP_IN_TEXT})
    node.reload_due = True
    converge(node, ["containerd"], Options(), dry_run=False)
    assert node.did("daemon-reload") == 1 and node.limit == "unlimited"


@pytest.mark.parametrize("version", ["version = 3", "version = 4"])
def test_containerd_2_3_is_configured_in_the_version_of_its_file(version: str) -> None:
    path = "/etc/containerd/config.toml"
    node = Node({path: f"{version}\n"})
    newer(node, "version = 4")
    done = converge(node, ["containerd"], Options(memlock="keep"), dry_run=False)
    assert node.files[path].startswith(f'{version}\n\n[plugins."io.containerd.cri.v1.runtime"]\n  enable_cdi = true')
    assert verdicts(done)["containerd_config"] == "pass"


def test_a_containerd_of_a_later_version_is_left_alone() -> None:
    path = "/etc/containerd/config.toml"
    node = Node({path: "version = 5\n"})
    newer(node, "version = 5")
    with pytest.raises(ParseError, match=f"{path}: version: is 5 … one of 1, 2, 3, 4 was expected.*left as it is"):
        converge(node, ["containerd"], Options(), dry_run=False)
    assert node.written == []


def test_an_import_that_owns_the_section_is_named() -> None:
    node = Node({"/etc/containerd/config.toml": "version = 2\n"})
    node._dump = lambda _argv: DUMP  # type: ignore[method-assign]
    with pytest.raises(RoceError, match="an imported file replaces that section; nothing was changed"):
        converge(node, ["containerd"], Options(), dry_run=False)


# -- podman --------------------------------------------------------------------------------------


def test_podman_keeps_the_limits_of_other_files() -> None:
    node = Node({"/etc/containers/containers.conf": '[containers]\ndefault_ulimits = ["nofile=9:9", "memlock=1:1"]\n'})
    done = converge(node, ["podman"], Options(shm_size="1g"), dry_run=False)
    text = node.files[podman.CONFIG]
    assert 'default_ulimits = ["nofile=9:9", "memlock=-1:-1"]' in text and 'shm_size = "1073741824b"' in text
    assert set(verdicts(done).values()) == {"pass"}
    assert not converge(node, ["podman"], Options(shm_size="1g"), dry_run=False).as_dict()["changed"]


NAMED = "/etc/containers/containers.conf"
USERS = '[containers]\r\nnetns="host" # ours\r\nenv=["HTTP_PROXY=x"]\r\n[engine]\r\nruntime="crun"\r\n'


def test_a_file_of_podman_that_config_names_keeps_every_key_and_is_copied_first() -> None:
    node = Node({NAMED: USERS})
    options = Options(rdma_devices=False, config=NAMED, cgroup_driver="systemd")
    node.outputs["podman info --format json"] = '{"host": {"cgroupManager": "systemd"}}'
    done = converge(node, ["podman"], options, dry_run=False)
    assert tomllib.loads(node.files[NAMED]) == {
        "containers": {"netns": "host", "env": ["HTTP_PROXY=x"], "default_ulimits": ["memlock=-1:-1"]},
        "engine": {"runtime": "crun", "cgroup_manager": "systemd"},
    }
    assert [line for line in USERS.splitlines() if line not in node.files[NAMED].splitlines()] == []
    assert node.files[done.backup[NAMED]] == USERS
    assert set(verdicts(done).values()) == {"pass"}
    assert not converge(node, ["podman"], options, dry_run=False).as_dict()["changed"]


def test_a_file_that_podman_is_given_anew_is_ours_and_follows_the_options() -> None:
    node = Node()
    named = "/etc/containers/containers.conf.d/50-site.conf"
    for options in (Options(config=named, shm_size="1g"), Options(config=named)):
        assert converge(node, ["podman"], options, dry_run=False).backup == {}
    assert tomllib.loads(node.files[named]) == {"containers": {"default_ulimits": ["memlock=-1:-1"]}}


def test_a_named_file_of_podman_that_cannot_be_extended_is_left_as_it_is() -> None:
    node = Node({NAMED: 'containers = {netns = "host"}\n'})
    with pytest.raises(ParseError, match=f"{NAMED}: containers: is written as an inline table .*left as it is"):
        converge(node, ["podman"], Options(config=NAMED), dry_run=False)
    assert node.written == []


@pytest.mark.parametrize(
    ("files", "limits"),
    [
        (['[containers]\ndefault_ulimits = ["nofile=1:2", # "nproc=1:1"\n]\n'], ["nofile=1:2", "memlock=-1:-1"]),
        (
            [
                '[containers]\ndefault_ulimits = ["nofile=1:2", "memlock=8:8"]\n',
                '[containers]\ndefault_ulimits = ["nproc=3:4", {append=true}]\n',
            ],
            ["nofile=1:2", "memlock=8:8", "nproc=3:4", "memlock=-1:-1"],
        ),
        (
            [
                '[containers]\ndefault_ulimits = ["nofile=1:2", { append = true }]\n',
                '[containers]\ndefault_ulimits = ["nproc=3:4", {append=false}]\n',
            ],
            ["nproc=3:4", "memlock=-1:-1"],
        ),
    ],
    ids=["a comment is no limit", "appended", "no longer appended"],
)
def test_podman_runs_with_the_limits_it_had_and_unlimited_memlock(files: list[str], limits: list[str]) -> None:
    others = dict(zip(("/usr/share/containers/containers.conf", NAMED), files, strict=False))
    node = Node(others)
    done = converge(node, ["podman"], Options(), dry_run=False)
    assert podman_limits([*files, node.files[podman.CONFIG]]) == limits
    assert set(verdicts(done).values()) == {"pass"}
    named = Node(others)
    converge(named, ["podman"], Options(config=list(others)[-1]), dry_run=False)
    assert podman_limits([named.files[path] for path in others]) == limits


def podman_limits(texts: list[str]) -> list[str]:
    """What podman makes of its files: an array is appended once {append=true} was read; containers.conf(5)."""
    limits, append = [], False
    for text in texts:
        array = tomllib.loads(text)["containers"]["default_ulimits"]
        append = next((item["append"] for item in array if isinstance(item, dict)), append)
        limits = (limits if append else []) + [item for item in array if isinstance(item, str)]
    return limits


@pytest.mark.parametrize(
    ("array", "after"),
    [
        ("[]", '["memlock=-1:-1"]'),
        ("[ # none\n]", '["memlock=-1:-1" # none\n]'),
        ("['nofile=1:1', # \"memlock=1:1\"\n]", '[\'nofile=1:1\', "memlock=-1:-1", # "memlock=1:1"\n]'),
        ('["memlock=1:1", # low\n "nofile=1:1"]', '["memlock=-1:-1", # low\n "nofile=1:1"]'),
        ('["nofile=1:1", {append=true}]', '["nofile=1:1", {append=true}, "memlock=-1:-1"]'),
        ('["memlock=-1"]', '["memlock=-1"]'),
    ],
)
def test_an_array_of_somebody_s_file_keeps_its_layout(array: str, after: str) -> None:
    node = Node({NAMED: f"[containers]\ndefault_ulimits = {array}\n"})
    converge(node, ["podman"], Options(config=NAMED), dry_run=False)
    assert node.files[NAMED] == f"[containers]\ndefault_ulimits = {after}\n"
    tomllib.loads(node.files[NAMED])


def test_limits_that_are_no_array_are_refused() -> None:
    node = Node({NAMED: "[containers]\ndefault_ulimits = 5\n"})
    for options in (Options(), Options(config=NAMED)):
        with pytest.raises(ParseError, match=f"{NAMED}: containers.default_ulimits: is 5 … an array was expected"):
            converge(node, ["podman"], options, dry_run=False)


def test_a_later_file_that_appends_other_limits_overrides_nothing() -> None:
    later = f"{podman.FOLDER}/99-z.conf"
    node = Node({later: '[containers]\ndefault_ulimits = ["nofile=1:1", {append=true}]\n'})
    assert verdicts(converge(node, ["podman"], Options(), dry_run=False))["podman_config"] == "pass"


def test_a_later_file_of_podman_is_named() -> None:
    later = f"{podman.FOLDER}/99-z.conf"
    node = Node({later: "[containers]\ndefault_ulimits = []\n"})
    done = converge(node, ["podman"], Options(), dry_run=False)
    (found,) = (finding for finding in done.findings if finding.check == "podman_config")
    assert found.verdict == "fail" and later in found.remedy


# -- devices -------------------------------------------------------------------------------------


def test_the_specification_names_each_device_in_natural_order() -> None:
    node = Node()
    content = json.loads(cdi.specification(cdi.rdma_devices(node), rdma_cm=True))
    assert content["kind"] == "lossless.roce/rdma"
    nodes = {
        d["name"]: [n["path"].rpartition("/")[2] for n in d["containerEdits"]["deviceNodes"]]
        for d in content["devices"]
    }
    assert nodes == {
        "all": ["rdma_cm", "uverbs1", "uverbs0"],
        "mlx5_2": ["rdma_cm", "uverbs1"],
        "mlx5_10": ["rdma_cm", "uverbs0"],
    }


@given(st.dictionaries(st.text(min_size=1, max_size=6), st.text(max_size=6), min_size=1, max_size=4), st.randoms())
def test_the_same_devices_give_the_same_text(devices: dict[str, str], random: t.Any) -> None:
    shuffled = list(devices.items())
    random.shuffle(shuffled)
    assert cdi.specification(dict(shuffled), True) == cdi.specification(devices, True)


def test_a_node_without_rdma_devices_keeps_its_specification() -> None:
    node = Node()
    node.files = {cdi.SPECIFICATION: "former"}
    done = converge(node, [], Options(), dry_run=False)
    assert node.files[cdi.SPECIFICATION] == "former" and verdicts(done) == {"rdma_cdi": "fail"}


def test_devices_that_changed_are_written_anew() -> None:
    node = Node()
    assert converge(node, [], Options(), dry_run=False).as_dict()["changed"]
    del node.files["/dev/infiniband/uverbs1"]
    assert verdicts(converge(node, [], Options(), dry_run=True))["rdma_cdi"] == "fail"
    assert converge(node, [], Options(), dry_run=False).as_dict()["changed"]
    assert "mlx5_2" not in node.files[cdi.SPECIFICATION]


# -- nvidia --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "tool"), [("runtime", "nvidia-container-runtime"), ("cdi", "nvidia-ctk")])
def test_a_missing_toolkit_is_named_when_it_was_asked_for(mode: str, tool: str) -> None:
    with pytest.raises(RoceError, match=rf"{tool} is not installed .*nvidia-container-toolkit"):
        resolve_nvidia(Node(), mode)


def test_auto_takes_what_is_installed() -> None:
    node = Node()
    assert resolve_nvidia(node, "auto") == (False, False)
    node.missing_tools = set()
    assert resolve_nvidia(node, "auto") == (True, False), "without the driver there is no specification to make"
    node.files["/dev/nvidiactl"] = ""
    assert resolve_nvidia(node, "auto") == (True, True)
    assert resolve_nvidia(node, "none") == (False, False)


def test_the_specification_of_the_gpus_is_made_by_nvidia_ctk() -> None:
    node = Node()
    node.missing_tools = set()
    node.outputs["nvidia-ctk cdi generate --format yaml"] = "cdiVersion: 0.5.0\n"
    options = Options(nvidia_cdi=True, rdma_devices=False)
    done = converge(node, [], options, dry_run=False)
    assert node.files[cdi.NVIDIA_SPECIFICATION] == "cdiVersion: 0.5.0\n" and verdicts(done) == {"nvidia_cdi": "pass"}
    assert not converge(node, [], options, dry_run=False).as_dict()["changed"]
    node.files["/var/run/cdi/nvidia.yaml"] = "x"
    assert verdicts(converge(node, [], options, dry_run=False)) == {"nvidia_cdi": "fail"}, "each GPU twice"


# -- options -------------------------------------------------------------------------------------


def params(**changed: t.Any) -> dict[str, t.Any]:
    """Parameters of the module."""
    default = {"engines": ["docker"], "nvidia": "none", "rdma_devices": True, "default_runtime": None, "config": None,
               "memlock": "unlimited", "shm_size": None, "cgroup_driver": "keep", "restart": "when_changed",
               "when_busy": "refuse"}  # fmt: skip
    return {**default, **changed}


def test_wrong_options_name_the_value() -> None:
    with pytest.raises(RoceError, match="config: '/x' is one file"):
        make_options(Node(), params(config="/x", engines=["docker", "podman"]))
    with pytest.raises(RoceError, match="shm_size: 'big'"):
        make_options(Node(), params(shm_size="big"))


def test_an_engine_that_a_real_run_may_install_is_unknown_in_check_mode() -> None:
    node = Node()
    node.missing_tools.add("podman")
    assert verdicts(converge(node, ["podman"], Options(), dry_run=True))["podman_config"] == "unknown"
    with pytest.raises(HostError, match="podman: not installed on this node; install package podman"):
        converge(node, ["podman"], Options(), dry_run=False)
