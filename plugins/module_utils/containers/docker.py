# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""docker: settings in daemon.json, merged as text and validated by dockerd with the flags of its unit."""

from __future__ import annotations

import json
import typing as t

from ..errors import HostError, ParseError, RoceError, ToolMissing
from ..findings import Finding
from .engine import RELOAD, RESTART, Engine, FileEdit, Options, Plan, judge, not_running, size_bytes
from .jsontext import BOM, Keys, parse_object, set_member
from .units import Flags, Service, read_service

if t.TYPE_CHECKING:
    from ..host import Host

CONFIG = "/etc/docker/daemon.json"
NVIDIA_RUNTIME = {"path": "nvidia-container-runtime", "args": []}
UNLIMITED = {"Name": "memlock", "Hard": -1, "Soft": -1}
# Seen on docker 26.1: SIGHUP takes these over. features.cdi and default-ulimits need a restart.
_RELOADABLE = {"runtimes", "default-runtime", "default-shm-size"}
_CGROUP = "native.cgroupdriver="
_SHORT_FLAGS = {"H": "host", "b": "bridge", "D": "debug", "G": "group", "l": "log-level", "p": "pidfile",
                "s": "storage-driver"}  # fmt: skip

Setting = tuple[Keys, t.Any]


# -- merge: pure ---------------------------------------------------------------------------------


def settings_to_make(config: dict[str, t.Any], options: Options, path: str = CONFIG) -> list[Setting]:
    """The members that must be set, and nothing that is right already. Raises RoceError."""
    found: list[Setting] = []
    if options.nvidia_runtime and "nvidia" not in _object(config, "runtimes", path):
        found.append((("runtimes", "nvidia"), NVIDIA_RUNTIME))
    if options.default_runtime and config.get("default-runtime") != options.default_runtime:
        found.append((("default-runtime",), options.default_runtime))
    if options.memlock == "unlimited" and not _unlimited(_object(config, "default-ulimits", path).get("memlock")):
        found.append((("default-ulimits", "memlock"), UNLIMITED))
    if options.shm_size and not _same_size(config.get("default-shm-size"), options.shm_size):
        found.append((("default-shm-size",), options.shm_size))
    if options.cdi and _object(config, "features", path).get("cdi") is not True:
        found.append((("features", "cdi"), True))
    if options.cgroup_driver == "systemd":
        former = _list(config, "exec-opts", path)
        wanted = [*(word for word in former if not str(word).startswith(_CGROUP)), f"{_CGROUP}systemd"]
        if f"{_CGROUP}systemd" not in former:
            found.append((("exec-opts",), wanted))
    return found


def merge(text: str, settings: t.Iterable[Setting]) -> str:
    """The text of daemon.json with the settings made; everything else stays as it is."""
    for keys, value in settings:
        text = set_member(text, keys, value)
    return text


def refuse_unknown_runtime(after: dict[str, t.Any], flags: Flags, path: str) -> None:
    """dockerd's own validation lets a default runtime pass that is not registered, and then docker does not start."""
    name = str(after.get("default-runtime") or "runc")
    by_flag = [value.partition("=")[0] for value in flags.get("add-runtime", [])]
    known = {"runc", *_object(after, "runtimes", path), *by_flag}
    # Docker takes the name or path of any containerd shim, too.
    if name not in known and not name.startswith(("io.containerd.", "/")):
        raise RoceError(
            f"{path}: default runtime {name!r} is not registered … one of {', '.join(sorted(known))} was expected:"
            " docker would not start"
        )


def _object(config: dict[str, t.Any], key: str, path: str) -> dict[str, t.Any]:
    value = config.get(key)
    if value is not None and not isinstance(value, dict):
        raise ParseError(f"{path}: {key}: is {json.dumps(value)[:60]} … an object was expected")
    return value or {}


def _list(config: dict[str, t.Any], key: str, path: str) -> list[t.Any]:
    value = config.get(key)
    if value is not None and not isinstance(value, list):
        raise ParseError(f"{path}: {key}: is {json.dumps(value)[:60]} … a list was expected")
    return value or []


