# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""ACS off on bridges, now and at every boot: plan, apply bridge by bridge, read back, restore what refuses.

Private to the collection.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .checks.acs import judge, read_acs
from .errors import HostError, PolicyError, RoceError, ToolMissing
from .guards import busy_ports
from .info import find_gpus
from .operations import Operation, Remove, Run, Write
from .parsers.acs import Function, word
from .pci_tree import PCI_ADDRESS, bridges_above
from .ports import find_ports, functions_of
from .service_manager import DAEMON_RELOAD, reload_due, waiting, why_deferred

if t.TYPE_CHECKING:
    from .findings import Finding
    from .host import Host

REGISTER = "ECAP_ACS+6.w"
UNIT = "lossless-roce-acs.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
_ENABLED = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
_DEVICES = "/sys/bus/pci/devices"
_VFIO = "/sys/bus/pci/drivers/vfio-pci"


@dataclass(frozen=True)
class Wanted:
    """disabled: off now and at every boot; otherwise only the unit goes. No bridges means all that matter."""

    disabled: bool
    bridges: tuple[str, ...] = ()
    when_busy: str = "refuse"


@dataclass
class AcsRun:
    """What happened, or in a dry run would happen."""

    before: dict[str, tuple[str, ...]] = field(default_factory=dict)  # bridge -> bits that are on
    after: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unit: tuple[str, str] = ("", "")  # text before and after; empty without a unit
    writes: dict[str, Run] = field(default_factory=dict)  # by bridge
    unit_operations: list[Operation] = field(default_factory=list)
    without_acs: dict[str, str] = field(default_factory=dict)  # bridge -> why it has nothing to switch off
    failed: dict[str, str] = field(default_factory=dict)  # bridge -> error
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def as_dict(self) -> dict[str, t.Any]:
        """The module's result."""
        return {
            "changed": self.before != self.after or bool(self.unit_operations),
            "diff": {"before": self._shown(self.before, self.unit[0]), "after": self._shown(self.after, self.unit[1])},
            "commands": [operation.shown() for operation in (*self.writes.values(), *self.unit_operations)],
            "bridges": {bridge: list(on) for bridge, on in self.after.items()},
            "without_acs": self.without_acs,
            "failed_bridges": self.failed,
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def _shown(self, bridges: dict[str, tuple[str, ...]], unit: str) -> dict[str, t.Any]:
        changing = [bridge for bridge in self.before if self.before[bridge] != self.after[bridge]]
        shown: dict[str, t.Any] = {bridge: list(bridges[bridge]) for bridge in changing}
        return {**shown, UNIT_PATH: unit.splitlines()} if self.unit[0] != self.unit[1] else shown

    def message(self) -> str:
        """What failed; empty when nothing did."""
        return "; ".join(f"{bridge}: {error}" for bridge, error in self.failed.items())


def converge(host: Host, wanted: Wanted, dry_run: bool) -> AcsRun:
    """Bring the bridges and the boot unit to what is wanted. Raises RoceError before anything is changed."""
    if dry_run:
        return _converge(host, wanted, dry_run)
    with host.lock():
        return _converge(host, wanted, dry_run)


def _converge(host: Host, wanted: Wanted, dry_run: bool) -> AcsRun:
    run = AcsRun()
    if not wanted.disabled:
        _plan_unit(host, run, "")
    elif dry_run and host.which("lspci") is None:
        run.notes.append(f"unknown until baseline is applied: {ToolMissing('lspci', 'pciutils')}")
        return run
    else:
        _refuse(host)
        functions = _plan_bridges(host, wanted, run)
        _guard(host, wanted, run)
        if not dry_run:
            _switch_off(host, run)
        _plan_unit(host, run, _unit_text(host, [bridge for bridge in run.before if bridge not in run.failed]))
        if dry_run:
            run.findings = [judge(functions)] if functions else []
    if not dry_run:
        for operation in run.unit_operations:
            operation.perform(host)
    return run


def _refuse(host: Host) -> None:
    """Raise PolicyError where ACS must stay as it is."""
    machine = host.run("uname", "-m").out.strip()
    if machine == "aarch64":
        raise PolicyError(
            "pci_acs: this is an aarch64 node … on these, GPUDirect needs certain ACS bits on (rdma_topo of rdma-core)"
        )
    handed_over = [name for name in host.listdir(_VFIO) if PCI_ADDRESS.fullmatch(name)]
    if handed_over:
        names = ", ".join(handed_over)
        raise PolicyError(
            f"pci_acs: {names} belong to vfio-pci … ACS is what keeps virtual machines' devices apart, and stays on"
        )


def _plan_bridges(host: Host, wanted: Wanted, run: AcsRun) -> list[Function]:
    """Fill in what the bridges run and what is to be done; the bridges as they are now."""
    bridges = _named(host, wanted.bridges) if wanted.bridges else _all_bridges(host)
    functions = read_acs(host)
    chosen = [functions.get(bridge, Function(bridge, denied=True)) for bridge in bridges]
    for function in chosen:
        if function.problem():
            raise HostError(f"{function.address}: {function.problem()}; nothing was changed")
        if function.on is None:
            run.without_acs[function.address] = "it has no ACS"
            continue
        run.before[function.address] = function.on
        run.after[function.address] = ()
        if function.on:
            run.writes[function.address] = Run(("setpci", "-s", function.address, f"{REGISTER}=0000"))
    _note_surroundings(host, run, bool(bridges))
    return chosen


def _named(host: Host, names: tuple[str, ...]) -> list[str]:
    for name in names:
        if not PCI_ADDRESS.fullmatch(name) or not host.exists(f"{_DEVICES}/{name}"):
            raise PolicyError(
                f"bridges: {name!r} … the address of a PCI bridge of this node, such as 0000:17:00.0, was expected"
            )
    return sorted(set(names))


def _all_bridges(host: Host) -> list[str]:
    functions = [pci for port in find_ports(host) for pci in functions_of(port)]
    return bridges_above(host, [*functions, *(gpu["pci"] for gpu in find_gpus(host))])


def _note_surroundings(host: Host, run: AcsRun, bridges: bool) -> None:
    if not bridges:
        run.notes.append("no PCI bridge is above the RDMA ports and GPUs: there is nothing to switch off")
    virtual = host.run("systemd-detect-virt", "--vm", check=False) if host.which("systemd-detect-virt") else None
    if virtual is not None and virtual.rc == 0:
        run.notes.append(
            f"this is a virtual machine ({virtual.out.strip()}): the bridges that count are those of the physical host"
        )


def _guard(host: Host, wanted: Wanted, run: AcsRun) -> None:
    """Refuse to change the path of traffic that flows: RDMA ports below a bridge that changes."""
    if not run.writes or wanted.when_busy == "force":
        return
    below = [port for port in find_ports(host) if set(run.writes) & set(bridges_above(host, functions_of(port)))]
    busy = busy_ports(host, below) if below else {}
    if busy:
        told = "; ".join(f"{netdev}: {reason}" for netdev, reason in busy.items())
        raise HostError(f"pci_acs: {told}; nothing was changed (when_busy: force overrides)")


def _switch_off(host: Host, run: AcsRun) -> None:
    """Each bridge is a transaction: one that does not read back as off gets its former bits again."""
    for bridge, write in run.writes.items():
        try:
            write.perform(host)
        except RoceError as exc:
            run.failed[bridge] = str(exc)
    functions = read_acs(host)
    for bridge, former in run.before.items():
        seen = functions.get(bridge, Function(bridge, denied=True)).on
        if not seen and seen is not None and bridge not in run.failed:
            continue
        told = "unreadable" if seen is None else f"{', '.join(seen) or 'nothing'} on"
        error = run.failed.get(bridge, f"{REGISTER} reads back as {told} … 0000 was expected")
        run.failed[bridge] = error + _restore(host, bridge, former)
        run.after[bridge] = former
    run.findings = [judge([functions[bridge] for bridge in run.before if bridge in functions])] if run.before else []


def _restore(host: Host, bridge: str, former: tuple[str, ...]) -> str:
    try:
        host.run("setpci", "-s", bridge, f"{REGISTER}={word(former):04x}")
    except RoceError as exc:
        return f"; could not be restored: {exc}"
    return "; restored"


def _unit_text(host: Host, bridges: list[str]) -> str:
    """The unit that does the same at boot; empty when there is nothing to do."""
    if not bridges:
        return ""
    setpci = host.which("setpci") or "/usr/bin/setpci"
    # "-": one bridge that has gone must not keep the others from being switched off.
    commands = "".join(f"ExecStart=-{setpci} -s {bridge} {REGISTER}=0000\n" for bridge in bridges)
    return (
        "# Managed by Ansible, module lossless.roce.pci_acs.\n"
        "[Unit]\n"
        "Description=ACS off on the PCI bridges above NICs and GPUs\n"
        "Before=docker.service containerd.service slurmd.service\n\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        f"{commands}\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def _plan_unit(host: Host, run: AcsRun, text: str) -> None:
    """The unit acts at boot only: a daemon-reload, which enabling it would do as well, may wait."""
    former = host.read_optional(UNIT_PATH) or ""
    run.unit = (former, text)
    if text != former and text:
        run.unit_operations.append(Write(UNIT_PATH, text))
    if text and (text != former or not host.exists(_ENABLED)):
        run.unit_operations.append(Run(("systemctl", "--no-reload", "enable", UNIT)))
    if former and not text:
        run.unit_operations += [Run(("systemctl", "--no-reload", "disable", UNIT)), Remove(UNIT_PATH)]
    if text != former or (text and reload_due(host, [UNIT])):
        reason = why_deferred(host)
        if reason:
            run.notes.append(waiting(DAEMON_RELOAD, reason))
        else:
            run.unit_operations.append(Run(DAEMON_RELOAD))
