# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drift: named when reported, repaired when asked, and nothing else touched."""

from __future__ import annotations

import pytest
import stock
from roce_lab import Node
from run_ansible import PORTS, Ansible


def test_pfc_switched_off_by_hand_is_named_and_only_that_is_repaired(
    ansible: Ansible, node1: Node, restored: None
) -> None:
    node1.check("dcb pfc set dev ens1np0 prio-pfc all:off && sleep 2")
    bounces = {port: stock.carrier_changes(node1, port) for port in PORTS}
    report = ansible.drift()
    assert report.rc != 0
    assert stock.lossless_prios(node1, "ens1np0") == [], "a report must not repair"
    failed = [finding for finding in ansible.findings("drift") if finding["verdict"] == "fail"]
    assert [(f["host"], f["port"], f["check"]) for f in failed] == [("node1", "ens1np0", "pfc")]
    assert failed[0]["expected"] == {"enabled_prios": [3]} and failed[0]["observed"] == {"enabled_prios": []}
    assert failed[0]["layers"]["declared"] != failed[0]["layers"]["running"]
    assert "dcb pfc set dev ens1np0" in failed[0]["remedy"]
    for part in ("node1", "ens1np0", "pfc", "dropped"):
        assert part in report.output, report.output

    repair = ansible.drift(enforce=True)
    assert repair.rc == 0, repair.output
    assert repair.recap("changed") == 1
    assert stock.lossless_prios(node1, "ens1np0") == [3]
    # The mask of the other port was right: its link must not have moved.
    assert stock.carrier_changes(node1, "ens2np0") == bounces["ens2np0"]
    assert stock.carrier_changes(node1, "ens1np0") > bounces["ens1np0"]


def test_enforcing_another_setting_does_not_bounce_the_link(ansible: Ansible, node1: Node, restored: None) -> None:
    before = [stock.carrier_changes(node1, port) for port in PORTS]
    node1.check("dcb app add dev ens1np0 dscp-prio 26:1")
    repair = ansible.drift(enforce=True)
    assert repair.rc == 0, repair.output
    assert stock.dscp_map(node1, "ens1np0")[26] == 3
    assert ansible.drift(enforce=True).recap("changed") == 0
    assert [stock.carrier_changes(node1, port) for port in PORTS] == before


def test_global_pause_while_pfc_is_wanted_is_named(ansible: Ansible, node1: Node, restored: None) -> None:
    node1.check("ethtool -A ens1np0 rx on tx on")
    assert ansible.drift().rc != 0
    failed = {f["check"]: f for f in ansible.findings("drift") if f["verdict"] == "fail"}
    assert failed["pause"]["observed"] == {"rx": True, "tx": True}
    assert "every class" in failed["pause"]["cause"]


def test_a_dscp_on_another_priority_is_named(ansible: Ansible, node1: Node, restored: None) -> None:
    node1.check("dcb app add dev ens1np0 dscp-prio 26:1")
    assert ansible.drift().rc != 0
    failed = [f for f in ansible.findings("drift") if f["verdict"] == "fail"]
    assert [f["check"] for f in failed] == ["trust"]
    assert failed[0]["observed"]["dscp_prio"] == {"26": 1} and failed[0]["expected"]["dscp_prio"] == {"26": 3}


def test_a_running_lldpad_is_found_and_explained(ansible: Ansible, node1: Node, restored: None) -> None:
    node1.check("apt-get install -y lldpad lldpd && systemctl start lldpad lldpd", timeout=300)
    try:
        ansible.drift()
        found = [f for f in ansible.findings("drift") if f["check"] == "lldpad"]
        assert [(f["host"], f["verdict"]) for f in found if f["verdict"] != "pass"] == [("node1", "fail")]
        text = found[0]["cause"] + found[0]["remedy"]
        assert "overwrite" in text and "lldpad.socket" in text
        (beside,) = [f for f in ansible.findings("drift") if f["check"] == "lldpd" and f["verdict"] != "pass"]
        assert (beside["host"], beside["verdict"]) == ("node1", "fail") and "two agents" in beside["cause"]
        node1.check("systemctl stop lldpad.socket lldpad")
        ansible.drift()
        alone = [f for f in ansible.findings("drift") if f["check"] == "lldpd" and f["host"] == "node1"]
        assert [f["verdict"] for f in alone] == ["pass"] and "changes no setting" in alone[0]["cause"]
    finally:
        node1.ssh("systemctl stop lldpad.socket lldpad; apt-get purge -y lldpad lldpd", timeout=300)


