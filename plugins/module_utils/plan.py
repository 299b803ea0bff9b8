# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read, plan, apply, read back, roll back: the only way in which this collection changes a port.

Everything of all ports is read and planned before anything is done. A port is a transaction: when
one of its changes fails, or reads back as something else, the plan from the state it is then in to
its former state is applied, and the other ports go on.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from itertools import chain

from .errors import HostError, NotApplicable, PolicyError, RoceError, ToolMissing, Unreadable
from .gids import read_gids
from .port_kinds import lacks
from .settings.base import Change, Setting, State, Value
from .settings.dcb_tool import spoken

if t.TYPE_CHECKING:
    from .host import Host
    from .ports import Port

# A link bounce takes mlx5 a few seconds; addresses and GIDs follow the carrier.
_LINK_LIMIT_S = 30.0
_BOUNCE_LIMIT_S = 1.0
# A kernel setting reads back at once or never; two more looks forgive a driver that defers it.
_READ_BACK_LOOKS = 3
_PAUSE_S = 0.2


# -- planning: pure ------------------------------------------------------------------------------


def plan_port(
    settings: t.Sequence[Setting], port: Port, wanted: State, actual: State, refused: dict[str, str] | None = None
) -> list[Change]:
    """The changes that take a port from ``actual`` to ``wanted``, in the order to make them.

    First what must let go (highest rank first), then every setting by rank, each planned on the
    state that the earlier changes will have made. What the driver refuses raises PolicyError, or with
    ``refused`` (setting -> reason) is noted there and left as it is.
    """
    state = dict(actual)
    changes: list[Change] = []
    ranked = [s for s in sorted(settings, key=lambda s: s.rank) if s.name in wanted and s.name in actual]
    releases = ((s, s.release(port, wanted, state)) for s in reversed(ranked))
    for setting, value in chain(releases, ((s, wanted[s.name]) for s in ranked)):
        if value is None or setting.equal(value, state[setting.name]):
            continue
        try:
            setting.refuse(port, value, state)
        except PolicyError as exc:
            if refused is None:
                raise
            refused[setting.name] = str(exc)
            continue
        changes.append(setting.change(port, value, state))
        state[setting.name] = changes[-1].after
    return changes


def planned_state(actual: State, changes: t.Iterable[Change]) -> State:
    """The state that a port will be in once the changes are made."""
    return {**actual, **{change.setting: change.after for change in changes}}


# -- the run -------------------------------------------------------------------------------------


@dataclass
class PortRun:
    """What happened, or would happen, to one port."""

    port: Port
    wanted: State
    before: State = field(default_factory=dict)
    after: State = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)  # setting -> reason
    skipped: dict[str, str] = field(default_factory=dict)  # setting that this port does not have -> reason
    planned_only: bool = True
    error: str = ""
    busy: str = ""  # who uses the port, where that was the reason to leave it alone
    tried: list[Change] = field(default_factory=list)
    rolled_back: bool = False
    left_over: dict[str, dict[str, Value]] = field(default_factory=dict)  # setting -> was, is

    def effective(self) -> list[Change]:
        """The changes that were made, or in a dry run would be; those of a refused port are not."""
        return self.tried if self.error else self.changes

    def as_failure(self) -> dict[str, t.Any]:
        """For ``fail_json``: the reason, how far it got, whether it was undone, what differs still."""
        return {
            "error": self.error,
            "tried": [change.setting for change in self.tried],
            "not_tried": [change.setting for change in self.changes[len(self.tried) :]],
            "rolled_back": self.rolled_back,
            "left_over": self.left_over,
        }


@dataclass(frozen=True)
class Reading:
    """What a port runs, and the reason for each setting that says nothing."""

    state: State = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)  # setting -> reason
    skipped: dict[str, str] = field(default_factory=dict)  # setting that this port does not have -> reason


def read_state(settings: t.Sequence[Setting], host: Host, port: Port, wanted: State | None = None) -> Reading:
    """Running values by setting; with ``wanted``, only the part that it speaks of."""
    reading = Reading()
    for setting in settings:
        reason = lacks(port, setting.belongs_to)
        if reason:
            reading.skipped[setting.name] = reason
            continue
        try:
            value = setting.read(host, port)
            reading.state[setting.name] = setting.narrowed(value, wanted[setting.name]) if wanted else value
        except NotApplicable as exc:
            reading.skipped[setting.name] = str(exc)
        except (Unreadable, ToolMissing) as exc:
            reading.unreadable[setting.name] = str(exc)
        except RoceError as exc:
            reading.unreadable[setting.name] = f"{port.netdev}: {setting.name}: {exc}"
    return reading


def plan_run(settings: t.Sequence[Setting], host: Host, port: Port, wanted: State) -> PortRun:
    """Read a port and plan its changes. Raises PolicyError; what can't be read is noted.

    ``settings`` may hold more than is wanted: what they run is then only looked at, where a setting needs to.
    """
    managed = [setting for setting in settings if setting.name in wanted]
    found = read_state(managed, host, port, wanted)
    changes = plan_port(managed, port, wanted, found.state)
    _refuse_clashes(settings, host, port, wanted, changes)
    changes = spoken(host, changes)
    after = planned_state(found.state, changes)
    return PortRun(port, wanted, found.state, after, changes, found.unreadable, found.skipped)


def _refuse_clashes(
    settings: t.Sequence[Setting], host: Host, port: Port, wanted: State, changes: list[Change]
) -> None:
    """Refuse changes that would alter what nobody manages. Raises PolicyError."""
    changing = [setting for setting in settings if setting.name in {change.setting for change in changes}]
    seen = {name for setting in changing for name in setting.needs_to_see} - set(wanted)
    unmanaged = read_state([setting for setting in settings if setting.name in seen], host, port).state
    for setting in changing:
        setting.clash(port, wanted[setting.name], unmanaged)


