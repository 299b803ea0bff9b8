# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Checks of IOMMU, ACS, packet filter, kernel and neighbours: verdicts by what a node shows."""

from __future__ import annotations

import ipaddress
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import acs, firewall, iommu, kernel, neighbours
from ansible_collections.lossless.roce.plugins.module_utils.checks.base import Context
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.parsers.acs import BITS, parse_acs, word
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).parent / "recorded"
ROOT_PORT, NIC = "0000:00:12.0", "0000:03:00.0"
PORT = Port("mlx5_0", 1, "ens1np0", pci=NIC)
ADDRESSES = json.dumps(
    [{"ifname": "ens1np0", "addr_info": [{"family": "inet", "local": "10.100.0.1", "prefixlen": 24}]}]
)


def context(**options: t.Any) -> Context:
    return Context((PORT,), None, {"gpus": []}, options)


def listing(name: str) -> str:
    return (RECORDED / "pciutils" / name).read_text()


# --- ACS ----------------------------------------------------------------------------------------------------------


def acs_host(text: str, machine: str = "x86_64") -> FakeHost:
    host = FakeHost(outputs={"lspci -D -vvv": text, "uname -m": machine + "\n"})
    tree = f"/sys/devices/pci0000:00/{ROOT_PORT}/0000:01:00.0/0000:02:00.0/{NIC}"
    host.links[f"/sys/bus/pci/devices/{NIC}"] = tree
    return host


def test_d26_all_off() -> None:
    text = (RECORDED / "cases" / "d26-acs-all-off.txt").read_text()
    functions = list(parse_acs(text).values())
    assert len(functions) == text.count("ACSCtl:")
    assert acs.judge(functions).verdict == "pass"


@pytest.mark.parametrize("bit", acs.REDIRECTING)
def test_d26_with_a_bit_on_names_line_and_bit(bit: str) -> None:
    text = (RECORDED / "cases" / "d26-acs-all-off.txt").read_text()
    head, _, tail = text.rpartition(f"{bit}-")
    finding = acs.judge(list(parse_acs(f"{head}{bit}+{tail}").values()))
    assert finding.verdict == "fail"
    assert f"line {text.count('ACSCtl:')} has {bit} on" in finding.cause


def test_checking_the_sender_redirects_nothing() -> None:
    text = "ACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
    finding = acs.judge(list(parse_acs(text).values()))
    assert finding.verdict == "pass" and finding.observed == {"line 1": ["SrcValid"]}


def test_every_bridge_above_a_port_is_looked_at() -> None:
    (finding,) = acs.diagnose(acs_host(listing("lspci-vvv.txt")), context())
    assert finding.verdict == "pass" and finding.observed == {ROOT_PORT: []}
    (finding,) = acs.diagnose(acs_host(listing("lspci-vvv-acs-on.txt")), context())
    assert finding.verdict == "fail"
    assert f"{ROOT_PORT} has ReqRedir, CmpltRedir, UpstreamFwd on" in finding.cause
    assert f"setpci -s {ROOT_PORT} ECAP_ACS+6.w=0000" in finding.remedy


def bonded() -> Context:
    """A bond that NIC is a port of."""
    member = Port("mlx5_bond_0", 1, "ens1np0", pci=NIC, kind="port of a RoCE LAG")
    return Context((Port("mlx5_bond_0", 1, "bond0", kind="bond", members=(member,)),), None, {"gpus": []})


def test_the_bridges_above_a_bond_s_ports_are_looked_at() -> None:
    (finding,) = acs.diagnose(acs_host(listing("lspci-vvv-acs-on.txt")), bonded())
    assert finding.verdict == "fail" and ROOT_PORT in finding.cause


