# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The program on a node: what it does, what it prints, how it ends, and the file that it is."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.agent import main
from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError
from ansible_collections.lossless.roce.plugins.module_utils.saved import ENABLED, PATH, PROGRAM, Declared
from ansible_collections.lossless.roce.plugins.plugin_utils.program import build, needed_files
from role_files import REPOSITORY, evaluate
from sim_node import SimNode, SimPort

SOURCES = Path(__file__).resolve().parents[2] / "plugins" / "module_utils"


def node(policy: dict[str, t.Any] | None = None, ports: tuple[str, ...] = ("ens1np0", "ens2np0")) -> SimNode:
    """A node after a boot: two ports at factory defaults, a saved policy and what applies it."""
    made = SimNode({"ens1np0": SimPort("mlx5_0"), "ens2np0": SimPort("mlx5_1")})
    made.files |= {PROGRAM: "", ENABLED: "", PATH: Declared(((ports, policy or {}),)).text()}
    for name in made.ports:
        made.files[f"/sys/class/net/{name}/flags"] = "0x1003\n"
    return made


def test_apply_brings_the_ports_to_the_saved_policy_and_prints_a_line_a_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    host = node()
    assert main(["apply"], host) == 0
    assert [port.pfc for port in host.ports.values()] == [{3}, {3}]
    lines = capsys.readouterr().out.splitlines()
    assert "ens1np0: pfc: {'enabled_prios': []} -> {'enabled_prios': [3]}" in lines
    assert lines[-1] == "as declared: ens1np0, ens2np0"
    host.sets.clear()
    assert main(["apply"], host) == 0
    assert host.sets == [] and capsys.readouterr().out == "as declared: ens1np0, ens2np0\n"


def test_apply_waits_for_a_port_and_its_carrier(monkeypatch: pytest.MonkeyPatch) -> None:
    host = node()
    late = host.ports.pop("ens2np0")
    host.files["/sys/class/net/ens1np0/carrier"] = "0\n"

    def sleep(seconds: float) -> None:
        host.slept += seconds
        if host.slept >= 5:
            host.ports["ens2np0"] = late
        if host.slept >= 9:
            host.files["/sys/class/net/ens1np0/carrier"] = "1\n"

    monkeypatch.setattr(host, "sleep", sleep)
    assert main(["apply"], host) == 0
    assert host.slept >= 9 and late.pfc == {3}


def test_apply_waits_for_the_rdma_core(monkeypatch: pytest.MonkeyPatch) -> None:
    host = node()
    plain = host.run

    def run(*argv: str, check: bool = True, timeout: float = 60.0) -> t.Any:
        if argv[0] == "rdma" and host.slept < 5:
            raise HostError("rdma -j link show: exit status 1: Failed to open NETLINK_RDMA socket")
        return plain(*argv, check=check, timeout=timeout)

    monkeypatch.setattr(host, "run", run)
    assert main(["apply"], host) == 0
    host.slept = 0.0
    assert main(["apply", "--wait", "3"], host) == 2, "and no longer than it was told to"
    monkeypatch.setattr(host, "run", plain)
    host.missing_tools = {"rdma"}
    host.slept = 0.0
    assert main(["apply"], host) == 2 and host.slept == 0.0, "what is not installed does not come by waiting"


def test_apply_does_not_wait_for_a_port_that_nobody_switched_on() -> None:
    host = node()
    host.files["/sys/class/net/ens1np0/carrier"] = ""  # the kernel refuses to read it
    host.files["/sys/class/net/ens1np0/flags"] = "0x1002\n"
    started = host.slept
    assert main(["apply"], host) == 0
    assert host.ports["ens1np0"].pfc == {3} and host.slept - started < 10


def test_a_port_that_never_comes_is_named_and_the_other_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    host = node(ports=("ens1np0", "ens9np0"))
    assert main(["apply", "--wait", "7"], host) == 1
    assert host.ports["ens1np0"].pfc == {3}
    assert "'ens9np0' is declared and is no RDMA port" in capsys.readouterr().err


def test_apply_for_one_port_leaves_the_others_alone(capsys: pytest.CaptureFixture[str]) -> None:
    host = node(ports=("mlx5_0", "ens2np0"))
    assert main(["apply", "--port", "sys/devices/pci0000:17/0000:17:00.0/net/ens1np0"], host) == 0
    assert (host.ports["ens1np0"].pfc, host.ports["ens2np0"].pfc) == ({3}, set())
    capsys.readouterr()
    assert main(["apply", "--port", "/sys/devices/virtual/net/ens7np0"], host) == 0
    assert capsys.readouterr().out == "ens7np0: not among the declared ports; nothing to do\n"


