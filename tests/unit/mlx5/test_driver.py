# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Modules, options, namespaces, devlink, restart and the way to GPU memory on a fake node."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import driver as check
from ansible_collections.lossless.roce.plugins.module_utils.checks import gpudirect
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.checks.gpudirect import GpuFacts
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError, RoceError
from ansible_collections.lossless.roce.plugins.module_utils.host import Done
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.devlink import checked_values
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.driver import Request, Result, converge
from ansible_collections.lossless.roce.plugins.module_utils.mlx5.modules import (
    LOAD_FILE,
    OPTIONS_FILE,
    checked_names,
    checked_options,
)
from fake_host import FakeHost

CASES = Path(__file__).parents[1] / "recorded" / "cases"
MODULES = ("mlx5_core", "mlx5_ib", "ib_uverbs", "rdma_cm", "rdma_ucm")
PCI = "0000:17:00.0"


class Node(FakeHost):
    """One card with one port; modules on disk by name -> further fields of modinfo."""

    def __init__(self, loaded: t.Iterable[str] = MODULES, card: bool = True) -> None:
        links = '[{"ifname":"mlx5_0","port":1,"state":"ACTIVE","netdev":"ens1np0"}]' if card else "[]"
        outputs = {"rdma -j link show": links, "rdma -j resource show qp": "[]"}
        super().__init__(outputs=outputs)
        self.on_disk: dict[str, str] = dict.fromkeys((*MODULES, "ib_core"), "")
        self.on_disk["ib_core"] = "parm: netns_mode:Share device among net namespaces (bool)\n"
        self.netns, self.busy_namespaces = "shared", False
        self.params = {"enable_roce": ("driverinit", True), "flow_steering_mode": ("runtime", "smfs")}
        self.reloads = 0
        for name in (*loaded, "ib_core"):
            self._load(name)
        self.files["/sys/module/ib_core/parameters/netns_mode"] = "Y\n"
        if card:
            self.links["/sys/class/net/ens1np0/device"] = f"/sys/devices/{PCI}"
            self.links["/sys/class/net/ens1np0/device/driver"] = "/sys/bus/pci/drivers/mlx5_core"
            self.files["/sys/class/net/ens1np0/ifindex"] = "5\n"
            self.files["/sys/class/infiniband/mlx5_0/fw_ver"] = ""

    def _load(self, name: str) -> None:
        self.files[f"/sys/module/{name}/refcnt"] = "0\n"
        for line in self.on_disk.get(name, "").splitlines():
            key, _colon, value = line.partition(": ")
            if key in ("version", "srcversion"):
                self.files[f"/sys/module/{name}/{key}"] = value

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> Done:
        answer = self._answer(argv)
        if answer is None:
            return super().run(*argv, check=check, timeout=timeout)
        self.outputs[" ".join(argv)] = answer
        return super().run(*argv, check=check, timeout=timeout)

    def _answer(self, argv: tuple[str, ...]) -> t.Any:
        line = " ".join(argv)
        if argv[0] == "modinfo":
            blocks = (f"filename: /lib/{name}.ko\n{self.on_disk[name]}" for name in argv[1:] if name in self.on_disk)
            return 1, "".join(blocks), ""
        if argv[0] == "modprobe":
            for name in argv[2:] if argv[1].startswith("-") else argv[1:]:
                if argv[1] == "-r":
                    self.files = {k: v for k, v in self.files.items() if not k.startswith(f"/sys/module/{name}/")}
                else:
                    self._load(name)
            return ""
        if line == "rdma -j system show":
            return f"netns {self.netns} copy-on-fork on\n"
        if line.startswith("rdma system set netns"):
            if self.busy_namespaces:
                return 1, "", "error: Device or resource busy"
            self.netns = argv[4]
            return ""
        return self._devlink(argv) if argv[0] == "devlink" else None

    def _devlink(self, argv: tuple[str, ...]) -> t.Any:
        if "show" in argv:
            values = [{"name": n, "values": [{"cmode": m, "value": v}]} for n, (m, v) in self.params.items()]
            return json.dumps({"param": {f"pci/{PCI}": values}})
        if "reload" in argv:
            self.reloads += 1
            self.files["/sys/class/net/ens1np0/ifindex"] = f"{5 + self.reloads}\n"
            return ""
        value = {"true": True, "false": False}.get(argv[8], argv[8])
        self.params[argv[6]] = (argv[10], value)
        return ""