def _unlimited(limit: t.Any) -> bool:
    """docker reads the keys in any case."""
    lower = {str(key).lower(): value for key, value in limit.items()} if isinstance(limit, dict) else {}
    return lower.get("soft") == lower.get("hard") == -1


def _same_size(present: t.Any, wanted: str) -> bool:
    size = size_bytes(wanted, "shm_size")
    try:
        return size_bytes(str(present), CONFIG) == size
    except RoceError:
        return False


def conflicts(keys: t.Iterable[str], flags: Flags) -> dict[str, str]:
    """Keys of the file that the unit gives as flags as well, each with that flag: docker refuses both together."""
    by_key = {}
    for name, values in flags.items():
        full = _SHORT_FLAGS.get(name, name.removeprefix("add-"))
        shown = f"{'-' if len(name) == 1 else '--'}{name} {' '.join(values)}".strip()
        for key in (full, f"{full}s", f"{full[:-1]}ies"):
            by_key[key] = shown
    return {key: by_key[key] for key in keys if key in by_key}


# -- the engine ----------------------------------------------------------------------------------


class Docker(Engine):
    """dockerd and its one file."""

    name = "docker"

    def plan(self, host: Host, options: Options) -> Plan:
        """Merge daemon.json, look for contradictions with the unit, and let dockerd validate the result."""
        service = read_service(host, "docker")
        if not service.there:
            raise ToolMissing("docker", "docker.io or docker-ce")
        path = config_path(host, service, options)
        before = host.read_exact(path) if host.exists(path) else None
        bare = (before or "").lstrip(BOM)
        # dockerd takes an empty file for an empty object.
        text = bare if bare.strip() else "{}\n"
        try:
            config = parse_object(text, path)
            settings = settings_to_make(config, options, path)
            after = merge(text, settings)
        except ParseError as exc:
            raise ParseError(f"{exc}; {path} was left as it is") from exc
        plan = Plan("docker", service)
        if not settings:
            return plan
        _refuse_conflicts({*config, *(keys[0] for keys, _value in settings)}, service, path)
        refuse_unknown_runtime(parse_object(after, path), service.flags(), path)
        plan.notes += _validated(host, service, path, after)
        if before is not None and before.startswith(BOM):
            plan.notes.append(f"{path}: its byte order mark was left out, since docker before 23.0 refuses it")
        plan.edits.append(FileEdit(path, before, after, backup=True))
        if service.active:
            plan.action = RELOAD if {keys[0] for keys, _value in settings} <= _RELOADABLE else RESTART
        return plan

    def containers(self, host: Host) -> list[str]:
        """Asked of a docker that runs: the client would start a stopped one through its socket."""
        if not read_service(host, "docker").active:
            return []
        return host.run("docker", "ps", "--format", "{{.Names}}").out.split()

    def findings(self, host: Host, options: Options, pending: str) -> list[Finding]:
        """What docker itself says: runtimes, CDI, cgroup driver. Its default limits it does not tell: the file does."""
        service = read_service(host, "docker")
        path = config_path(host, service, options)
        text = (host.read_optional(path) or "").lstrip(BOM)
        config = parse_object(text, path) if text.strip() else {}
        found = judge_file(config, service.flags(), path, options, pending)
        if not service.active:
            return [*found, not_running("docker")]
        return found + judge_running(read_info(host), options, pending)


def config_path(host: Host, service: Service, options: Options) -> str:
    """The file that dockerd reads: as asked for, as its unit says, or the usual one; links followed."""
    return host.realpath(options.config or (service.flags().get("config-file") or [CONFIG])[-1])


def _refuse_conflicts(keys: set[str], service: Service, path: str) -> None:
    both = conflicts(sorted(keys), service.flags())
    if both:
        raise RoceError(
            f"{path}: conflict: docker refuses what is given in the file and as a flag of its unit: "
            + "; ".join(f"{key} (flag: {flag})" for key, flag in both.items())
            + f"; the unit is {', '.join(service.files)}; nothing was changed … each setting in one place was expected:"
            " take the flag out of the unit (systemctl edit docker), or the key out of the file"
        )


