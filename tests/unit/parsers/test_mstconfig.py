# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""mstconfig's output, recorded and garbled; values in all the ways in which people write them."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.parsers import driver
from ansible_collections.lossless.roce.plugins.module_utils.parsers.mstconfig import (
    Parameter,
    Query,
    as_argument,
    parse_query,
    parse_query_json,
    same_value,
    split_value,
)
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parents[1] / "recorded" / "cases"

TWO_DEVICES = """
Device #1:
----------

Device type:        ConnectX7
Name:               MCX75310AAS-NEA_Ax
Description:        NVIDIA ConnectX-7 HHHL Adapter Card; 400GbE
Device:             0000:17:00.0

Configurations:                                          Default             Current         Next Boot
        MEMIC_BAR_SIZE                              0                   0                   0
 RO     NUM_OF_PLANES_P1                            0                   0                   0
*       LINK_TYPE_P1                                IB(1)               IB(1)               ETH(2)
        HOST_CHAINING_DESCRIPTORS                   Array[0..7]         Array[0..7]         Array[0..7]
        PORT_OWNER                                  N/A                 N/A                 True(1)
*RO     SERIAL_BYTES                                0x0011223344556677889900112233445566 0x00 0x01
The '*' shows parameters with next value different from default/current value.

The 'RO' shows parameters which are for read only and cannot be changed

Device #2:
----------

Device type:        ConnectX6DX
Name:               N/A
Description:        N/A
Device:             0000:31:00.0

Configurations:                                      Next Boot
         LINK_TYPE_P1                        ETH(2)
"""


def parameters(text: str, device: int = 0) -> dict[str, Parameter]:
    """Parameters of one block."""
    return parse_query(text).devices[device].parameters


def test_d20_current_differs_from_next_boot() -> None:
    found = parameters((CASES / "d20-mlxconfig-pending.txt").read_text())
    assert len(found) == 13
    assert found["CRYPTO_POLICY"] == Parameter(
        "CRYPTO_POLICY", "UNRESTRICTED(1)", "DEVICE_DEFAULT(0)", "UNRESTRICTED(1)"
    )
    assert [name for name, parameter in found.items() if parameter.reset_pending()] == ["CRYPTO_POLICY"]
    assert found["ROCE_CC_PRIO_MASK_P2"].next_boot == "255"


def test_d22_one_column_is_the_next_boot_and_pending_is_unknown() -> None:
    found = parameters((CASES / "d22-mlxconfig-one-column.txt").read_text())
    assert len(found) == 14
    assert {parameter.reset_pending() for parameter in found.values()} == {None}
    assert found["CNP_DSCP_P1"] == Parameter("CNP_DSCP_P1", "48")
    assert found["CNP_802P_PRIO_P1"].next_boot == "6"


def test_d24_unsupported_devices() -> None:
    query = parse_query((CASES / "d24-mstconfig-unsupported.txt").read_text())
    assert query == Query([], ["Unsupported device", "Unsupported device"])


def test_blocks_marks_arrays_and_what_is_not_available() -> None:
    query = parse_query(TWO_DEVICES)
    assert [(device.address, device.device_type) for device in query.devices] == [
        ("0000:17:00.0", "ConnectX7"),
        ("0000:31:00.0", "ConnectX6DX"),
    ]
    first, second = (device.parameters for device in query.devices)
    assert first["NUM_OF_PLANES_P1"].read_only and first["SERIAL_BYTES"].read_only
    assert not first["LINK_TYPE_P1"].read_only and first["LINK_TYPE_P1"].reset_pending()
    assert first["HOST_CHAINING_DESCRIPTORS"].next_boot == "Array[0..7]"
    assert first["PORT_OWNER"] == Parameter("PORT_OWNER", "True(1)")
    assert second == {"LINK_TYPE_P1": Parameter("LINK_TYPE_P1", "ETH(2)")}


