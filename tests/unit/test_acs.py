# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ACS switched off on a simulated node: check mode, idempotence, the boot unit, and what goes wrong."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.acs import UNIT, UNIT_PATH, AcsRun, Wanted, converge
from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError, RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Done
from ansible_collections.lossless.roce.plugins.module_utils.parsers.acs import BITS
from fake_host import FakeHost

A, B, NONE = "0000:17:00.0", "0000:18:00.0", "0000:19:00.0"
ON = 0x1D
ENABLED = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"


class AcsNode(FakeHost):
    """A port below bridge A, a GPU below bridge B; lspci and setpci work on ``registers``."""

    def __init__(self, **registers: int) -> None:
        super().__init__()
        self.registers = {A: registers.get("a", ON), B: registers.get("b", 0)}
        self.stuck: set[str] = set()
        self.machine, self.virtual = "x86_64", "none"
        self.users, self.link = "[]", "ens1np0"
        self.stale, self.containers = False, ""
        for bridge, device in ((A, "0000:1a:00.0"), (B, "0000:1b:00.0")):
            self.links[f"/sys/bus/pci/devices/{device}"] = f"/sys/devices/pci0000:16/{bridge}/{device}"
            self.files[f"/sys/bus/pci/devices/{bridge}/class"] = "0x060400\n"
        self.files[f"/sys/bus/pci/devices/{NONE}/class"] = "0x060400\n"
        self.files["/sys/bus/pci/devices/0000:1b:00.0/vendor"] = "0x10de\n"
        self.files["/sys/bus/pci/devices/0000:1b:00.0/class"] = "0x030200\n"
        self.links["/sys/class/net/ens1np0/device"] = "/sys/devices/pci0000:16/0000:1a:00.0"

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        self.outputs[" ".join(argv)] = self._answer(argv)
        return super().run(*argv, check=check, timeout=timeout)

    def _answer(self, argv: tuple[str, ...]) -> t.Any:
        if argv[0] == "setpci":
            return self._setpci(argv[2], argv[3])
        if argv[0] == "systemctl":
            return self._systemctl(argv[1:])
        if argv[0] == "docker":
            return self.containers if argv[1] == "ps" else '{"Runtimes": {"nvidia": {}}, "CgroupDriver": "systemd"}'
        links = f'[{{"ifname":"mlx5_0","port":1,"state":"ACTIVE","netdev":"{self.link}"}}]'
        return {
            "lspci": self._listing(),
            "uname": self.machine,
            "rdma": links if "link" in argv else self.users,
            "systemd-detect-virt": (int(self.virtual == "none"), self.virtual, ""),
        }[argv[0]]

    def _systemctl(self, words: tuple[str, ...]) -> str:
        if words[0] == "show":
            active = "active" if words[-1] == "docker.service" and self.containers else "inactive"
            return f"LoadState=loaded\nActiveState={active}\nNeedDaemonReload={'yes' if self.stale else 'no'}\n"
        if words[0] == "daemon-reload":
            self.stale = False
        elif words[:2] == ("--no-reload", "enable"):
            self.files[ENABLED] = ""
        elif words[:2] == ("--no-reload", "disable"):
            self.files.pop(ENABLED, None)
        else:
            raise AssertionError(f"systemctl {' '.join(words)} would do a daemon-reload")
        return ""

    def write(self, path: str, content: str) -> None:
        super().write(path, content)
        self.stale = True

    def _setpci(self, bridge: str, word: str) -> t.Any:
        if bridge == self.fails:
            return (1, "", "no")
        value = int(word.rpartition("=")[2], 16)
        self.registers[bridge] = value | (4 if bridge in self.stuck else 0)
        return ""

    fails = ""

    def _listing(self) -> str:
        text = f"{NONE} PCI bridge: x\n\tCapabilities: [100 v1] Advanced Error Reporting\n"
        for bridge, value in self.registers.items():
            bits = " ".join(f"{name}{'+' if value >> n & 1 else '-'}" for n, name in enumerate(BITS))
            text += f"{bridge} PCI bridge: x\n\tCapabilities: [148 v1] Access Control Services\n\t\tACSCtl:\t{bits}\n"
        return text


def changing(node: AcsNode) -> list[str]:
    """Commands that change something."""
    return [" ".join(argv) for argv in node.ran if argv[0] in ("setpci", "systemctl") and argv[1] != "show"]


def off(node: AcsNode, dry_run: bool = False, **options: t.Any) -> AcsRun:
    return converge(node, Wanted(disabled=True, **options), dry_run)


def test_four_calls() -> None:
    node = AcsNode()
    predicted = off(node, dry_run=True)
    assert changing(node) == [] and node.written == []
    done = off(node)
    assert node.registers == {A: 0, B: 0}
    assert predicted.as_dict()["diff"] == done.as_dict()["diff"]
    assert predicted.as_dict()["commands"] == done.as_dict()["commands"]
    assert predicted.as_dict()["changed"] and done.as_dict()["changed"]
    assert [finding.verdict for finding in (*predicted.findings, *done.findings)] == ["fail", "pass"]
    node.ran.clear()
    for dry_run in (False, True):
        again = off(node, dry_run)
        assert not again.as_dict()["changed"] and again.as_dict()["commands"] == []
    assert changing(node) == []


