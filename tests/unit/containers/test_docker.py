# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""daemon.json merged as text: the recorded files with their verdicts, and any JSON object."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.containers import docker, jsontext, units
from ansible_collections.lossless.roce.plugins.module_utils.containers.engine import Options, size_bytes
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError, RoceError
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parents[1] / "recorded"
CASES = RECORDED / "cases"
NVIDIA_ONLY = Options(nvidia_runtime=True, rdma_devices=False, memlock="keep")
EVERYTHING = Options(
    nvidia_runtime=True, default_runtime="nvidia", memlock="unlimited", shm_size="8g", cgroup_driver="systemd"
)


def merged(text: str, options: Options) -> str:
    """What becomes of a file."""
    bare = text.lstrip(jsontext.BOM)
    return docker.merge(bare, docker.settings_to_make(jsontext.parse_object(bare, "f"), options))


def case(name: str) -> str:
    """Text of a recorded case, with its own line ends."""
    return (CASES / name).read_bytes().decode()


@pytest.mark.parametrize("given", ['"native.cgroupdriver=cgroupfs"', "1.5", '{"a": 1}', "true"])
def test_exec_opts_that_are_no_list_are_refused(given: str) -> None:
    with pytest.raises(ParseError, match="exec-opts: is .* a list was expected"):
        merged(f'{{"exec-opts": {given}}}', EVERYTHING)


# -- recorded cases ------------------------------------------------------------------------------


def test_f01_keeps_hosts_and_tabs_and_adds_the_runtime() -> None:
    text = case("f01-hosts-with-tabs.json")
    after = merged(text, NVIDIA_ONLY)
    assert after.startswith(text.rstrip().rstrip("}").rstrip())
    assert after == (
        '{\n\t"hosts": [\n\t\t"tcp://127.0.0.1:2375",\n\t\t"unix:///var/run/docker.sock"\n\t],\n'
        '\t"runtimes": {\n\t\t"nvidia": {\n\t\t\t"path": "nvidia-container-runtime",\n\t\t\t"args": []\n\t\t}\n\t}\n}\n'
    )


def test_f01_hosts_contradict_the_unit() -> None:
    flags = units.parse_flags(["-H", "fd://", "--containerd=/run/containerd/containerd.sock"])
    both = docker.conflicts(json.loads(case("f01-hosts-with-tabs.json")), flags)
    assert both == {"hosts": "-H fd://"}


def test_f02_stray_brace_names_line_and_column() -> None:
    with pytest.raises(ParseError, match=r"daemon.json: line 3, column 5\d: Extra data"):
        jsontext.parse_object(case("f02-stray-brace.json"), "/etc/docker/daemon.json")


def test_f05_keeps_all_four_keys() -> None:
    text = case("f05-cgroup-log-storage.json")
    before, after = json.loads(text), json.loads(merged(text, NVIDIA_ONLY))
    assert after == {**before, "runtimes": {"nvidia": docker.NVIDIA_RUNTIME}}
    assert list(after)[:4] == list(before)
    assert "default-runtime" not in after
    assert merged(text, NVIDIA_ONLY).startswith(text.rstrip().rstrip("}").rstrip())


def test_f06_is_right_already_and_docker_may_still_run_without_it() -> None:
    text = case("f06-already-there-bare-path.json")
    assert merged(text, NVIDIA_ONLY) == text
    info = json.loads((RECORDED / "containers" / "docker-info-26.1.json").read_text())
    (found,) = docker.judge_running(info, NVIDIA_ONLY)
    assert (found.check, found.verdict) == ("docker_nvidia_runtime", "fail")
    assert "not read the file" in found.cause and "restart docker" in found.remedy
    (found,) = docker.judge_running({"Runtimes": {"nvidia": {}, "runc": {}}}, NVIDIA_ONLY)
    assert found.verdict == "pass"


def test_f09_shm_size_in_another_spelling_is_right_already() -> None:
    text = case("f09-shm-size-and-default.json")
    options = Options(nvidia_runtime=True, rdma_devices=False, memlock="keep", default_runtime="nvidia", shm_size="8g")
    assert merged(text, options) == text
    assert json.loads(merged(text, EVERYTHING))["default-shm-size"] == "8G"