def test_two_columns_are_told_apart_by_their_header_only() -> None:
    row = "        LINK_TYPE_P1     IB(1)      ETH(2)\n"
    with_header = "Configurations:          Current         Next Boot\n" + row
    assert parameters(with_header) == {"LINK_TYPE_P1": Parameter("LINK_TYPE_P1", "ETH(2)", "IB(1)")}
    with pytest.raises(ParseError):
        parse_query(row)


def test_colours_do_not_matter() -> None:
    assert parameters("\x1b[31m*\x1b[0m  CNP_DSCP_P1   48  48  46\n")["CNP_DSCP_P1"].next_boot == "46"


def test_an_error_within_a_block() -> None:
    query = parse_query(
        "\nDevice #1:\n----------\n\nDevice:   0000:17:00.0\n\n-E- The Device doesn't support X parameter\n"
    )
    assert query.errors == ["The Device doesn't support X parameter"]
    assert query.devices[0].parameters == {}


def test_the_json_file() -> None:
    entry = {
        "device_type": "ConnectX7",
        "device": "0000:17:00.0",
        "tlv_configuration": {
            "ROCE_CC_PRIO_MASK_P1": {"next_value": 255, "default_value": 255, "current_value": 0, "read_only": False},
            "SRIOV_EN": {"next_value": "True(1)", "read_only": True, "current_value": "N/A"},
        },
    }
    (device,) = parse_query_json(json.dumps({"Device #1": entry})).devices
    assert device.address == "0000:17:00.0"
    assert device.parameters["ROCE_CC_PRIO_MASK_P1"] == Parameter("ROCE_CC_PRIO_MASK_P1", "255", "0", "255")
    assert device.parameters["SRIOV_EN"] == Parameter("SRIOV_EN", "True(1)", read_only=True)


@pytest.mark.parametrize(
    ("wanted", "shown", "same"),
    [
        (2, "ETH(2)", True),
        ("2", "ETH(2)", True),
        ("0x2", "ETH(2)", True),
        ("eth", "ETH(2)", True),
        ("ETH(2)", "ETH(2)", True),
        ("ETH(2)", "2", True),
        ("IB", "ETH(2)", False),
        (True, "True(1)", True),
        ("true", "True(1)", True),
        (1, "True(1)", True),
        (False, "True(1)", False),
        (255, "255", True),
        ("255", "0xff", True),
        (25, "255", False),
        ("_8_TCs", "_8_TCs(0)", True),
        (0, None, False),
        ("٢", "ETH(2)", False),
    ],
)
def test_a_value_is_compared_by_both_of_its_parts(wanted: t.Any, shown: str | None, same: bool) -> None:
    assert same_value(wanted, shown) is same


def test_what_goes_to_the_tool() -> None:
    values = (2, "0x10", "ETH", "ETH(2)", True, "False")
    assert [as_argument(value) for value in values] == ["2", "0x10", "ETH", "2", "1", "False"]


@given(text=st.text(alphabet="ABCxyz_0123456789", min_size=1), number=st.integers(0, 2**32 - 1))
def test_both_parts_of_any_shown_value_match_it(text: str, number: int) -> None:
    shown = f"{text}({number})"
    assert split_value(shown) == (text, number)
    assert same_value(number, shown) and same_value(shown, shown) and same_value(hex(number), shown)
    assert same_value(as_argument(shown), shown)


SEEDS = [
    TWO_DEVICES,
    *((CASES / name).read_text() for name in ("d20-mlxconfig-pending.txt", "d24-mstconfig-unsupported.txt")),
    '{"Device #1":{"device":"0000:17:00.0","tlv_configuration":{"A":{"next_value":1}}}}',
    '{"param":{"pci/X":[{"name":"enable_roce","values":[{"cmode":"driverinit","value":true}]}]}}',
    '{"info":{"pci/X":{"versions":{"fixed":{"fw.psid":"MT_1"},"running":{"fw.version":"28.39.1002"}}}}}',
    "filename: /lib/x.ko\nname: x\nparm: a:b (int)\n",
    "firmware-version: 28.39.1002 (MT_0000000838)\n",
    "netns shared privileged-qkey off\n",
]
PARSERS = [
    parse_query,
    parse_query_json,
    driver.parse_modinfo,
    driver.parse_netns_mode,
    driver.parse_devlink_params,
    lambda text: driver.parse_devlink_versions(text, "pci/X"),
    driver.parse_ethtool_firmware,
]


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.one_of(st.sampled_from(SEEDS), st.text()), cut=st.integers(0, 1500), noise=st.text(max_size=4))
def test_garbled_output_is_a_parse_error_at_worst(
    parse: t.Callable[[str], t.Any], text: str, cut: int, noise: str
) -> None:
    garbled = text[:cut] + noise + text[cut + len(noise) :]
    for candidate in (garbled, text[:cut], text.replace("[", "{").replace("]", "}"), "null", "[1]", '{"Device #1": 1}'):
        try:
            parse(candidate)
        except ParseError as exc:
            assert str(exc)


