# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NCCL's variables from policy and node, and the files in which jobs find them."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks.nccl_env import parse_conf
from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError, PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.host import Done, Host
from ansible_collections.lossless.roce.plugins.module_utils.nccl.env import (
    PortFacts,
    address_range,
    derive,
    env_file,
    merged_conf,
    parse_version,
)
from ansible_collections.lossless.roce.plugins.module_utils.nccl.node import NodeFacts, Wanted, converge
from ansible_collections.lossless.roce.plugins.module_utils.policy import parse_policy
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

POLICY = parse_policy({})
PORTS = [PortFacts("mlx5_0", 1, "10.0.0.1", 24, 3), PortFacts("mlx5_1", 1, "10.0.1.1", 24, 3)]


def test_all_follows_from_policy_and_ports() -> None:
    assert derive(POLICY, PORTS, interface="ens1np0") == {
        "NCCL_IB_TC": "106",
        "NCCL_IB_FIFO_TC": "106",
        "NCCL_GIN_IB_TC": "106",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "NCCL_IB_ADDR_RANGE": "10.0.0.0/23",
        "NCCL_SOCKET_IFNAME": "=ens1np0",
    }
    assert derive(POLICY, [], interface="lo") == {"NCCL_SOCKET_IFNAME": "=lo"}


@pytest.mark.parametrize(
    ("version", "name"), [("2.21.5", "ADDR_RANGE"), ("2.30", "ADDR_RANGE"), ("2.20.5", "GID_INDEX")]
)
def test_the_gid_by_range_or_by_index(version: str, name: str) -> None:
    found = derive(POLICY, PORTS, version=parse_version(version))
    assert {key for key in found if "GID" in key or "RANGE" in key} == {f"NCCL_IB_{name}"}


def test_an_index_that_cannot_be_one_for_all_is_refused() -> None:
    for second, message in ((5, r"indexes \[3, 5\]"), (None, "mlx5_1 has no RoCE v2 GID")):
        ports = [PORTS[0], PortFacts("mlx5_1", 1, "10.0.1.1", 24, second)]
        with pytest.raises(PolicyError, match=message):
            derive(POLICY, ports, version=(2, 20))
        assert "NCCL_IB_ADDR_RANGE" in derive(POLICY, ports, version=(2, 28))


@pytest.mark.parametrize(
    ("indexes", "text"), [((3, 3), "3"), ((5, 3), "3,5"), ((3, None), "3,none"), ((None,), "none"), ((), "")]
)
def test_the_worker_is_told_of_indexes_that_differ(indexes: tuple[int | None, ...], text: str) -> None:
    assert NodeFacts(facts=[PortFacts("mlx5_0", 1, gid_index=index) for index in indexes]).gid_indexes == text


@pytest.mark.parametrize("letter", [*";&|<>()$`\\\"'~"])
def test_a_value_that_a_shell_would_take_for_its_own_is_not_written_for_shells(letter: str) -> None:
    value = f"allreduce:ring{letter}broadcast:tree"
    with pytest.raises(PolicyError, match=re.escape(f"NCCL_ALGO={value} holds {letter}, which a shell")):
        env_file({"NCCL_IB_TC": "106", "NCCL_ALGO": value})
    assert f"NCCL_ALGO={value}\n" in merged_conf("", {"NCCL_ALGO": value}), "NCCL takes it as it stands"


@given(st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), max_size=30))
def test_a_shell_reads_what_is_written(value: str) -> None:
    """Each value that is taken is one word of a shell, and the value as it stands."""
    with contextlib.suppress(PolicyError):
        assert shlex.split(env_file({"NAME": value}).splitlines()[1]) == [f"NAME={value}"]


def test_a_range_that_would_choose_nothing_is_left_out() -> None:
    assert address_range([PORTS[0], PortFacts("mlx5_1", 1, "192.168.0.1", 24)]) == ""
    assert address_range([PortFacts("mlx5_0", 1)]) == ""
    assert address_range([PORTS[0]]) == "10.0.0.0/24"


