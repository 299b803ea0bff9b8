# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of ``ethtool`` -> data, JSON or text. Pure.

Which sub-command offers JSON depends on the version: -a does in 6.1 and later, -l only in 7.x.
"""

from __future__ import annotations

import re
import typing as t

from ..errors import ParseError, brief
from .json_output import read_json
from .numbers import is_int


def parse_pause(text: str) -> dict[str, bool]:
    """``{"rx": bool, "tx": bool}`` of ``ethtool -a``."""
    if text.lstrip().startswith("["):
        return _pause_json(_only_object(text))
    return {"rx": _pause_line(text, "RX"), "tx": _pause_line(text, "TX")}


def _pause_json(data: dict[str, t.Any]) -> dict[str, bool]:
    for way in ("rx", "tx"):
        if not isinstance(data.get(way), bool):
            raise ParseError(f"ethtool -a: {way} is {brief(data.get(way))}, true or false was expected")
    return {"rx": data["rx"], "tx": data["tx"]}


def _pause_line(text: str, way: str) -> bool:
    found = re.search(rf"^{way}:\s+(on|off)\s*$", text, re.MULTILINE)
    if found is None:
        raise ParseError(f"ethtool -a: no line '{way}: on|off' in {text.strip()[:80]!r}")
    return found.group(1) == "on"


def parse_rings(text: str) -> dict[str, t.Any]:
    """``{"rx": 1024, "tx": 1024, "max": {"rx": 8192, "tx": 8192}}`` of ``ethtool -g``.

    None stands for what the driver does not state (n/a, or a block that is not there).
    """
    return _with_maximums(text, "ethtool -g", {"rx": "RX", "tx": "TX"})


def parse_channels(text: str) -> dict[str, t.Any]:
    """``{"combined": 8, "max": {"combined": 63}}`` of ``ethtool -l``; None as in ``parse_rings``."""
    return _with_maximums(text, "ethtool -l", {"combined": "Combined"})


def _with_maximums(text: str, what: str, labels: dict[str, str]) -> dict[str, t.Any]:
    if text.lstrip().startswith("["):
        data = _only_object(text)
        current = {key: _number_json(what, key, data.get(key)) for key in labels}
        most = {key: _number_json(what, f"{key}-max", data.get(f"{key}-max")) for key in labels}
    else:
        head, _title, tail = text.partition("Current hardware settings:")
        if "Pre-set maximums:" not in head or not any(f"{label}:" in text for label in labels.values()):
            expected = ", ".join(f"'{label}:'" for label in labels.values())
            raise ParseError(f"{what}: 'Pre-set maximums:' with {expected} was expected, got {text.strip()[:80]!r}")
        current = {key: _number_line(tail, label) for key, label in labels.items()}
        most = {key: _number_line(head, label) for key, label in labels.items()}
    return {**current, "max": {key: value for key, value in most.items() if value is not None}}


def _number_json(what: str, key: str, value: t.Any) -> int | None:
    if value is None or is_int(value):
        return value
    raise ParseError(f"{what}: {key} is {brief(value)}, a number was expected")


def _number_line(text: str, label: str) -> int | None:
    found = re.search(rf"^{label}:[ \t]+([0-9]{{1,10}}|n/a)[ \t]*$", text, re.MULTILINE)
    return int(found.group(1)) if found and found.group(1) != "n/a" else None


_COALESCE = ("adaptive_rx", "adaptive_tx", "rx_usecs", "rx_frames", "tx_usecs", "tx_frames")


def parse_coalesce(text: str) -> dict[str, t.Any]:
    """What the driver states in ``ethtool -c`` of: adaptive_rx, adaptive_tx, {rx,tx}_usecs, {rx,tx}_frames."""
    values = _coalesce_json(text) if text.lstrip().startswith("[") else _coalesce_text(text)
    if not values:
        raise ParseError(f"ethtool -c: no coalescing value in {text.strip()[:80]!r}")
    return values


def _coalesce_json(text: str) -> dict[str, t.Any]:
    data = _only_object(text)
    values = {}
    for key in _COALESCE:
        value = data.get(key.replace("_", "-"))
        if value is None:
            continue
        if not (isinstance(value, bool) if key.startswith("adaptive") else is_int(value)):
            raise ParseError(f"ethtool -c: {key} is {brief(value)}, which was not understood")
        values[key] = value
    return values


def _coalesce_text(text: str) -> dict[str, t.Any]:
    values: dict[str, t.Any] = {}
    for way in ("rx", "tx"):
        found = re.search(rf"\bAdaptive {way.upper()}: (on|off)\b", text)
        if found:
            values[f"adaptive_{way}"] = found.group(1) == "on"
        for unit in ("usecs", "frames"):
            number = _number_line(text, f"{way}-{unit}")
            if number is not None:
                values[f"{way}_{unit}"] = number
    return values


def parse_features(text: str) -> dict[str, t.Any]:
    """``{"tcp-segmentation-offload": true, ..., "fixed": ["rx-fcs", ...]}`` of ``ethtool -k``."""
    rows = _features_json(text) if text.lstrip().startswith("[") else _features_text(text)
    if not rows:
        raise ParseError(f"ethtool -k: no feature in {text.strip()[:80]!r}")
    values: dict[str, t.Any] = {name: active for name, active, _fixed in rows if name != "fixed"}
    return {**values, "fixed": sorted(name for name, _active, fixed in rows if fixed)}


def _features_json(text: str) -> list[tuple[str, bool, bool]]:
    rows = []
    for name, entry in _only_object(text).items():
        if isinstance(entry, dict):
            active, fixed = entry.get("active"), entry.get("fixed")
            if not isinstance(active, bool):
                raise ParseError(f"ethtool -k: {name}: active is {brief(active)}, true or false was expected")
            rows.append((name, active, fixed is True))
    return rows


def _features_text(text: str) -> list[tuple[str, bool, bool]]:
    found = re.findall(r"^[ \t]*([\w.-]+): (on|off)((?: \[[^\]\n]*\])*)[ \t]*$", text, re.MULTILINE | re.ASCII)
    return [(name, state == "on", "[fixed]" in notes) for name, state, notes in found]


def parse_priv_flags(text: str) -> dict[str, bool]:
    """``{"rx_cqe_compress": false, ...}`` of ``ethtool --show-priv-flags``; empty when the driver has none."""
    found = re.findall(r"^[ \t]*([\w.-]+)[ \t]*: (on|off)[ \t]*$", text, re.MULTILINE | re.ASCII)
    if not found and not re.match(r"\s*(Private flags for|No private flags)", text):
        raise ParseError(f"ethtool --show-priv-flags: no 'Private flags for' in {text.strip()[:80]!r}")
    return {name: state == "on" for name, state in found}


def parse_driver(text: str) -> dict[str, str]:
    """driver, version, firmware-version and bus-info of ``ethtool -i``; empty text where a value is not given."""
    found = dict(re.findall(r"^(driver|version|firmware-version|bus-info):[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
    if not found.get("driver"):
        raise ParseError(f"ethtool -i: no line 'driver:' in {text.strip()[:80]!r}")
    return {key: found.get(key, "") for key in ("driver", "version", "firmware-version", "bus-info")}


def parse_module(text: str) -> dict[str, t.Any]:
    """``{"identifier": "QSFP28", "gbps": [25, 40]}`` of ``ethtool -m``: rates that the cable's codes name."""
    identifier = re.search(r"^[ \t]*Identifier[ \t]*: 0x[0-9a-f]{2} \((\S+)", text, re.MULTILINE)
    if identifier is None:
        raise ParseError(f"ethtool -m: no line 'Identifier' in {text.strip()[:80]!r}")
    lines = re.findall(r"^[ \t]*Transceiver type[ \t]*: (.*)$", text, re.MULTILINE)
    rates = re.findall(r"\b([0-9]{1,4})G", " ".join(lines))
    return {"identifier": identifier.group(1).rstrip(")"), "gbps": sorted({int(rate) for rate in rates})}


def _only_object(text: str) -> dict[str, t.Any]:
    data = read_json(text, "ethtool")
    if not (isinstance(data, list) and len(data) == 1 and isinstance(data[0], dict)):
        raise ParseError(f"ethtool: a list with one object was expected, got {text.strip()[:80]!r}")
    return data[0]