@given(noise=st.text(max_size=6), place=st.integers(0, 1200))
def test_a_garbled_query_invents_no_value(noise: str, place: int) -> None:
    """Whatever is inserted: a parameter is as printed, or its line holds the noise, or it is not there."""
    clean = parameters(TWO_DEVICES)
    touched = {
        name
        for name in clean
        for start in [TWO_DEVICES.index(name)]
        if TWO_DEVICES.rfind("\n", 0, start) <= place <= TWO_DEVICES.find("\n", start) + 1
    }
    header = TWO_DEVICES.index("Configurations:") <= place <= TWO_DEVICES.index("        MEMIC") + 8
    if header or "Device" in noise or place < TWO_DEVICES.index("Configurations:"):
        return
    found = parse_query(TWO_DEVICES[:place] + noise + TWO_DEVICES[place:]).devices[0].parameters
    for name, parameter in found.items():
        if name in clean and name not in touched:
            assert parameter == clean[name]


def test_modules_of_one_modinfo() -> None:
    text = (
        "filename:       /lib/modules/6.8.0/updates/dkms/mlx5_core.ko.zst\nversion:        24.10-1.1.4\n"
        "srcversion:     ABC123\nname:           mlx5_core\nparm:           prof_sel:profile selector (uint)\n"
        "filename:       /lib/modules/6.8.0/kernel/rdma-cm.ko\nlicense: GPL\nname: rdma_cm\n"
        "name:           ib_core\nfilename:       (builtin)\nlicense: GPL\n"
    )
    found = driver.parse_modinfo(text)
    assert found["mlx5_core"].version == "24.10-1.1.4" and found["mlx5_core"].parameters == ("prof_sel",)
    assert found["mlx5_core"].srcversion == "ABC123"
    assert list(found) == ["mlx5_core", "rdma_cm", "ib_core"]
    assert found["ib_core"].builtin and not found["rdma_cm"].builtin


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("netns shared privileged-qkey off monitor on copy-on-fork on\n", "shared"),
        ('[{"netns":"exclusive","copy-on-fork":true}]', "exclusive"),
        ('[ {"netns" : "shared"} ]', "shared"),
    ],
)
def test_the_mode_of_namespaces_as_json_and_as_text(text: str, mode: str) -> None:
    assert driver.parse_netns_mode(text) == mode


def test_devlink_shapes() -> None:
    text = json.dumps(
        {"param": {"pci/X": [{"name": "a", "values": [{"cmode": "runtime", "value": "smfs", "default": 1}]}]}}
    )
    assert driver.parse_devlink_params(text) == {"pci/X": {"a": {"runtime": "smfs"}}}
    info = {"versions": {"running": {"fw": "28.39.1002"}, "stored": {"fw.version": "28.42.1000"}}}
    found = driver.parse_devlink_versions(json.dumps({"info": {"pci/X": info}}), "pci/X")
    assert found == {"psid": "", "running": "28.39.1002", "stored": "28.42.1000"}


def test_firmware_by_ethtool() -> None:
    text = "driver: mlx5_core\nfirmware-version: 28.39.1002 (MT_0000000838)\nbus-info: 0000:17:00.0\n"
    found = driver.parse_ethtool_firmware(text)
    assert found == {"psid": "MT_0000000838", "running": "28.39.1002", "stored": ""}
