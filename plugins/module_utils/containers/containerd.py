# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""containerd: single keys of config.toml, judged by containerd's own dump before and after; memlock by its unit.

A drop-in file by ``imports`` would be simpler, and does harm: before containerd 2.1 it replaces the
whole section of a plugin, and what the main file says there is lost without a word.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..errors import ParseError, RoceError, ToolMissing
from ..findings import SKIPPED, Finding
from .engine import RESTART, Engine, FileEdit, Options, Plan, judge, not_running
from .tomltext import Path, scalar, set_value, strings, values
from .units import Service, read_service

if t.TYPE_CHECKING:
    from ..host import Host

CONFIG = "/etc/containerd/config.toml"
KUBELET = "/var/lib/kubelet/config.yaml"
DROP_IN_FOLDER = "/etc/systemd/system/containerd.service.d"
DROP_IN = f"{DROP_IN_FOLDER}/50-lossless-roce.conf"
DROP_IN_TEXT = """\
# Written by lossless.roce.container_runtime. RDMA registers memory, which locks it; containers inherit this limit.
[Service]
LimitMEMLOCK=infinity
"""
# The plugin that serves Kubernetes, by version of the file. Version 4 (containerd 2.3) moved sections of the server.
_PLUGINS = {
    1: "cri",
    2: "io.containerd.grpc.v1.cri",
    3: "io.containerd.cri.v1.runtime",
    4: "io.containerd.cri.v1.runtime",
}
_RUNC = '"io.containerd.runc.v2"'
_NVIDIA_BINARY = "/usr/bin/nvidia-container-runtime"
# Those that give GPUs by a hook; nvidia-container-runtime.cdi does not.
_HOOKED = ("nvidia-container-runtime", "nvidia-container-runtime.legacy")
_LIMIT = re.compile(r"^Max locked memory\s+(\S+)\s+(\S+)", re.MULTILINE)
_SETS_LIMIT = re.compile(r"\s*LimitMEMLOCK\s*=")

Written = dict[Path, str]


# -- pure ----------------------------------------------------------------------------------------


def version_of(text: str) -> int:
    """The version of a file; one without is version 1. Raises ParseError for a version that is not known."""
    return _version(values(text), "1")


def _version(written: Written, without: str) -> int:
    version = written.get(("version",), without)
    if version not in map(str, _PLUGINS):
        raise ParseError(f"version: is {version[:40]} … one of {', '.join(map(str, _PLUGINS))} was expected")
    return int(version)


def _plugin(effective: Written) -> str:
    """The plugin's name in a dump. Raises ParseError as version_of does."""
    return _PLUGINS[_version(effective, "2")]


def settings_to_make(effective: Written, plugin: str, options: Options) -> Written:
    """Keys below the plugin that must be set, by path; ``effective`` is what containerd would run with."""
    base = ("plugins", plugin)
    runtimes = (*base, "containerd", "runtimes")
    wanted: Written = {}
    if options.cdi:
        wanted[(*base, "enable_cdi")] = "true"
    names = {path[len(runtimes)] for path in effective if path[: len(runtimes)] == runtimes}
    if options.nvidia_runtime and "nvidia" not in names:
        options_of = (*runtimes, "nvidia", "options")
        wanted[(*runtimes, "nvidia", "runtime_type")] = _RUNC
        wanted[(*options_of, "BinaryName")] = f'"{_NVIDIA_BINARY}"'
        systemd = effective.get((*runtimes, "runc", "options", "SystemdCgroup"), "false")
        wanted[(*options_of, "SystemdCgroup")] = "true" if options.cgroup_driver == "systemd" else systemd
        names.add("nvidia")
    if options.default_runtime:
        if options.default_runtime not in names:
            raise RoceError(
                f"default_runtime: {options.default_runtime!r} is no runtime of containerd … one of"
                f" {', '.join(sorted(names))} was expected"
            )
        wanted[(*base, "containerd", "default_runtime_name")] = f'"{options.default_runtime}"'
    if options.cgroup_driver == "systemd":
        for name in names:
            if scalar({**effective, **wanted}.get((*runtimes, name, "runtime_type"))) == scalar(_RUNC):
                wanted[(*runtimes, name, "options", "SystemdCgroup")] = "true"
    return {path: value for path, value in wanted.items() if scalar(effective.get(path)) != scalar(value)}


def merge(text: str, settings: Written) -> str:
    """The text with the settings made; everything else stays as it is."""
    for path, value in settings.items():
        text = set_value(text, path, value)
    return text


def side_effects(before: Written, after: Written, settings: Written) -> list[Path]:
    """What would change in containerd besides the settings; an added runtime brings its own defaults."""
    added = {path[:5] for path in settings if path[3:4] == ("runtimes",) and not _has(before, path[:5])}
    return sorted(
        path
        for path in {*before, *after}
        if before.get(path) != after.get(path)
        and path not in settings
        and path[:5] not in added
        and path != ("imports",)
    )


