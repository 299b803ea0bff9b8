# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The host below the ports: kernel parameters, ACS, IOMMU and firewalls, with the stock tools as judges."""

from __future__ import annotations

import re
import typing as t

import pytest
from roce_lab import Node
from run_ansible import PORTS, Ansible

NODE = "node2"
UNIT = "lossless-roce-acs.service"
ACS_ON = "001d"
PERFTEST = "18515-18530"
NFT_FILE = "/etc/nftables.conf"
NFT_RULES = f"""flush ruleset
table inet site {{
    chain arriving {{
        type filter hook input priority filter; policy accept;
        iifname "{PORTS[0]}" tcp dport 18500-18520 counter drop comment "site"
    }}
}}
"""
# What the real one does to the file that the boot loader reads.
UPDATE_GRUB = """#!/bin/sh
mkdir -p /boot/grub
for file in /etc/default/grub.d/*.cfg; do . "$file"; done
echo "linux /vmlinuz root=/dev/vda $GRUB_CMDLINE_LINUX" >/boot/grub/grub.cfg
"""


def twice(ansible: Ansible, **variables: t.Any) -> None:
    """Apply the role two times: the first changes something, the second nothing."""
    for changes in (True, False):
        run = ansible.role(NODE, "baseline", baseline_manage_packages=False, **variables)
        assert run.rc == 0, run.output
        assert (run.recap("changed") > 0) == changes, run.output


def checks(ansible: Ansible, **options: t.Any) -> list[dict[str, t.Any]]:
    """The findings of one look at the node."""
    result = ansible.module(NODE, "host_checks", {"ports": PORTS, **options})
    assert "findings" in result, result
    return t.cast("list[dict[str, t.Any]]", result["findings"])


def check(ansible: Ansible, name: str, **options: t.Any) -> dict[str, t.Any]:
    """The one finding of this name; of the firewall's, the one on TCP."""
    found = [f for f in checks(ansible, **options) if f["check"] == name and "udp" not in (f["observed"] or ())]
    assert len(found) == 1, found
    return found[0]


def put(node: Node, path: str, text: str) -> None:
    """Write a file on the node."""
    node.check(f"cat >{path} <<'END'\n{text}END")


@pytest.mark.full
def test_kernel_parameters_and_huge_pages(ansible: Ansible, node2: Node) -> None:
    try:
        twice(
            ansible,
            baseline_hugepages=4,
            baseline_disable_numa_balancing=True,
            baseline_neighbour_thresholds=[2048, 4096, 8192],
            baseline_rails_share_network=True,
        )
        keys = ["vm.nr_hugepages", "kernel.numa_balancing", "net.ipv4.neigh.default.gc_thresh3"]
        keys += [f"net.ipv4.conf.{PORTS[1]}.{key}" for key in ("arp_ignore", "arp_announce", "rp_filter")]
        assert node2.check(f"sysctl -n {' '.join(keys)}").split() == ["4", "0", "8192", "1", "2", "2"]
        file = node2.check("cat /etc/sysctl.d/50-lossless-roce.conf")
        assert "vm.nr_hugepages=4" in file and f"net.ipv4.conf.{PORTS[0]}.arp_ignore=1" in file
        asked = {"numa_balancing": "off", "neighbour_thresholds": [2048, 4096, 8192], "hugepages": 1000000}
        found = {finding["check"]: finding for finding in checks(ansible, **asked)}
        assert [found[name]["verdict"] for name in ("numa_balancing", "neighbour_table", "arp")] == ["pass"] * 3
        assert found["hugepages"]["verdict"] == "fail" and "4 of 1000000" in found["hugepages"]["cause"]
    finally:
        node2.ssh("rm /etc/sysctl.d/50-lossless-roce.conf; sysctl -w vm.nr_hugepages=0")


