# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Firmware parameters and versions on a fake node whose mstconfig keeps state."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import firmware as check
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError, ToolMissing
from ansible_collections.lossless.roce.plugins.module_utils.host import Done
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.devices import Device
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.firmware import Request, checked_parameters, converge
from ansible_collections.lossless.roce.plugins.module_utils.parsers.mstconfig import Parameter, parse_query
from fake_host import FakeHost

CASES = Path(__file__).parents[1] / "recorded" / "cases"
A, B = "0000:17:00.0", "0000:31:00.0"
NAMES = {A: "ens1np0", B: "ens2np0"}
LINKS = json.dumps(
    [{"ifname": f"mlx5_{i}", "port": 1, "state": "ACTIVE", "netdev": netdev} for i, netdev in enumerate(NAMES.values())]
)
DEVICE = Device(A, ("ens1np0",))


class Card:
    """NV values of one card, as text, by layer."""

    def __init__(self) -> None:
        self.current = {"CNP_DSCP_P1": "48", "LINK_TYPE_P1": "ETH(2)", "CHAIN": "Array[0..7]", "PLANES_P1": "0"}
        self.next = dict(self.current)
        self.fault = ""

    def query(self, names: t.Sequence[str]) -> tuple[int, str]:
        if self.fault == "unsupported":
            return 3, "-E- Unsupported device\n"
        if self.fault == "gone":
            return 3, "-E- Failed to open the device\n"
        text = "\nDevice #1:\n----------\n\nConfigurations:        Default    Current    Next Boot\n"
        for name in names or self.next:
            if name not in self.next:
                return 3, text + f"-E- The Device doesn't support {name} parameter\n"
            current = "N/A" if self.fault == "no current" else self.current[name]
            mark = " RO " if name == "PLANES_P1" else "    "
            text += f"{mark}    {name}    {self.current[name]}    {current}    {self.next[name]}\n"
        return 0, text

    def set(self, pairs: t.Sequence[str]) -> tuple[int, str]:
        if self.fault == "refuse":
            return 3, "Applying... Failed!\n-E- Failed to set configuration: BAD_PARAM\n"
        if self.fault != "ignore":
            self.next.update(pair.split("=") for pair in pairs)
        return 0, "Applying... Done!\n-I- Please reboot machine to load new configurations.\n"


class Node(FakeHost):
    """Two cards with one port each."""

    def __init__(self) -> None:
        super().__init__(outputs={"rdma -j link show": LINKS, "rdma -j resource show qp": "[]"})
        self.cards = {A: Card(), B: Card()}
        self.set_calls: list[tuple[str, ...]] = []
        self.resets = 0
        self.reset_helps = True
        self.missing_tools = {"mlxconfig"}
        for pci, netdev in NAMES.items():
            link = f"/sys/class/net/{netdev}/device"
            self.links[link] = f"/sys/devices/pci0000:00/{pci}"
            self.links[f"{link}/driver"] = "/sys/bus/pci/drivers/mlx5_core"
        for i in range(2):
            self.files[f"/sys/class/infiniband/mlx5_{i}/fw_ver"] = ""

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        if argv[0] in ("mstconfig", "mlxconfig") and argv[0] not in self.missing_tools:
            card = self.cards[argv[2]]
            rc, out = card.query(argv[5:]) if "query" in argv else card.set(argv[5:])
            if "set" in argv:
                self.set_calls.append(argv)
            return Done(argv, rc, out, "")
        if argv[0] == "mstfwreset":
            self.resets += 1
            if self.reset_helps:
                self.cards[argv[2]].current = dict(self.cards[argv[2]].next)
            return Done(argv, 0, "-I- FW was loaded successfully.\n", "")
        if argv[0] == "devlink":
            return super().run(*argv, check=check) if " ".join(argv) in self.outputs else self._no_devlink()
        if argv[:2] == ("ethtool", "-i"):
            return Done(argv, 0, "firmware-version: 22.39.1002 (MT_0000000359)\n", "")
        return super().run(*argv, check=check, timeout=timeout)

    def _no_devlink(self) -> t.NoReturn:
        raise ToolMissing("devlink", "iproute2")


