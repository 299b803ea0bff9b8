# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""podman: a drop-in file of our own, or single keys of a file that the user names.

There is no service to restart: each start of a container reads the files.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..errors import ParseError, RoceError, ToolMissing
from ..findings import SKIPPED, Finding
from .engine import Engine, FileEdit, Options, Plan, judge, size_bytes
from .jsontext import parse_object
from .tomltext import Path, items, scalar, set_value, strings, values

if t.TYPE_CHECKING:
    from ..host import Host

FOLDER = "/etc/containers/containers.conf.d"
CONFIG = f"{FOLDER}/99-lossless-roce.conf"
_BEFORE = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
_ULIMITS = ("containers", "default_ulimits")
_SHM = ("containers", "shm_size")
_CGROUP = ("engine", "cgroup_manager")
_MEMLOCK = "memlock=-1:-1"
_UNLIMITED = ("memlock=-1", _MEMLOCK)
_HEAD = "# Written by lossless.roce.container_runtime; a change here is overwritten.\n"


# -- pure ----------------------------------------------------------------------------------------


def is_ours(text: str | None) -> bool:
    """Whether a file is there for us alone: ours, empty, or not there yet."""
    return not (text or "").strip() or (text or "").startswith(_HEAD)


def text_with(text: str | None, options: Options, earlier: t.Sequence[str]) -> str | None:
    """The text that a file must have, None when nothing is asked for; ``earlier`` are the texts that are read before.

    A file of our own is written as a whole. In somebody's, our keys are set and the rest stays as it is.
    Raises ParseError when it is broken, or cannot be extended in place.
    """
    if text is None or is_ours(text):
        return drop_in(_settings(options, _new_array(earlier))) or None
    array = _array(text)
    settings = _settings(options, _new_array(earlier) if array is None else _with_memlock(array))
    for path, value in settings.items():
        if scalar(values(text).get(path)) != scalar(value):
            text = set_value(text, path, value)
    return text if settings else None


def drop_in(settings: dict[Path, str]) -> str:
    """The text of a file of our own; empty when there is nothing to set."""
    lines = ["[containers]", *(f"{key} = {value}" for (table, key), value in settings.items() if table == "containers")]
    if _CGROUP in settings:
        lines += ["[engine]", f"{_CGROUP[1]} = {settings[_CGROUP]}"]
    return _HEAD + "\n".join(lines) + "\n" if settings else ""


def limits_of(texts: t.Iterable[str]) -> tuple[list[str], bool]:
    """The default limits that files give in this order, and whether those of one more file would be appended.

    A file's array replaces the former one, until one holds ``{append=true}``: containers.conf(5).
    """
    limits: list[str] = []
    append = False
    for array in (array for array in map(_array, texts) if array is not None):
        for start, end in items(array):
            if array[start] == "{":
                append = values(array[start + 1 : end - 1]).get(("append",)) == "true"
        limits = [*(limits if append else []), *strings(array)]
    return limits, append


def overriding(ours: t.Sequence[str], later: dict[str, str], options: Options) -> dict[str, str]:
    """Keys of ours that a later file takes from us, each with that file; ``ours`` are all texts up to our own."""
    found: dict[str, str] = {}
    settings = _settings(options, "")
    texts = list(ours)
    for name, text in later.items():
        texts.append(text)
        keys = [key for key in values(text) if key in settings]
        # A later array may append to ours, or lift the limit itself.
        found.update({".".join(key): name for key in keys if key != _ULIMITS or not _lifted(limits_of(texts)[0])})
    return found


def _settings(options: Options, array: str) -> dict[Path, str]:
    """Our keys as they are written; ``array`` are the default limits."""
    return {
        **({_ULIMITS: array} if options.memlock == "unlimited" else {}),
        # podman takes "128m" for a decimal number of bytes, docker for a binary one.
        **({_SHM: f'"{size_bytes(options.shm_size, "shm_size")}b"'} if options.shm_size else {}),
        **({_CGROUP: '"systemd"'} if options.cgroup_driver == "systemd" else {}),
    }


def _array(text: str) -> str | None:
    """The default limits of a file as they are written. Raises ParseError when they are no array."""
    written = values(text).get(_ULIMITS)
    if written is not None and not written.startswith("["):
        raise ParseError(f"{'.'.join(_ULIMITS)}: is {written[:40]} … an array was expected")
    return written


def _new_array(earlier: t.Iterable[str]) -> str:
    """An array for a file that has none: it would replace the earlier limits, unless it is appended to them."""
    limits, append = limits_of(earlier)
    kept = [] if append else [limit for limit in limits if not _is_memlock(limit)]
    return f"[{', '.join(_quoted(limit) for limit in [*kept, _MEMLOCK])}]"