def test_a_module_that_the_next_boot_would_not_load_is_named_and_kept_again(ansible: Ansible, node1: Node) -> None:
    load_file = "/etc/modules-load.d/lossless-roce.conf"
    before = node1.check(f"cat {load_file}")
    node1.check(f"sed -i /rdma_ucm/d {load_file}")
    assert ansible.drift().rc != 0
    failed = [f for f in ansible.findings("drift") if f["verdict"] == "fail"]
    assert [(f["host"], f["check"]) for f in failed] == [("node1", "kernel_modules")]
    assert "rdma_ucm" in str(failed[0])
    assert node1.check(f"cat {load_file}") != before, "a report must not repair"
    assert ansible.drift(enforce=True).rc == 0
    assert node1.check(f"cat {load_file}") == before


@pytest.mark.full
def test_what_a_node_is_below_its_ports_is_named_and_repaired(ansible: Ansible, node1: Node) -> None:
    limits = ["/etc/security/limits.d/50-lossless-roce.conf", "/etc/systemd/system.conf.d/50-lossless-roce.conf"]
    agent = ["/usr/local/sbin/lossless-roce", "/etc/systemd/system/lossless-roce.service"]
    before = [node1.check(f"cat {file}") for file in [*limits, *agent]]
    node1.check(f"systemctl disable lossless-roce.service && rm {' '.join([*limits, *agent])}")
    assert ansible.playbook("drift").rc != 0
    failed = [f for f in ansible.findings("drift") if f["verdict"] == "fail"]
    assert {f["host"] for f in failed} == {"node1"} and all(f["cause"] and f["remedy"] for f in failed)
    assert sorted(f["evidence"] for f in failed if f["check"] == "memlock_file") == limits
    # systemd runs by a file that has gone, where the unit ran at boot.
    checks = {f["check"] for f in failed} - {"service_manager"}
    assert checks == {"memlock_file", "boot_program", "boot_unit", "on_disk"}
    assert node1.ssh(f"ls {' '.join([*limits, *agent])}").out == "", "a report must not repair"

    repair = ansible.playbook("drift", enforce=True)
    assert repair.rc == 0, repair.output
    assert [f["check"] for f in ansible.findings("drift") if f["verdict"] == "fail"] == []
    assert [node1.check(f"cat {file}") for file in [*limits, *agent]] == before
    node1.check("systemctl is-enabled lossless-roce.service")
    found = {f["check"]: f["verdict"] for f in ansible.findings("drift")}
    assert {"memlock_file", "kernel_modules", "pci_acs", "boot_program", "boot_unit", "udev_rule"} <= set(found)
    assert "fail" not in found.values()
    assert not {"iommu_argument", "firewall_rules", "kernel_parameters"} & set(found), "nobody asked for these"


@pytest.mark.full
def test_a_boot_unit_that_is_disabled_is_named_and_enabled_again(ansible: Ansible, node1: Node) -> None:
    is_enabled = "systemctl is-enabled lossless-roce.service"
    node1.check("systemctl disable lossless-roce.service")
    assert ansible.playbook("drift").rc != 0
    failed = {f["check"]: f for f in ansible.findings("drift") if f["verdict"] == "fail"}
    assert set(failed) == {"boot_unit", "on_disk"} and failed["boot_unit"]["host"] == "node1"
    assert (failed["boot_unit"]["observed"], failed["boot_unit"]["expected"]) == ("disabled", "enabled")
    assert node1.ssh(is_enabled).out.strip() == "disabled", "a report must not repair"
    repair = ansible.playbook("drift", enforce=True)
    assert repair.rc == 0, repair.output
    assert node1.check(is_enabled).strip() == "enabled"
    again = ansible.playbook("drift", enforce=True)
    assert again.rc == 0 and again.recap("changed") == 0, again.output


@pytest.mark.full
def test_a_port_with_a_policy_of_its_own_is_judged_by_it(ansible: Ansible, node1: Node, restored: None) -> None:
    policies = [
        {"ports": PORTS[:1], "policy": "{{ roce_policy }}"},
        {"ports": PORTS[1:], "policy": "{{ roce_policy | combine({'mtu': 4200}) }}"},
    ]
    for name in ("drift", "diagnose", "verify"):
        run = ansible.playbook(name, roce_policies=policies, **({"enforce": True} if name == "drift" else {}))
        mtus = [f for f in ansible.findings(name) if f["check"] in ("mtu", "rdma_mtu", "path_mtu")]
        assert mtus and all(f["verdict"] == "pass" for f in mtus), (name, mtus, run.output)
        own = [f["expected"]["mtu"] for f in mtus if f["check"] != "rdma_mtu" and f["port"] == PORTS[1]]
        assert own and set(own) == {4200}, (name, mtus)
    assert [stock.mtu(node1, port) for port in PORTS] == [9000, 4200]
