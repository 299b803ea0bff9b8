# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What is declared is there again after a reboot and a driver reload, by the program on the node alone."""

from __future__ import annotations

import json
import typing as t

import pytest
import stock
from roce_lab import Node
from run_ansible import PORTS, Ansible

PATH = "/etc/lossless-roce/policy.json"
UNIT = "lossless-roce.service"
RESULT = "systemctl show -p Result,ActiveState --value {}"


def assert_declared(node: Node) -> None:
    """The stock tools show the policy on both ports."""
    for rail, port in enumerate(PORTS):
        assert stock.mtu(node, port) == 9000
        assert stock.lossless_prios(node, port) == [3]
        assert stock.pause(node, port) == (False, False)
        assert len(stock.dscp_map(node, port)) == 64 and stock.dscp_map(node, port)[26] == 3
        assert stock.dcb(node, "ets", port)["prio_tc"] == [0, 0, 0, 3, 0, 0, 6, 0]
        assert stock.cma_tos(node, f"mlx5_{rail}") == 106


@pytest.fixture
def saved(node2: Node, restored: None) -> t.Iterator[str]:
    """The saved policy, put back at the end."""
    text = node2.check(f"cat {PATH}")
    yield text
    node2.ssh(f"cat > {PATH}; systemctl restart {UNIT}", stdin=text, timeout=120)


def test_a_rebooted_node_is_as_declared_without_ansible(ansible: Ansible, node2: Node) -> None:
    node2.reboot()
    # The units of jobs come after ours, and so does the end of the boot.
    assert node2.ssh("systemctl is-system-running --wait", timeout=300).out.strip() in {"running", "degraded"}
    assert node2.check(RESULT.format(UNIT)).split() == ["success", "active"]
    assert "lossless" not in node2.check("systemctl --failed --no-legend")
    assert_declared(node2)
    journal = node2.check(f"journalctl -b -o cat -u {UNIT}")
    assert "ens1np0: pfc: {'enabled_prios': []} -> {'enabled_prios': [3]}" in journal
    # The runs that udev starts come after it, and find nothing to do.
    again = node2.check("journalctl -b -o cat -u 'lossless-roce@*'")
    assert again.count("as declared: ens") == 2 and " -> " not in again

    drift = ansible.drift()
    assert drift.rc == 0 and drift.recap("changed") == 0, drift.output
    found = [f for f in ansible.findings("drift") if f["host"] == "node2"]
    assert [f["verdict"] for f in found if f["check"] == "on_disk"] == ["pass"]
    pfc = next(f for f in found if f["check"] == "pfc")
    assert pfc["layers"]["on_disk"] == pfc["layers"]["declared"] == pfc["layers"]["running"]


def test_a_port_that_appears_again_gets_its_settings_back(node2: Node, restored: None) -> None:
    """A driver reload: the netdev is made anew, and udev starts the program for it."""
    device, driver = node2.check("cd /sys/class/net/ens1np0/device && readlink -f . driver").split()
    address = device.rpartition("/")[2]
    node2.check(f"echo {address} > {driver}/unbind && echo {address} > {driver}/bind")
    node2.check("udevadm settle")
    # The unit waits for the RDMA device; this waits for the unit.
    node2.check("for i in $(seq 60); do systemctl is-active -q 'lossless-roce@*' || break; sleep 1; done", timeout=90)
    node2.check("timeout 80 sh -c 'until lossless-roce check; do sleep 1; done'", timeout=90)
    assert_declared(node2)
    # PFC is the firmware's and survives a reload of the driver; these do not.
    journal = node2.check("journalctl -b -o cat -u 'lossless-roce@*'")
    assert "ens1np0: mtu: {'mtu': 1500} -> {'mtu': 9000}" in journal and "ens1np0: ets: " in journal


def test_a_saved_policy_that_differs_is_drift(ansible: Ansible, node2: Node, saved: str) -> None:
    other = json.loads(saved)
    other["policies"][0]["policy"]["mtu"] = 4200
    node2.ssh(f"cat > {PATH}", stdin=json.dumps(other))
    assert ansible.drift().rc != 0
    failed = [f for f in ansible.findings("drift") if f["verdict"] == "fail"]
    assert [(f["host"], f["check"]) for f in failed] == [("node2", "on_disk")]
    assert "would come back after the next boot" in failed[0]["cause"]
    mtu = [f for f in ansible.findings("drift") if f["host"] == "node2" and f["check"] == "mtu"]
    assert {f["layers"]["on_disk"]["mtu"] for f in mtu} == {4200} and {f["verdict"] for f in mtu} == {"pass"}
    repair = ansible.drift(enforce=True)
    assert repair.rc == 0 and repair.recap("changed") == 1, repair.output
    assert node2.check(f"cat {PATH}") == saved


def test_a_broken_file_and_a_held_lock_are_one_clear_line(node2: Node, saved: str) -> None:
    node2.ssh(f"cat > {PATH}", stdin='{"format": 1, "policies": [}')
    assert node2.ssh(f"systemctl restart {UNIT}", timeout=120).rc != 0
    assert UNIT in node2.check("systemctl --failed --no-legend")
    said = node2.check(f"journalctl -o cat -n 6 -u {UNIT}")
    assert f"{PATH}: is not JSON: " in said and "line 1 column 28" in said and "Traceback" not in said
    node2.ssh(f"cat > {PATH}", stdin=saved)
    node2.check("dcb pfc set dev ens2np0 prio-pfc all:off")

    held = node2.ssh("flock /run/lossless-roce.lock lossless-roce apply --wait 2", timeout=60)
    assert held.rc == 2 and "another run has held the node for 2 s" in held.err
    assert stock.lossless_prios(node2, "ens2np0") == []
    node2.check("(flock /run/lossless-roce.lock sleep 5 &) ; sleep 1; lossless-roce apply", timeout=90)
    assert stock.lossless_prios(node2, "ens2np0") == [3], "once the other run is done, this one goes on"