def test_a_port_of_a_declared_bond_that_appears_again_gets_the_bond_s_policy() -> None:
    host = node(ports=("bond0",))
    host.files["/sys/class/net/bond0/uevent"] = "DEVTYPE=bond\n"
    for name in ("ens1np0", "ens2np0"):
        host.links[f"/sys/class/net/bond0/lower_{name}"] = f"/sys/class/net/{name}"
        host.links[f"/sys/class/net/{name}/upper_bond0"] = "/sys/class/net/bond0"
    host.ports["bond0"] = SimPort("mlx5_bond_0")
    plain = host._answer
    shown = '[{"ifname":"mlx5_bond_0","port":1,"state":"ACTIVE","netdev":"bond0"}]'
    host._answer = lambda argv: shown if argv[:4] == ["rdma", "-j", "link", "show"] else plain(argv)  # type: ignore[method-assign]
    started = host.slept
    assert main(["apply", "--port", "/sys/devices/pci/net/ens2np0"], host) == 0
    assert host.ports["ens2np0"].pfc == {3} and host.ports["bond0"].mtu == 9000
    assert host.slept - started < 10


def test_a_port_in_use_is_left_alone_and_its_holder_named(capsys: pytest.CaptureFixture[str]) -> None:
    host = node()
    host.users = [{"ifname": "mlx5_0", "lqpn": 18, "pid": 4711, "comm": "python3"}]
    assert main(["apply"], host) == 1
    assert (host.ports["ens1np0"].pfc, host.ports["ens2np0"].pfc) == (set(), {3})
    assert "python3 (pid 4711)" in capsys.readouterr().err


def test_a_job_that_starts_while_another_port_is_set_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    host = node()
    plain = host._answer

    def answer(argv: list[str]) -> str:
        if host.ports["ens1np0"].pfc:
            host.users = [{"ifname": "mlx5_1", "lqpn": 18, "pid": 4711, "comm": "python3"}]
        return plain(argv)

    host._answer = answer  # type: ignore[method-assign]
    assert main(["apply"], host) == 1
    assert (host.ports["ens1np0"].pfc, host.ports["ens2np0"].pfc) == ({3}, set())
    assert "ens2np0: busy: RDMA queue pairs on mlx5_1 belong to python3 (pid 4711)" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["apply", "check"])
def test_no_policy_or_a_broken_one_is_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    host = node()
    for text, says in ((None, "cannot be read"), ("{", "is not JSON"), ('{"format": 1}', "policies")):
        host.files.pop(PATH, None)
        if text:
            host.files[PATH] = text
        assert main([command], host) == 2
        seen = capsys.readouterr()
        assert seen.out == "" and seen.err.count("\n") == 1
        assert seen.err.startswith(f"lossless-roce: {PATH}: ") and says in seen.err
    assert host.sets == []


def test_another_run_is_waited_for_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host, waited = node(), []

    @contextlib.contextmanager
    def lock(path: str = "", timeout: float = 0.0) -> t.Iterator[None]:
        waited.append(timeout)
        raise HostError(f"{path}: another run has held the node for {timeout:g} s")
        yield

    monkeypatch.setattr(host, "lock", lock)
    assert main(["apply", "--wait", "3"], host) == 2
    assert waited == [3.0] and "another run has held the node for 3 s" in capsys.readouterr().err
    assert host.sets == []
    assert main(["check"], host) == 1, "reading needs no lock"


def unit(name: str, **variables: t.Any) -> tuple[list[str], int]:
    """The arguments of the program in a unit that role node_agent installs, and the unit's time limit in seconds."""
    template = (REPOSITORY / "roles" / "node_agent" / "templates" / name).read_text()
    lines = [line.partition("=")[::2] for line in evaluate("node_agent", template, **variables).splitlines()]
    by_key = {key: value for key, value in lines if value}
    return by_key["ExecStart"].split()[1:], int(by_key["TimeoutStartSec"])


