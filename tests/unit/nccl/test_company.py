# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Hosts of a job meet, and hear of each other's failure. The network is a dictionary here."""

from __future__ import annotations

import typing as t

from ansible_collections.lossless.roce.plugins.module_utils.fabric.meeting import PORT, Status
from ansible_collections.lossless.roce.plugins.module_utils.nccl.company import (
    ENDED,
    FAILED,
    FOLLOWED,
    RUNNING,
    Company,
    Member,
)
from fake_host import FakeHost

MEMBERS = [Member(f"n{number}", f"192.0.2.{number}") for number in range(3)]


class Network:
    """What each address answers; ``events`` change it when the clock passes them."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.answers: dict[tuple[str, int], Status] = {}
        self.events: list[tuple[float, t.Callable[[], None]]] = []

    def ask(self, address: str, port: int) -> Status | None:
        for event in [event for event in self.events if event[0] <= self.host.now()]:
            self.events.remove(event)
            event[1]()
        return self.answers.get((address, port))

    def show(self, index: int, step: int, *, run: str = "r", name: str = "") -> None:
        self.answers[(f"192.0.2.{index}", PORT + index)] = Status(run, name or f"n{index}", step=step)

    def hide(self, index: int) -> None:
        del self.answers[(f"192.0.2.{index}", PORT + index)]

    def company(self, index: int) -> Company:
        return Company(self.host, MEMBERS, f"n{index}", "r", ask_=self.ask)  # type: ignore[arg-type]


def test_the_first_waits_for_all_and_the_others_for_its_word() -> None:
    net = Network()
    net.show(1, -1)
    net.events.append((5.0, lambda: net.show(2, -1)))
    first = net.company(0)
    assert first.gather(60) == ([], "") and 5 <= net.host.now() < 6 and first.status.step == RUNNING

    net = Network()
    net.show(0, -1)
    net.events.append((7.0, lambda: net.show(0, RUNNING)))
    assert net.company(2).gather(60) == ([], "") and 7 <= net.host.now() < 8


def test_the_first_asks_for_the_values_of_the_others() -> None:
    net = Network()
    net.show(1, -1)
    net.answers["192.0.2.1", PORT + 1].values = {"NCCL_IB_HCA": "=mlx5_0:1"}
    assert net.company(0).values() == {"n1": {"NCCL_IB_HCA": "=mlx5_0:1"}}, "n2 does not answer"


def test_who_does_not_come_is_named_within_the_limit() -> None:
    net = Network()
    net.show(1, -1)
    net.show(2, -1, run="another")
    assert net.company(0).gather(8) == (["n2"], "") and net.host.now() < 9
    assert Network().company(1).gather(8) == (["n0"], "")


def test_who_gives_up_at_the_start_is_named_at_once() -> None:
    net = Network()
    net.show(1, FAILED)
    assert net.company(0).gather(60)[1] == "n1" and net.host.now() == 0
    net.show(0, FAILED, name="n1")
    assert net.company(2).gather(60)[1] == "n1"


def test_a_failure_and_a_silence_have_a_name() -> None:
    net = Network()
    net.show(1, RUNNING)
    net.show(2, RUNNING)
    first = net.company(0)
    assert first.culprit() == ("", "")
    net.hide(2)
    assert first.culprit() == ("", ""), "a moment of silence is no failure"
    net.host.sleep(11)
    name, how = first.culprit()
    assert name == "n2" and "has not answered for 10 s" in how
    net.show(2, ENDED)
    net.show(1, FAILED)
    assert first.culprit() == ("n1", "failed")


def test_a_host_that_is_through_may_go() -> None:
    net = Network()
    net.show(1, ENDED)
    net.show(2, ENDED)
    first = net.company(0)
    assert first.culprit() == ("", "")
    net.hide(1)
    net.host.sleep(30)
    assert first.culprit() == ("", "")


def test_a_consequence_finds_its_cause_or_stands_for_itself() -> None:
    net = Network()
    net.show(1, RUNNING)
    net.show(2, RUNNING)
    net.events.append((2.0, lambda: net.show(2, FAILED)))
    assert net.company(0).whose_fault() == "n2"
    net = Network()
    net.show(0, FOLLOWED)
    company = net.company(1)
    assert company.whose_fault() == "" and net.host.now() < 10 and company.status.step == FOLLOWED


def test_leaving_is_bounded_and_tells_who_failed() -> None:
    net = Network()
    net.show(0, RUNNING)
    company = net.company(1)
    company.leave("n1")
    assert (company.status.step, company.status.name) == (FAILED, "n1") and net.host.now() < 8
    net.show(0, FAILED)
    before = net.host.now()
    company.leave()
    assert net.host.now() - before < 1 and company.status.step == ENDED


def test_staying_away_ends_when_all_know() -> None:
    net = Network()
    company = net.company(0)
    net.events += [(3.0, lambda: net.show(1, FOLLOWED)), (4.0, lambda: net.show(2, FAILED)), (4.5, lambda: net.hide(1))]
    company.stay_away(60)
    assert 4 <= net.host.now() < 6 and company.status.step == FAILED


def test_hosts_that_all_stay_away_do_not_wait_for_each_other() -> None:
    """The last to come finds the first, and stays until the first has found it."""
    net = Network()
    net.show(0, FAILED)
    last = net.company(2)
    last.stay_away(60)
    assert 1 <= net.host.now() < 3
