# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Texts that no tool should print: deep nesting, endless numbers, long lines. A ParseError at worst, and soon."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.checks import containers, image, neighbours
from ansible_collections.lossless.roce.plugins.module_utils.containers import cdi
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.parsers import (
    acs,
    addresses,
    dcb,
    dmesg,
    driver,
    ethtool,
    gids,
    ib_tools,
    ip_link,
    iptables,
    lldp,
    lspci,
    mlnx_qos,
    mstconfig,
    nft,
    nvidia_topo,
    rdma,
    statistics,
    tc,
)
from ansible_collections.lossless.roce.plugins.module_utils.parsers.ruleset import Packet
from fake_host import FakeHost

PARSERS: list[t.Callable[[str], t.Any]] = [
    acs.parse_acs,
    addresses.parse_addresses,
    addresses.parse_networks,
    cdi.named_devices,
    dcb.parse_app_dscp,
    dcb.parse_buffer,
    dcb.parse_dcbx,
    dcb.parse_ets,
    dcb.parse_pfc,
    dmesg.parse_pcie_limits,
    driver.parse_devlink_params,
    driver.parse_ethtool_firmware,
    driver.parse_modinfo,
    driver.parse_netns_mode,
    ethtool.parse_channels,
    ethtool.parse_coalesce,
    ethtool.parse_driver,
    ethtool.parse_features,
    ethtool.parse_module,
    ethtool.parse_pause,
    ethtool.parse_priv_flags,
    ethtool.parse_rings,
    gids.parse_devinfo,
    gids.parse_show_gids,
    ib_tools.parse_ibdev2netdev,
    ib_tools.parse_ibstat,
    ib_tools.parse_ibstatus,
    ib_tools.parse_ibv_devinfo,
    image.parse_facts,
    ip_link.parse_max_mtu,
    iptables.parse_iptables,
    lldp.parse_neighbours,
    lspci.parse_lspci,
    mlnx_qos.parse_mlnx_qos,
    mstconfig.parse_query,
    mstconfig.parse_query_json,
    neighbours.parse_sources,
    nft.parse_nft,
    nvidia_topo.parse_topology,
    rdma.parse_links,
    rdma.parse_user_qps,
    statistics.parse_statistics,
    tc.parse_root_qdisc,
]
WHERE = '"family":"inet","table":"filter"'
NINES = "9" * 5000
DEEP = ["[" * depth + "]" * depth for depth in (500, *range(940, 1010, 3), 100_000)]
HOSTILE = [
    *DEEP,
    *(f'{{"prio_pfc":{text},"dscp_prio":{text},"nftables":{text},"devices":{text}}}' for text in DEEP),
    *(f'[{{"ifname":{text},"mtu":{text},"addr_info":{text},"kind":"mqprio","root":true,"options":{{"map":{text}}}}}]'
      for text in DEEP),
    '{"a":' * 100_000,
    NINES,
    f"[{NINES}]",
    f'[{{"ifname":"mlx5_{NINES}","port":1,"mtu":{NINES}}}]',
    f'[{{"ifname":"mlx5_{NINES}","port":1}}]',
    f"link mlx5_0/{NINES} state ACTIVE\n",
    f"link mlx5_{NINES}/1 state ACTIVE\n",
    f"CA 'mlx5_{NINES}'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 100\n",
    f"Infiniband device 'mlx5_{NINES}' port 1 status:\n",
    f"mlx5_{NINES} port 1 ==> ens1np0 (Up)\n",
    f"hca_id: mlx5_{NINES}\n  port: 1\n    active_mtu: {NINES}\n",
    f"\tGPU0\tmlx5_{NINES}\nGPU0\tX\tPIX\nmlx5_{NINES}\tPIX\tX\n",
    f"prio-pfc {' '.join(f'{prio}:on' for prio in range(8))}\npfc-cap {NINES} delay {NINES}\n",
    f"Pre-set maximums:\nRX: {NINES}\nTX: 1\nCombined: 1\nCurrent hardware settings:\nRX: {NINES}\nCombined: {NINES}\n",
    f"rx-usecs: {NINES}\n",
    f"*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport {NINES} -j DROP\nCOMMIT\n",
    f"qdisc mqprio 8001: root tc {NINES} map {NINES}\n",
]  # fmt: skip
# What a pattern with two ways to go on takes the square of its length for, or more.
LONG = [
    piece * 100_000
    for piece in (" ", "\t", "\n", "a", "a ", "0", "0:", "9.", " :", ": ", "on", "-", "X ", "GPU", ",", "*", "'")
]


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
def test_hostile_text_is_a_parse_error_at_worst(parse: t.Callable[[str], t.Any]) -> None:
    for text in HOSTILE:
        try:
            parse(text)
        except ParseError as exc:
            assert len(str(exc)) < 1000


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
def test_a_long_line_does_not_take_long(parse: t.Callable[[str], t.Any]) -> None:
    for text in LONG:
        before = time.process_time()
        try:
            parse(text)
        except ParseError as exc:
            assert len(str(exc)) < 1000
        assert time.process_time() - before < 2, f"{text[:6]!r}…"


@pytest.mark.parametrize("depth", [100, 300, 450])
def test_an_expression_of_nft_within_itself_is_not_open(depth: int) -> None:
    left, right = ('{"concat":[' * depth + inner + "]}" * depth for inner in ('{"meta":{"key":"mark"}}', "1"))
    rule = f'{{"expr":[{{"match":{{"op":"==","left":{left},"right":{right}}}}},{{"drop":null}}],{WHERE},"chain":"c"}}'
    chain = f'{{{WHERE},"name":"c","type":"filter","hook":"input"}}'
    try:
        ruleset, _opaque = nft.parse_nft(f'{{"nftables":[{{"chain":{chain}}},{{"rule":{rule}}}]}}')
    except ParseError:
        return
    assert ruleset.decide(Packet("tcp", 18515, "ens1np0")).state == "unknown"


@pytest.mark.parametrize("output", [DEEP[-1], f"[{NINES}]", "garbage"])
def test_what_an_engine_prints_of_its_containers_may_be_anything(output: str) -> None:
    host = FakeHost(outputs={"docker ps -q": "1\n", "docker inspect 1": output})
    (found,) = containers._containers(host, "docker", (), "shared")
    assert found.verdict == "unknown" and "docker inspect" in found.cause
