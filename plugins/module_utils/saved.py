# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The policy that is saved on a node: its file, and what will come back after the next boot.

Private to the collection. The boot unit (agent.py) applies it by the same engine as the modules.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from .errors import HostError, PolicyError
from .findings import CONVERGE, FAIL, PASS, SKIPPED, Finding
from .operations import MakeDir, Operation, Write
from .policy import parse_policy
from .settings.base import State
from .settings.registry import policy_state

if t.TYPE_CHECKING:
    from .host import Host
    from .ports import Port

FOLDER = "/etc/lossless-roce"
PATH = f"{FOLDER}/policy.json"
# Role node_agent installs these; `systemctl enable` makes the link.
PROGRAM = "/usr/local/sbin/lossless-roce"
ENABLED = "/etc/systemd/system/multi-user.target.wants/lossless-roce.service"
_FORMAT = 1
_NO_AGENT = "apply role lossless.roce.node_agent (playbook bootstrap does), or set roce_policy_persist: false"
_ANEW = "role lossless.roce.roce_policy saves it anew"


@dataclass(frozen=True)
class Demand:
    """Ports by name, and what all of them should run."""

    ports: tuple[str, ...]
    wanted: State
    label: str = ""  # how messages name it, where there are several


@dataclass(frozen=True)
class Declared:
    """What a node was asked to be: groups of ports with their policy, as the user wrote it."""

    policies: tuple[tuple[tuple[str, ...], t.Mapping[str, t.Any]], ...]
    allow_management: tuple[str, ...] = ()

    def demands(self) -> list[Demand]:
        """What each group of ports should run. Raises PolicyError naming the policy that is wrong."""
        if not self.policies:
            raise PolicyError("policies: none are declared; name the RDMA ports that this node should have")
        several = len(self.policies) > 1
        return [
            _demand(ports, raw, f"policies[{index}]" if several else "")
            for index, (ports, raw) in enumerate(self.policies)
        ]

    def as_dict(self) -> dict[str, t.Any]:
        """The content of the file, as JSON gives it back."""
        return t.cast("dict[str, t.Any]", json.loads(self.text()))

    def text(self) -> str:
        """The file, always the same for the same content."""
        content = {
            "format": _FORMAT,
            "policies": [{"ports": list(ports), "policy": dict(raw)} for ports, raw in self.policies],
            "allow_management": list(self.allow_management),
        }
        return json.dumps(content, indent=2, sort_keys=True) + "\n"


def _demand(ports: tuple[str, ...], raw: t.Mapping[str, t.Any], label: str) -> Demand:
    try:
        return Demand(ports, policy_state(parse_policy(raw)), label)
    except PolicyError as exc:
        raise PolicyError(f"{label}: {exc}" if label else str(exc)) from exc


