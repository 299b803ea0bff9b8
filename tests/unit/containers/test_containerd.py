# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""containerd's TOML edited as text, judged by its dump."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.containers import containerd, tomltext
from ansible_collections.lossless.roce.plugins.module_utils.containers.engine import Options
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError, RoceError
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parents[1] / "recorded"
DUMP = (RECORDED / "containers" / "containerd-1.7.24-config-dump.toml").read_text()
RIGHT = (RECORDED / "cases" / "f16-containerd-v2-right.toml").read_text()
CRI = "io.containerd.grpc.v1.cri"
NVIDIA = Options(nvidia_runtime=True, rdma_devices=False)
BASE = ("plugins", CRI)


def test_f16_is_right_already() -> None:
    options = Options(nvidia_runtime=True, rdma_devices=False, default_runtime="nvidia", cgroup_driver="systemd")
    settings = containerd.settings_to_make(tomltext.values(RIGHT), CRI, options)
    assert settings == {}


def test_f16_with_cdi_keeps_everything() -> None:
    settings = containerd.settings_to_make(tomltext.values(RIGHT), CRI, Options(default_runtime="nvidia"))
    after = containerd.merge(RIGHT, containerd.in_version(settings, containerd.version_of(RIGHT)))
    expected = tomllib.loads(RIGHT)
    expected["plugins"][CRI]["enable_cdi"] = True
    assert tomllib.loads(after) == expected
    assert [line for line in after.splitlines() if line not in RIGHT.splitlines()] == ["    enable_cdi = true"]


def test_statements_of_a_real_dump_are_those_of_a_real_reader() -> None:
    def flat(value: object, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        if isinstance(value, list) and value and isinstance(value[0], dict):  # [[table]]
            value = value[-1]
        if not isinstance(value, dict) or not value:
            return {path} if not isinstance(value, dict) else set()
        return set().union(*(flat(inner, (*path, key)) for key, inner in value.items()))

    assert set(tomltext.values(DUMP)) == flat(tomllib.loads(DUMP))


def test_what_is_wanted_of_a_default_containerd() -> None:
    options = Options(nvidia_runtime=True, default_runtime="nvidia", cgroup_driver="systemd")
    settings = containerd.settings_to_make(tomltext.values(DUMP), CRI, options)
    after = tomllib.loads(containerd.merge(DUMP, settings))["plugins"][CRI]
    assert after["enable_cdi"] is True
    assert after["containerd"]["default_runtime_name"] == "nvidia"
    assert after["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert after["containerd"]["runtimes"]["nvidia"] == {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"BinaryName": "/usr/bin/nvidia-container-runtime", "SystemdCgroup": True},
    }
    second = containerd.merge(DUMP, settings)
    assert containerd.settings_to_make(tomltext.values(second), CRI, options) == {}


def test_the_nvidia_runtime_follows_the_cgroup_driver_of_runc() -> None:
    effective = {**tomltext.values(DUMP), (*BASE, "containerd", "runtimes", "runc", "options", "SystemdCgroup"): "true"}
    settings = containerd.settings_to_make(effective, CRI, NVIDIA)
    assert settings[(*BASE, "containerd", "runtimes", "nvidia", "options", "SystemdCgroup")] == "true"


def test_a_default_runtime_that_is_not_there_is_refused() -> None:
    with pytest.raises(RoceError, match="'kata' is no runtime of containerd … one of runc was expected"):
        containerd.settings_to_make(tomltext.values(DUMP), CRI, Options(default_runtime="kata"))


@pytest.mark.parametrize(
    ("text", "plugin"),
    [
        ("", "cri"),
        ("version = 2\n", CRI),
        ("version = 3\n", "io.containerd.cri.v1.runtime"),
        ("version = 4\n", "io.containerd.cri.v1.runtime"),
    ],
)
def test_the_plugin_has_the_name_of_the_file_s_version(text: str, plugin: str) -> None:
    settings = containerd.in_version({(*BASE, "enable_cdi"): "true"}, containerd.version_of(text))
    assert tomllib.loads(containerd.merge(text, settings))["plugins"] == {plugin: {"enable_cdi": True}}


@pytest.mark.parametrize("version", ["0", "5", "'4'", "99999999999999999999"])
def test_a_version_that_nobody_knows_is_refused(version: str) -> None:
    effective = {**tomltext.values(DUMP), ("version",): version}
    for ask in (
        lambda: containerd.version_of(f"version = {version}\n"),
        lambda: containerd.judge_effective(effective, Options()),
        lambda: containerd.judge_kubelet(effective, "cgroupDriver: systemd\n"),
    ):
        with pytest.raises(ParseError, match=f"version: is {version} … one of 1, 2, 3, 4 was expected"):
            ask()


def test_a_change_of_something_else_is_seen() -> None:
    before = tomltext.values(DUMP)
    settings = {(*BASE, "enable_cdi"): "true"}
    after = {**before, **settings}
    assert containerd.side_effects(before, after, settings) == []
    lost = {path: value for path, value in after.items() if path != (*BASE, "cni", "bin_dir")}
    assert containerd.side_effects(before, lost, settings) == [(*BASE, "cni", "bin_dir")]


def test_relative_imports_are_found_from_another_folder() -> None:
    text = 'imports = ["conf.d/*.toml", "/a.toml"]\nversion = 2\n'
    after = containerd.with_absolute_imports(text, "/etc/containerd/config.toml")
    assert tomllib.loads(after)["imports"] == ["/etc/containerd/conf.d/*.toml", "/a.toml"]
    assert containerd.with_absolute_imports("version = 2\n", "/x") == "version = 2\n"


def test_an_import_in_a_comment_is_none() -> None:
    text = 'imports = ["a.toml", # "/old.toml"\n]\n'
    assert tomllib.loads(containerd.with_absolute_imports(text, "/etc/config.toml")) == {"imports": ["/etc/a.toml"]}


arrays = st.lists(st.one_of(st.text(alphabet="a#[]{},\"' ", max_size=6), st.integers()), max_size=4)
comments = st.text(alphabet="a#[]{},\"' ", max_size=6)


@given(arrays, comments)
def test_the_strings_of_an_array_are_those_of_a_real_reader(array: list[object], comment: str) -> None:
    written = "[" + "".join(f"\n {json.dumps(item)} # {comment}\n ," for item in array) + f"# {comment}\n]"
    expected = [item for item in tomllib.loads(f"x = {written}")["x"] if isinstance(item, str)]
    assert tomltext.strings(written) == expected


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("[a]\nb = 0 # c\n", "[a]\nb = 1 # c\n"),
        ("[a]\n\tc = [\n\t\t1, # ]\n\t]\n\n[d]\n", "[a]\n\tc = [\n\t\t1, # ]\n\t]\n\tb = 1\n\n[d]\n"),
        ("[a.x]\ny = 1\n", "[a.x]\ny = 1\n\n[a]\n  b = 1\n"),
        ("  [a] # c", "  [a] # c\n    b = 1\n"),
        ('["a"]\r\nx = """\r\n[a]\r\nb = 0"""\r\n', '["a"]\r\nx = """\r\n[a]\r\nb = 0"""\r\nb = 1\r\n'),
        ("a.b = 0\n", "a.b = 1\n"),
    ],
)
def test_one_key_changes_and_the_rest_stays(text: str, after: str) -> None:
    assert tomltext.set_value(text, ("a", "b"), "1") == after
    assert tomllib.loads(after)["a"]["b"] == 1
    assert tomltext.set_value(after, ("a", "b"), "1") == after