def test_acs_unreadable_is_unknown() -> None:
    (finding,) = acs.diagnose(acs_host(listing("lspci-vvv-no-root.txt")), context())
    assert finding.verdict == "unknown" and "root" in finding.cause
    cut = listing("lspci-vvv-acs-on.txt").replace("ACSCtl:\tSrcValid+ TransBlk- ReqRedir+", "ACSCtl:\tSrcValid+")
    (finding,) = acs.diagnose(acs_host(cut), context())
    assert finding.verdict == "unknown" and ROOT_PORT in finding.cause
    # Without the extended space nothing can be said, though no line speaks of ACS.
    short = "\n".join(line for line in cut.splitlines() if "[1" not in line and "ACS" not in line)
    (finding,) = acs.diagnose(acs_host(short), context())
    assert finding.verdict == "unknown" and "extended" in finding.cause
    (finding,) = acs.diagnose(acs_host(""), context())
    assert finding.verdict == "unknown"


def test_acs_on_arm_is_not_blamed() -> None:
    (finding,) = acs.diagnose(acs_host(listing("lspci-vvv-acs-on.txt"), "aarch64"), context())
    assert finding.verdict == "unknown" and "rdma_topo" in finding.remedy


def test_no_bridge_is_skipped() -> None:
    (finding,) = acs.diagnose(FakeHost(), context())
    assert finding.verdict == "skipped"


def test_addresses_without_domain() -> None:
    assert list(parse_acs("17:00.0 PCI bridge: x\n\tACSCap:\tSrcValid+\n")) == ["0000:17:00.0"]


@given(st.integers(0, 10000))
def test_a_listing_that_ends_early_is_never_a_pass(length: int) -> None:
    text = listing("lspci-vvv-acs-on.txt")
    text = text[text.index(ROOT_PORT) : text.index("Capabilities: [100 v2]")][:length]
    (finding,) = acs.diagnose(acs_host(text), context())
    assert finding.verdict == "unknown"


@given(st.text())
def test_acs_garbage(text: str) -> None:
    for function in parse_acs(f"{ROOT_PORT} PCI bridge: x\n{text}\n\tACSCtl:{text}").values():
        assert acs.judge([function]).verdict == "unknown"


@given(st.sets(st.sampled_from(BITS)))
def test_word_of_bits_and_lspci_agree(on: set[str]) -> None:
    line = "ACSCtl:\t" + " ".join(bit + ("+" if bit in on else "-") for bit in BITS)
    (function,) = parse_acs(line).values()
    assert function.on is not None and word(function.on) == word(on)
    assert word(["SrcValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"]) == 0x1D


# --- IOMMU --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (iommu.Seen(), "pass"),
        (iommu.Seen(("dmar0",), {NIC: "identity"}), "pass"),
        (iommu.Seen(("dmar0",), {NIC: ""}), "pass"),
        (iommu.Seen(("dmar0",), {NIC: "DMA-FQ"}), "fail"),
        (iommu.Seen(("dmar0",), {NIC: "DMA"}, now=("iommu=pt",)), "fail"),
        (iommu.Seen(("dmar0",), {NIC: "DMA"}, next_boot=("iommu=pt",)), "pending"),
        (iommu.Seen(("dmar0",), {NIC: "DMA"}, next_boot=("intel_iommu=on",)), "fail"),
        (iommu.Seen(("dmar0",), {NIC: None}), "unknown"),
        (iommu.Seen(("dmar0",), {NIC: "unmanaged"}), "unknown"),
        (iommu.Seen(("dmar0",), {NIC: "identity", "0000:1b:00.0": "DMA"}), "fail"),
        (iommu.Seen(("dmar0",), {}), "skipped"),
        (iommu.Seen((), {NIC: None}, now=("intel_iommu=on",)), "pass"),
    ],
)
def test_iommu(seen: iommu.Seen, verdict: str) -> None:
    finding = iommu.judge(seen)
    assert finding.verdict == verdict
    assert bool(finding.cause) == (verdict != "pass")