def verdicts(result: t.Any, name: str = "firmware_parameter") -> dict[str, str]:
    """Port -> verdict of one check."""
    return {finding.port: finding.verdict for finding in result.findings if finding.check == name}


def test_written_for_the_next_boot_in_one_command_and_then_left_alone() -> None:
    node = Node()
    wanted = {"CNP_DSCP_P1": 46, "LINK_TYPE_P1": "IB"}
    planned = converge(node, Request(parameters=wanted, dry_run=True)).as_dict()
    assert node.set_calls == [] and planned["changed"]
    done = converge(node, Request(parameters=wanted))
    assert done.as_dict()["commands"] == planned["commands"] and done.as_dict()["diff"] == planned["diff"]
    assert node.set_calls[0] == ("mstconfig", "-d", A, "-y", "set", "CNP_DSCP_P1=46", "LINK_TYPE_P1=IB")
    assert set(verdicts(done).values()) == {"pending"}
    assert done.as_dict()["reset_pending"] == [A, B]
    again = converge(node, Request(parameters=wanted))
    assert not again.as_dict()["changed"] and len(node.set_calls) == 2
    assert set(verdicts(again).values()) == {"pending"}
    layers = again.findings[0].layers
    assert (layers["default"], layers["running"], layers["next_boot"]) == ("48", "48", "46")


def test_the_text_or_the_number_of_a_value_needs_no_command() -> None:
    node = Node()
    for value in ("ETH", 2, "0x2", "ETH(2)"):
        result = converge(node, Request(parameters={"LINK_TYPE_P1": value}))
        assert not result.as_dict()["changed"] and set(verdicts(result).values()) == {"pass"}


def test_an_unknown_name_is_refused_before_anything_is_written() -> None:
    node = Node()
    del node.cards[B].next["LINK_TYPE_P1"]
    with pytest.raises(PolicyError, match=f"{B}: LINK_TYPE_P1: .* has no such parameter.*nothing was written"):
        converge(node, Request(parameters={"CNP_DSCP_P1": 46, "LINK_TYPE_P1": "IB"}))
    assert node.set_calls == []