def verdicts(result: Result) -> dict[str, str]:
    """Check -> verdict."""
    for finding in result.findings:
        assert finding.verdict != "fail" or (finding.cause and finding.remedy), finding
    return {finding.check: finding.verdict for finding in result.findings}


def commands(result: Result) -> list[str]:
    """Commands as lines."""
    return [" ".join(command) for command in result.as_dict()["commands"]]


# -- modules ---------------------------------------------------------------------------------------


def test_modules_are_loaded_and_kept_and_then_left_alone() -> None:
    node = Node(loaded=["ib_uverbs"])
    planned = converge(node, Request(modules=MODULES, dry_run=True))
    assert verdicts(planned)["kernel_modules"] == "fail" and node.written == []
    done = converge(node, Request(modules=MODULES))
    assert commands(done) == commands(planned)
    assert commands(done)[:2] == ["modprobe mlx5_core", "modprobe mlx5_ib"]
    assert done.as_dict()["diff"] == planned.as_dict()["diff"]
    assert node.files[LOAD_FILE].splitlines()[1:] == list(MODULES)
    assert verdicts(done) == {
        "mlx5_card": "pass",
        "driver_stack": "pass",
        "kernel_modules": "pass",
        "gpudirect": "skipped",
    }
    again = converge(node, Request(modules=MODULES))
    assert not again.as_dict()["changed"] and not again.message()


def test_a_module_that_the_kernel_does_not_have_is_named_and_the_others_are_loaded() -> None:
    node = Node(loaded=[])
    del node.on_disk["mlx5_ib"]
    result = converge(node, Request(modules=MODULES))
    assert result.message() == "modules: this kernel has no module mlx5_ib"
    assert "/sys/module/rdma_ucm/refcnt" in node.files
    assert "mlx5_ib" not in node.files[LOAD_FILE]
    assert verdicts(result)["kernel_modules"] == "fail"


def test_a_module_that_cannot_be_loaded_does_not_keep_the_others_away() -> None:
    node = Node(loaded=[])
    answer = node._answer
    refused = (1, "", "modprobe: ERROR: could not insert 'mlx5_ib': Invalid argument")
    node._answer = lambda argv: refused if argv == ("modprobe", "mlx5_ib") else answer(argv)  # type: ignore[method-assign]
    result = converge(node, Request(modules=MODULES))
    assert "Invalid argument" in result.message()
    assert "/sys/module/rdma_ucm/refcnt" in node.files and LOAD_FILE in node.files


def test_a_node_without_a_card() -> None:
    result = converge(Node(loaded=["ib_uverbs"], card=False), Request(modules=MODULES))
    assert not result.message() and verdicts(result)["mlx5_card"] == "skipped"


def test_a_bare_node_is_unknown_in_check_mode_and_an_error_otherwise() -> None:
    node = Node()
    node._answer = lambda _argv: None  # type: ignore[method-assign]
    node.missing_tools = {"modinfo"}
    result = converge(node, Request(modules=MODULES, dry_run=True))
    assert verdicts(result) == {"driver": "unknown"} and not result.as_dict()["changed"]
    with pytest.raises(RoceError, match="modinfo: not installed"):
        converge(node, Request(modules=MODULES))


def test_loaded_and_not_on_disk_is_no_pass() -> None:
    assert verdicts(converge(Node(), Request(modules=MODULES, dry_run=True)))["kernel_modules"] == "fail"


@pytest.mark.parametrize("raw", [["a b"], ["../x"], [""]])
def test_a_name_that_is_no_module(raw: list[str]) -> None:
    with pytest.raises(PolicyError, match="kernel module was expected"):
        checked_names(raw)


# -- options and namespaces ------------------------------------------------------------------------


def test_an_option_of_a_loaded_module_is_pending_until_it_is_loaded_anew() -> None:
    node = Node()
    request = Request(options=checked_options({"ib_core": {"netns_mode": False}}))
    result = converge(node, request)
    assert node.files[OPTIONS_FILE].splitlines()[1:] == ["options ib_core netns_mode=0"]
    assert verdicts(result)["module_option"] == "pending"
    assert not converge(node, request).as_dict()["changed"]
    node.files["/sys/module/ib_core/parameters/netns_mode"] = "N\n"
    assert verdicts(converge(node, request))["module_option"] == "pass"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ib_core": {"netmode": 1}}, "no such parameter … one of netns_mode was expected"),
        ({"nosuch": {"x": 1}}, "this kernel has no such module"),
    ],
)
def test_options_that_do_not_exist_are_refused(options: dict[str, t.Any], says: str) -> None:
    node = Node(loaded=[])
    with pytest.raises(PolicyError, match=says):
        converge(node, Request(modules=MODULES, options=checked_options(options)))
    assert node.written == [] and not any(argv[0] == "modprobe" for argv in node.ran)