def test_f10_byte_order_mark_is_read() -> None:
    text = case("f10-utf8-bom.json")
    assert text.startswith(jsontext.BOM)
    after = merged(text, NVIDIA_ONLY)
    assert json.loads(after)["debug"] is True
    assert after.startswith('{"debug": true, "runtimes": {')


def test_f13_trailing_comma_names_line_and_column() -> None:
    # The case is dockerd's message about this text.
    with pytest.raises(ParseError, match=r"/etc/docker/daemon.json: line 3, column 1: "):
        jsontext.parse_object('{\n  "debug": true,\n}\n', "/etc/docker/daemon.json")
    assert "looking for beginning of object key string" in case("f13-log-trailing-comma.txt")


def test_f14_runtime_by_flag_and_in_the_file() -> None:
    flags = units.parse_flags(["--add-runtime", "nvidia=/usr/bin/nvidia-container-runtime", "-H", "fd://"])
    keys = {keys[0] for keys, _value in docker.settings_to_make({}, NVIDIA_ONLY)}
    assert docker.conflicts(keys, flags) == {"runtimes": "--add-runtime nvidia=/usr/bin/nvidia-container-runtime"}


# -- what is wanted ------------------------------------------------------------------------------


def test_other_features_limits_and_exec_opts_stay() -> None:
    before = {
        "features": {"buildkit": True},
        "default-ulimits": {"nofile": {"Name": "nofile", "Hard": 9, "Soft": 8}, "memlock": {"Hard": 1, "Soft": 1}},
        "exec-opts": ["native.cgroupdriver=cgroupfs", "isolation=x"],
    }
    after = json.loads(merged(json.dumps(before, indent=2), EVERYTHING))
    assert after["features"] == {"buildkit": True, "cdi": True}
    assert after["default-ulimits"] == {"nofile": before["default-ulimits"]["nofile"], "memlock": docker.UNLIMITED}
    assert after["exec-opts"] == ["isolation=x", "native.cgroupdriver=systemd"]


def test_limits_in_lower_case_are_right_already() -> None:
    text = '{"default-ulimits": {"memlock": {"name": "memlock", "hard": -1, "soft": -1}}}'
    assert merged(text, Options(rdma_devices=False)) == text


def test_a_key_of_another_type_is_refused() -> None:
    with pytest.raises(ParseError, match=r"features: is \[1\] … an object was expected"):
        docker.settings_to_make({"features": [1]}, Options())


def test_a_default_runtime_that_is_not_there_is_refused() -> None:
    wrong = {"default-runtime": "kata", "runtimes": {"nvidia": {}}}
    with pytest.raises(RoceError, match=r"/f: default runtime 'kata' is not registered … one of nvidia, runc was"):
        docker.refuse_unknown_runtime(wrong, {}, "/f")
    docker.refuse_unknown_runtime(wrong, {"add-runtime": ["kata=/usr/bin/kata"]}, "/f")
    docker.refuse_unknown_runtime({"default-runtime": "io.containerd.kata.v2"}, {}, "/f")
    docker.refuse_unknown_runtime({}, {}, "/f")


@pytest.mark.parametrize(("text", "size"), [("8G", 8 << 30), ("512m", 512 << 20), ("1gb", 1 << 30), ("64", 64)])
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text, "shm_size") == size


@pytest.mark.parametrize("text", ["", "8 apples", "-1g", "٣g", "g"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(RoceError, match="shm_size"):
        size_bytes(text, "shm_size")


# -- the text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("{}", '{\n    "a": {\n        "b": 1\n    }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{\r\n  "x": 1e3\r\n}', '{\r\n  "x": 1e3,\r\n  "a": {\r\n    "b": 1\r\n  }\r\n}'),
        ('{\n  "a": {}\n}', '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{\n  "a": {"b": [1, 2]}\n}', '{\n  "a": {"b": 1}\n}'),
        ('{"a": 1, "a": {"c": "}"}}', '{"a": 1, "a": {"c": "}", "b": 1}}'),
    ],
)
def test_layout_is_kept(text: str, after: str) -> None:
    assert jsontext.set_member(text, ("a", "b"), 1) == after


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
# Keys that the merge works on, with values that docker allows, beside any others.
ours = st.fixed_dictionaries(
    {},
    optional={
        "runtimes": st.dictionaries(st.text(max_size=4), json_values, max_size=2),
        "features": st.dictionaries(st.text(max_size=4), st.booleans(), max_size=2),
        "default-ulimits": st.dictionaries(st.text(max_size=4), json_values, max_size=2),
        "default-shm-size": st.text(max_size=4),
        "exec-opts": st.lists(st.text(max_size=8), max_size=2),
    },
)
layouts = st.sampled_from([{}, {"indent": 2}, {"indent": "\t"}, {"indent": 0}, {"separators": (",", ":")}])


