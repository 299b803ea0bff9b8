# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How hosts keep step, on a clock of the test's own; and the little server for real."""

from __future__ import annotations

import contextlib
import socket
import threading
import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError
from ansible_collections.lossless.roce.plugins.module_utils.fabric.analysis import Absence
from ansible_collections.lossless.roce.plugins.module_utils.fabric.meeting import Meeting, Status, ask, tell
from fake_host import FakeHost

LIMIT = 20.0


class Partners:
    """What each partner answers, as a function of the time; None is silence."""

    def __init__(self, host: FakeHost, **answers: t.Callable[[float], int | None]) -> None:
        self.host, self.answers = host, answers
        self.asked = 0

    def __call__(self, addresses: t.Sequence[str]) -> Status | None:
        self.asked += 1
        step = self.answers[addresses[0]](self.host.now())
        return None if step is None else Status("run", addresses[0], step)


def meeting(**answers: t.Callable[[float], int | None]) -> tuple[FakeHost, Meeting, Partners]:
    """A host among partners, each with its name as its address."""
    host = FakeHost()
    partners = Partners(host, **answers)
    names = {name: [name] for name in answers}
    return host, Meeting(host, Status("run", "me"), names, step_limit=LIMIT, ask_=partners), partners  # type: ignore[arg-type]


def test_another_host_at_the_address_is_not_the_partner() -> None:
    _host, met, _partners = meeting(a=lambda now: -1)
    met._partners = {"b": ["a"]}
    met.gather(5)
    assert list(met.gone) == ["b"]


def test_all_wait_for_the_last_one_at_the_start() -> None:
    host, met, _partners = meeting(a=lambda now: -1, b=lambda now: -1 if now > 50 else None)
    met.gather(120)
    assert 50 < host.now() < 52 and met.gone == {}


def test_who_does_not_come_to_the_start_costs_no_more_time() -> None:
    host, met, _partners = meeting(a=lambda now: -1, b=lambda now: None)
    met.gather(30)
    assert 30 <= host.now() < 32
    assert met.meet("b", 4) == "did not come to the start within 30 s" and host.now() < 32


def test_silent_partners_cost_nobody_else_the_start() -> None:
    host = FakeHost()
    silent = [f"silent{number}" for number in range(40)]

    def ask_(addresses: t.Sequence[str]) -> Status | None:
        if addresses[0] in silent:
            host.sleep(4)
            return None
        return Status("run", addresses[0]) if host.now() > 5 else None

    names = {name: [name] for name in ["late1", "late2", *silent, "late3"]}
    met = Meeting(host, Status("run", "me"), names, step_limit=LIMIT, ask_=ask_)  # type: ignore[arg-type]
    met.gather(120)
    assert sorted(met.gone) == sorted(silent)


def test_partners_are_asked_at_the_same_time() -> None:
    all_there = threading.Barrier(8, timeout=30)

    def ask_(addresses: t.Sequence[str]) -> Status | None:
        all_there.wait()
        return Status("run", addresses[0])

    names = {f"n{number}": [f"n{number}"] for number in range(8)}
    host = FakeHost()
    met = Meeting(host, Status("run", "me"), names, step_limit=LIMIT, ask_=ask_)  # type: ignore[arg-type]
    met.gather(120)
    assert met.gone == {}


def test_a_partner_whose_silence_takes_long_is_given_up_as_soon() -> None:
    host = FakeHost()
    asked: list[float] = []

    def ask_(addresses: t.Sequence[str]) -> Status | None:
        asked.append(host.now())
        host.sleep(4)
        return None

    met = Meeting(host, Status("run", "me"), {"a": ["a"]}, step_limit=LIMIT, ask_=ask_)  # type: ignore[arg-type]
    assert met.meet("a", 2).startswith("has not answered since step 2")
    assert len(asked) == 3 and host.now() < 13


def test_a_host_of_another_run_is_nobody() -> None:
    _host, met, _partners = meeting(a=lambda now: -1)
    met._status.run = "another"
    met.gather(5)
    assert list(met.gone) == ["a"]


def test_partners_wait_for_each_other() -> None:
    host, met, _partners = meeting(a=lambda now: 3 if now > 7 else 2)
    assert met.meet("a", 3) == "" and 7 < host.now() < 8


def test_a_partner_that_dies_is_given_up_once_and_for_all() -> None:
    host, met, partners = meeting(a=lambda now: 1 if now < 3 else None)
    reason = met.meet("a", 2)
    assert reason.startswith("has not answered since step 2 (") and 12 < host.now() < 15
    asked = partners.asked
    assert met.meet("a", 9) == reason and partners.asked == asked, "nobody waits for it again"


def test_the_analysis_reads_when_a_partner_was_lost() -> None:
    _host, met, _partners = meeting(a=lambda now: 1 if now < 3 else None)
    absence = Absence("a", "me", met.meet("a", 2))
    assert (absence.step(), absence.time_of_day()) == (2, "12:00:00")