@pytest.mark.parametrize("raw", [{"ib_core": 1}, {"ib_core": {"a": "x y"}}, {"ib_core": {"a": None}}])
def test_values_that_are_no_options(raw: dict[str, t.Any]) -> None:
    with pytest.raises(PolicyError, match="was expected"):
        checked_options(raw)


def test_namespaces_at_run_time_and_at_boot() -> None:
    node = Node()
    result = converge(node, Request(netns="exclusive"))
    assert node.netns == "exclusive" and "netns_mode=0" in node.files[OPTIONS_FILE]
    assert verdicts(result)["rdma_netns"] == "pass"
    assert not converge(node, Request(netns="exclusive")).as_dict()["changed"]


def test_namespaces_that_the_kernel_cannot_change_now_are_pending() -> None:
    node = Node()
    node.busy_namespaces = True
    result = converge(node, Request(netns="exclusive"))
    assert not result.message() and verdicts(result)["rdma_netns"] == "pending"
    assert "netns_mode=0" in node.files[OPTIONS_FILE]
    finding = next(finding for finding in result.findings if finding.check == "rdma_netns")
    assert "no other network namespace" in finding.cause


def test_namespaces_and_option_that_say_the_opposite() -> None:
    with pytest.raises(PolicyError, match="say the opposite"):
        converge(Node(), Request(netns="exclusive", options=checked_options({"ib_core": {"netns_mode": 1}})))


# -- devlink ---------------------------------------------------------------------------------------


def test_a_runtime_parameter_counts_at_once() -> None:
    node = Node()
    result = converge(node, Request(devlink={"flow_steering_mode": "dmfs"}))
    assert commands(result) == [f"devlink dev param set pci/{PCI} name flow_steering_mode value dmfs cmode runtime"]
    assert verdicts(result)["devlink"] == "pass"


def test_a_driverinit_parameter_waits_for_a_reload() -> None:
    node = Node()
    request = Request(devlink={"enable_roce": False})
    result = converge(node, request)
    assert commands(result)[0] == f"devlink dev param set pci/{PCI} name enable_roce value false cmode driverinit"
    assert verdicts(result)["devlink"] == "pending" and node.reloads == 0
    again = converge(node, request)
    assert not again.as_dict()["changed"] and verdicts(again)["devlink"] == "pending"
    reloaded = converge(node, Request(devlink={"enable_roce": False}, reload=True))
    assert node.reloads == 1 and verdicts(reloaded)["devlink"] == "pass"
    assert reloaded.as_dict()["reapply"] and "role roce_policy" in reloaded.notes()[0]
    assert not converge(node, Request(devlink={"enable_roce": False}, reload=True)).as_dict()["changed"]


def test_a_reload_is_refused_under_a_job_and_on_the_management_port() -> None:
    node = Node()
    node.outputs["rdma -j resource show qp"] = '[{"ifname":"mlx5_0","pid":7,"comm":"ib_write_bw"}]'
    result = converge(node, Request(devlink={"enable_roce": False}, reload=True))
    assert node.reloads == 0 and "ib_write_bw (pid 7)" in result.notes()[0]
    node.files["/proc/net/route"] = "Iface\tDest\nens1np0\t00000000\t0\t3\t0\t0\t0\t00000000\n"
    result = converge(node, Request(devlink={"enable_roce": False}, reload=True))
    assert node.reloads == 0 and "management connection" in result.notes()[0]
    assert verdicts(result)["devlink"] == "pending"


def test_devlink_parameters_that_do_not_exist_or_live_in_the_firmware() -> None:
    node = Node()
    with pytest.raises(PolicyError, match=f"{PCI}: no parameter 'enable_rose'"):
        converge(node, Request(devlink={"enable_rose": True}))
    node.params["enable_sriov"] = ("permanent", True)
    with pytest.raises(PolicyError, match="kept in the firmware"):
        converge(node, Request(devlink={"enable_sriov": True}))
    with pytest.raises(PolicyError, match="was expected"):
        checked_values({"A": 1})
    with pytest.raises(RoceError, match="'ens9' is no mlx5 device"):
        converge(node, Request(devlink={"enable_roce": True}, devices=("ens9",)))