def _with_memlock(array: str) -> str:
    """A written array with our limit in it; its other items and comments stay."""
    if _lifted(strings(array)):
        return array
    spans = items(array)
    ours = [(start, end) for start, end in spans if _is_memlock(str(scalar(array[start:end])))]
    for start, end in reversed(ours):
        array = array[:start] + _quoted(_MEMLOCK) + array[end:]
    if ours:
        return array
    end = spans[-1][1] if spans else 1
    return f"{array[:end]}{', ' if spans else ''}{_quoted(_MEMLOCK)}{array[end:]}"


def _lifted(limits: t.Sequence[str]) -> bool:
    """Whether locked memory is unlimited; the last limit of a name counts."""
    ours = [limit for limit in limits if _is_memlock(limit)]
    return bool(ours) and ours[-1] in _UNLIMITED


def _is_memlock(limit: str) -> bool:
    return limit.partition("=")[0] == "memlock"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- the engine ----------------------------------------------------------------------------------


class Podman(Engine):
    """podman of root. It has CDI by itself."""

    name = "podman"

    def plan(self, host: Host, options: Options) -> Plan:
        """Write our keys, after podman has read a copy of the file."""
        if host.which("podman") is None:
            raise ToolMissing("podman", "podman")
        files = _read(host, options)
        plan = Plan("podman", folders=["/etc/containers", FOLDER])
        if files.after is not None and files.after != files.before:
            _validate(host, files.path, files.after)
            plan.edits.append(FileEdit(files.path, files.before, files.after, backup=not is_ours(files.before)))
        return plan

    def containers(self, host: Host) -> list[str]:
        """Running containers of root."""
        if host.which("podman") is None:
            return []
        return host.run("podman", "ps", "--format", "{{.Names}}").out.split()

    def findings(self, host: Host, options: Options, pending: str) -> list[Finding]:
        """Whether our file stands and no later one overrides it; the cgroup manager by podman itself."""
        files = _read(host, options)
        found = []
        again = overriding([*files.earlier.values(), files.before or ""], files.later, options)
        if files.after is not None:
            found.append(
                judge(
                    "podman_config",
                    files.before == files.after and not again,
                    again or files.before,
                    files.after,
                    files.path,
                    "a later file sets the same keys again" if again else "the file differs",
                    f"take the keys out of {', '.join(sorted(set(again.values())))}"
                    if again
                    else "module lossless.roce.container_runtime for engine podman",
                )
            )
        if options.cgroup_driver == "systemd":
            manager = _info(host).get("host", {}).get("cgroupManager")
            found.append(
                judge(
                    "podman_cgroup_manager",
                    manager == "systemd",
                    manager,
                    "systemd",
                    "podman info --format json",
                    "podman runs without systemd's cgroups",
                    "see podman info; systemd as a user session is needed",
                )
            )
        if options.nvidia_runtime and not options.nvidia_cdi:
            found.append(
                Finding(
                    check="podman_nvidia",
                    verdict=SKIPPED,
                    evidence="podman info",
                    cause="podman takes GPUs by CDI, not by a runtime: nvidia: cdi, or auto with nvidia-ctk",
                )
            )
        return found


@dataclass(frozen=True)
class Files:
    """The file that has our keys, as it is and as it must be, and the other files' texts in podman's order."""

    path: str
    before: str | None
    after: str | None
    earlier: dict[str, str]
    later: dict[str, str]


def _read(host: Host, options: Options) -> Files:
    """Raises ParseError that names the broken file, HostError for one that is no UTF-8."""
    name = options.config or CONFIG
    path = host.realpath(name)
    dropped = {f"{FOLDER}/{entry}" for entry in host.listdir(FOLDER) if entry.endswith(".conf")}
    order = [*_BEFORE, *sorted(dropped | ({name} if name.startswith(f"{FOLDER}/") else set()))]
    # A file elsewhere is one that podman is told to read: after all others.
    at = order.index(name) if name in order else len(order)
    earlier, later = _texts(host, order[:at]), _texts(host, order[at + 1 :])
    before = host.read_exact(path) if host.exists(path) else None
    try:
        after = text_with(before, options, list(earlier.values()))
    except ParseError as exc:
        raise ParseError(f"{path}: {exc}; it was left as it is") from exc
    return Files(path, before, after, earlier, later)


def _texts(host: Host, paths: t.Iterable[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        text = host.read_optional(path)
        if text is not None:
            try:
                limits_of([text])
            except ParseError as exc:
                raise ParseError(f"{path}: {exc}; nothing was changed") from exc
            found[path] = text
    return found


def _validate(host: Host, path: str, text: str) -> None:
    with host.temporary_directory() as folder:
        temporary = f"{folder}/containers.conf"
        host.write(temporary, text)
        argv = ("env", f"CONTAINERS_CONF_OVERRIDE={temporary}", "podman", "info", "--format", "{{.Host.CgroupManager}}")
        done = host.run(*argv, check=False)
    if done.rc:
        raise RoceError(f"{path}: podman refuses it, nothing was changed: {done.text()}")


def _info(host: Host) -> dict[str, t.Any]:
    argv = ("podman", "info", "--format", "json")
    return parse_object(host.run(*argv).out, " ".join(argv))