def test_a_short_silence_is_forgiven() -> None:
    _host, met, _partners = meeting(a=lambda now: None if 1 < now < 9 else 2 if now > 12 else 1)
    assert met.meet("a", 2) == ""


def test_a_partner_that_hangs_is_waited_for_no_longer_than_its_steps_may_take() -> None:
    host, met, _partners = meeting(a=lambda now: 1)
    assert met.meet("a", 2) == "was still at step 1 when step 2 had to begin"
    assert 3 * LIMIT <= host.now() < 3 * LIMIT + 1
    assert met.gone == {}, "it may be there for a later test"


@pytest.mark.parametrize("at", [-1, 0, 1])
def test_a_partner_may_wait_at_the_start_for_a_host_that_is_nobody_of_ours(at: int) -> None:
    """Longer than a step may take, and whoever waits for that partner is late as well."""
    _host, met, _partners = meeting(a=lambda now: 2 if now > 115 else at)
    met.gather(120)
    assert met.meet("a", 2) == "" and met.gone == {}


def test_a_partner_that_never_leaves_the_start_is_given_up() -> None:
    _host, met, _partners = meeting(a=lambda now: -1)
    met.gather(120)
    assert met.meet("a", 0) == "was still at step -1 when step 0 had to begin"


def test_a_partner_that_gave_up_is_not_waited_for() -> None:
    host, met, _partners = meeting(a=lambda now: 5)
    assert met.meet("a", 2) == "had given this test up already" and host.now() == 0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_the_server_tells_the_present_status() -> None:
    port, status = free_port(), Status("run", "me", steps=9)
    with tell(status, port):
        assert ask(["127.0.0.1"], port) == status
        status.step = 4
        # The first address that answers is enough.
        seen = ask(["127.0.0.2", "127.0.0.1"], port)
        assert seen is not None and seen.step == 4
    assert ask(["127.0.0.1"], port) is None


def test_the_run_that_has_the_port_is_named_with_its_process() -> None:
    """A playbook that was interrupted leaves it."""
    port = free_port()
    with tell(Status("77", "node1", step=2, steps=9, pid=4711), port):
        words = f"TCP port {port}: Address already in use; run 77 of node1 has it, at step 3 of 9.*kill 4711"
        with pytest.raises(HostError, match=words), tell(Status("78", "node1"), port):
            pass


def test_another_program_that_has_the_port_is_looked_for_by_hand() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            server.accept()[0].close()

        thread = threading.Thread(target=serve)
        thread.start()
        words = f"TCP port {port}: .*another program has it: ss -ltnp 'sport = :{port}'"
        with pytest.raises(HostError, match=words), tell(Status("78", "node1"), port):
            pass
        thread.join()


def test_the_server_answers_on_one_address_only_if_told_so() -> None:
    port, status = free_port(), Status("run", "me")
    with tell(status, port, "127.0.0.2"):
        assert ask(["127.0.0.2"], port) == status and ask(["127.0.0.1"], port) is None


def test_the_other_addresses_are_asked_at_the_same_time() -> None:
    """The second answers when the third was asked as well; on the first nobody listens."""
    port = free_port()
    with socket.create_server(("127.0.0.2", port)) as second, socket.create_server(("127.0.0.3", port)) as third:

        def serve() -> None:
            (one, _address), (other, _address) = second.accept(), third.accept()
            with one, other:
                one.sendall(b'{"run": "run", "name": "a", "step": 3}\n')

        thread = threading.Thread(target=serve)
        thread.start()
        seen = ask(["127.0.0.1", "127.0.0.2", "127.0.0.3"], port)
        assert seen is not None and seen.step == 3
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\n",
        b"[]\n",
        b'{"run": 1}\n',
        b"x" * 9000,
        b"\xff\n",
        b"[" * 4095 + b"\n",
        b'{"run": "run", "name": "a", "step": true}\n',
        b'{"run": "run", "name": "a", "step": 1.5}\n',
        b'{"run": "run", "name": ["a"], "step": 1}\n',
    ],
)
def test_another_program_on_the_port_is_silence(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _address = server.accept()
            with connection:
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert ask(["127.0.0.1"], server.getsockname()[1]) is None
        thread.join()


def test_an_answer_that_never_ends_is_silence() -> None:
    """A byte now and then: only the limit of the whole answer ends it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked_enough = threading.Event()

        def serve() -> None:
            connection, _address = server.accept()
            with connection, contextlib.suppress(OSError):
                while not asked_enough.wait(0.1):
                    connection.sendall(b" ")

        thread = threading.Thread(target=serve)
        thread.start()
        answers: list[Status | None] = []
        asking = threading.Thread(
            target=lambda: answers.append(ask(["127.0.0.1"], server.getsockname()[1])), daemon=True
        )
        asking.start()
        asking.join(60)
        in_time = list(answers)
        asked_enough.set()
        thread.join()
        assert in_time == [None]
