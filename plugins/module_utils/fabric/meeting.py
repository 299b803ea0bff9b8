# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the hosts of a matrix keep step: each tells whoever asks at which step it is.

Hosts meet at a barrier first, since starting hundreds of them takes minutes. Then, before each test,
both ends wait until the other is at the same step. All waits are bounded: a partner that does not answer
is given up once and for all, so that it costs its own pairs a few seconds and nobody else anything.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import socketserver
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field

from ..errors import HostError, ParseError
from ..parsers.json_output import read_json
from ..parsers.numbers import is_int

if t.TYPE_CHECKING:
    from ..host import Host

PORT = 18514  # the one below perftest's first
AT_BARRIER = -1
_ASK_LIMIT_S = 2.0
_POLL_S = 0.2
_LONGEST_ANSWER = 4096
# So many partners are asked at the same time: one that is silent takes its time, and must not take that of the others.
_AT_ONCE = 32


@dataclass
class Status:
    """Where a host stands: the run it takes part in, its step of so many, and whether it is through.

    left_s: seconds left, by what the steps until now took
    values: what the others need to know of this host
    pid: number of its process, 0 where that is not told
    """

    run: str
    name: str
    step: int = AT_BARRIER
    steps: int = 0
    left_s: float = 0.0
    done: bool = False
    values: dict[str, str] = field(default_factory=dict)
    pid: int = 0


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self.request.sendall(json.dumps(asdict(self.server.status)).encode() + b"\n")  # type: ignore[attr-defined]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024
    status: Status


@contextlib.contextmanager
def tell(status: Status, port: int = PORT, address: str = "") -> t.Iterator[None]:
    """Answer with ``status``, as it is at the time, whoever connects to ``address`` (empty: any of this host).

    Raises HostError when the port is taken.
    """
    try:
        server = _Server((address, port), _Handler)
    except OSError as exc:
        whose = f"; {_whose(address, port)}" if exc.errno == errno.EADDRINUSE else ""
        raise HostError(f"TCP port {port}: {exc.strerror}{whose}") from exc
    server.status = status
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _whose(address: str, port: int) -> str:
    """Who has our port: mostly a run whose playbook was interrupted, and which goes on to its end."""
    status = ask([address or "127.0.0.1"], port)
    if status is None or not status.pid:
        return f"another program has it: ss -ltnp 'sport = :{port}' tells which"
    return (
        f"run {status.run} of {status.name} has it, at step {status.step + 1} of {status.steps}: wait for its end, or"
        f" end it on all hosts (here: kill {status.pid})"
    )


def ask(addresses: t.Sequence[str], port: int = PORT) -> Status | None:
    """The status of a host, by the first of its addresses or else by any other; None when none answers.

    The others are asked at the same time: a host that is silent on all costs twice the limit of one.
    """
    status = _ask_one(addresses[0], port)
    if status is not None or len(addresses) == 1:
        return status
    with ThreadPoolExecutor(max_workers=len(addresses) - 1) as pool:
        answers = list(pool.map(lambda address: _ask_one(address, port), addresses[1:]))
    return next((answer for answer in answers if answer is not None), None)


def _ask_one(address: str, port: int) -> Status | None:
    deadline = time.monotonic() + _ASK_LIMIT_S
    try:
        with socket.create_connection((address, port), timeout=_ASK_LIMIT_S) as sock:
            return _status(_line(sock, deadline))
    except (OSError, ValueError, TypeError, ParseError):
        return None


def _line(sock: socket.socket, deadline: float) -> bytes:
    """What comes until the end of a line. Raises TimeoutError at the deadline, however little comes at a time."""
    answer = b""
    while b"\n" not in answer and len(answer) < _LONGEST_ANSWER:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        more = sock.recv(_LONGEST_ANSWER)
        if not more:
            break
        answer += more
    return answer


def _status(line: bytes) -> Status:
    """What a host answered. Raises ParseError, ValueError or TypeError when it was another program."""
    status = Status(**read_json(line.decode(), "status"))
    numbers, texts = (status.step, status.pid), (status.run, status.name)
    if not all(map(is_int, numbers)) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    if not isinstance(status.values, dict):
        raise TypeError
    return status


Ask = t.Callable[[t.Sequence[str]], t.Union[Status, None]]


class Meeting:
    """This host's view of its partners.

    partners: name -> addresses, in the order in which to try them
    step_limit: seconds that one step takes at most, waiting and measuring included
    gone_after: seconds of silence after which a partner is given up
    """

    def __init__(
        self,
        host: Host,
        status: Status,
        partners: t.Mapping[str, t.Sequence[str]],
        *,
        step_limit: float,
        gone_after: float = 10.0,
        ask_: Ask = ask,
    ) -> None:
        self._host = host
        self._status = status
        self._partners = partners
        self._ask = ask_
        self._step_limit = step_limit
        self._gone_after = gone_after
        self._latest_start = host.now()  # of any host
        self.gone: dict[str, str] = {}  # partner -> when and where it was lost

    def gather(self, limit: float) -> None:
        """Wait at most ``limit`` seconds until every partner answers; those that do not are gone from then on.

        After the limit all that are missing are asked once more, so that nobody is given up for the silence of others.
        """
        missing = list(self._partners)
        deadline = self._host.now() + limit
        last = False
        while missing and not last:
            last = self._host.now() >= deadline
            missing = self._missing(missing, None if last else deadline)
            if missing and not last:
                self._host.sleep(_POLL_S)
        for name in missing:
            self.gone[name] = f"did not come to the start within {limit:g} s"
        # Those that wait for a host of which we know nothing are as patient as we were, from now on at the latest.
        self._latest_start = self._host.now() + limit

    def _missing(self, names: list[str], deadline: float | None) -> list[str]:
        """Those that do not answer. Nobody is asked after the deadline."""
        with ThreadPoolExecutor(max_workers=min(len(names), _AT_ONCE)) as pool:
            present = pool.map(lambda name: self._present(name, deadline), names)
            return [name for name, here in zip(names, present) if not here]

    def _present(self, name: str, deadline: float | None) -> bool:
        if deadline is not None and self._host.now() >= deadline:
            return False
        return self._status_of(name) is not None

    def _status_of(self, name: str) -> Status | None:
        """What a partner tells; None when it is silent, of another run, or another host."""
        status = self._ask(self._partners[name])
        return status if status is not None and (status.run, status.name) == (self._status.run, name) else None

    def meet(self, name: str, step: int) -> str:
        """Wait until a partner is at our step; empty, or why it will not come."""
        if name in self.gone:
            return self.gone[name]
        silent_since: float | None = None
        while True:
            asked = self._host.now()
            status = self._status_of(name)
            now = self._host.now()
            if status is None:
                silent_since = asked if silent_since is None else silent_since
                if now - silent_since >= self._gone_after:
                    self.gone[name] = f"has not answered since step {step} ({self._host.time_of_day()})"
                    return self.gone[name]
            elif status.step >= step:
                return "" if status.step == step else "had given this test up already"
            else:
                silent_since = None
                if now >= self._deadline(step):
                    return f"was still at step {status.step} when step {step} had to begin"
            self._host.sleep(_POLL_S)

    def _deadline(self, step: int) -> float:
        """A host is never later than this: whoever is furthest behind waits for nobody that lives."""
        return self._latest_start + (step + 1) * self._step_limit