@pytest.mark.parametrize(
    ("tuning", "message"),
    [
        ({"NCCL_NTHREADS": 4}, "does not take NCCL_NTHREADS=4"),
        ({"NCCL_IB_TIMEOUT": 99}, "environment: NCCL_IB_TIMEOUT=99 is out of range.* … expected: 1 to 31"),
        ({"NCCL_MAX_NCHANNELS": 2}, "environment: NCCL_MAX_NCHANNELS=2: few channels .* … expected: 5 or more, or not"),
        ({"NCCL_PROTO": "Fast"}, "does not know that word"),
        ({"NCCL_IB_TC": 26}, "traffic class 26, and the policy's is 106"),
        ({"NCCL_IB_DISABLE": 1}, "RDMA is switched off"),
        ({"NCCL_IB_HCA": "mlx5_0"}, "NCCL_IB_HCA=mlx5_0, and the policy"),
        ({"NCCL_DEBUG": "INFO x"}, "a value without blanks"),
        ({"nccl debug": "INFO"}, "a name of capitals"),
    ],
)
def test_what_contradicts_or_is_out_of_range_is_refused(tuning: dict[str, t.Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        derive(POLICY, PORTS, tuning=tuning)


def test_tuning_is_passed_through() -> None:
    tuning = {"NCCL_PROTO": "Simple", "NCCL_MAX_NCHANNELS": 16, "NCCL_NET_GDR_LEVEL": "PHB"}
    found = derive(POLICY, PORTS, tuning=tuning)
    assert {name: found[name] for name in tuning} == {
        "NCCL_PROTO": "Simple",
        "NCCL_MAX_NCHANNELS": "16",
        "NCCL_NET_GDR_LEVEL": "PHB",
    }


@pytest.mark.parametrize("text", ["2", "x", "2.28.9.1.1.1"])
def test_a_wrong_version(text: str) -> None:
    with pytest.raises(PolicyError, match="a version such as"):
        parse_version(text)


def test_other_lines_of_nccl_conf_stay_where_they_are() -> None:
    text = "# ours\nNCCL_IB_TC = 0\nNCCL_DEBUG=WARN\nexport NCCL_IB_HCA=mlx5_0\nNCCL_IB_TC=1\nodd line"
    assert merged_conf(text, {"NCCL_IB_HCA": "=mlx5_0:1", "NCCL_IB_TC": "106", "NCCL_IB_SL": "3"}) == (
        "# ours\nNCCL_IB_TC=106\nNCCL_DEBUG=WARN\nNCCL_IB_HCA==mlx5_0:1\nodd line\nNCCL_IB_SL=3\n"
    )


@pytest.mark.parametrize(
    "other", ["# a\r\n", "A=1\r\n", "A=x\x0by\n", "A=x\u2028y\n", "\r\n", "\ufeff# a\n", "A=\x85\n"]
)
def test_a_line_ends_where_nccl_ends_it(other: str) -> None:
    assert merged_conf(other, {"NCCL_IB_TC": "106"}) == f"{other}NCCL_IB_TC=106\n"
    # NCCL takes a carriage return for a part of the value.
    assert merged_conf(f"NCCL_IB_TC=0\r\n{other}", {"NCCL_IB_TC": "106"}) == f"NCCL_IB_TC=106\n{other}"
    assert merged_conf("NCCL_IB_TC=106\nA=1", {"NCCL_IB_TC": "106"}) == "NCCL_IB_TC=106\nA=1"


@given(st.text("NCLIB_TC=# \n1\r\x0b\u2028", max_size=80))
def test_a_merged_file_says_what_was_asked_and_is_stable(text: str) -> None:
    wanted = {"NCCL_IB_TC": "106"}
    merged = merged_conf(text, wanted)
    settings, _wrong = parse_conf(merged, "f")
    assert [s.value for s in settings if s.name == "NCCL_IB_TC"] == ["106"]
    assert merged_conf(merged, wanted) == merged


def test_the_file_of_variables_is_for_shells_and_engines() -> None:
    assert env_file({"NCCL_IB_HCA": "=mlx5_0:1"}).splitlines()[1:] == ["NCCL_IB_HCA==mlx5_0:1"]


def node(**files: str) -> FakeHost:
    links = [{"ifindex": 0, "ifname": "mlx5_0", "port": 1, "state": "ACTIVE", "netdev": "ens1np0"}]
    addresses = [{"ifname": "ens1np0", "addr_info": [{"local": "10.0.0.1", "prefixlen": 24}]}]
    gids = "/sys/class/infiniband/mlx5_0/ports/1"
    return FakeHost(
        {
            f"{gids}/gids/3": "0000:0000:0000:0000:0000:ffff:0a00:0001",
            f"{gids}/gid_attrs/types/3": "RoCE v2",
            f"{gids}/gid_attrs/ndevs/3": "ens1np0",
            f"{gids}/link_layer": "Ethernet",
            **files,
        },
        {"rdma -j link show": json.dumps(links), "ip -j address show": json.dumps(addresses)},
    )


def test_a_node_is_written_once_and_check_mode_predicts_it() -> None:
    host = node(**{"/etc/nccl.conf": "NCCL_DEBUG=WARN\n"})
    wanted = Wanted(ports=[{"name": "ens1np0", "address": "10.0.0.1"}], policy={}, interface="ens1np0")
    predicted = converge(host, wanted, dry_run=True)
    assert host.written == []
    done = converge(host, wanted, dry_run=False)
    assert predicted == done and done["changed"]
    assert host.files["/etc/nccl.conf"].startswith("NCCL_DEBUG=WARN\nNCCL_IB_TC=106\n")
    assert "NCCL_IB_HCA==mlx5_0:1\n" in host.files["/etc/lossless-roce/nccl.env"]
    again = converge(host, wanted, dry_run=False)
    assert not again["changed"] and again["commands"] == []


def test_files_are_read_and_written_under_the_nodes_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    host = node(**{"/etc/nccl.conf": "NCCL_DEBUG=WARN\n"})
    wanted = Wanted(ports=[{"name": "ens1np0"}], policy={})

    @contextlib.contextmanager
    def lock(path: str = "", timeout: float = 0.0) -> t.Iterator[None]:
        host.files["/etc/nccl.conf"] = "NCCL_ALGO=Ring\n"  # what the run before us wrote while we waited
        yield
        raise HostError("released")

    monkeypatch.setattr(host, "lock", lock)
    assert converge(host, wanted, dry_run=True)["changed"], "a prediction needs no lock"
    with pytest.raises(HostError, match="released"):
        converge(host, wanted, dry_run=False)
    assert host.files["/etc/nccl.conf"].startswith("NCCL_ALGO=Ring\nNCCL_IB_TC=106\n")


class RealFiles(Host):
    """This machine's files, and a node without ports."""

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        return Done(argv, 0, "[]", "")

    @contextlib.contextmanager
    def lock(self, path: str = "", timeout: float = 0.0) -> t.Iterator[None]:
        yield


def wanted(conf: Path | str, env: Path | str = "") -> Wanted:
    return Wanted((), {}, tuning={"NCCL_DEBUG": "INFO"}, conf=str(conf), env_file=str(env))


def test_other_lines_keep_their_bytes_and_the_former_file_is_kept(tmp_path: Path) -> None:
    conf, former = tmp_path / "nccl.conf", "# \u00fcber\r\nA=1\x0b2\u20283\r\nNCCL_DEBUG=WARN\r\n".encode()
    conf.write_bytes(former)
    predicted = converge(RealFiles(), wanted(conf), dry_run=True)
    assert ["backup", str(conf)] in predicted["commands"] and [file.name for file in tmp_path.iterdir()] == [conf.name]
    assert converge(RealFiles(), wanted(conf), dry_run=False) == predicted
    assert conf.read_bytes() == former.replace(b"WARN\r", b"INFO")
    (copy,) = [file for file in tmp_path.iterdir() if file != conf]
    assert copy.name.startswith("nccl.conf.") and copy.read_bytes() == former
    assert not converge(RealFiles(), wanted(conf), dry_run=False)["changed"]
    assert len(list(tmp_path.iterdir())) == 2, "what is not changed needs no copy"


def test_somebodys_file_of_variables_is_kept_beside_ours(tmp_path: Path) -> None:
    env = tmp_path / "nccl.env"
    env.write_text("FOO=1\n")
    converge(RealFiles(), wanted("", env), dry_run=False)
    (copy,) = [file for file in tmp_path.iterdir() if file != env]
    assert copy.read_text() == "FOO=1\n" and "NCCL_DEBUG=INFO\n" in env.read_text()
    converge(RealFiles(), Wanted((), {}, tuning={"NCCL_DEBUG": "WARN"}, conf="", env_file=str(env)), dry_run=False)
    assert len(list(tmp_path.iterdir())) == 2, "our own file needs no copy"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_file_that_is_no_text_is_left_alone(tmp_path: Path, dry_run: bool) -> None:
    for name in ("conf", "env"):
        file = tmp_path / name
        file.write_bytes(b"# \xfcber\r\nNCCL_FOO=a\xffb\r\n")
        paths = (file, "") if name == "conf" else ("", file)
        with pytest.raises(HostError, match=rf"{file}: byte 2 is no UTF-8"):
            converge(RealFiles(), wanted(*paths), dry_run=dry_run)
        assert file.read_bytes() == b"# \xfcber\r\nNCCL_FOO=a\xffb\r\n"


@pytest.mark.parametrize("former", ["A=1\n", None])
def test_where_one_file_cannot_be_written_the_other_is_as_before(
    former: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = node(**({"/etc/nccl.conf": former} if former else {"/etc/passwd": ""}))
    write = host.write

    def refuse(path: str, content: str) -> None:
        if path.endswith("nccl.env"):
            raise HostError(f"{path}: cannot write: Read-only file system")
        write(path, content)

    monkeypatch.setattr(host, "write", refuse)
    with pytest.raises(HostError, match=r"nccl\.env: cannot write.*the former files are in place"):
        converge(host, wanted("/etc/nccl.conf", "/etc/lossless-roce/nccl.env"), dry_run=False)  # type: ignore[arg-type]
    assert host.files.get("/etc/nccl.conf") == former


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is(tmp_path: Path, dry_run: bool) -> None:
    for paths, message in (
        ((tmp_path, ""), "cannot be read: Is a directory"),
        ((f"{tmp_path}/new/", ""), r"conf: '.*/new/' … the absolute path of a file was expected"),
        (("rel/x.conf", ""), "conf: 'rel/x.conf' … the absolute path of a file"),
        ((tmp_path / "a.conf", "x.env"), "env_file: 'x.env' … the absolute path of a file"),
        ((tmp_path / "a.conf", f"{tmp_path}/a\0"), "env_file: .* … the absolute path of a file"),
        ((tmp_path / "a.conf", tmp_path / "a.conf"), "env_file: '.*/a.conf' is conf as well … another file"),
        (
            (tmp_path / "a.conf", tmp_path / "no" / "no" / "x.env"),
            "env_file: .* is in a folder in .*/no, which is not there",
        ),
    ):
        with pytest.raises((HostError, PolicyError), match=message):
            converge(RealFiles(), wanted(*paths), dry_run=dry_run)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ports", "interface", "message"),
    [
        ([{"name": "ens1np0", "address": "10.0.0.9"}], "", "does not have its declared address 10.0.0.9"),
        ([{"name": "ens9"}], "", "'ens9' is declared and is no RDMA port"),
        ([], "eth7", "interface: 'eth7' is not on this node"),
    ],
)
def test_what_is_not_on_the_node_is_named(ports: list[dict[str, str]], interface: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        converge(node(), Wanted(ports=ports, policy={}, interface=interface), dry_run=True)