def test_a_device_that_devlink_does_not_know_is_skipped() -> None:
    node = Node()
    node._devlink = lambda _argv: (1, "", "kernel answers: No such device")  # type: ignore[method-assign]
    result = converge(node, Request(devlink={"enable_roce": False}))
    assert verdicts(result)["devlink"] == "skipped" and not result.message()


# -- stack and restart -----------------------------------------------------------------------------


def stale_node() -> Node:
    """OFED was installed, the kernel's own driver is still loaded."""
    node = Node()
    for name in ("mlx5_core", "mlx5_ib"):
        node.on_disk[name] = "version: 24.10-1.1.4\nsrcversion: ABC\n"
    return node


def test_another_driver_on_disk_is_pending_and_nothing_is_restarted() -> None:
    node = stale_node()
    result = converge(node, Request(modules=MODULES))
    assert verdicts(result)["driver_stack"] == "pending"
    assert not any("-r" in argv for argv in node.ran)
    found = check.diagnose(node, Context((), None, {}))
    assert [(finding.check, finding.verdict) for finding in found] == [
        ("kernel_modules", "pass"),
        ("driver_stack", "pending"),
    ]


def test_srcversion_tells_builds_of_one_version_apart() -> None:
    loaded = {"mlx5_core": check.Loaded("24.10", "A")}
    on_disk = {"mlx5_core": check.ModuleFile("mlx5_core", "/x.ko", "24.10", "B")}
    assert check.judge_stack(check.Modules(loaded, on_disk)).verdict == "pending"
    unsaid = {"mlx5_core": check.ModuleFile("mlx5_core", "/x.ko", "24.10")}
    assert check.judge_stack(check.Modules(loaded, unsaid)).verdict == "pass"


def test_a_restart_that_was_asked_for_is_made_once() -> None:
    node = stale_node()
    result = converge(node, Request(modules=MODULES, restart=True))
    assert "modprobe -r mlx5_ib mlx5_core && modprobe -a mlx5_core mlx5_ib" in commands(result)
    assert verdicts(result)["driver_stack"] == "pass" and result.as_dict()["reapply"]
    assert not converge(node, Request(modules=MODULES, restart=True)).as_dict()["changed"]
    for name in ("mlx5_core", "mlx5_ib"):  # whatever loaded the old ones again
        node.files[f"/sys/module/{name}/version"] = ""
    again = converge(node, Request(modules=MODULES, restart=True))
    assert not again.as_dict()["changed"] and verdicts(again)["driver_stack"] == "pending"
    assert "did not help" in again.notes()[0]


def test_openibd_restarts_its_own_stack() -> None:
    node = stale_node()
    node.files["/etc/init.d/openibd"] = ""
    node.outputs["systemctl restart openibd"] = ""
    assert "systemctl restart openibd" in commands(converge(node, Request(restart=True)))


def test_no_restart_below_the_management_connection_or_a_job() -> None:
    node = stale_node()
    node.outputs["rdma -j resource show qp"] = '[{"ifname":"mlx5_0","pid":7,"comm":"job"}]'
    result = converge(node, Request(restart=True))
    assert "not restarted" in result.notes()[0] and "job (pid 7)" in result.notes()[0]
    node.files["/proc/net/route"] = "Iface\tDest\nens1np0\t00000000\t0\t3\t0\t0\t0\t00000000\n"
    assert "management connection" in converge(node, Request(restart=True)).notes()[0]
    assert not any("-r" in argv for argv in node.ran)


def test_a_driver_that_cannot_be_unloaded_is_loaded_again_all_the_same() -> None:
    node = stale_node()
    answer = node._answer
    in_use = (1, "", "modprobe: FATAL: Module mlx5_core is in use.")
    node._answer = lambda argv: in_use if "-r" in argv else answer(argv)  # type: ignore[method-assign]
    result = converge(node, Request(restart=True))
    assert "is in use" in result.message()
    assert ("modprobe", "-a", "mlx5_core", "mlx5_ib") in node.ran


# -- the way to GPU memory -------------------------------------------------------------------------

DMABUF = GpuFacts(gpus=8, kernel="6.8.0-45-generic", driver="550.54.15", open_module=True, library=True)
PEERMEM = GpuFacts(
    gpus=8,
    kernel="5.4.0",
    driver="470.57.02",
    open_module=False,
    library=True,
    peermem_loaded=True,
    peermem_registered=True,
    peermem_on_disk=True,
)