@pytest.mark.parametrize(("text", "what"), [("a = {c = 1}\n", "an inline table"), ("a.c = 1\n", "dotted keys")])
def test_a_closed_table_is_refused(text: str, what: str) -> None:
    with pytest.raises(ParseError, match=rf"a: is written as {what} … a table of its own, \[a\], was expected"):
        tomltext.set_value(text, ("a", "b"), "1")


@pytest.mark.parametrize(
    ("text", "at"),
    [("x = 1\n[a\n", "line 2, column 3"), ("= 1", "line 1, column 1"), ("a = \n", "line 1, column 5"),
     ('a = "x\n', "line 1, column 5"), ("a = [1\n", "line 1, column 5"), ("a\n", "line 1, column 2")],
)  # fmt: skip
def test_broken_text_names_line_and_column(text: str, at: str) -> None:
    with pytest.raises(ParseError, match=at):
        tomltext.statements(text)


@given(st.text(alphabet="ab.\"'[]{}=#\n \\,1", max_size=40))
def test_garbage_is_a_parse_error_or_statements(text: str) -> None:
    try:
        tomltext.statements(text)
    except ParseError as exc:
        assert str(exc).startswith("line ")


keys = st.text(alphabet="ab-_1. \"'é", min_size=1, max_size=5)
quoted = st.text(alphabet='a#[]{}="\\\n', max_size=6)


@given(st.dictionaries(keys, st.dictionaries(keys, quoted, max_size=3), max_size=3), keys, keys)
def test_any_tables_keep_their_keys(tables: dict[str, dict[str, str]], table: str, key: str) -> None:
    rows = []
    for name, content in tables.items():
        rows.append(f"[{json.dumps(name)}]")
        rows += [f"  {json.dumps(k)} = {json.dumps(v)} # = [x" for k, v in content.items()]
    after = tomltext.set_value("\n".join(rows), (table, key), "true")
    expected = {**tables, table: {**tables.get(table, {}), key: True}}
    assert tomllib.loads(after) == expected


def test_kubelet_must_agree() -> None:
    effective = tomltext.values(DUMP)
    assert containerd.judge_kubelet(effective, None) == []
    (found,) = containerd.judge_kubelet(effective, "kind: KubeletConfiguration\ncgroupDriver: systemd\n")
    assert found.verdict == "fail" and "pods crash-loop" in found.cause
    (found,) = containerd.judge_kubelet(tomltext.values(RIGHT), 'cgroupDriver: "systemd"\n')
    assert found.verdict == "pass"


def test_findings_on_a_dump() -> None:
    found = containerd.judge_effective(tomltext.values(DUMP), Options())
    assert [(f.check, f.verdict) for f in found] == [("containerd_config", "fail")]
    right = {**tomltext.values(DUMP), (*BASE, "enable_cdi"): "true", ("disabled_plugins",): '["cri"]'}
    found = containerd.judge_effective(right, Options())
    assert [(f.check, f.verdict) for f in found] == [("containerd_cri", "skipped"), ("containerd_config", "pass")]
    found = containerd.judge_effective(right, Options(), "systemctl restart containerd")
    assert found[-1].verdict == "pending"
