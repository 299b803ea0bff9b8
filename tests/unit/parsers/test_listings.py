# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Listings of RDMA devices, PCI functions, the kernel's log and nvidia-smi's matrix, recorded and garbled."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.parsers import dmesg, ethtool, ib_tools, lspci, nvidia_topo
from hypothesis import example, given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"


def case(name: str) -> str:
    """Text of a recorded case."""
    return (CASES / name).read_text()


# -- RDMA devices --------------------------------------------------------------------------------


def test_d03_infiniband_and_ethernet_ports_in_natural_order() -> None:
    ports = ib_tools.parse_ibdev2netdev(case("d03-mixed-ib-eth-ports.txt"))
    assert [port["ibdev"] for port in ports] == [f"mlx5_{index}" for index in range(12)]
    ethernet = {port["ibdev"]: port["up"] for port in ports if not port["infiniband"]}
    assert ethernet == {"mlx5_1": True, "mlx5_2": False, "mlx5_7": True, "mlx5_8": False}
    assert {port["up"] for port in ports if port["infiniband"]} == {None}


def test_ibdev2netdev_with_details() -> None:
    line = "0000:17:00.0 mlx5_0 (MT4129 - MCX75310AAS-NEAT) card (x) fw 28.39.1002 port 1 (ACTIVE) ==> ens1np0 (Up)\n"
    assert ib_tools.parse_ibdev2netdev(line) == [
        {"ibdev": "mlx5_0", "port": 1, "netdev": "ens1np0", "infiniband": False, "up": True}
    ]


def test_ibdev2netdev_pads_the_state_of_a_port() -> None:
    line = "0000:0c:00.0 mlx5_5 (MT4129 - MCX7) ConnectX-7 fw 28.39.1002 port 1 (DOWN  ) ==> enp12s0np0 (Down)\n"
    assert ib_tools.parse_ibdev2netdev(line) == [
        {"ibdev": "mlx5_5", "port": 1, "netdev": "enp12s0np0", "infiniband": False, "up": False}
    ]


def test_d05_a_rate_counts_only_where_the_port_is_active() -> None:
    devices = ib_tools.parse_ibstat(case("d05-ibstat-roce-names.txt"))
    seen = [(device["ibdev"], port["state"], port["gbps"]) for device in devices for port in device["ports"]]
    assert seen == [("roceP2p1s0f0", "Active", 200), ("roceP2p1s0f1", "Down", None), ("rocep1s0f0", "Active", 200)]
    assert {device["firmware"] for device in devices} == {"28.45.4028"}
    assert {port["link_layer"] for device in devices for port in device["ports"]} == {"Ethernet"}
    assert devices[0]["node_guid"] == "0200:00ff:fef9:4234"


def test_d07_a_node_guid_of_zero() -> None:
    (device,) = ib_tools.parse_ibstat(case("d07-ibstat-vf-node-guid-zero.txt"))
    assert (device["ibdev"], device["ca_type"], device["node_guid"]) == ("mlx5_8", "MT4126", "0000:0000:0000:0000")
    assert device["ports"][0]["gbps"] is None


def test_d27_a_bond_whose_rate_has_an_infiniband_name() -> None:
    assert ib_tools.parse_ibstatus(case("d27-ibstatus-roce.txt")) == [
        {
            "ibdev": "mlx5_bond_0",
            "port": 1,
            "state": "ACTIVE",
            "physical_state": "LinkUp",
            "gbps": 25.0,
            "link_layer": "Ethernet",
        }
    ]


def test_d13_a_port_whose_device_was_cut_off() -> None:
    assert ib_tools.parse_ibv_devinfo(case("d13-devinfo-gid-no-types.txt")) == [
        {"ibdev": "", "port": 1, "state": "ACTIVE", "link_layer": "Ethernet", "rdma_mtu": 4096, "gbps": 25.0}
    ]


