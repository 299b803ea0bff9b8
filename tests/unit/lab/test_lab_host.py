"""What the lab asks of its host."""

from __future__ import annotations

import pytest
from roce_lab.errors import LabError
from roce_lab.host import (
    available_memory,
    check_memory,
    describe_missing,
    has_virtualisation,
    missing_packages,
)

MEMINFO = "MemTotal:        8000000 kB\nMemFree:  100 kB\nMemAvailable:    4194304 kB\n"


@pytest.mark.parametrize(
    ("flags", "usable"),
    [
        ("fpu vme svm lm", True),
        ("fpu vmx", True),
        ("fpu vme hypervisor lm", False),
        ("fpu svm_lock vmx_flexpriority", False),  # whole words only
    ],
)
def test_virtualisation_is_told_by_the_flags(flags: str, usable: bool) -> None:
    cpuinfo = f"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: {flags}\nbugs\t\t: spectre_v1\n"
    assert has_virtualisation(cpuinfo) is usable


def test_a_vmx_line_beside_the_flags_is_no_virtualisation() -> None:
    assert not has_virtualisation("flags\t\t: fpu\nvmx flags\t: vnmi\n")


def test_memory_that_fits() -> None:
    assert available_memory(MEMINFO) == 4096
    check_memory(2, 1024, MEMINFO)


def test_too_little_memory_gives_the_figures() -> None:
    with pytest.raises(LabError, match=r"4 nodes of 1024 MiB need 4736 MiB, 4096 MiB are"):
        check_memory(4, 1024, MEMINFO)


def test_missing_tools_name_their_packages_once() -> None:
    missing = missing_packages(lambda tool: None if tool in ("ip", "tc") else tool, lambda _: True)
    assert missing == {"ip": "iproute2", "tc": "iproute2"}
    assert describe_missing(missing) == ("missing on this host: ip, tc; apt-get install iproute2")


def test_a_host_with_everything_misses_nothing() -> None:
    assert missing_packages(lambda tool: tool, lambda _: True) == {}