def lock_waits(host: SimNode, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Filled with the seconds for which the program would wait for another run."""
    waited: list[float] = []

    @contextlib.contextmanager
    def lock(path: str = "", timeout: float = 0.0) -> t.Iterator[None]:
        waited.append(timeout)
        yield

    monkeypatch.setattr(host, "lock", lock)
    return waited


def test_the_wait_for_another_run_can_be_longer_than_that_for_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    host = node(ports=("ens1np0", "ens9np0"))
    waited = lock_waits(host, monkeypatch)
    assert main(["apply", "--wait", "3", "--lock-wait", "200"], host) == 1
    assert waited == [200.0] and host.slept < 10


def test_the_units_have_time_for_eight_ports_whose_links_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"ens{number}np0" for number in range(1, 9))
    host = SimNode({name: SimPort(f"mlx5_{name[3]}") for name in names})
    host.files |= {PROGRAM: "", ENABLED: "", PATH: Declared(((("ens9np0", *names), {}),)).text()}
    host.files |= {f"/sys/class/net/{name}/flags": "0x1003\n" for name in names}

    def cut(line: str) -> bool:
        for name in names:
            if name in line.split():
                host.files[f"/sys/class/net/{name}/carrier"] = "0\n"
        return False

    host.ignore = cut
    argv, limit = unit("lossless-roce.service")
    assert main(argv, host) == 1
    assert all(port.mtu == 1500 for port in host.ports.values()), "rolled back, each of them"
    absent_port = 60.0
    assert absent_port < host.slept < limit
    seven_others = (host.slept - absent_port) * 7 / 8
    host.files |= {f"/sys/class/net/{name}/carrier": "1\n" for name in names}
    waited = lock_waits(host, monkeypatch)
    argv, limit = unit("lossless-roce@.service")
    main([word.replace("%I", "/sys/devices/pci/net/ens1np0") for word in argv], host)
    assert seven_others < waited[0] < limit


@pytest.mark.parametrize("limit", [900, "900"])
def test_the_time_limit_of_the_role_may_come_as_text(limit: int | str) -> None:
    argv, written = unit("lossless-roce@.service", node_agent_time_limit=limit)
    assert written == 900 and argv[-2:] == ["--lock-wait", "780"]
    assert unit("lossless-roce@.service", node_agent_time_limit=90)[0][-1] == "60"


def test_check_says_what_differs_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    host = node()
    assert main(["check"], host) == 1
    out = capsys.readouterr().out
    assert "fail: ens1np0: pfc: {'enabled_prios': []} … {'enabled_prios': [3]} was expected" in out
    assert host.sets == []
    assert main(["apply"], host) == 0
    capsys.readouterr()
    assert main(["check", "--json"], host) == 0
    found = json.loads(capsys.readouterr().out)
    assert {finding["verdict"] for finding in found} == {"pass", "skipped"}, "no congestion control to be set here"
    assert {"on_disk", "pfc", "mtu"} <= {finding["check"] for finding in found}


def test_check_does_not_pass_what_it_could_not_read() -> None:
    host = node()
    assert main(["apply"], host) == 0
    host.missing_tools = {"dcb", "mlnx_qos"}
    assert main(["check"], host) == 1


def test_a_disabled_boot_unit_is_found_by_check() -> None:
    host = node()
    assert main(["apply"], host) == 0
    del host.files[ENABLED]
    assert main(["check"], host) == 1


# -- the file --------------------------------------------------------------------------------------


def test_the_program_holds_what_it_needs_and_no_more() -> None:
    names = needed_files(SOURCES, "agent.py")
    assert {"agent.py", "node.py", "host.py", "settings/pfc.py", "parsers/dcb.py"} <= set(names)
    assert not {"port_module.py", "fabric/bandwidth.py"} & set(names)


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    """Times, modes and the order of a folder's entries have no say in it."""
    for name in reversed(needed_files(SOURCES, "agent.py")):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((SOURCES / name).read_bytes())
        copy.chmod(0o600)
        os.utime(copy, (0, 0))
    assert build(tmp_path, "agent.py", "/usr/bin/python3") == build(SOURCES, "agent.py", "/usr/bin/python3")


def test_the_program_runs_on_the_standard_library_alone(tmp_path: Path) -> None:
    program = tmp_path / "lossless-roce"
    program.write_bytes(build(SOURCES, "agent.py", sys.executable))
    program.chmod(0o755)
    with zipfile.ZipFile(program) as archive:
        assert archive.testzip() is None and "__main__.py" in archive.namelist()
    help_ = subprocess.run([program, "apply", "--help"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "--wait" in help_.stdout
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import lossless_roce.agent;"
        " print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    argv = [sys.executable, "-I", "-S", "-c", script, str(program)]
    used = set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())
    assert used - sys.stdlib_module_names == {"lossless_roce", "__main__"}