def test_rails_of_one_network_answer_for_each_other(ansible: Ansible, node2: Node) -> None:
    both = " && ".join(f"ip address {{0}} 10.55.0.{n}/24 dev {netdev}" for n, netdev in enumerate(PORTS, 1))
    quiet = [f"net.ipv4.conf.{netdev}.{key}" for netdev in PORTS for key in ("arp_ignore=0", "arp_announce=0")]
    node2.check(f"sysctl -qw {' '.join(quiet)} && {both.format('add')}")
    try:
        finding = check(ansible, "arp")
        assert finding["verdict"] == "fail" and "arp_ignore 0" in finding["cause"]
    finally:
        node2.check(both.format("del"))
    assert check(ansible, "arp")["verdict"] == "pass"


@pytest.mark.full
def test_nftables_that_drop_are_reported_and_opened_in_the_named_chain(ansible: Ansible, node2: Node) -> None:
    former = node2.ssh(f"cat {NFT_FILE}").out
    put(node2, NFT_FILE, NFT_RULES)
    node2.check(f"nft -f {NFT_FILE}")
    try:
        finding = check(ansible, "firewall", tcp_ports=[PERFTEST])
        assert finding["verdict"] == "fail" and finding["observed"]["rails"] == [PORTS[0]]
        assert f'chain inet site arriving: iifname "{PORTS[0]}" tcp dport 18500-18520 counter drop' in finding["cause"]
        assert f"nft insert rule inet site arriving tcp dport {PERFTEST} accept" in finding["remedy"]
        opened = {"baseline_firewall": "open", "baseline_firewall_tcp_ports": ["22", PERFTEST]}
        run = ansible.role(NODE, "baseline", baseline_manage_packages=False, **opened)
        assert run.rc == 0 and run.recap("changed") == 0, run.output  # no chain was named
        twice(ansible, baseline_firewall_chain="inet site arriving", **opened)
        assert check(ansible, "firewall", tcp_ports=[PERFTEST])["verdict"] == "pass"
        node2.check(f"nft -f {NFT_FILE}")  # as at boot
        assert check(ansible, "firewall", tcp_ports=[PERFTEST])["verdict"] == "pass"
    finally:
        put(node2, NFT_FILE, former)
        node2.ssh(f"nft flush ruleset; rm -f {NFT_FILE}.*~")


def test_4791_dropped_counts_on_soft_roce(ansible: Ansible, node2: Node) -> None:
    node2.check(
        "nft add table inet site && nft 'add chain inet site arriving { type filter hook input priority 0; }'"
        " && nft add rule inet site arriving udp dport 4791 drop"
    )
    try:
        (finding,) = (f for f in checks(ansible) if f["check"] == "firewall")
        assert finding["verdict"] == "fail" and "udp port 4791" in finding["cause"]
    finally:
        node2.ssh("nft flush ruleset")


@pytest.mark.full
@pytest.mark.parametrize("tool", ["firewalld", "ufw"])
def test_firewalls_are_opened_by_their_own_tool(ansible: Ansible, node2: Node, tool: str) -> None:
    start = "systemctl start firewalld" if tool == "firewalld" else "ufw allow 22/tcp && ufw --force enable"
    node2.check(
        f"DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends {tool} >&2 && {start}", timeout=240
    )
    try:
        finding = check(ansible, "firewall", tcp_ports=[PERFTEST])
        assert finding["verdict"] == "fail" and finding["observed"]["managed_by"] == tool, finding
        twice(ansible, baseline_firewall="open", baseline_firewall_tcp_ports=["22", PERFTEST])
        assert {f["verdict"] for f in checks(ansible, tcp_ports=["22", PERFTEST]) if f["check"] == "firewall"} == {
            "pass"
        }
        if tool == "firewalld":
            assert f"{PERFTEST}/tcp" in node2.check("firewall-cmd --permanent --list-ports")
        else:
            assert f"{PERFTEST.replace('-', ':')}/tcp" in node2.check("ufw status")
    finally:
        stop = "systemctl stop firewalld" if tool == "firewalld" else "ufw --force disable"
        node2.ssh(f"{stop}; apt-get -qq purge {tool}; nft flush ruleset", timeout=120)


