# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""podman: a drop-in file of our own. There is no service to restart: each start of a container reads it."""

from __future__ import annotations

import typing as t

from ..errors import ParseError, RoceError, ToolMissing
from ..findings import SKIPPED, Finding
from .engine import Engine, FileEdit, Options, Plan, judge, size_bytes
from .jsontext import parse_object
from .tomltext import strings, values

if t.TYPE_CHECKING:
    from ..host import Host

FOLDER = "/etc/containers/containers.conf.d"
CONFIG = f"{FOLDER}/99-lossless-roce.conf"
_BEFORE = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
_ULIMITS = ("containers", "default_ulimits")
_SHM = ("containers", "shm_size")
_CGROUP = ("engine", "cgroup_manager")
_MEMLOCK = "memlock=-1:-1"
_HEAD = "# Written by lossless.roce.container_runtime; a change here is overwritten.\n"


# -- pure ----------------------------------------------------------------------------------------


def drop_in(options: Options, ulimits: t.Sequence[str]) -> str:
    """The text of our file; ``ulimits`` are the other files' defaults, which a later file would replace."""
    lines = ["[containers]"]
    if options.memlock == "unlimited":
        kept = [limit for limit in ulimits if limit.partition("=")[0] != "memlock"]
        lines.append(f"default_ulimits = [{', '.join(_quoted(limit) for limit in [*kept, _MEMLOCK])}]")
    if options.shm_size:
        # podman takes "128m" for a decimal number of bytes, docker for a binary one.
        lines.append(f'shm_size = "{size_bytes(options.shm_size, "shm_size")}b"')
    if options.cgroup_driver == "systemd":
        lines += ["[engine]", 'cgroup_manager = "systemd"']
    return _HEAD + "\n".join(lines) + "\n" if len(lines) > 1 else ""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def ulimits_of(texts: t.Iterable[str]) -> list[str]:
    """The default limits that files give in this order: the last one that has any."""
    found: list[str] = []
    for text in texts:
        written = values(text).get(_ULIMITS)
        if written is not None:
            found = strings(written)
    return found


def overridden(later: dict[str, str], options: Options) -> dict[str, str]:
    """Keys of ours that a later file sets again, each with that file."""
    ours = {
        **({_ULIMITS: ""} if options.memlock == "unlimited" else {}),
        **({_SHM: ""} if options.shm_size else {}),
        **({_CGROUP: ""} if options.cgroup_driver == "systemd" else {}),
    }
    return {".".join(key): name for name, text in later.items() for key in values(text) if key in ours}


# -- the engine ----------------------------------------------------------------------------------


class Podman(Engine):
    """podman of root. It has CDI by itself."""

    name = "podman"

    def plan(self, host: Host, options: Options) -> Plan:
        """Write the drop-in, after podman has read a copy of it."""
        if host.which("podman") is None:
            raise ToolMissing("podman", "podman")
        plan = Plan("podman", folders=["/etc/containers", FOLDER])
        path = host.realpath(options.config or CONFIG)
        earlier, _later = _others(host, path)
        after = drop_in(options, ulimits_of(earlier.values()))
        before = host.read_optional(path)
        if after and after != before:
            _validate(host, path, after)
            plan.edits.append(FileEdit(path, before, after))
        return plan

    def containers(self, host: Host) -> list[str]:
        """Running containers of root."""
        if host.which("podman") is None:
            return []
        return host.run("podman", "ps", "--format", "{{.Names}}").out.split()

    def findings(self, host: Host, options: Options, pending: str) -> list[Finding]:
        """Whether our file stands and no later one overrides it; the cgroup manager by podman itself."""
        path = host.realpath(options.config or CONFIG)
        found = []
        earlier, later = _others(host, path)
        wanted = drop_in(options, ulimits_of(earlier.values()))
        again = overridden(later, options)
        if wanted:
            found.append(
                judge(
                    "podman_config",
                    host.read_optional(path) == wanted and not again,
                    again or host.read_optional(path),
                    wanted,
                    path,
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


def _others(host: Host, own: str) -> tuple[dict[str, str], dict[str, str]]:
    """Texts of the other files by path: those read before ours, and those read after it."""
    dropped = [f"{FOLDER}/{name}" for name in host.listdir(FOLDER) if name.endswith(".conf")]
    earlier = [*_BEFORE, *(path for path in dropped if path < own)]
    later = [path for path in dropped if path > own]
    return _texts(host, earlier), _texts(host, later)


def _texts(host: Host, paths: t.Iterable[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        text = host.read_optional(path)
        if text is not None:
            try:
                values(text)
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
