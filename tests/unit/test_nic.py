# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The policy's field nic, and the settings that come of it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import NotApplicable, PolicyError, Unreadable
from ansible_collections.lossless.roce.plugins.module_utils.node import Options, converge
from ansible_collections.lossless.roce.plugins.module_utils.policy import nic_state, parse_policy
from ansible_collections.lossless.roce.plugins.module_utils.ports import Port
from ansible_collections.lossless.roce.plugins.module_utils.settings.pcie import Pcie, device_control, register_bits
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import SETTINGS, policy_state
from ansible_collections.lossless.roce.plugins.module_utils.settings.rings import Rings
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st
from sim_node import SimNode, SimPort

ADDRESS = "0000:17:00.0"
PORT = Port("mlx5_0", 1, "ens1np0", pci=ADDRESS)


def run(node: SimNode, nic: dict[str, t.Any], **options: t.Any) -> t.Any:
    """One run with the field nic alone."""
    return converge(node, list(node.ports), SETTINGS, nic_state(nic), Options(**options))


def commands(node: SimNode, nic: dict[str, t.Any]) -> list[str]:
    """What a run did."""
    result = run(node, nic)
    assert result.failed() == {}
    return [" ".join(words) for words in result.as_dict()["commands"]]


def test_nothing_named_is_nothing_touched() -> None:
    state = policy_state(parse_policy({}))
    assert not {"rings", "channels", "coalesce", "features", "priv_flags", "pcie"} & set(state)
    assert policy_state(parse_policy({"nic": {"rings": {"rx": None}, "channels": {}}})) == state


def test_only_what_differs_of_what_is_named_is_set() -> None:
    node = SimNode({"ens1np0": SimPort("mlx5_0")})
    nic = {
        "rings": {"rx": "8192", "tx": 1024},
        "coalesce": {"adaptive_rx": False, "rx_usecs": 8, "rx_frames": 3},
        "features": {"rx-gro-hw": "on", "generic-receive-offload": True},
        "priv_flags": {"rx_cqe_compress": True},
    }
    assert commands(node, nic) == [
        "ethtool -G ens1np0 rx 8192",
        "ethtool --set-priv-flags ens1np0 rx_cqe_compress on",
        "ethtool -C ens1np0 adaptive-rx off",
        "ethtool -C ens1np0 rx-usecs 8 rx-frames 3",
        "ethtool -K ens1np0 rx-gro-hw on",
    ]
    assert commands(node, nic) == []
    assert run(node, nic).as_dict()["ports"]["ens1np0"]["rings"] == {"rx": 8192, "tx": 1024}


@pytest.mark.parametrize(
    ("nic", "said"),
    [
        ({"rings": {"rx": 16384}}, "ens1np0: rings: rx is 16384 … at most 8192 was expected"),
        ({"channels": {"combined": 64}}, "ens1np0: channels: combined is 64 … at most 63 was expected"),
        ({"features": {"rx-fcs": True}}, "features: rx-fcs is fixed off by the driver … on is asked for"),
        ({"features": {"rx-gor": True}}, "features: the driver does not offer 'rx-gor'"),
        ({"priv_flags": {"rx_cqe_zip": False}}, "priv_flags: the driver does not offer 'rx_cqe_zip'"),
    ],
)
def test_what_the_device_cannot_do_is_refused_before_anything_is_applied(nic: dict[str, t.Any], said: str) -> None:
    node = SimNode({"ens0np0": SimPort("mlx5_0"), "ens1np0": SimPort("mlx5_1")})
    node.ports["ens0np0"].features |= {"rx-gor": False}
    node.ports["ens0np0"].flags |= {"rx_cqe_zip": True}
    with pytest.raises(PolicyError) as caught:
        run(node, {"rings": {"tx": 2048}, **nic})
    assert said.removeprefix("ens1np0: ") in str(caught.value)
    assert node.sets == []