@pytest.mark.parametrize(("name", "says"), [("PLANES_P1", "read only"), ("CHAIN", "is an array")])
def test_what_cannot_be_set_is_refused(name: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        converge(Node(), Request(parameters={name: 3}))


@pytest.mark.parametrize(("fault", "verdict"), [("unsupported", "skipped"), ("gone", "unknown")])
def test_a_device_that_refuses_is_named_and_the_others_go_on(fault: str, verdict: str) -> None:
    node = Node()
    node.cards[A].fault = fault
    result = converge(node, Request(parameters={"CNP_DSCP_P1": 46}))
    assert not result.message()
    assert verdicts(result, "firmware") == {"ens1np0": verdict}
    assert verdicts(result) == {"ens2np0": "pending"}
    assert A in result.as_dict()["skipped_devices" if fault == "unsupported" else "unknown_devices"]


@pytest.mark.parametrize(
    ("fault", "says"), [("refuse", "BAD_PARAM"), ("ignore", "CNP_DSCP_P1 is 48 … 46 was expected")]
)
def test_a_write_that_fails_or_does_not_take_fails_that_device_only(fault: str, says: str) -> None:
    node = Node()
    node.cards[A].fault = fault
    result = converge(node, Request(parameters={"CNP_DSCP_P1": 46}))
    assert says in result.message() and "ens2np0" not in result.message()
    assert verdicts(result) == {"ens1np0": "fail", "ens2np0": "pending"}


def test_firmware_that_does_not_show_what_runs() -> None:
    node = Node()
    node.cards[A].fault = node.cards[B].fault = "no current"
    assert set(verdicts(converge(node, Request(parameters={"CNP_DSCP_P1": 48}))).values()) == {"unknown"}
    assert set(verdicts(converge(node, Request(parameters={"CNP_DSCP_P1": 46}))).values()) == {"pending"}


def test_no_tool_is_unknown_in_check_mode_and_an_error_otherwise() -> None:
    node = Node()
    node.missing_tools = {"mstconfig", "mlxconfig"}
    result = converge(node, Request(parameters={"CNP_DSCP_P1": 46}, dry_run=True))
    assert [(f.check, f.verdict) for f in result.findings] == [("firmware", "unknown")]
    assert not result.as_dict()["changed"]
    with pytest.raises(ToolMissing, match="mstflint"):
        converge(node, Request(parameters={"CNP_DSCP_P1": 46}))


def test_mlxconfig_where_that_is_what_is_installed() -> None:
    node = Node()
    node.missing_tools = {"mstconfig"}
    result = converge(node, Request(parameters={"CNP_DSCP_P1": 46}, devices=("17:00.0",)))
    assert result.as_dict()["commands"] == [["mlxconfig", "-d", A, "-y", "set", "CNP_DSCP_P1=46"]]


def test_devices_by_any_name_and_one_that_is_not_there() -> None:
    result = converge(Node(), Request(parameters={"CNP_DSCP_P1": 48}, devices=("mlx5_1", "ens1np0", "0000:99:00.0")))
    assert [run.device.pci for run in result.runs] == [B, A]
    assert "'0000:99:00.0' is no mlx5 device" in result.message()
    with pytest.raises(PolicyError, match="one and the same"):
        converge(Node(), Request(devices=("mlx5_0", "ens1np0")))


def test_one_function_of_a_card_and_no_virtual_one_by_default() -> None:
    node = Node()
    for number, netdev in ((1, "ens1np1"), (2, "ens1v0")):
        link = f"/sys/class/net/{netdev}/device"
        node.links[link] = f"/sys/devices/pci0000:00/0000:17:00.{number}"
        node.links[f"{link}/driver"] = "/sys/bus/pci/drivers/mlx5_core"
    node.links["/sys/bus/pci/devices/0000:17:00.2/physfn"] = "x"
    assert [run.device.pci for run in converge(node, Request()).runs] == [A, B]
    named = converge(node, Request(devices=("ens1v0",), parameters={"CNP_DSCP_P1": 48}))
    assert "virtual function" in named.as_dict()["skipped_devices"]["0000:17:00.2"]


def test_a_node_without_a_card() -> None:
    node = Node()
    node.links.clear()
    result = converge(node, Request(parameters={"CNP_DSCP_P1": 46}))
    assert verdicts(result, "firmware") == {"": "skipped"} and not result.message()


def test_a_reset_loads_what_is_pending_once() -> None:
    node = Node()
    request = Request(parameters={"CNP_DSCP_P1": 46}, devices=(A,), reset=True)
    planned = converge(node, Request(**{**vars(request), "dry_run": True})).as_dict()["commands"]
    result = converge(node, request)
    assert result.as_dict()["commands"] == planned
    assert node.resets == 1 and verdicts(result) == {"ens1np0": "pass"}
    assert "role roce_policy" in result.notes()[0]
    assert not converge(node, request).as_dict()["changed"]


def test_a_reset_that_does_not_help_is_not_tried_again() -> None:
    node = Node()
    node.reset_helps = False
    request = Request(parameters={"CNP_DSCP_P1": 46}, devices=(A,), reset=True)
    assert verdicts(converge(node, request)) == {"ens1np0": "pending"}
    again = converge(node, request)
    assert node.resets == 1 and not again.as_dict()["changed"]
    assert "reboot the node" in again.findings[0].cause


def test_a_reset_is_refused_for_the_management_card_and_under_a_job() -> None:
    node = Node()
    request = Request(parameters={"CNP_DSCP_P1": 46}, reset=True)
    node.files["/proc/net/route"] = "Iface\tDest\nens1np0\t00000000\t0\t3\t0\t0\t0\t00000000\n"
    qps = [{"ifname": "mlx5_1", "pid": 7, "comm": "ib_write_bw"}]
    node.outputs["rdma -j resource show qp"] = json.dumps(qps)
    result = converge(node, request)
    assert node.resets == 0 and set(verdicts(result).values()) == {"pending"}
    first, second = result.notes()
    assert "carries the management connection" in first and "ib_write_bw (pid 7)" in second


def test_a_virtual_function_of_another_slot_is_a_part_of_its_card() -> None:
    node = Node()
    link, physfn = "/sys/class/net/ens1v8/device", "/sys/bus/pci/devices/0000:17:01.2/physfn"
    node.links[link] = "/sys/devices/pci0000:00/0000:17:01.2"
    node.links[f"{link}/driver"] = "/sys/bus/pci/drivers/mlx5_core"
    node.links[physfn] = f"/sys/devices/pci0000:00/{A}"
    node.files["/proc/net/route"] = "Iface\tDest\nens1v8\t00000000\t0\t3\t0\t0\t0\t00000000\n"
    result = converge(node, Request(parameters={"CNP_DSCP_P1": 46}, devices=(A,), reset=True))
    assert node.resets == 0
    assert "ens1v8 carries the management connection" in result.notes()[0]


def bonded() -> Node:
    """Both cards in one bond."""
    node = Node()
    node.outputs["rdma -j link show"] = '[{"ifname":"mlx5_bond_0","port":1,"state":"ACTIVE","netdev":"bond0"}]'
    node.files["/sys/class/net/bond0/uevent"] = "DEVTYPE=bond\n"
    for netdev in NAMES.values():
        node.links[f"/sys/class/net/bond0/lower_{netdev}"] = f"/sys/class/net/{netdev}"
    return node


def test_a_job_on_a_bond_keeps_every_card_of_the_bond_from_a_reset() -> None:
    node = bonded()
    qps = [{"ifname": "mlx5_bond_0", "lqpn": 18, "pid": 4711, "comm": "python3"}]
    node.outputs["rdma -j resource show qp"] = json.dumps(qps)
    result = converge(node, Request(parameters={"CNP_DSCP_P1": 46}, reset=True))
    assert node.resets == 0
    pending = [finding for finding in result.findings if finding.check == "firmware_parameter"]
    assert [finding.port for finding in pending] == ["ens1np0", "ens2np0"]
    assert all("belong to python3 (pid 4711)" in finding.cause for finding in pending)


@pytest.mark.parametrize(
    ("minimum", "verdict"),
    [
        ("22.39.1002", "pass"),
        ("22.39.1002.0", "pass"),
        ("22.4.9999", "pass"),
        ("22.40", "fail"),
        ({"MT_0000000359": "22.40.0"}, "fail"),
        ({"MT_0000000838": "28.39.1002"}, "skipped"),
    ],
)
def test_versions_are_compared_number_by_number(minimum: t.Any, verdict: str) -> None:
    result = converge(Node(), Request(minimum=check.checked_minimum(minimum)))
    assert set(verdicts(result, "firmware_version").values()) == {verdict}
    assert not result.message()


def test_a_stored_version_that_does_not_run_yet_is_pending() -> None:
    versions = {"psid": "MT_1", "running": "28.39.1002", "stored": "28.42.1000"}
    judged = [check.judge_version(DEVICE, versions, minimum) for minimum in ({}, {"": "28.40"}, {"": "28.43"})]
    assert [finding and finding.verdict for finding in judged] == ["pending", "pending", "fail"]
    assert check.judge_version(DEVICE, {**versions, "stored": "28.39.1002"}, {}) is None
    nothing = check.judge_version(DEVICE, {}, {"": "28.40"})
    assert nothing and nothing.verdict == "unknown"


@pytest.mark.parametrize(
    "minimum", ["new", "28.x", {"MT_1": "²8"}, "", [28], True, 10**5000], ids=lambda value: type(value).__name__
)
def test_a_minimum_that_is_no_version(minimum: t.Any) -> None:
    if not minimum:
        assert check.checked_minimum(minimum) == {}
        return
    with pytest.raises(PolicyError, match="minimum_version"):
        check.checked_minimum(minimum)


@pytest.mark.parametrize("minimum", [28.40, {"MT_1": 28.40}])
def test_a_minimum_without_quotes_has_lost_its_last_zero(minimum: t.Any) -> None:
    """YAML reads 28.40 as the number 28.4, and 28.4 is an older version than 28.40."""
    with pytest.raises(PolicyError, match=r"28\.4 … .* in quotes"):
        check.checked_minimum(minimum)


@pytest.mark.parametrize(
    "raw", [{"lower": 1}, {"A B": 1}, {"NAME[0..7]": 1}, {"A": [1]}, {"A": "a b"}, {"A": None}, {"-y": 1}, {"A": "x;y"}]
)
def test_names_and_values_that_cannot_be_meant(raw: dict[str, t.Any]) -> None:
    with pytest.raises(PolicyError, match="was expected"):
        checked_parameters(raw)


# -- diagnosis -------------------------------------------------------------------------------------


def diagnose(node: Node, owner: str | None = "host", **options: t.Any) -> dict[tuple[str, str], str]:
    """(check, port) -> verdict."""
    ports = [{"netdev": netdev, "settings": {"dcbx": {"owner": owner}}} for netdev in NAMES.values()]
    found = check.diagnose(node, Context((), None, {"ports": ports}, options))
    for finding in found:
        assert finding.verdict != "fail" or (finding.cause and finding.remedy)
    return {(finding.check, finding.port): finding.verdict for finding in found}


def test_diagnosis_of_pending_and_of_devices_that_refuse() -> None:
    node = Node()
    node.cards[A].next["CNP_DSCP_P1"] = "46"
    node.cards[B].fault = "unsupported"
    assert diagnose(node) == {("firmware_reset", "ens1np0"): "pending", ("firmware", "ens2np0"): "skipped"}
    assert node.set_calls == []
    node.cards[A].fault = "no current"
    assert diagnose(node)["firmware_reset", "ens1np0"] == "unknown"


@pytest.mark.parametrize(("owner", "verdict"), [("host", "pass"), ("firmware", "fail"), (None, "unknown")])
def test_diagnosis_of_the_firmwares_own_dcbx(owner: str | None, verdict: str) -> None:
    node = Node()
    for card in node.cards.values():
        card.current["LLDP_NB_DCBX_P1"] = card.next["LLDP_NB_DCBX_P1"] = "True(1)"
    assert diagnose(node, owner)["firmware_dcbx", "ens1np0"] == verdict
    node.cards[B].current["LLDP_NB_DCBX_P1"] = "OFF"
    assert diagnose(node, owner)["firmware_dcbx", "ens2np0"] == "pass"


@pytest.mark.parametrize(("host_owns", "verdict"), [(True, "pass"), (False, "fail")])
def test_diagnosis_of_the_firmwares_own_dcbx_below_a_bond(host_owns: bool, verdict: str) -> None:
    node = bonded()
    node.cards[A].current["LLDP_NB_DCBX_P1"] = node.cards[A].next["LLDP_NB_DCBX_P1"] = "True(1)"
    shown = json.dumps({"ieee": True, **({"host": True} if host_owns else {})})
    node.outputs["dcb -j dcbx show dev ens1np0"] = node.outputs["dcb -j dcbx show dev ens2np0"] = shown
    found = {(f.check, f.port): f.verdict for f in check.diagnose(node, Context((), None, {"ports": []}))}
    assert found[("firmware_dcbx", "ens1np0")] == verdict


def test_diagnosis_without_tool_and_with_a_minimum() -> None:
    node = Node()
    node.missing_tools = {"mstconfig", "mlxconfig"}
    found = diagnose(node, minimum_firmware="99.1.1")
    assert found["firmware_version", "ens1np0"] == "fail" and found["firmware", ""] == "unknown"


@pytest.mark.parametrize(
    ("case", "verdict"), [("d20-mlxconfig-pending.txt", "pending"), ("d22-mlxconfig-one-column.txt", "unknown")]
)
def test_recorded_cases(case: str, verdict: str) -> None:
    (device,) = parse_query((CASES / case).read_text()).devices
    finding = check.judge_pending(DEVICE, device.parameters, "x")
    assert finding.verdict == verdict
    if verdict == "pending":
        assert finding.observed == {"CRYPTO_POLICY": "DEVICE_DEFAULT(0) → UNRESTRICTED(1)"}


def test_a_pass_needs_values_that_were_seen() -> None:
    assert check.judge_pending(DEVICE, {}, "x").verdict == "unknown"
    seen = {"A": Parameter("A", "1", "1"), "B": Parameter("B", "1")}
    assert check.judge_pending(DEVICE, seen, "x").verdict == "pass"