def judged(facts: GpuFacts, mode: str = "auto") -> dict[str, str]:
    """Check -> verdict."""
    found = gpudirect.judge(facts, mode)
    assert all(finding.cause and finding.remedy for finding in found if finding.verdict == "fail")
    return {finding.check: finding.verdict for finding in found}


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "pass"),
        ({"kernel": "5.4.0"}, "fail"),
        ({"driver": "470.1"}, "fail"),
        ({"open_module": False}, "fail"),
        ({"library": False}, "fail"),
        ({"library": None}, "unknown"),
        ({"open_module": None}, "unknown"),
        ({"driver": ""}, "fail"),
        ({"driver": "loaded"}, "unknown"),
        ({"gpus": 0, "driver": ""}, "skipped"),
    ],
)
def test_what_dma_buf_needs(changes: dict[str, t.Any], verdict: str) -> None:
    facts = GpuFacts(**{**vars(DMABUF), **changes})
    assert judged(facts)["gpudirect"] == verdict
    assert judged(facts, "dmabuf")["gpudirect"] == verdict


def test_peermem_where_dma_buf_is_not_offered() -> None:
    assert gpudirect.choose(PEERMEM).path == "peermem"
    assert judged(PEERMEM) == {"gpudirect": "pass", "gpudirect_peermem": "pass"}
    loadable = GpuFacts(**{**vars(PEERMEM), "peermem_loaded": False, "peermem_registered": False, "peer_symbols": True})
    assert judged(loadable) == {"gpudirect": "fail"}
    inbox = GpuFacts(**{**vars(loadable), "peer_symbols": False})
    assert gpudirect.choose(inbox).path == "none" and "OFED or DOCA" in gpudirect.choose(inbox).reason


def gpu_node(peermem: bool) -> Node:
    """A node with a GPU and the proprietary driver."""
    node = Node()
    node.files["/sys/bus/pci/devices/0000:1b:00.0/vendor"] = "0x10de\n"
    node.files["/sys/bus/pci/devices/0000:1b:00.0/class"] = "0x030200\n"
    node.files["/proc/driver/nvidia/version"] = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
    )
    node.files["/sys/module/nvidia/version"] = "535.104.05\n"
    node.files["/proc/sys/kernel/osrelease"] = "5.15.0-91-generic\n"
    node.files["/proc/kallsyms"] = "0000000000000000 T ib_register_peer_memory_client\t[ib_core]\n"
    node.files["/lib/libibverbs.so.1"] = "…\0ibv_reg_dmabuf_mr\0"
    node.outputs["ldconfig -p"] = "\tlibibverbs.so.1 (libc6,x86-64) => /lib/libibverbs.so.1\n"
    node.on_disk |= {"nvidia": "license: NVIDIA\n", "nvidia_peermem": ""}
    if peermem:
        node._load("nvidia_peermem")
    return node


@pytest.mark.parametrize(
    "case", ["g02-peermem-loaded-not-registered.txt", "b10-roce-gdr-disabled-peermem-loaded.lsmod.txt"]
)
def test_peermem_that_is_loaded_and_not_registered_is_a_fail(case: str) -> None:
    node = gpu_node(peermem="nvidia_peermem " in (CASES / case).read_text())
    found = gpudirect.diagnose(node, Context((), None, {"gpus": [{"pci": "0000:1b:00.0"}]}))
    assert {finding.check: finding.verdict for finding in found} == {"gpudirect": "fail", "gpudirect_peermem": "fail"}
    assert "not registered with ib_core" in found[0].cause and "built against" in found[0].remedy
    node.files["/sys/kernel/mm/memory_peers/nv_mem/version"] = "1.0\n"
    found = gpudirect.diagnose(node, Context((), None, {"gpus": [{"pci": "0000:1b:00.0"}]}))
    assert {finding.verdict for finding in found} == {"pass"}


def test_peermem_is_loaded_where_it_is_the_way() -> None:
    node = gpu_node(peermem=False)
    result = converge(node, Request(modules=MODULES))
    assert result.gpu_path == "peermem" and "modprobe nvidia_peermem" in commands(result)
    assert "nvidia_peermem" in node.files[LOAD_FILE]
    assert verdicts(result)["gpudirect_peermem"] == "fail", "loaded is not registered"
    assert "gpudirect" not in verdicts(converge(node, Request(gpu_direct="none")))


def test_the_open_module_is_told_from_the_loaded_drivers_words() -> None:
    node = gpu_node(peermem=False)
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n"
    node.files["/proc/driver/nvidia/version"] = text
    del node.files["/sys/module/nvidia/version"]
    facts = gpudirect.read_gpu(node, 1)
    assert facts.open_module and facts.driver == "550.54.15"
    assert converge(node, Request(modules=MODULES)).gpu_path == "dmabuf"
