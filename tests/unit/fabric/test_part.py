# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One host's part of a matrix, from plain input to findings."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.fabric import part
from ansible_collections.lossless.roce.plugins.module_utils.fabric.bandwidth import Outcome
from ansible_collections.lossless.roce.plugins.module_utils.fabric.schedule import PairTest
from ansible_collections.lossless.roce.plugins.module_utils.fabric.spec import (
    JUDGE_SPEC,
    MATRIX_SPEC,
    RUN_SPEC,
    checked,
)
from ansible_collections.lossless.roce.plugins.module_utils.parsers.perftest import Measurement, Row
from fake_host import FakeHost

RATES = {"a0": 400.0, "a1": 400.0, "b0": 200.0, "b1": 200.0}


def options(rates: t.Mapping[str, float | None], **given: t.Any) -> dict[str, t.Any]:
    """Options of fabric_bandwidth for hosts with a port each."""
    hosts = [
        {"name": name, "ports": [{"name": "eth0", "rail": 0, "address": f"10.0.0.{number}", "link_gbps": rate}]}
        for number, (name, rate) in enumerate(rates.items(), 1)
    ]
    return checked({"hosts": hosts, **given}, {**MATRIX_SPEC, **RUN_SPEC, **JUDGE_SPEC}, "test")


def judged(monkeypatch: pytest.MonkeyPatch, raw: dict[str, t.Any], gbps: t.Callable[[str, str], float]) -> list[t.Any]:
    """Verdict and link rate of each test between all hosts, where ``gbps`` tells what a client and server reach."""

    def run_matrix(_host: t.Any, tests: list[PairTest], *_arguments: t.Any, **_options: t.Any) -> list[Outcome]:
        return [
            Outcome(test, ["ib_write_bw"], measurement=Measurement(rows=[Row(65536, 5000, rate, rate, 1.0)]))
            for test in tests
            for rate in (gbps(name, test.peer),)
        ]

    monkeypatch.setattr(part, "run_matrix", run_matrix)
    found = []
    for item in raw["hosts"]:
        name = item["name"]
        result = part.run_from(FakeHost(), raw, name=name, run="r")  # type: ignore[arg-type]
        found += [(f["verdict"], f["expected"] and f["expected"]["link_gbps"]) for f in result["findings"]]
    return found


def test_a_fabric_of_two_rates_is_judged_by_the_slower_end(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = judged(monkeypatch, options(RATES, link_gbps=400), lambda *ends: min(RATES[end] for end in ends) * 0.97)
    assert len(healthy) == 12 and {verdict for verdict, _rate in healthy} == {"pass"}
    assert sorted(rate for _verdict, rate in healthy) == [200] * 10 + [400] * 2


def test_a_slow_port_of_the_faster_kind_still_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, options(RATES), lambda *ends: 50 if "a1" in ends else min(RATES[end] for end in ends))
    assert [verdict for verdict, _rate in found].count("fail") == 6


def test_a_port_without_a_rate_of_its_own_has_the_common_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {"a": None, "b": 200.0, "c": None}
    assert {rate for _verdict, rate in judged(monkeypatch, options(rates, link_gbps=100), lambda *_: 95)} == {100}
    assert (
        sorted(judged(monkeypatch, options(rates), lambda *_: 195), key=str)
        == [("pass", 200.0)] * 4 + [("unknown", None)] * 2
    )


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e9])
def test_a_rate_that_everything_meets_is_refused(rate: float) -> None:
    with pytest.raises(PolicyError, match=r"hosts: b eth0: link_gbps: .* … 0.001 to 100000 was expected"):
        part.parse(options({"a": 100.0, "b": rate}))


SIXTEEN: dict[str, float | None] = dict.fromkeys(f"n{number}" for number in range(16))


@pytest.mark.parametrize(
    ("rates", "given", "rounds"),
    [
        (SIXTEEN, {"link_gbps": 400}, 15),  # 5000 messages of 64 KiB take milliseconds
        (SIXTEEN, {"link_gbps": 400, "duration": 27}, 10),
        (SIXTEEN, {"link_gbps": 400, "duration": 17, "rdma_cm": True}, 10),
        (SIXTEEN, {}, 5),  # nothing tells, so each may run into its limit
        (SIXTEEN, {"tool": "ib_write_lat", "link_gbps": 400}, 5),
        ({**SIXTEEN, "n7": 0.1}, {"link_gbps": 400}, 10),  # 26.2 s at the slowest
    ],
)
def test_a_budget_draws_as_many_rounds_as_fit(
    rates: dict[str, float | None], given: dict[str, t.Any], rounds: int
) -> None:
    matrix, _options = part.parse(options(rates, budget=600, **given))
    assert len(matrix.rounds()) == rounds


def test_a_budget_is_the_same_for_hosts_with_another_policy() -> None:
    rates: dict[str, float | None] = {**SIXTEEN, "n7": 0.1}
    drawn = [part.parse(options(rates, budget=600, link_gbps=own))[0].rounds() for own in (400, 0.01, None)]
    assert drawn[0] == drawn[1] == drawn[2]


@pytest.mark.parametrize("address", ["2001:db8::1", "::ffff:10.0.0.1", "10.0.0.1/24", "node1", ""])
def test_an_address_that_is_no_ipv4_address_is_one_clear_error(address: str) -> None:
    raw = options({"a": None, "b": None})
    raw["hosts"][1]["ports"][0]["address"] = address
    with pytest.raises(PolicyError, match=f"^hosts: b eth0: address '{address}' … an IPv4 address was expected$"):
        part.parse(raw)