def test_iommu_of_a_node() -> None:
    device = f"/sys/bus/pci/devices/{NIC}"
    files = {
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 intel_iommu=on quiet\n",
        "/sys/class/iommu/dmar0/x": "",
        f"{device}/iommu_group/type": "DMA-FQ\n",
        "/boot/grub/grub.cfg": "# iommu=off would do\n\tlinux /vmlinuz root=/dev/sda1 quiet intel_iommu=on iommu=pt\n",
    }
    (finding,) = iommu.diagnose(FakeHost(files), context())
    assert finding.verdict == "pending" and NIC in finding.cause
    assert finding.layers == {"running": ["intel_iommu=on"], "next_boot": ["intel_iommu=on", "iommu=pt"]}
    del files["/boot/grub/grub.cfg"]
    (finding,) = iommu.diagnose(FakeHost(files), context())
    assert finding.verdict == "fail" and "baseline_iommu: passthrough" in finding.remedy
    (finding,) = iommu.diagnose(FakeHost({"/proc/cmdline": "", "/sys/class/iommu/dmar0/x": ""}), context())
    assert finding.verdict == "unknown"  # no such PCI function


def test_an_iommu_that_translates_a_bond_s_port_is_seen() -> None:
    files = {"/proc/cmdline": "", "/sys/class/iommu/dmar0/x": ""}
    files[f"/sys/bus/pci/devices/{NIC}/iommu_group/type"] = "DMA\n"
    (finding,) = iommu.diagnose(FakeHost(files), bonded())
    assert finding.verdict == "fail" and NIC in finding.cause


# --- packet filter ------------------------------------------------------------------------------------------------


def filter_host(nft: str, soft: bool = False) -> FakeHost:
    files = {"/sys/module/nf_tables/refcnt": "1\n"}
    host = FakeHost(files, {"nft -j list ruleset": nft, "ip -j address show": ADDRESSES})
    kind = "virtual" if soft else "pci0000:00"
    host.links["/sys/class/infiniband/mlx5_0"] = f"/sys/devices/{kind}/infiniband/mlx5_0"
    return host


def plain() -> str:
    return (RECORDED / "nft" / "plain.json").read_text()


def test_blocked_port_names_chain_rule_and_the_way_out() -> None:
    host = filter_host(plain())
    host.outputs["nft -s -a list chain inet filter input"] = "table inet filter {\n\t\treject # handle 21\n}\n"
    opened, blocked = firewall.diagnose(host, context(tcp_ports=["29500-29510", "18515-18530"]))
    assert opened.verdict == "pass"
    assert blocked.verdict == "fail"
    assert blocked.cause == "the host's packet filter drops tcp port 18516 (chain inet filter input: reject)"
    assert "nft insert rule inet filter input tcp dport 18515-18530 accept" in blocked.remedy
    assert blocked.observed["rails"] == ["ens1np0"] and blocked.observed["managed_by"] == "nftables"


def test_firewalld_and_its_remedy() -> None:
    host = filter_host((RECORDED / "nft" / "firewalld.json").read_text())
    host.processes = ["systemd", "firewalld"]
    host.outputs["nft -s -a list chain inet firewalld filter_INPUT_POLICIES"] = ""
    ssh, perftest = firewall.diagnose(host, context(tcp_ports=["22", 18515]))
    assert (ssh.verdict, perftest.verdict) == ("pass", "fail")
    assert "firewall-cmd --permanent --add-port=18515/tcp" in perftest.remedy


def test_ufw_is_read_by_iptables_save() -> None:
    host = filter_host((RECORDED / "nft" / "ufw.json").read_text())
    host.outputs["iptables-save"] = (RECORDED / "iptables" / "ufw.txt").read_text()
    found = firewall.diagnose(host, context(tcp_ports=["22", "18515-18530", "18515-18531"]))
    assert [finding.verdict for finding in found] == ["pass", "pass", "fail"]
    assert "drops tcp port 18531" in found[2].cause and "ufw allow 18515:18531/tcp" in found[2].remedy


def test_rules_that_end_in_the_middle_are_unknown() -> None:
    host = filter_host((RECORDED / "nft" / "ufw.json").read_text())
    host.outputs["iptables-save"] = (RECORDED / "iptables" / "ufw.txt").read_text().partition("COMMIT")[0]
    (finding,) = firewall.diagnose(host, context(tcp_ports=["22"]))
    assert finding.verdict == "unknown" and "table filter: ends without COMMIT" in finding.cause


def test_4791_counts_on_soft_roce_only() -> None:
    assert firewall.diagnose(filter_host(plain()), context()) == []
    host = filter_host(plain(), soft=True)
    host.outputs["nft -s -a list chain inet filter input"] = ""
    (finding,) = firewall.diagnose(host, context())
    assert finding.verdict == "fail" and finding.observed["udp"] == "4791"


