# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kernel modules and their options: loaded now, and on disk for the next boot. Private to the collection."""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ..checks.driver import STACK, Modules, judge_modules, read_modules
from ..errors import PolicyError
from ..findings import FAIL, PASS, PENDING, UNKNOWN, Finding
from ..operations import Run, Write
from ..parsers.driver import module_name
from .part import Part, Plan

if t.TYPE_CHECKING:
    from ..host import Host

LOAD_FILE = "/etc/modules-load.d/lossless-roce.conf"
OPTIONS_FILE = "/etc/modprobe.d/lossless-roce.conf"
_HEADER = "# Managed by Ansible, module lossless.roce.mlx5_driver.\n"
_SWITCH = {"y": "1", "n": "0", "true": "1", "false": "0"}
_OPTION_REMEDIES = {
    FAIL: "role mlx5 writes it",
    PENDING: "reboot; an initramfs that holds the module must be made anew",
}

Options = dict[str, dict[str, str]]


def checked_names(names: t.Iterable[str]) -> tuple[str, ...]:
    """Names of modules, each once. Raises PolicyError."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise PolicyError(f"modules: {name!r} … the name of a kernel module was expected")
    return tuple(dict.fromkeys(module_name(name) for name in names))


def checked_options(raw: t.Mapping[str, t.Any]) -> Options:
    """Parameters by module, values as text. Raises PolicyError."""
    options: Options = {}
    for module, parameters in raw.items():
        if not isinstance(parameters, t.Mapping):
            raise PolicyError(f"options: {module}: {parameters!r} … a mapping of parameter to value was expected")
        options[module_name(str(module))] = {
            str(key): _checked_value(module, key, parameters[key]) for key in parameters
        }
    return options


def _checked_value(module: str, key: str, value: t.Any) -> str:
    text = str(int(value)) if isinstance(value, bool) else str(value)
    if not isinstance(value, (bool, int, str)) or not re.fullmatch(r"[^\s\"'\\#]+", text):
        raise PolicyError(f"options: {module}.{key}: {value!r} … a number, true, false or a word was expected")
    return text


class ModulesPart(Part):
    """The modules are loaded, and the list on disk loads them at boot."""

    name = "modules"

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.modules = Modules()
        self._file: str | None = None

    def read(self, host: Host) -> None:
        self.modules = read_modules(host, [*self.names, *STACK])
        self._file = host.read_optional(LOAD_FILE)

    def plan(self, host: Host) -> Plan:
        plan = Plan(independent=True)
        for name in self.modules.not_loaded(self.names):
            plan.operations.append(Run(("modprobe", name)))
            plan.before[name], plan.after[name] = "not loaded", "loaded"
        content = self._content()
        if self._file != content and self.names:
            plan.operations.append(Write(LOAD_FILE, content))
            plan.before[LOAD_FILE], plan.after[LOAD_FILE] = self._file or "", content
        return plan

    def _content(self) -> str:
        missing = self.modules.missing(self.names)
        return _HEADER + "".join(f"{name}\n" for name in self.names if name not in missing)

    def findings(self, note: str, error: str) -> list[Finding]:
        if not self.names:
            return []
        finding = judge_modules(self.modules, self.names, error)
        if finding.verdict == PASS and self._file != self._content():
            cause = error or f"loaded, and {LOAD_FILE} does not load them at the next boot"
            finding = replace(finding, verdict=FAIL, evidence=LOAD_FILE, cause=cause, remedy="role mlx5 writes it")
        return [replace(finding, layers={"running": finding.observed, "on_disk": _listed(self._file)})]

    def problem(self, error: str) -> str:
        missing = self.modules.missing(self.names)
        return error or (f"modules: this kernel has no module {', '.join(missing)}" if missing else "")


class OptionsPart(Part):
    """Options of modules: on disk; what runs is told, and changes only when the module is loaded anew."""

    name = "options"

    def __init__(self, options: Options) -> None:
        self.options = options
        self._file: str | None = None
        self._running: dict[str, str | None] = {}  # module.parameter -> value of the loaded module
        self._loaded: set[str] = set()

    def read(self, host: Host) -> None:
        if not self.options:
            return
        self._file = host.read_optional(OPTIONS_FILE)
        modules = read_modules(host, self.options)
        self._loaded = set(modules.loaded)
        for module, parameters in self.options.items():
            _check_parameters(modules, module, parameters)
            for key in parameters:
                self._running[f"{module}.{key}"] = host.read_optional(f"/sys/module/{module}/parameters/{key}")

    def plan(self, host: Host) -> Plan:
        lines = (
            f"options {module} {' '.join(f'{key}={value}' for key, value in sorted(parameters.items()))}\n"
            for module, parameters in sorted(self.options.items())
        )
        content = _HEADER + "".join(lines)
        if not self.options or self._file == content:
            return Plan()
        return Plan([Write(OPTIONS_FILE, content)], {OPTIONS_FILE: self._file or ""}, {OPTIONS_FILE: content})

    def stale(self) -> list[str]:
        """Parameters (module.parameter) that run with another value than the one declared."""
        wanted = self._wanted()
        return sorted(
            name for name, value in self._running.items() if value is not None and not _same(value, wanted[name])
        )

    def _wanted(self) -> dict[str, str]:
        return {f"{module}.{key}": value for module, keys in self.options.items() for key, value in keys.items()}

    def findings(self, note: str, error: str) -> list[Finding]:
        return [self._finding(name, wanted, error) for name, wanted in sorted(self._wanted().items())]

    def _finding(self, name: str, wanted: str, error: str) -> Finding:
        module, _dot, key = name.partition(".")
        running = (self._running.get(name) or "").strip()
        on_disk = _is_set(self._file or "", module, f"{key}={wanted}")
        if not on_disk:
            verdict, cause = FAIL, error or f"{OPTIONS_FILE} does not set it"
        elif module not in self._loaded or (running and _same(running, wanted)):
            verdict, cause = PASS, ""
        elif not running:
            verdict, cause = UNKNOWN, "the loaded module does not show what it runs with"
        else:
            verdict, cause = PENDING, f"{module} runs with {running} until it is loaded anew"
        return Finding(
            check="module_option",
            verdict=verdict,
            observed={name: running or None},
            expected={name: wanted},
            evidence=f"/sys/module/{module}/parameters/{key}, {OPTIONS_FILE}",
            cause=cause,
            remedy=_OPTION_REMEDIES.get(verdict, ""),
            layers={"declared": wanted, "running": running or None, "on_disk": wanted if on_disk else None},
        )


def _is_set(text: str, module: str, pair: str) -> bool:
    """Whether a line ``options MODULE …`` holds this pair."""
    lines = (line.split() for line in text.splitlines())
    return any(words[:2] == ["options", module] and pair in words[2:] for words in lines)


def _listed(text: str | None) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip() and not line.startswith("#")]


def _check_parameters(modules: Modules, module: str, parameters: t.Iterable[str]) -> None:
    file = modules.on_disk.get(module)
    if file is None:
        raise PolicyError(f"options: {module!r}: this kernel has no such module")
    for key in parameters:
        if key not in file.parameters and not file.builtin:
            known = ", ".join(sorted(file.parameters)) or "none"
            raise PolicyError(
                f"options: {module}.{key}: the module has no such parameter … one of {known} was expected"
            )


def _same(running: str, wanted: str) -> bool:
    """Booleans read back as Y and N, whichever way they were given."""
    one, other = (_SWITCH.get(text.strip().lower(), text.strip()) for text in (running, wanted))
    return one == other