def _validated(host: Host, service: Service, path: str, text: str) -> list[str]:
    """Let dockerd judge the new file with the flags of its unit. Raises RoceError; returns notes."""
    with host.temporary_directory() as folder:
        temporary = f"{folder}/daemon.json"
        host.write(temporary, text)
        argv = _without_config_file(service.argv or ("dockerd",))
        done = host.run(*argv, "--validate", "--config-file", temporary, check=False)
    if not done.rc:
        return []
    if "unknown flag: --validate" in done.text():
        return ["this dockerd has no --validate: the new file was not validated before the restart"]
    raise RoceError(f"{path}: dockerd refuses the merged file, nothing was changed: {done.text()}")


def _without_config_file(argv: t.Sequence[str]) -> list[str]:
    words, skip = [], False
    for word in argv:
        if not skip and not word.startswith("--config-file"):
            words.append(word)
        skip = word == "--config-file"
    return words


# -- what docker says ----------------------------------------------------------------------------


def read_info(host: Host) -> dict[str, t.Any]:
    """``docker info`` as data. Raises HostError, ParseError."""
    # Before 23 docker took a template only; this one works with all.
    argv = ("docker", "info", "--format", "{{json .}}")
    out = host.run(*argv).out
    info = parse_object(out, " ".join(argv))
    if info.get("ServerErrors"):
        raise HostError(f"docker info: {'; '.join(map(str, info['ServerErrors']))}")
    return info


def judge_file(config: dict[str, t.Any], flags: Flags, path: str, options: Options, pending: str = "") -> list[Finding]:
    """Findings on the file itself. Pure."""
    both = conflicts(sorted(config), flags)
    found = []
    if both:
        found.append(
            judge(
                "docker_flags",
                False,
                both,
                {},
                f"{path}, systemctl cat docker",
                "the same setting is in the file and a flag of the unit: docker will not start again",
                "keep each of them in one place: systemctl edit docker, or take the key out of the file",
            )
        )
    if options.memlock == "unlimited":
        limit = _object(config, "default-ulimits", path).get("memlock")
        right = _unlimited(limit)
        found.append(
            judge(
                "docker_memlock",
                right and not pending,
                limit,
                UNLIMITED,
                f"{path}, default-ulimits",
                "containers start with a finite limit on locked memory, and RDMA cannot register its buffers",
                "module lossless.roce.container_runtime with memlock: unlimited",
                pending if right else "",
            )
        )
    return found


def judge_running(info: dict[str, t.Any], options: Options, pending: str = "") -> list[Finding]:
    """Findings on what docker runs with, from ``docker info``. Pure."""
    evidence = "docker info --format json"
    restart = "systemctl restart docker, once no container runs; then journalctl -u docker"
    unread = "the file asks for it and docker runs without it: docker has not read the file since it was written"
    found = []
    if options.nvidia_runtime:
        runtimes = sorted(info.get("Runtimes") or {})
        found.append(
            judge("docker_nvidia_runtime", "nvidia" in runtimes, runtimes, "nvidia", evidence, unread, restart, pending)
        )
    if options.default_runtime:
        value = info.get("DefaultRuntime")
        right = value == options.default_runtime
        found.append(
            judge("docker_default_runtime", right, value, options.default_runtime, evidence, unread, restart, pending)
        )
    if options.cdi:
        folders = info.get("CDISpecDirs") or []
        found.append(judge("docker_cdi", bool(folders), folders, "CDI folders", evidence, *_no_cdi(info), pending))
    if options.cgroup_driver == "systemd":
        value = info.get("CgroupDriver")
        right = value == "systemd"
        found.append(judge("docker_cgroup_driver", right, value, "systemd", evidence, unread, restart, pending))
    return found


def _no_cdi(info: dict[str, t.Any]) -> tuple[str, str]:
    version = str(info.get("ServerVersion", ""))
    major = version.split(".", maxsplit=1)[0]
    if major.isascii() and major.isdigit() and int(major) < 25:
        return (
            f"docker {version} knows no CDI (25.0 does)",
            "update docker, or pass --device /dev/infiniband to each container",
        )
    return "docker runs without CDI", "systemctl restart docker, once no container runs; then journalctl -u docker"
