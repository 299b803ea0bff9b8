# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of modinfo, devlink, rdma system and ethtool -i -> data. Pure."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..errors import ParseError, brief
from .json_output import read_json

Values = dict[str, dict[str, t.Any]]


@dataclass(frozen=True)
class ModuleFile:
    """A kernel module on disk. ``builtin``: part of the kernel itself. Empty text: the file does not say."""

    name: str
    filename: str
    version: str = ""
    srcversion: str = ""
    license: str = ""
    parameters: tuple[str, ...] = ()
    builtin: bool = False


def module_name(name: str) -> str:
    """Modules are spelled with either sign; the kernel knows them by this one."""
    return name.replace("-", "_")


def parse_modinfo(text: str) -> dict[str, ModuleFile]:
    """Modules by name from ``modinfo A B ...``; one that is not there has no block."""
    blocks: list[list[tuple[str, str]]] = []
    for line in text.splitlines():
        found = re.match(r"(\w+):\s*(.*)", line)
        if not found:
            continue
        key = found.group(1)
        # A block starts with its file, or with its name where the module is built in.
        if key in ("filename", "name") and (not blocks or key in dict(blocks[-1])):
            blocks.append([])
        if blocks:
            blocks[-1].append((key, found.group(2).strip()))
    modules = [_module(block) for block in blocks if "filename" in dict(block)]
    return {module.name: module for module in modules}


def _module(block: list[tuple[str, str]]) -> ModuleFile:
    fields = dict(reversed(block))  # the first of each name counts
    filename = fields["filename"]
    base = re.sub(r"\.ko(\.\w+)?$", "", filename.rsplit("/", 1)[-1])
    return ModuleFile(
        name=module_name(fields.get("name") or base),
        filename=filename,
        version=fields.get("version", ""),
        srcversion=fields.get("srcversion", ""),
        license=fields.get("license", ""),
        parameters=tuple(value.partition(":")[0] for key, value in block if key == "parm"),
        builtin="builtin" in filename,
    )


def parse_netns_mode(text: str) -> str:
    """``shared`` or ``exclusive``, from ``rdma -j system show``, which iproute2 6.15 prints as text all the same."""
    found = re.search(r'"netns"\s*:\s*"(\w+)"|\bnetns\s+(\w+)', text)
    mode = (found.group(1) or found.group(2)) if found else ""
    if mode not in ("shared", "exclusive"):
        raise ParseError(f"rdma system: netns shared or exclusive was expected: {text.strip()[:80]!r}")
    return mode


def parse_devlink_params(text: str) -> dict[str, Values]:
    """Values by device, parameter and mode (cmode), from ``devlink -j dev param show``."""
    devices: dict[str, Values] = {}
    for handle, entries in _devlink(text, "param").items():
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ParseError(f"devlink: {handle}: a list of parameters was expected")
        devices[handle] = {str(entry.get("name", "")): _modes(handle, entry) for entry in entries}
    return devices


def _modes(handle: str, entry: dict[str, t.Any]) -> dict[str, t.Any]:
    values = entry.get("values")
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ParseError(f"devlink: {handle}: {brief(entry.get('name'))} has no values")
    return {str(value.get("cmode", "")): value.get("value") for value in values}


def parse_devlink_versions(text: str, handle: str) -> dict[str, str]:
    """``psid``, ``running`` and ``stored`` firmware of one device, from ``devlink -j dev info``; empty if unsaid."""
    info = _devlink(text, "info").get(handle)
    versions = info.get("versions") if isinstance(info, dict) else None
    if not isinstance(versions, dict):
        raise ParseError(f"devlink: {handle}: versions were expected")
    return {
        "psid": _version(versions, "fixed", "fw.psid"),
        "running": _version(versions, "running", "fw.version", "fw"),
        "stored": _version(versions, "stored", "fw.version", "fw"),
    }


def _version(versions: dict[str, t.Any], group: str, *names: str) -> str:
    entries = versions.get(group)
    found = [entries[name] for name in names if name in entries] if isinstance(entries, dict) else []
    return str(found[0]) if found else ""


def _devlink(text: str, what: str) -> dict[str, t.Any]:
    data = read_json(text, "devlink")
    inner = data.get(what) if isinstance(data, dict) else None
    if not isinstance(inner, dict):
        raise ParseError(f"devlink: an object {what!r} was expected: {text.strip()[:80]!r}")
    return inner


def parse_ethtool_firmware(text: str) -> dict[str, str]:
    """The same from ``ethtool -i``: ``firmware-version: 28.39.1002 (MT_0000000838)``. What is stored it can't say."""
    found = re.search(r"^firmware-version:[ \t]*([0-9.]+)(?:[ \t]*\(([^)\n]*)\))?", text, re.MULTILINE)
    if not found:
        raise ParseError(f"ethtool: a firmware-version was expected: {text.strip()[:80]!r}")
    return {"psid": found.group(2) or "", "running": found.group(1), "stored": ""}