def test_no_filter_at_all_starts_no_process() -> None:
    host = FakeHost({"/proc/sys/kernel/osrelease": "6.12\n", "/lib/modules/6.12/modules.builtin": "kernel/a.ko\n"})
    (finding,) = firewall.diagnose(host, context(tcp_ports=["22"]))
    assert finding.verdict == "pass" and host.ran == []


def test_rules_without_their_tool_are_unknown() -> None:
    host = filter_host(plain())
    host.missing_tools.add("nft")
    (finding,) = firewall.diagnose(host, context(tcp_ports=["22"]))
    assert finding.verdict == "unknown" and "install nftables" in finding.remedy


def test_the_older_interface_of_iptables_is_seen() -> None:
    host = filter_host('{"nftables": []}')
    host.files["/proc/net/ip_tables_names"] = "filter\n"
    host.outputs["iptables-legacy-save"] = "*filter\n:INPUT DROP [0:0]\nCOMMIT\n"
    (finding,) = firewall.diagnose(host, context(tcp_ports=["22"]))
    assert finding.verdict == "fail" and "iptables -t filter -I INPUT -p tcp --dport 22 -j ACCEPT" in finding.remedy


def test_rules_of_the_older_interface_that_no_tool_shows_are_unknown() -> None:
    host = filter_host('{"nftables": []}')
    host.files["/proc/net/ip_tables_names"] = "filter\nnat\n"
    host.missing_tools.add("iptables-legacy-save")
    host.outputs["iptables-save"] = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
    (finding,) = firewall.diagnose(host, context(tcp_ports=["22"]))
    assert finding.verdict == "unknown" and "table nat … was expected in the output of iptables-save" in finding.cause


@pytest.mark.parametrize("text", ["0", "65536", "x", "20-10", "²²", "", "1-", "22,23", None])
def test_wrong_port_is_one_clear_error(text: t.Any) -> None:
    with pytest.raises(PolicyError, match="tcp_ports"):
        firewall.tcp_item(text)


# --- kernel -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "text", "nodes", "verdict"),
    [
        ("off", "0\n", 2, "pass"),
        ("off", "1\n", 2, "fail"),
        ("off", "1\n", 1, "pass"),
        ("off", None, 2, "pass"),
        (None, "1\n", 2, "skipped"),
        ("off", "², \n", 2, "unknown"),
    ],
)
def test_numa_balancing(asked: str | None, text: str | None, nodes: int, verdict: str) -> None:
    assert kernel.numa_balancing(asked, text, nodes).verdict == verdict


MEMINFO = "MemTotal: 1 kB\nHugePages_Total:      12\nHugePages_Free:       12\nHugepagesize:       2048 kB\n"


@pytest.mark.parametrize(
    ("asked", "text", "verdict"),
    [
        (12, MEMINFO, "pass"),
        (0, MEMINFO, "pass"),
        (13, MEMINFO, "fail"),
        (None, MEMINFO, "skipped"),
        (1, "", "unknown"),
    ],
)
def test_hugepages(asked: int | None, text: str, verdict: str) -> None:
    finding = kernel.hugepages(asked, text)
    assert finding.verdict == verdict
    if verdict == "fail":
        assert "12 of 13 huge pages of 2048 kB" in finding.cause


def test_governor() -> None:
    verdicts = [kernel.cpu_governor(seen).verdict for seen in ([], ["performance"], ["performance", "powersave"])]
    assert verdicts == ["skipped", "pass", "unknown"]


# --- neighbours ---------------------------------------------------------------------------------------------------


def rail(netdev: str, address: str, own_routes: bool = False, **values: int) -> neighbours.Rail:
    defaults = dict.fromkeys(neighbours.KEYS, 0)
    return neighbours.Rail(netdev, ipaddress.ip_interface(address), {**defaults, **values}, own_routes)


RIGHT = {"arp_ignore": 1, "arp_announce": 2, "rp_filter": 2}