def test_devinfo_of_two_devices_without_the_long_form() -> None:
    one = "hca_id:\t{}\n\ttransport:\tInfiniBand (0)\n\t\tport:\t1\n\t\t\tstate:\t{}\n\t\t\tlink_layer:\tEthernet\n"
    text = one.format("mlx5_10", "PORT_DOWN (1)") + "\n" + one.format("mlx5_9", "PORT_ACTIVE (4)")
    seen = [(port["ibdev"], port["state"], port["gbps"]) for port in ib_tools.parse_ibv_devinfo(text)]
    assert seen == [("mlx5_9", "ACTIVE", None), ("mlx5_10", "DOWN", None)]


# -- PCI and the kernel's log --------------------------------------------------------------------


def test_d15_the_link_of_a_bridge_above_the_card_limits_it() -> None:
    text = case("d15-dmesg-pcie-limited.txt")
    assert dmesg.parse_pcie_limits(text) == {
        "0001:43:00.0": {
            "gbps": 63.008,
            "at": "0001:42:01.0",
            "link": [8.0, 8],
            "capable_gbps": 126.016,
            "capable_link": [8.0, 16],
        }
    }
    assert dmesg.parse_firmware(text) == {"0001:43:00.0": "16.35.4030"}


def test_kernels_before_5_7_write_no_pcie_in_front_of_the_width() -> None:
    text = case("d15-dmesg-pcie-limited.txt")
    assert dmesg.parse_pcie_limits(text.replace("GT/s PCIe x", "GT/s x")) == dmesg.parse_pcie_limits(text) != {}


def test_d17_the_link_status_is_missing_and_so_unknown() -> None:
    (address, card), *others = lspci.parse_lspci(case("d17-lspci-mrrs.txt")).items()
    assert (address, others) == ("0000:b3:00.0", [])
    assert card["max_read_request"] == 4096 and card["max_payload"] == 256 and card["relaxed_ordering"] is True
    assert card["numa_node"] == 0 and card["capable"] == [16.0, 16] and card["link"] is None


def test_lspci_with_domain_link_status_and_no_rights() -> None:
    text = (
        "0001:b3:00.0 Ethernet controller: X\n\tCapabilities: <access denied>\n\n"
        "0001:b3:00.1 Ethernet controller: X\n\t\tDevCap: MaxPayload 512 bytes\n"
        "\t\tDevCtl: CorrErr-\n\t\t\tRlxdOrd- ExtTag+\n\t\t\tMaxPayload 128 bytes, MaxReadReq 512 bytes\n"
        "\t\tLnkCap: Port #0, Speed 32GT/s, Width x16\n\t\tLnkSta: Speed 16GT/s (downgraded), Width x8 (downgraded)\n"
    )
    parsed = lspci.parse_lspci(text)
    assert parsed["0001:b3:00.0"]["max_read_request"] is None and parsed["0001:b3:00.0"]["link"] is None
    other = parsed["0001:b3:00.1"]
    assert (other["max_payload"], other["max_read_request"], other["relaxed_ordering"]) == (128, 512, False)
    assert (other["capable"], other["link"]) == ([32.0, 16], [16.0, 8])


# -- nvidia-smi topo -m --------------------------------------------------------------------------


def test_e01_escape_codes_and_names_from_the_legend() -> None:
    topology = nvidia_topo.parse_topology(case("e01-hgx-b300-escape-codes.txt"))
    assert topology.nearest() == {f"GPU{index}": ("PXB", [f"mlx5_1{index}"]) for index in range(8)}
    assert topology.unattached() == ["mlx5_bond_0"]
    assert topology.distances["GPU0"]["NIC8"] == "SYS" and topology.distances["GPU4"]["NIC8"] == "NODE"


def test_e02_two_gpus_share_a_nic_whose_name_is_not_told() -> None:
    nearest = nvidia_topo.parse_topology(case("e02-four-gpu-two-nic.txt")).nearest()
    assert nearest == {
        "GPU0": ("PIX", ["NIC0"]),
        "GPU1": ("PIX", ["NIC0"]),
        "GPU2": ("PIX", ["NIC1"]),
        "GPU3": ("PIX", ["NIC1"]),
    }


