# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How the hosts of one job keep company: the first knows of all, the others of the first.

Collectives hang where a rank is missing, and torchrun then only says that it waited. So the hosts meet before anything
is started, and tell each other during the run how they are: whoever fails is named on every host within seconds.
Each host tells it on a TCP port of its own, so that several hosts of a test may be one machine.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import dataclass

from ..fabric.meeting import AT_BARRIER, PORT, Status, ask, tell

if t.TYPE_CHECKING:
    from ..host import Host

RUNNING, ENDED, FAILED, FOLLOWED = 0, 1, 2, 3
_POLL_S = 0.2
_SILENCE_S = 10.0
# How long a host stays to tell how it ended, or waits to hear whose fault it was.
_LINGER_S = 6.0
_SEEN_S = 1.0

Ask = t.Callable[[str, int], t.Union[Status, None]]


@dataclass(frozen=True)
class Member:
    """A host of the job: its name, and its address on the interface of the rendezvous."""

    name: str
    address: str


def ask_member(address: str, port: int) -> Status | None:
    """The status of one host; None when it does not answer."""
    return ask([address], port)


class Company:
    """This host's view of the others. The order of ``members`` is that of the ranks.

    values: what the others may ask for
    """

    def __init__(
        self,
        host: Host,
        members: t.Sequence[Member],
        name: str,
        run: str,
        *,
        values: t.Mapping[str, str] | None = None,
        ask_: Ask = ask_member,
    ) -> None:
        self._host, self._ask, self._run = host, ask_, run
        self._members = list(members)
        self.index = [member.name for member in members].index(name)
        self.status = Status(run, name, values=dict(values or {}), pid=host.pid())
        self._quiet: dict[str, float] = {}  # name -> since when it has not answered
        self._ended: set[str] = set()

    @property
    def first(self) -> bool:
        """Whether this host has rank 0."""
        return self.index == 0

    @contextlib.contextmanager
    def present(self) -> t.Iterator[None]:
        """Answer the others meanwhile. Raises HostError when the TCP port is taken."""
        with tell(self.status, PORT + self.index):
            yield

    def gather(self, limit: float) -> tuple[list[str], str]:
        """Wait at most ``limit`` seconds until all are there: the hosts that are not, and the one that gave up.

        The first host waits for all others, and these for its word that all are there.
        """
        # The first host speaks last: the others hear what it waited for in vain.
        deadline = self._host.now() + limit + (0 if self.first else _SILENCE_S)
        while True:
            missing, culprit = self._absent()
            if not missing or culprit or self._host.now() >= deadline:
                break
            self._host.sleep(_POLL_S)
        if not missing and not culprit:
            self.status.step = RUNNING
        return missing, culprit

    def _absent(self) -> tuple[list[str], str]:
        looks = [(member.name, self._look(member)) for member in self._watched()]
        culprit = next((status.name for _name, status in looks if status is not None and status.step == FAILED), "")
        # A host that waits as well is there; of the first one its word is needed.
        ready = AT_BARRIER if self.first else RUNNING
        return [name for name, status in looks if status is None or status.step < ready], culprit

    def _others(self) -> t.Iterator[Member]:
        return (member for index, member in enumerate(self._members) if index != self.index)

    def _watched(self) -> list[Member]:
        return list(self._others()) if self.first else self._members[:1]

    def _look(self, member: Member) -> Status | None:
        index = self._members.index(member)
        status = self._ask(member.address, PORT + index)
        return status if status is not None and status.run == self._run else None

    def values(self) -> dict[str, dict[str, str]]:
        """Name of each other host that answers -> its values, as the first host sees them."""
        looks = {member.name: self._look(member) for member in self._watched()}
        return {name: status.values for name, status in looks.items() if status is not None}

    def culprit(self) -> tuple[str, str]:
        """Name of the host whose part failed, and how; empty while all are well."""
        for member in self._watched():
            if member.name in self._ended:
                continue
            status = self._look(member)
            if status is None:
                since = self._quiet.setdefault(member.name, self._host.now())
                if self._host.now() - since >= _SILENCE_S:
                    return member.name, f"has not answered for {_SILENCE_S:g} s ({self._host.time_of_day()})"
                continue
            self._quiet.pop(member.name, None)
            if status.step == FAILED:
                return status.name, "failed"
            if status.step == ENDED:
                self._ended.add(member.name)
        return "", ""

    def first_ended(self) -> bool:
        """Whether the first host is through, seen from another one."""
        first = self._look(self._members[0])
        return first is not None and first.step == ENDED

    def whose_fault(self) -> str:
        """After a failure that looks like a consequence: the host that failed by itself, or empty."""
        self.status.step = FOLLOWED
        deadline = self._host.now() + _LINGER_S
        while self._host.now() < deadline:
            name, _how = self.culprit()
            if name:
                return name
            self._host.sleep(_POLL_S)
        return ""

    def stay_away(self, limit: float) -> None:
        """Tell for at most ``limit`` seconds that this host will not take part, until the others know."""
        self._fail(self.status.name)
        told: set[str] = set()
        deadline = self._host.now() + limit
        while self._host.now() < deadline:
            looks = [(member.name, self._look(member)) for member in self._watched()]
            told |= {name for name, status in looks if status is not None and status.step in (FAILED, FOLLOWED)}
            if len(told) == len(looks):
                # Where they stay away as well it must be seen that we know.
                self._host.sleep(_SEEN_S)
                break
            self._host.sleep(_POLL_S)

    def leave(self, culprit: str = "") -> None:
        """Tell how it ended (``culprit``: by whose fault) until the others know, for a bounded time."""
        if culprit:
            self._fail(culprit)
        else:
            self.status.step = ENDED
        now = self._host.now()
        # After a failure it must be seen that we know: whoever failed waits for that.
        seen_at, deadline = now + (_SEEN_S if culprit else 0), now + _LINGER_S
        while self._host.now() < seen_at or (self._host.now() < deadline and not self._known()):
            self._host.sleep(_POLL_S)

    def _known(self) -> bool:
        """Whether nobody is left who has to be told."""
        told = [self._look(member) for member in self._watched() if member.name not in self._ended]
        return all(status is None or status.step in (ENDED, FAILED, FOLLOWED) for status in told)

    def _fail(self, culprit: str) -> None:
        self.status.name = culprit
        self.status.step = FAILED