def nvidia_runtimes(effective: Written) -> dict[str, bool]:
    """Runtimes that give GPUs by NVIDIA's hook, each with whether it leaves cgroups to systemd. Pure.

    None where the plugin that serves Kubernetes is disabled. Raises ParseError as version_of does.
    """
    plugin = _plugin(effective)
    if _cri_disabled(effective, plugin):
        return {}
    runtimes = ("plugins", plugin, "containerd", "runtimes")
    return {
        path[4]: scalar(effective.get((*path[:5], "options", "SystemdCgroup"))) is True
        for path, written in effective.items()
        if path[:4] == runtimes
        and path[5:] == ("options", "BinaryName")
        and str(scalar(written)).rpartition("/")[2] in _HOOKED
    }


def _cri_disabled(effective: Written, plugin: str) -> bool:
    disabled = effective.get(("disabled_plugins",), "")
    return '"cri"' in disabled or plugin in disabled


def _has(effective: Written, prefix: Path) -> bool:
    return any(path[: len(prefix)] == prefix for path in effective)


def with_absolute_imports(text: str, path: str) -> str:
    """The text as it can be loaded from another folder than that of ``path``."""
    written = values(text).get(("imports",))
    if written is None:
        return text
    folder = path.rpartition("/")[0]
    names = [name if name.startswith("/") else f"{folder}/{name}" for name in strings(written)]
    return set_value(text, ("imports",), json.dumps(names))


def in_version(settings: Written, version: int) -> Written:
    """The settings with the plugin's name in a file of that version."""
    return {(path[0], _PLUGINS[version], *path[2:]): value for path, value in settings.items()}


# -- the engine ----------------------------------------------------------------------------------


class Containerd(Engine):
    """containerd with its CRI plugin."""

    name = "containerd"

    def plan(self, host: Host, options: Options) -> Plan:
        """Set what differs, and let containerd say what would come of it."""
        service = read_service(host, "containerd")
        if not service.there:
            raise ToolMissing("containerd", "containerd or containerd.io")
        plan = Plan("containerd", service)
        path = config_path(host, service, options)
        edit = _config_edit(host, service, path, options)
        if edit:
            plan.edits.append(edit)
        if options.memlock == "unlimited" and service.memlock != "infinity":
            _plan_memlock(host, service, plan)
        raised = options.memlock == "unlimited" and service.memlock == "infinity"
        stale = raised and service.active and running_memlock(host, service) != "unlimited"
        if service.active and (plan.edits or plan.daemon_reload or stale):
            plan.action = RESTART
        return plan

    def containers(self, host: Host) -> list[str]:
        """Tasks of all namespaces: those of docker and of Kubernetes as well."""
        if not read_service(host, "containerd").active:
            return []
        spaces = host.run("ctr", "namespaces", "list", "-q").out.split()
        return [
            f"{s}/{task[:12]}" for s in spaces for task in host.run("ctr", "-n", s, "tasks", "list", "-q").out.split()
        ]

    def findings(self, host: Host, options: Options, pending: str) -> list[Finding]:
        """What containerd would run with, by its own dump, and the limit that its process has."""
        service = read_service(host, "containerd")
        effective = read_config(host, service, options)
        found = judge_effective(effective, options, pending) + judge_kubelet(effective, host.read_optional(KUBELET))
        if options.shm_size:
            found.append(_no_shm())
        if not service.active:
            return [*found, not_running("containerd")]
        if options.memlock == "unlimited":
            limit = running_memlock(host, service)
            found.append(
                judge(
                    "containerd_memlock",
                    limit == "unlimited",
                    limit,
                    "unlimited",
                    f"/proc/{service.pid}/limits",
                    "containers inherit a finite limit on locked memory, and RDMA cannot register its buffers",
                    "module lossless.roce.container_runtime with memlock: unlimited",
                    pending,
                )
            )
        return found


def judge_effective(effective: Written, options: Options, pending: str = "") -> list[Finding]:
    """Findings on a dump of the configuration. Pure. Raises ParseError for a version that is not known."""
    evidence = "containerd config dump"
    remedy = "module lossless.roce.container_runtime for engine containerd"
    base = ("plugins", _plugin(effective))
    found = []
    if _cri_disabled(effective, base[1]):
        found.append(
            Finding(
                check="containerd_cri",
                verdict=SKIPPED,
                observed=effective[("disabled_plugins",)],
                evidence=evidence,
                cause="the CRI plugin is disabled: CDI and runtimes of this file serve Kubernetes only",
            )
        )
    missing = settings_to_make(effective, base[1], options)
    observed = {".".join(path[2:]): scalar(effective.get(path)) for path in missing} or "as asked for"
    wanted = {".".join(path[2:]): scalar(value) for path, value in missing.items()} or "as asked for"
    cause = "the configuration lacks it"
    found.append(
        judge(
            "containerd_config",
            not missing and not pending,
            observed,
            wanted,
            evidence,
            cause,
            remedy,
            "" if missing else pending,
        )
    )
    return found