def test_rails_in_networks_of_their_own_need_nothing() -> None:
    assert neighbours.arp([rail("a", "10.0.0.1/24"), rail("b", "10.0.1.1/24", rp_filter=1)]).verdict == "pass"
    assert neighbours.arp([]).verdict == "skipped"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (RIGHT, ""),
        ({**RIGHT, "rp_filter": 0}, ""),
        ({**RIGHT, "rp_filter": 1}, "rp_filter 1"),
        ({**RIGHT, "rp_filter": 1, "own_routes": True}, ""),
        ({**RIGHT, "arp_ignore": 0}, "arp_ignore 0"),
        ({**RIGHT, "arp_announce": 1}, "arp_announce 1"),
        ({"arp_filter": 1, "own_routes": True}, ""),
        ({"arp_filter": 1}, "arp_ignore 0"),
    ],
)
def test_rails_that_share_a_network(values: dict[str, t.Any], told: str) -> None:
    finding = neighbours.arp([rail("a", "10.0.0.1/16", **RIGHT), rail("b", "10.0.0.2/16", **values)])
    assert finding.verdict == ("fail" if told else "pass")
    assert told in finding.cause


def arp_host(values: dict[str, dict[str, int]]) -> FakeHost:
    files = {
        f"/proc/sys/net/ipv4/conf/{netdev}/{key}": f"{values.get(netdev, {}).get(key, 0)}\n"
        for netdev in ("all", "ens1np0")
        for key in neighbours.KEYS
    }
    files |= {f"/proc/sys/net/ipv4/neigh/default/gc_thresh{n}": f"{128 << 2 * n - 2 + (n > 2)}\n" for n in (1, 2, 3)}
    rule = [{"priority": 100, "src": "10.100.0.1", "table": "101"}, {"priority": 0, "src": "all", "table": "local"}]
    return FakeHost(files, {"ip -j address show": ADDRESSES, "ip -j rule show": json.dumps(rule)})


def test_the_larger_value_of_all_and_the_rail_counts() -> None:
    host = arp_host({"all": {"rp_filter": 1}, "ens1np0": {"rp_filter": 2, "arp_ignore": 1}})
    (seen,) = neighbours.read_rails(host, ["ens1np0"])
    assert seen.values == {"arp_ignore": 1, "arp_announce": 0, "arp_filter": 0, "rp_filter": 2}
    assert seen.own_routes


def test_neighbour_table() -> None:
    table, arp = neighbours.diagnose(arp_host({}), context(nodes=2))
    assert table.verdict == "pass" and arp.verdict == "pass"
    assert neighbours.neighbour_table([128, 512, 1024], 1024, None).verdict == "fail"
    assert "[2048, 4096, 8192]" in neighbours.neighbour_table([128, 512, 1024], 1024, None).remedy
    assert neighbours.neighbour_table([128, 512, 1024], 1, [1, 2, 3]).verdict == "fail"
    assert neighbours.neighbour_table([2048, 4096, 8192], 1, [2048, 4096, 8192]).verdict == "pass"


@pytest.mark.parametrize("nodes", [0, -5])
def test_a_number_of_nodes_that_is_none(nodes: int) -> None:
    with pytest.raises(PolicyError, match=f"nodes: {nodes} … 1 or more was expected"):
        neighbours.diagnose(arp_host({}), context(nodes=nodes))


def test_neighbours_of_routed_and_flat_rails() -> None:
    flat, routed = ipaddress.ip_interface("10.0.0.1/16"), ipaddress.ip_interface("10.1.0.0/31")
    assert neighbours.neighbours([flat] * 8, 512) == 8 * 511
    assert neighbours.neighbours([routed] * 8, 512) == 8


def test_unreadable_kernel_files_are_unknown() -> None:
    host = FakeHost({}, {"ip -j address show": ADDRESSES, "ip -j rule show": "[]"})
    assert [finding.verdict for finding in neighbours.diagnose(host, context())] == ["unknown", "unknown"]
    host.outputs["ip -j rule show"] = "{"
    assert [finding.verdict for finding in neighbours.diagnose(host, context())] == ["unknown", "unknown"]