def parse_saved(text: str) -> Declared:
    """A saved policy, checked as a whole. Raises PolicyError naming the file and what is wrong in it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:  # the message of a ValueError names line and column
        raise PolicyError(f"{PATH}: is not JSON: {exc}; {_ANEW}") from exc
    try:
        declared = _declared(data)
        declared.demands()
    except PolicyError as exc:
        raise PolicyError(f"{PATH}: {exc}; {_ANEW}") from exc
    return declared


def _declared(data: t.Any) -> Declared:
    form = data.get("format") if isinstance(data, dict) else None
    if form != _FORMAT:
        raise PolicyError(f"format: {form!r} … {_FORMAT} was expected")
    groups = data.get("policies")
    if not (isinstance(groups, list) and groups and all(_is_group(group) for group in groups)):
        raise PolicyError("policies: a list of {ports: [names], policy: {…}} was expected")
    if not _is_names(data.get("allow_management")):
        raise PolicyError("allow_management: a list of names was expected")
    policies = tuple((tuple(group["ports"]), group["policy"]) for group in groups)
    return Declared(policies, tuple(data["allow_management"]))


def _is_group(value: t.Any) -> bool:
    return isinstance(value, dict) and _is_names(value.get("ports")) and isinstance(value.get("policy"), dict)


def _is_names(value: t.Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


@dataclass
class Disk:
    """What is saved on the node before a run, and what the run does about it.

    before: the file's text, or None when there is none
    declared: what should be saved, or None when the run leaves the file alone
    program, boot_unit: whether the program is installed, and its boot unit enabled
    failure: why the file was not, or would not be, written
    """

    before: str | None = None
    declared: Declared | None = None
    program: bool = False
    boot_unit: bool = False
    folder: bool = False
    failure: str = ""
    planned_only: bool = True

    def operations(self) -> tuple[Operation, ...]:
        """What saves the declared policy; nothing when it is saved already or must not be."""
        if self.declared is None or self.failure or _data(self.before) == self.declared.as_dict():
            return ()
        write = Write(PATH, self.declared.text())
        return (write,) if self.folder else (MakeDir(FOLDER), write)

    def withhold(self) -> None:
        """A port failed: what is saved stays as it is."""
        if self.operations():
            left = "was left as it is" if self.before is not None else "was not written"
            self.failure = f"{PATH} {left}, since not all ports are as declared"

    def save(self, host: Host) -> None:
        """Save the declared policy unless it is there."""
        self.planned_only = False
        try:
            for operation in self.operations():
                operation.perform(host)
        except HostError as exc:
            self.failure = f"the policy could not be saved: {exc}"

    def demands(self) -> list[Demand]:
        """What will be applied at the next boot; nothing where that cannot be told."""
        try:
            return parse_saved(self._text() or "").demands()
        except PolicyError:
            return []

    def _text(self) -> str | None:
        if self.declared is not None and self.operations() and not self.planned_only:
            return self.declared.text()
        return self.before

    def diff(self) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
        """The file before and after the run, where the run writes it."""
        if self.declared is None or not self.operations():
            return {}, {}
        return {PATH: _data(self.before)}, {PATH: self.declared.as_dict()}

    def findings(self) -> t.Iterator[Finding]:
        """A verdict on what is saved; none where nothing is saved and nothing is to be."""
        if self.declared is None:
            if self.before is not None:
                yield _unmanaged()
            return
        declared = self.declared.as_dict()
        cause, remedy = self._wrong(declared)
        observed, expected = self._compared(declared)
        yield Finding(
            check="on_disk",
            verdict=FAIL if cause else PASS,
            observed=observed if cause else "the declared policy",
            expected=expected if cause else "the declared policy",
            evidence=f"{PATH}, {PROGRAM}, {ENABLED}",
            cause=cause or ("saved by this run" if self.operations() else ""),
            remedy=remedy,
        )

    def _wrong(self, declared: dict[str, t.Any]) -> tuple[str, str]:
        """Cause and remedy; empty when the declared policy will come back after the next boot."""
        text = self._text()
        if self.failure:
            return self.failure, f"put right what failed, then {CONVERGE}"
        if text is None:
            return "no policy is saved: what the ports run is lost at the next boot", CONVERGE
        if _data(text) != declared:
            return _other_policy(text), CONVERGE
        if not (self.program and self.boot_unit):
            return "the policy is saved, and nothing applies it at boot", _NO_AGENT
        return "", ""

    def _compared(self, declared: dict[str, t.Any]) -> tuple[t.Any, t.Any]:
        """Observed and expected of a failure: what differs in the file, or else what is missing to apply it."""
        saved = _data(self._text())
        if saved != declared:
            return _differing(saved, declared)
        return _differing(
            {
                "program": "installed" if self.program else "missing",
                "boot_unit": "enabled" if self.boot_unit else "disabled",
            },
            {"program": "installed", "boot_unit": "enabled"},
        )


def _other_policy(text: str) -> str:
    try:
        parse_saved(text)
    except PolicyError as exc:
        return f"the saved policy is broken, and nothing would be applied at the next boot: {exc}"
    return "another policy is saved, and would come back after the next boot"


def _unmanaged() -> Finding:
    return Finding(
        check="on_disk",
        verdict=SKIPPED,
        observed="a policy is saved",
        evidence=PATH,
        cause="this run does not manage the saved policy, which is applied again at the next boot",
    )


def _differing(saved: t.Any, declared: dict[str, t.Any]) -> tuple[t.Any, t.Any]:
    """Both, cut down to what differs."""
    if not isinstance(saved, dict):
        return saved, declared
    keys = [key for key in sorted({*saved, *declared}) if saved.get(key) != declared.get(key)]
    return {key: saved.get(key) for key in keys}, {key: declared.get(key) for key in keys}


def _data(text: str | None) -> t.Any:
    """The file's content for comparing and showing; its text where it is no JSON."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return text


def state_of(port: Port, demands: t.Sequence[Demand]) -> State:
    """What the demands ask of a port, by setting; nothing where none names it."""
    names = {port.netdev, port.ibdev} - {""}
    return next((demand.wanted for demand in demands if names & set(demand.ports)), {})


def read_disk(host: Host, declared: Declared | None) -> Disk:
    """What is saved on the node, and what should be."""
    return Disk(
        before=host.read_optional(PATH),
        declared=declared,
        program=host.exists(PROGRAM),
        boot_unit=host.exists(ENABLED),
        folder=host.exists(FOLDER),
    )


def load_saved(host: Host) -> Declared:
    """The saved policy, for the boot unit. Raises HostError, PolicyError."""
    return parse_saved(host.read(PATH))