def keys_of(value: t.Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Every key of every object, by its path."""
    if not isinstance(value, dict):
        return set()
    return {(*path, key) for key in value}.union(*(keys_of(inner, (*path, key)) for key, inner in value.items()), set())


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4), ours, layouts)
def test_any_object_keeps_its_keys_and_their_order_and_a_second_merge_changes_nothing(
    others: dict[str, t.Any], known: dict[str, t.Any], layout: dict[str, t.Any]
) -> None:
    before = {**others, **known}
    text = json.dumps(before, **layout)
    try:
        after = merged(text, EVERYTHING)
    except ParseError:  # a key of ours that was drawn with another type
        assert any(not isinstance(before.get(k, {}), dict) for k in ("runtimes", "features", "default-ulimits"))
        return
    assert merged(after, EVERYTHING) == after
    loaded = json.loads(after)
    assert list(loaded)[: len(before)] == list(before)
    changed = {("default-ulimits", "memlock")}  # an object of ours as a whole
    assert {path for path in keys_of(before) if path[:2] not in changed} <= keys_of(loaded)
    managed = {"runtimes", "default-runtime", "default-ulimits", "default-shm-size", "features", "exec-opts"}
    assert {k: v for k, v in loaded.items() if k not in managed} == {
        k: v for k, v in before.items() if k not in managed
    }


@given(st.text(max_size=60))
def test_garbage_is_a_parse_error_or_an_object(text: str) -> None:
    try:
        value = jsontext.parse_object(text, "file")
    except ParseError as exc:
        assert str(exc).startswith("file: ")
    else:
        assert isinstance(value, dict)


@pytest.mark.parametrize("text", ["[]", "NaN", '{"a": Infinity}', "[" * 100000, '"x"'])
def test_what_is_no_object(text: str) -> None:
    with pytest.raises(ParseError, match="^f: "):
        jsontext.parse_object(text, "f")


# -- the unit ------------------------------------------------------------------------------------


def test_flags_of_the_unit_with_its_variables() -> None:
    shown = units.parse_show((RECORDED / "containers" / "systemctl-show-docker.txt").read_text())
    environment = units.parse_environment("# x\nDOCKER_OPTS=\"--add-runtime 'a=/b c' --debug\"\n")
    service = units.service("docker", shown, environment)
    assert service.there and service.active and service.memlock == "8388608"
    assert service.flags() == {
        "H": ["fd://"],
        "containerd": ["/run/containerd/containerd.sock"],
        "add-runtime": ["a=/b c"],
        "debug": [""],
    }


@given(st.text())
def test_any_text_of_systemctl(text: str) -> None:
    units.service("docker", units.parse_show(text), units.parse_environment(text)).flags()


# -- findings ------------------------------------------------------------------------------------


def test_an_old_docker_knows_no_cdi() -> None:
    (found,) = docker.judge_running({"ServerVersion": "24.0.7"}, Options())
    assert found.verdict == "fail" and "24.0.7 knows no CDI" in found.cause and "update docker" in found.remedy


def test_what_the_service_has_not_read_is_pending() -> None:
    info = json.loads((RECORDED / "containers" / "docker-info-26.1.json").read_text())
    pending = "systemctl restart docker, once no container runs"
    running = docker.judge_running(info, Options(), pending)
    (memlock,) = docker.judge_file({"default-ulimits": {"memlock": docker.UNLIMITED}}, {}, "f", Options(), pending)
    for found in (*running, memlock):
        assert found.verdict == "pending" and found.remedy == pending
