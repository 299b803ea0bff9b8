# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A systemd service as ``systemctl show`` tells it: is it there, does it run, with which flags."""

from __future__ import annotations

import re
import shlex
import typing as t
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from ..host import Host

_PROPERTIES = (
    "LoadState,ActiveState,MainPID,InvocationID,ExecStart,Environment,EnvironmentFiles,DropInPaths,FragmentPath,"
    "LimitMEMLOCK,NeedDaemonReload"
)
_ARGV = re.compile(r"argv\[\]=(.*?) ; ignore_errors=", re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?(\w+)=(.*)")

Flags = dict[str, list[str]]


@dataclass(frozen=True)
class Service:
    """One service.

    argv: what systemd will start, with the variables of its unit put in
    files: the unit's file, and its drop-ins in the order in which they count
    reload_due: files have changed since systemd read them
    """

    name: str
    there: bool
    active: bool
    pid: str
    invocation: str
    argv: tuple[str, ...]
    files: tuple[str, ...]
    memlock: str
    reload_due: bool = False

    def flags(self) -> Flags:
        """Its flags with their values, by name without dashes; a lone flag has the value ``""``."""
        return parse_flags(self.argv[1:])


def read_service(host: Host, name: str) -> Service:
    """Ask systemd about a service. Raises HostError."""
    shown = parse_show(host.run("systemctl", "show", "-p", _PROPERTIES, f"{name}.service").out)
    environment = {}
    for line in shown.get("EnvironmentFiles", []):
        text = host.read_optional(line.partition(" (")[0])
        environment.update(parse_environment(text or ""))
    return service(name, shown, environment)


def parse_show(text: str) -> dict[str, list[str]]:
    """Properties by name; a property that is printed twice has two values."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and value:
            found.setdefault(key, []).append(value)
    return found


def parse_environment(text: str) -> dict[str, str]:
    """Variables of an EnvironmentFile."""
    pairs = (_ASSIGNMENT.fullmatch(line) for line in text.splitlines() if not line.lstrip().startswith(("#", ";")))
    return {pair.group(1): " ".join(_words(pair.group(2))) for pair in pairs if pair}


def service(name: str, shown: dict[str, list[str]], environment: dict[str, str]) -> Service:
    """A service from the properties that were shown and the variables of its files."""
    own = dict(word.partition("=")[::2] for word in _words(" ".join(shown.get("Environment", []))) if "=" in word)
    command = _ARGV.search(shown.get("ExecStart", [""])[-1])

    def one(key: str) -> str:
        return shown.get(key, [""])[-1]

    return Service(
        name=name,
        there=one("LoadState") == "loaded",
        active=one("ActiveState") in ("active", "reloading"),
        pid=one("MainPID"),
        invocation=one("InvocationID"),
        argv=_expanded(command.group(1) if command else "", {**own, **environment}),
        files=tuple(_words(f"{one('FragmentPath')} {one('DropInPaths')}")),
        memlock=one("LimitMEMLOCK"),
        reload_due=one("NeedDaemonReload") == "yes",
    )


def parse_flags(argv: t.Sequence[str]) -> Flags:
    """Flags of a command line; a word after a flag that is no flag itself is taken for its value."""
    found: Flags = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and words and not words[0].startswith("-"):
            value = words.pop(0)
        found.setdefault(name, []).append(value)
    return found


def _expanded(command: str, variables: dict[str, str]) -> tuple[str, ...]:
    """The words of a command; ``$NAME`` as a word of its own stands for several words."""
    words: list[str] = []
    for word in _words(command):
        alone = re.fullmatch(r"\$(\w+)", word)
        if alone:
            words += _words(variables.get(alone.group(1), ""))
        else:
            words.append(_VARIABLE.sub(lambda m: variables.get(m.group(1) or m.group(2), ""), word))
    return tuple(words)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