def apply_run(settings: t.Sequence[Setting], host: Host, run: PortRun) -> None:
    """Make the planned changes of one port, read it back, and roll it back if anything is not as planned."""
    run.planned_only = False
    if run.unreadable:
        run.error = "; ".join(run.unreadable.values())
        run.after = run.before
        return
    if not run.changes:
        return
    signs = signs_of_life(host, run.port)
    try:
        for change in run.changes:
            run.tried.append(change)
            for operation in change.operations:
                operation.perform(host)
        _wait_for_link(host, run, signs)
        _read_back(settings, host, run)
    except RoceError as exc:
        run.error = str(exc)
        _roll_back(settings, host, run, signs)


def _managed(settings: t.Sequence[Setting], run: PortRun) -> list[Setting]:
    return [setting for setting in settings if setting.name in run.before]


def _read_back(settings: t.Sequence[Setting], host: Host, run: PortRun) -> None:
    """Read the whole port until every setting is as planned. Raises HostError naming both values."""
    expected = planned_state(run.before, run.changes)
    managed = _managed(settings, run)
    differing = ""
    for look in range(_READ_BACK_LOOKS):
        if look:
            host.sleep(_PAUSE_S)
        found = read_state(managed, host, run.port, run.wanted)
        silent = {**found.unreadable, **found.skipped}
        if silent:
            differing = "; ".join(silent.values())
            continue
        wrong = [s for s in managed if not s.equal(expected[s.name], found.state[s.name])]
        if not wrong:
            run.after = found.state
            return
        differing = "; ".join(_difference(s, run.port, expected[s.name], found.state[s.name]) for s in wrong)
    raise HostError(differing)


def _difference(setting: Setting, port: Port, expected: Value, actual: Value) -> str:
    observed, wanted = setting.differing(expected, actual)
    where = setting.evidence(port)
    return f"{port.netdev}: {setting.name} reads back as {observed} … {wanted} was expected ({where})"


def _roll_back(settings: t.Sequence[Setting], host: Host, run: PortRun, signs: SignsOfLife) -> None:
    """Bring the port back to its former state as far as it goes, and note what differs still."""
    managed = _managed(settings, run)
    actual = read_state(managed, host, run.port, run.wanted).state
    for change in spoken(host, _undo_plan(managed, run, actual)):
        for operation in change.operations:
            try:
                operation.perform(host)
            except RoceError as exc:
                run.error += f"; while rolling back {change.setting}: {exc}"
                break
    try:
        _wait_for_link(host, run, signs)
    except HostError as exc:
        run.error += f"; after rolling back: {exc}"
    run.after = read_state(managed, host, run.port, run.wanted).state
    run.left_over = {
        s.name: {"was": run.before[s.name], "is": run.after.get(s.name, {})}
        for s in managed
        if s.name not in run.after or not s.equal(run.before[s.name], run.after[s.name])
    }
    run.rolled_back = not run.left_over


def _undo_plan(managed: list[Setting], run: PortRun, actual: State) -> list[Change]:
    """Undo is nothing but the plan from the new state to the old one, less what no tool can restore."""
    former = {s.name: run.before[s.name] for s in managed if s.name in actual}
    refused: dict[str, str] = {}
    changes = plan_port(managed, run.port, former, actual, refused)
    run.error += "".join(f"; cannot be rolled back: {reason}" for reason in refused.values())
    return changes


# -- the link ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SignsOfLife:
    """What a port must show again after its link bounced."""

    carrier: bool
    carrier_changes: str
    gids: frozenset[str]


def signs_of_life(host: Host, port: Port) -> SignsOfLife:
    """Carrier of the netdev and the GIDs of the RDMA port (they follow the netdev's addresses)."""
    return SignsOfLife(
        carrier=(host.read_optional(f"/sys/class/net/{port.netdev}/carrier") or "").strip() == "1",
        carrier_changes=_carrier_changes(host, port),
        gids=frozenset(entry.gid for entry in read_gids(host, port.ibdev, port.ibport)),
    )


def _carrier_changes(host: Host, port: Port) -> str:
    return (host.read_optional(f"/sys/class/net/{port.netdev}/carrier_changes") or "").strip()


def _wait_for_link(host: Host, run: PortRun, before: SignsOfLife) -> None:
    """Wait until what a bounced link took away is back. Raises HostError when it stays away."""
    if not any(change.disturbs for change in run.tried):
        return
    if any(change.bounces_link for change in run.tried):
        _wait_for_bounce(host, run.port, before)
    deadline = host.now() + _LINK_LIMIT_S
    while True:
        now = signs_of_life(host, run.port)
        missing = sorted(before.gids - now.gids)
        if not missing and (now.carrier or not before.carrier):
            return
        if host.now() >= deadline:
            what = f"GIDs {', '.join(missing)}" if missing else "the carrier"
            raise HostError(f"{run.port.netdev}: {what} did not come back within {_LINK_LIMIT_S:g} s after the change")
        host.sleep(_PAUSE_S)


def _wait_for_bounce(host: Host, port: Port, before: SignsOfLife) -> None:
    """Firmware drops the link a moment after the command returned: look again only once it has."""
    deadline = host.now() + _BOUNCE_LIMIT_S
    while _carrier_changes(host, port) == before.carrier_changes and host.now() < deadline:
        host.sleep(_PAUSE_S)
