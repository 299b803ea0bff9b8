# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""GID tables: recorded listings, the choice of an index, and reading from sysfs."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.lossless.roce.plugins.module_utils.gids import read_gids
from ansible_collections.lossless.roce.plugins.module_utils.parsers.gids import (
    Gid,
    choose,
    parse_devinfo,
    parse_show_gids,
)
from fake_host import FakeHost
from hypothesis import given
from hypothesis import strategies as st

CASES = Path(__file__).parent / "recorded" / "cases"
PORT = "/sys/class/infiniband/mlx5_0/ports/1"


def case(name: str) -> str:
    """Text of a recorded case."""
    return (CASES / name).read_text()


def mapped(address: str) -> str:
    """The GID of an IPv4 address, as the kernel prints it."""
    one, two, three, four = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{one:02x}{two:02x}:{three:02x}{four:02x}"


def table(*gids: Gid, slots: int = 256) -> dict[str, str]:
    """The files of a port's GID table; an empty slot reads as zeros and has neither type nor netdev."""
    files = {f"{PORT}/gids/{index}": "0000:" * 7 + "0000\n" for index in range(slots)}
    for gid in gids:
        files[f"{PORT}/gids/{gid.index}"] = gid.gid + "\n"
        files[f"{PORT}/gid_attrs/types/{gid.index}"] = "RoCE v2\n" if gid.version == 2 else "IB/RoCE v1\n"
        files[f"{PORT}/gid_attrs/ndevs/{gid.index}"] = gid.netdev + "\n"
    return files


def test_d09_the_index_is_five_and_not_three() -> None:
    gids = parse_show_gids(case("d09-gids-index-5.txt"))
    assert [gid.index for gid in gids] == [0, 1, 2, 3, 4, 5]
    assert (gids[3].version, gids[3].address) == (2, ""), "index 3 is a link-local one"
    assert choose(gids, "192.0.2.60") == choose(gids, "192.0.2.60", "ens1f0") == 5
    assert choose(gids, "192.0.2.60", "ens1f1") is None
    assert choose(gids, "192.0.2.61") is None


def test_d11_no_gids_and_a_veth() -> None:
    assert parse_show_gids(case("d11-gids-none-veth.show_gids.txt")) == []
    assert parse_show_gids(case("d11-gids-none-veth.ethtool-i.txt")) == []
    assert choose([], "192.0.2.1") is None


def test_d13_no_version_is_printed_and_none_is_guessed() -> None:
    gids = parse_devinfo(case("d13-devinfo-gid-no-types.txt"))
    assert [(gid.index, gid.address, gid.version) for gid in gids] == [(14, "192.0.2.6", None), (15, "192.0.2.6", None)]
    assert choose(gids, "192.0.2.6") is None


def test_devinfo_with_types() -> None:
    text = "\t\t\tGID[  0]:\t\tfe80::1, RoCE v2\n\t\t\tGID[  3]:\t\t::ffff:192.0.2.6, RoCE v2\n"
    gids = parse_devinfo(text)
    assert [(gid.index, gid.version, gid.address) for gid in gids] == [(0, 2, ""), (3, 2, "192.0.2.6")]


def test_version_1_of_the_same_address_is_never_chosen() -> None:
    gids = [
        Gid(2, mapped("192.0.2.1"), "a", 1),
        Gid(7, mapped("192.0.2.1"), "a", 2),
        Gid(8, mapped("192.0.2.2"), "a", 2),
    ]
    assert choose(gids, "192.0.2.1") == 7


def test_sysfs_without_empty_slots() -> None:
    gids = [Gid(0, mapped("192.0.2.1"), "ens1np0", 1), Gid(1, mapped("192.0.2.1"), "ens1np0", 2)]
    assert read_gids(FakeHost(table(*gids)), "mlx5_0", 1) == gids
    assert read_gids(FakeHost(), "mlx5_0", 1) == []


def test_an_entry_behind_those_of_many_other_namespaces() -> None:
    late = Gid(90, mapped("192.0.2.1"), "eth0", 2)
    assert read_gids(FakeHost(table(late)), "mlx5_0", 1) == [late]


@given(
    text=st.sampled_from([case("d09-gids-index-5.txt"), case("d13-devinfo-gid-no-types.txt")]), cut=st.integers(0, 900)
)
def test_truncated_listings(text: str, cut: int) -> None:
    for garbled in (text[:cut], text[cut:], text[:cut] + "9" * 5000 + text[cut:]):
        for gid in (*parse_show_gids(garbled), *parse_devinfo(garbled)):
            assert gid.as_dict()["address"] in ("", "192.0.2.60", "192.0.2.6") or gid.address