def test_e04_reversed_order_and_a_front_end_nic() -> None:
    topology = nvidia_topo.parse_topology(case("e04-hgx-h100-reversed.txt"))
    assert topology.nearest() == {f"GPU{index}": ("PIX", [f"NIC{8 - index}"]) for index in range(8)}
    assert topology.unattached() == ["NIC0"]


def test_e06_device_names_as_columns_and_gpu1_is_not_gpu10() -> None:
    topology = nvidia_topo.parse_topology(case("e06-dgx2-old-layout.txt"))
    assert topology.nearest() == {
        "GPU0": ("PIX", ["mlx5_0"]),
        "GPU1": ("PIX", ["mlx5_0"]),
        "GPU2": ("PIX", ["mlx5_1"]),
        "GPU3": ("PIX", ["mlx5_1"]),
    }
    assert topology.distances["GPU0"]["mlx5_1"] == "PXB"
    assert topology.unattached() == [], "rows of the other GPUs are cut off"


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("host-a", ["rocep4s0f0", "rocep4s0f1", "rocep137s0f0", "rocep137s0f1"]),
        ("host-b", ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]),
    ],
)
def test_e08_two_hosts_one_of_them_with_a_head_without_separators(host: str, names: list[str]) -> None:
    topology = nvidia_topo.parse_topology(case(f"e08-two-hosts-other-names.{host}.txt"))
    assert topology.nearest() == {"GPU0": ("PHB", names[:2]), "GPU1": ("PHB", names[2:])}


def test_a_matrix_whose_rows_do_not_fit_its_columns_is_refused() -> None:
    text = case("e02-four-gpu-two-nic.txt").replace("GPU0    GPU1    GPU2", "GPU1    GPU0    GPU2")
    with pytest.raises(ParseError, match="with X under"):
        nvidia_topo.parse_topology(text)


# -- modules and rings ---------------------------------------------------------------------------


def test_c14_current_sizes_are_unknown_and_not_zero() -> None:
    assert ethtool.parse_rings(case("c14-rings-na-and-cut.txt")) == {
        "rx": None,
        "tx": None,
        "max": {"rx": 1024, "tx": 1024},
    }


def test_c16_a_cable_for_40_gbps_in_a_100_gbps_module() -> None:
    assert ethtool.parse_module(case("c16-cable-too-slow.txt")) == {"identifier": "QSFP28", "gbps": [25, 40]}


def test_d11_a_driver_without_firmware_and_bus() -> None:
    assert ethtool.parse_driver(case("d11-gids-none-veth.ethtool-i.txt")) == {
        "driver": "veth",
        "version": "1.0",
        "firmware-version": "",
        "bus-info": "",
    }


RINGS = (
    "Ring parameters for x:\nPre-set maximums:\nRX:\t8192\nTX:\t8192\nCurrent hardware settings:\nRX:\t1024\nTX: n/a\n"
)
COALESCE = "Coalesce parameters for x:\nAdaptive RX: off  TX: n/a\n\nrx-usecs:\t8\nrx-frames:\tn/a\n\ntx-usecs: 16\n"
FEATURES = "Features for x:\nrx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\nrx-gro-hw: off [requested on]\n"
FLAGS = "Private flags for x:\nrx_cqe_moder       : on\nrx_no_csum_complete: off\n"


def test_text_forms_with_values_that_are_not_there() -> None:
    assert ethtool.parse_rings(RINGS) == {"rx": 1024, "tx": None, "max": {"rx": 8192, "tx": 8192}}
    assert ethtool.parse_coalesce(COALESCE) == {"adaptive_rx": False, "rx_usecs": 8, "tx_usecs": 16}
    assert ethtool.parse_features(FEATURES) == {
        "rx-checksumming": True,
        "tx-checksum-ipv4": False,
        "rx-gro-hw": False,
        "fixed": ["tx-checksum-ipv4"],
    }
    assert ethtool.parse_priv_flags(FLAGS) == {"rx_cqe_moder": True, "rx_no_csum_complete": False}
    assert ethtool.parse_priv_flags("No private flags defined\n") == {}


