# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What must not be touched: the port of the management connection, whichever way it is found."""

from __future__ import annotations

import json

from ansible_collections.lossless.roce.plugins.module_utils.guards import busy_ports, management_netdevs
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from fake_host import FakeHost

ADDRESSES = {
    "ip -j address show": json.dumps(
        [
            {"ifname": "bond0", "addr_info": [{"local": "192.0.2.5"}]},
            {"ifname": "ens1np0", "addr_info": [{"local": "198.51.100.1"}]},
        ]
    )
}
SSH = "192.0.2.9 50000 192.0.2.5 22"


def test_the_connection_is_found_behind_sudo_and_below_a_bond() -> None:
    files = {
        "/proc/1000/environ": "PATH=/bin\0",
        "/proc/1000/stat": "1000 (python3 (x) y) S 900 1 1",
        "/proc/900/environ": f"HOME=/root\0SSH_CONNECTION={SSH}\0",
        "/sys/class/net/bond0/lower_ens9np0/mtu": "1500",
    }
    reasons = management_netdevs(FakeHost(files, ADDRESSES))
    assert set(reasons) == {"bond0", "ens9np0"}
    assert "192.0.2.5" in reasons["bond0"]
    assert "bond0 is on top of it" in reasons["ens9np0"]


def test_the_connection_in_the_own_environment() -> None:
    host = FakeHost({}, ADDRESSES)
    host.environment["SSH_CONNECTION"] = SSH.replace("192.0.2.5", "198.51.100.1")
    assert set(management_netdevs(host)) == {"ens1np0"}


def test_only_the_default_route_counts_among_routes() -> None:
    route = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eno1\t00000000\t010200C0\t3\t0\t0\t0\t00000000\n"
        "ens1np0\t006433C6\t00000000\t1\t0\t0\t0\t00FFFFFF\n"
    )
    assert management_netdevs(FakeHost({"/proc/net/route": route})) == {"eno1": "the default route uses it"}


def test_a_console_without_routes_reserves_nothing() -> None:
    assert management_netdevs(FakeHost()) == {}


def test_what_cannot_be_found_out_counts_as_busy() -> None:
    host = FakeHost(outputs={"rdma -j resource show qp": (1, "", "Operation not supported")})
    assert "could not be found out" in busy_ports(host, [Port("mlx5_0", 1, "ens1np0")])["ens1np0"]