def test_unit_does_the_same_at_boot() -> None:
    node = AcsNode()
    off(node)
    unit = node.files[UNIT_PATH]
    for bridge in (A, B):
        assert f"ExecStart=-/usr/bin/setpci -s {bridge} ECAP_ACS+6.w=0000\n" in unit
    assert ENABLED in node.files


def test_as_found_removes_the_unit_and_leaves_the_bridges() -> None:
    node = AcsNode()
    off(node)
    node.registers[A] = ON
    assert converge(node, Wanted(disabled=False), True).as_dict()["changed"]
    assert UNIT_PATH in node.files
    assert converge(node, Wanted(disabled=False), False).as_dict()["changed"]
    assert UNIT_PATH not in node.files and ENABLED not in node.files and node.registers[A] == ON
    assert not converge(node, Wanted(disabled=False), False).as_dict()["changed"]


def test_a_unit_that_was_disabled_by_hand_is_enabled_again() -> None:
    node = AcsNode()
    off(node)
    del node.files[ENABLED]
    run = off(node)
    assert run.as_dict()["changed"] and run.as_dict()["commands"] == [["systemctl", "--no-reload", "enable", UNIT]]


def test_systemd_reads_the_unit_only_once_no_container_would_lose_its_gpus() -> None:
    node = AcsNode()
    node.containers = "train\n"
    node.files["/dev/nvidia0"] = ""
    for _again in range(2):
        run = off(node)
        assert "systemctl daemon-reload" not in changing(node)
        assert any("systemctl daemon-reload waits" in note and "train" in note for note in run.notes)
        assert UNIT_PATH in node.files and ENABLED in node.files and node.registers[A] == 0
    assert not run.as_dict()["changed"]
    node.containers = ""
    assert off(node).as_dict()["commands"] == [["systemctl", "daemon-reload"]] and not off(node).as_dict()["changed"]
    node.containers = "train\n"
    run = converge(node, Wanted(disabled=False), False)
    assert UNIT_PATH not in node.files and ENABLED not in node.files
    assert changing(node).count("systemctl daemon-reload") == 1 and "train" in run.notes[-1]


@pytest.mark.parametrize("how", ["stuck", "fails"])
def test_a_bridge_that_refuses_is_restored_and_the_other_goes_on(how: str) -> None:
    node = AcsNode(a=ON, b=ON)
    if how == "stuck":
        node.stuck.add(A)
    else:
        node.fails = A
    run = off(node)
    assert node.registers == {A: ON, B: 0}
    assert list(run.failed) == [A]
    assert A in run.message() and "restored" in run.message()
    if how == "stuck":
        assert "reads back as ReqRedir on … 0000 was expected" in run.message()
    assert A not in node.files[UNIT_PATH] and B in node.files[UNIT_PATH]
    assert run.as_dict()["bridges"][A] == ["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"]


def test_named_bridges() -> None:
    node = AcsNode(a=ON, b=ON)
    run = off(node, bridges=(B, NONE))
    assert node.registers == {A: ON, B: 0}
    assert run.without_acs == {NONE: "it has no ACS"}
    with pytest.raises(RoceError, match="'17:00' … the address of a PCI bridge"):
        off(node, bridges=("17:00",))


def test_refusals_change_nothing() -> None:
    arm, guest, busy = AcsNode(), AcsNode(), AcsNode()
    arm.machine = "aarch64"
    guest.files["/sys/bus/pci/drivers/vfio-pci/0000:1b:00.0/x"] = ""
    busy.users = '[{"ifname":"mlx5_0","port":1,"lqpn":17,"pid":42,"comm":"train"}]'
    for node, told in ((arm, "rdma_topo"), (guest, "vfio-pci"), (busy, "train .pid 42.")):
        with pytest.raises(RoceError, match=told):
            off(node)
        assert changing(node) == [] and node.registers[A] == ON
    off(busy, when_busy="force")
    assert busy.registers[A] == 0


def test_a_bond_stands_below_the_bridges_of_its_ports() -> None:
    node = AcsNode(b=0)
    node.link = "bond0"
    node.files["/sys/class/net/bond0/uevent"] = "DEVTYPE=bond\n"
    node.links["/sys/class/net/bond0/lower_ens1np0"] = "/sys/class/net/ens1np0"
    node.users = '[{"ifname":"mlx5_0","port":1,"lqpn":17,"pid":42,"comm":"train"}]'
    with pytest.raises(RoceError, match="bond0: busy: .* train .pid 42."):
        off(node)
    assert node.registers[A] == ON
    node.users = "[]"
    off(node)
    assert node.registers[A] == 0


def test_a_job_does_not_stand_in_the_way_of_a_right_node() -> None:
    node = AcsNode(a=0)
    off(node)
    node.users = '[{"ifname":"mlx5_0","port":1,"lqpn":17,"pid":42,"comm":"train"}]'
    assert not off(node).as_dict()["changed"]


def test_unreadable_register_is_an_error_before_anything_is_done() -> None:
    node = AcsNode()
    node.registers = {B: ON}
    with pytest.raises(HostError, match=A):
        off(node)
    assert changing(node) == []


def test_notes_on_virtual_machines_and_bare_nodes() -> None:
    node = AcsNode()
    node.virtual = "kvm"
    assert "physical host" in off(node).notes[0]
    node.missing_tools.add("lspci")
    run = off(node, dry_run=True)
    assert "unknown until baseline is applied" in run.notes[0] and not run.as_dict()["changed"]