def test_json_forms_say_the_same() -> None:
    rings = '[{"ifname":"x","rx-max":8192,"tx-max":8192,"rx":1024}]'
    assert ethtool.parse_rings(rings) == ethtool.parse_rings(RINGS)
    coalesce = '[{"ifname":"x","adaptive-rx":false,"rx-usecs":8,"tx-usecs":16}]'
    assert ethtool.parse_coalesce(coalesce) == ethtool.parse_coalesce(COALESCE)
    features = (
        '[{"ifname":"x","rx-checksumming":{"active":true,"fixed":false,"requested":true},'
        '"tx-checksum-ipv4":{"active":false,"fixed":true,"requested":false},'
        '"rx-gro-hw":{"active":false,"fixed":null,"requested":null}}]'
    )
    assert ethtool.parse_features(features) == ethtool.parse_features(FEATURES)


# -- garbled -------------------------------------------------------------------------------------

SEEDS = [
    *(path.read_text() for path in sorted(CASES.glob("[de]*.txt"))),
    case("c14-rings-na-and-cut.txt"),
    case("c16-cable-too-slow.txt"),
    RINGS,
    COALESCE,
    FEATURES,
    FLAGS,
    '[{"rx":1,"tx":true,"rx-max":"x","combined":1.5,"adaptive-rx":1,"rx-usecs":null,"x":{"active":null}}]',
]
PARSERS: list[t.Callable[[str], t.Any]] = [
    dmesg.parse_pcie_limits,
    dmesg.parse_firmware,
    ethtool.parse_coalesce,
    ethtool.parse_driver,
    ethtool.parse_features,
    ethtool.parse_module,
    ethtool.parse_priv_flags,
    ethtool.parse_rings,
    ib_tools.parse_ibdev2netdev,
    ib_tools.parse_ibstat,
    ib_tools.parse_ibstatus,
    ib_tools.parse_ibv_devinfo,
    lspci.parse_lspci,
    nvidia_topo.parse_topology,
]


@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
@given(text=st.sampled_from(SEEDS) | st.text(), cut=st.integers(0, 2000), noise=st.text(max_size=6))
def test_garbled_text_is_a_parse_error_at_worst(
    parse: t.Callable[[str], t.Any], text: str, cut: int, noise: str
) -> None:
    for candidate in (text[:cut] + noise + text[cut + len(noise) :], text[:cut], text.replace("1", "٣")):
        try:
            parse(candidate)
        except ParseError as exc:
            assert str(exc)


@example(cells=[["X", "PIX", "N/A", "PXB"], *[["N/A"] + 3 * ["PIX"]] * 2, ["PIX", "X", "PIX", "PIX"]], head="GPU0 GPU1")
@given(
    cells=st.lists(
        st.lists(st.sampled_from([*nvidia_topo.LEVELS, "X", "NV18", "N/A", "?"]), min_size=4, max_size=5),
        min_size=4,
        max_size=4,
    ),
    head=st.sampled_from(["GPU0 GPU1 NIC0 NIC1 CPU Affinity", "GPU0GPU1NIC0NIC1CPU Affinity", "", "GPU0 GPU1"]),
)
def test_any_matrix_is_refused_or_its_nearest_is_the_smallest_of_its_row(cells: list[list[str]], head: str) -> None:
    labels = ["GPU0", "GPU1", "NIC0", "NIC1"]
    text = "\n".join([head, *(" ".join([label, *row]) for label, row in zip(labels, cells, strict=True))])
    try:
        topology = nvidia_topo.parse_topology(text)
    except ParseError:
        return
    for gpu, (level, nics) in topology.nearest().items():
        row = cells[labels.index(gpu)]
        assert all(row[labels.index(nic)] == level for nic in nics)
        assert not any(word in nvidia_topo.LEVELS[: nvidia_topo.LEVELS.index(level)] for word in row[2:4])