@pytest.mark.parametrize(
    ("nic", "said"),
    [
        ([], "nic: [] … a mapping was expected"),
        ({"ring": {}}, "nic: unknown field 'ring' … one of rings, channels"),
        ({"rings": 5}, "nic.rings: 5 … a mapping was expected"),
        ({"rings": {"rx": 1000}}, "nic.rings.rx: 1000 … a power of two, 64 to 65536, was expected"),
        ({"rings": {"rx": True}}, "nic.rings.rx: True … a power of two"),
        ({"rings": {"mini": 1}}, "nic.rings: unknown field 'mini' … one of rx, tx was expected"),
        ({"channels": {"combined": 0}}, "nic.channels.combined: 0 … 1 to 1024 was expected"),
        ({"coalesce": {"rx_usecs": -1}}, "nic.coalesce.rx_usecs: -1 … 0 to 65535 was expected"),
        ({"coalesce": {"adaptive_rx": True, "rx_usecs": 1}}, "rx_usecs is given and adaptive_rx is on"),
        ({"features": {"--x": True}}, "nic.features: '--x' … a name as ethtool prints it"),
        ({"features": {"x": 5}}, "nic.features.x: 5 … true or false was expected"),
        ({"max_read_request": 300}, "nic.max_read_request: 300 … 512, 1024, 2048 or 4096 was expected"),
    ],
)
def test_wrong_input_is_one_clear_problem(nic: t.Any, said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy({"nic": nic})
    assert said in str(caught.value)


def test_each_wrong_value_is_named() -> None:
    with pytest.raises(PolicyError, match=r"rings\.rx: 1000 .*; nic\.max_read_request: 1 "):
        parse_policy({"nic": {"rings": {"rx": 1000}, "max_read_request": 1}})


def test_channels_and_queues_of_mqprio_must_be_the_same() -> None:
    mqprio = {"num_tc": 2, "map": [0, 1], "queues": ["4@0", "4@4"], "hw": True, "mode": "channel"}
    with pytest.raises(PolicyError, match="has 8 queues, nic.channels.combined is 10"):
        parse_policy({"mqprio": mqprio, "nic": {"channels": {"combined": 10}}})


def test_mqprio_lets_go_of_the_channels_and_comes_back() -> None:
    node = SimNode({"ens1np0": SimPort("mlx5_0", host_dcbx=True)})

    def policy(each: int) -> t.Any:
        queues = [f"{each}@0", f"{each}@{each}"]
        mqprio = {"num_tc": 2, "map": [0, 1], "queues": queues, "hw": True, "mode": "channel"}
        return policy_state(parse_policy({"mqprio": mqprio, "nic": {"channels": {"combined": 2 * each}}}))

    assert converge(node, ["ens1np0"], SETTINGS, policy(4), Options()).failed() == {}
    done = converge(node, ["ens1np0"], SETTINGS, policy(6), Options()).as_dict()
    assert [" ".join(words[:3]) for words in done["commands"]] == ["tc qdisc del", "ethtool -L ens1np0", "tc qdisc add"]
    with pytest.raises(PolicyError, match="root qdisc mqprio holds the present 12"):
        run(node, {"channels": {"combined": 8}})


def test_a_driver_without_the_feature_is_skipped_and_a_listing_without_values_is_unknown() -> None:
    lacking = (1, "[ ]", "netlink error: Operation not supported")
    host = FakeHost(outputs={"ethtool --json -g ens1np0": lacking})
    with pytest.raises(NotApplicable, match="does not offer 'ethtool -g'"):
        Rings().read(host, PORT)  # type: ignore[arg-type]
    host.outputs["ethtool --json -g ens1np0"] = '[{"ifname":"ens1np0","rx-max":1024}]'
    with pytest.raises(Unreadable, match="no current sizes"):
        Rings().read(host, PORT)  # type: ignore[arg-type]


def test_a_register_that_a_port_does_not_have_is_skipped_in_a_policy_and_an_error_by_name() -> None:
    node = SimNode({"ens1np0": SimPort("mlx5_0", host_dcbx=True)})
    wanted = policy_state(parse_policy({"nic": {"max_read_request": 4096}}))
    result = converge(node, ["ens1np0"], SETTINGS, wanted, Options()).as_dict()
    assert result["failed_ports"] == {} and "pcie" in result["not_applicable"]["ens1np0"]
    assert {f["verdict"] for f in result["findings"] if f["check"] == "pcie"} == {"skipped"}
    assert "is no PCI function" in run(node, {"max_read_request": 4096}, strict=True).message()


# -- PCIe ----------------------------------------------------------------------------------------


def pci_host(answer: t.Any) -> t.Any:
    """A node where the port is a PCI function whose register reads so."""
    files = {f"/sys/bus/pci/devices/{ADDRESS}/vendor": "0x15b3\n"}
    return FakeHost(files, {f"setpci -s {ADDRESS} CAP_EXP+8.w": answer})


def test_the_device_control_register() -> None:
    assert Pcie().read(pci_host("5936\n"), PORT) == {"max_read_request": 4096, "relaxed_ordering": True}
    assert device_control(0x2926) == {"max_read_request": 512, "relaxed_ordering": False}
    wanted = {"max_read_request": 4096, "relaxed_ordering": True}
    (operation,) = Pcie().operations(PORT, wanted, {"pcie": device_control(0x2926)})
    assert operation.shown() == ["setpci", "-s", ADDRESS, "CAP_EXP+8.w=5010:7010"]
    (operation,) = Pcie().operations(PORT, wanted, {"pcie": device_control(0x5926)})
    assert operation.shown()[-1] == "CAP_EXP+8.w=0010:0010"


@given(st.integers(0, 0xFFFF), st.sampled_from([512, 1024, 2048, 4096]), st.booleans())
def test_only_the_meant_bits_change(word: int, size: int, ordering: bool) -> None:
    value, mask = register_bits({"max_read_request": size, "relaxed_ordering": ordering})
    written = word & ~mask | value
    assert device_control(written) == {"max_read_request": size, "relaxed_ordering": ordering}
    assert written & ~0x7010 == word & ~0x7010


@pytest.mark.parametrize("port", [PORT, Port("mlx5_0", 1, "ens1np0"), Port("x", 1, "y", kind="virtual function")])
def test_what_has_no_such_register(port: Port) -> None:
    with pytest.raises(NotApplicable):
        Pcie().read(FakeHost(), port)  # type: ignore[arg-type]
    with pytest.raises(NotApplicable, match="no PCI Express capability"):
        Pcie().read(pci_host((1, "", "setpci: Capability 0010 not found")), PORT)
    with pytest.raises(Unreadable, match="a hexadecimal word was expected"):
        Pcie().read(pci_host(""), PORT)