def judge_kubelet(effective: Written, kubelet: str | None) -> list[Finding]:
    """Whether the default runtime and kubelet's configuration name one cgroup driver. Pure; none without kubelet."""
    declared = re.search(r"^cgroupDriver:\s*\"?(\w+)", kubelet or "", re.MULTILINE)
    if not declared:
        return []
    base = ("plugins", _plugin(effective), "containerd")
    runtime = str(scalar(effective.get((*base, "default_runtime_name"), "runc")))
    systemd = scalar(effective.get((*base, "runtimes", runtime, "options", "SystemdCgroup"))) is True
    driver = "systemd" if systemd else "cgroupfs"
    return [
        judge(
            "kubelet_cgroup_driver",
            driver == declared.group(1),
            driver,
            declared.group(1),
            KUBELET,
            f"kubelet uses {declared.group(1)} and containerd's runtime {runtime} uses {driver}: pods crash-loop",
            "cgroup_driver: systemd here and cgroupDriver: systemd in kubelet's file",
        )
    ]


def _plan_memlock(host: Host, service: Service, plan: Plan) -> None:
    """Add our drop-in to the plan. Raises RoceError where it stands, or would stand, and does not count."""
    text = host.read_optional(DROP_IN)
    overriding = _overriding(host, service)
    if overriding or (text == DROP_IN_TEXT and not service.reload_due):
        raise RoceError(
            f"containerd: LimitMEMLOCK is {service.memlock} by {overriding or 'systemctl cat containerd'} … infinity,"
            f" as {DROP_IN} sets it, was expected; nothing was changed (take the line out there, or memlock: keep)"
        )
    if text != DROP_IN_TEXT:
        plan.edits.append(FileEdit(DROP_IN, text, DROP_IN_TEXT))
        plan.folders.append(DROP_IN_FOLDER)
    plan.daemon_reload = True


def _overriding(host: Host, service: Service) -> str:
    """The drop-in that sets a finite limit after ours; empty without one. They count by name, whatever the folder."""
    own = DROP_IN.rpartition("/")[2]
    later = [path for path in service.files[1:] if path.rpartition("/")[2] > own]
    lines = [(path, line) for path in later for line in (host.read_optional(path) or "").splitlines()]
    setting = [(path, line.partition("=")[2].strip()) for path, line in lines if _SETS_LIMIT.match(line)]
    return setting[-1][0] if setting and setting[-1][1] != "infinity" else ""


def running_memlock(host: Host, service: Service) -> str:
    """The hard limit that containers inherit; empty when it cannot be read."""
    found = _LIMIT.search(host.read_optional(f"/proc/{service.pid}/limits") or "")
    return found.group(2) if found else ""


def read_config(host: Host, service: Service, options: Options) -> Written:
    """What containerd would run with, by its own dump. Raises HostError, ParseError."""
    return values(_dump(host, service, config_path(host, service, options)))


def config_path(host: Host, service: Service, options: Options) -> str:
    """The file that containerd reads; links followed."""
    flags = service.flags()
    return host.realpath(options.config or (flags.get("config") or flags.get("c") or [CONFIG])[-1])


def _config_edit(host: Host, service: Service, path: str, options: Options) -> FileEdit | None:
    before = host.read_exact(path) if host.exists(path) else None
    effective = values(_dump(host, service, path))
    try:
        settings = settings_to_make(effective, _plugin(effective), options)
        if not settings:
            return None
        text = before if before and before.strip() else f"version = {_version(effective, '2')}\n"
        after = merge(text, in_version(settings, version_of(text)))
    except ParseError as exc:
        raise ParseError(f"{path}: {exc}; the file was left as it is") from exc
    _validate(host, service, path, after, effective, settings)
    return FileEdit(path, before, after, backup=True)


def _validate(host: Host, service: Service, path: str, text: str, effective: Written, settings: Written) -> None:
    """Let containerd load the new text, and compare what would come of it with what there is."""
    with host.temporary_directory() as folder:
        temporary = f"{folder}/config.toml"
        host.write(temporary, with_absolute_imports(text, path))
        after = values(_dump(host, service, temporary))
    lost = [path for path, value in settings.items() if scalar(after.get(path)) != scalar(value)]
    other = side_effects(effective, after, settings)
    if lost or other:
        what = ", ".join(".".join(key) for key in lost or other)
        raise RoceError(
            f"{path}: containerd would "
            + (f"not take over {what}: an imported file replaces that section" if lost else f"also change {what}")
            + "; nothing was changed … make the setting by hand, in the file that owns the section"
        )


def _dump(host: Host, service: Service, path: str) -> str:
    """What containerd makes of a configuration; of its defaults when there is no file."""
    binary = service.argv[0] if service.argv else "containerd"
    argv = (binary, "--config", path, "config", "dump") if host.exists(path) else (binary, "config", "default")
    done = host.run(*argv, check=False)
    if done.rc:
        message = done.text()
        where = re.search(r"\((\d+), (\d+)\)", message)
        at = f"line {where.group(1)}, column {where.group(2)}: " if where else ""
        raise ParseError(f"{path}: {at}containerd refuses it, and it was left as it is: {message}")
    return done.out


def _no_shm() -> Finding:
    return Finding(
        check="containerd_shm_size",
        verdict=SKIPPED,
        evidence="containerd config dump",
        cause="containerd has no default size of /dev/shm: a pod mounts an emptyDir of medium Memory there",
    )