def acs_bridges(node: Node) -> list[str]:
    """Bridges with ACS: the lab must have some, or nothing is proven here."""
    blocks = node.check("lspci -D -vvv").split("\n\n")
    found = [block.split()[0] for block in blocks if " PCI bridge: " in block and "ACSCtl:" in block]
    assert found, "no PCI bridge of this lab has ACS"
    return found


def acs(node: Node, bridge: str) -> str:
    return node.check(f"setpci -s {bridge} ECAP_ACS+6.w").strip()


@pytest.mark.full
def test_acs_is_reported_switched_off_and_stays_off(ansible: Ansible, node2: Node) -> None:
    bridge = acs_bridges(node2)[0]
    node2.check(f"setpci -s {bridge} ECAP_ACS+6.w={ACS_ON}")
    finding = check(ansible, "acs", acs_bridges=[bridge])
    assert finding["verdict"] == "fail"
    assert f"{bridge} has ReqRedir, CmpltRedir, UpstreamFwd on" in finding["cause"]
    call = {"state": "disabled", "bridges": [bridge]}
    results = [ansible.module(NODE, "pci_acs", call, check=dry) for dry in (True, False, False, True)]
    assert [result.get("changed") for result in results] == [True, True, False, False], results
    assert results[0]["commands"] == results[1]["commands"] and results[0]["diff"] == results[1]["diff"]
    assert any("virtual machine" in warning for warning in results[1].get("warnings", []))
    assert acs(node2, bridge) == "0000"
    assert check(ansible, "acs", acs_bridges=[bridge])["verdict"] == "pass"
    # As at boot: the firmware has set the bits, and the unit runs.
    node2.check(f"setpci -s {bridge} ECAP_ACS+6.w={ACS_ON} && systemctl start {UNIT}")
    assert acs(node2, bridge) == "0000"
    assert node2.check(f"systemctl is-enabled {UNIT}").strip() == "enabled"
    twice(ansible)  # the policy no longer asks: the unit goes
    assert node2.ssh(f"systemctl cat {UNIT}").rc != 0


@pytest.mark.full
def test_acs_is_off_after_a_reboot(ansible: Ansible, node2: Node) -> None:
    bridge = acs_bridges(node2)[0]
    assert not ansible.module(NODE, "pci_acs", {"state": "disabled", "bridges": [bridge]}).get("failed")
    node2.reboot()
    try:
        # Firmware leaves ACS off here, so that the unit's own success is the proof.
        state = node2.check(f"systemctl show {UNIT} -p ActiveState -p ExecMainStatus")
        assert state.split() == ["ExecMainStatus=0", "ActiveState=active"], state
        assert acs(node2, bridge) == "0000"
    finally:
        ansible.module(NODE, "pci_acs", {"state": "as_found"})


@pytest.mark.full
def test_iommu_off_passes_and_passthrough_is_declared_for_the_next_boot(ansible: Ansible, node2: Node) -> None:
    assert node2.ssh("ls /sys/class/iommu").out.split() == []
    assert check(ansible, "iommu")["verdict"] == "pass"
    run = ansible.role(NODE, "baseline", baseline_manage_packages=False, baseline_iommu="passthrough")
    assert run.rc != 0 and re.search(r"grubby or\s+update-grub was expected", run.output), run.output
    put(node2, "/usr/local/sbin/update-grub", UPDATE_GRUB)
    node2.check("chmod +x /usr/local/sbin/update-grub")
    try:
        twice(ansible, baseline_iommu="passthrough")
        assert "iommu=pt" in node2.check("cat /boot/grub/grub.cfg")
        assert check(ansible, "iommu")["layers"]["next_boot"] == ["iommu=pt"]
    finally:
        node2.ssh("rm -r /usr/local/sbin/update-grub /boot/grub /etc/default/grub.d/50-lossless-roce.cfg")
