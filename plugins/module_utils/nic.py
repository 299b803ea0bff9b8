# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The policy's field ``nic``: what is allowed in it. Pure. Private to the collection."""

from __future__ import annotations

import re
import typing as t

from .errors import brief
from .values import integer, one_of, switch

Check = t.Callable[[t.Any], t.Any]

# What a PCI Express function can be told (PCIe base specification, device control); mlx5 starts with 512.
READ_REQUESTS = (512, 1024, 2048, 4096)
_SMALLEST_RING, _LARGEST_RING = 64, 65536
# Names go to ethtool as words: nothing that it could take for an option.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*", re.ASCII)


def _ring(value: t.Any) -> int:
    size = integer(value, _SMALLEST_RING, _LARGEST_RING)
    if size & (size - 1):
        raise ValueError
    return size


def _channels(value: t.Any) -> int:
    return integer(value, 1, 1024)


def _moderation(value: t.Any) -> int:
    return integer(value, 0, 65535)


def _read_request(value: t.Any) -> int:
    return one_of(value, READ_REQUESTS)


_RING = (_ring, f"a power of two, {_SMALLEST_RING} to {_LARGEST_RING},")
_SWITCH = (switch, "true or false")
_MODERATION = (_moderation, "0 to 65535")
_SECTIONS: dict[str, dict[str, tuple[Check, str]]] = {
    "rings": {"rx": _RING, "tx": _RING},
    "channels": {"combined": (_channels, "1 to 1024")},
    "coalesce": {
        "adaptive_rx": _SWITCH,
        "adaptive_tx": _SWITCH,
        "rx_usecs": _MODERATION,
        "rx_frames": _MODERATION,
        "tx_usecs": _MODERATION,
        "tx_frames": _MODERATION,
    },
}
_BY_NAME = ("features", "priv_flags")
_VALUES: dict[str, tuple[Check, str]] = {
    "max_read_request": (_read_request, "512, 1024, 2048 or 4096"),
    "relaxed_ordering": _SWITCH,
}


def parse_nic(raw: t.Any) -> tuple[dict[str, t.Any], list[str]]:
    """The checked field, without what is not given, and one problem for each thing that is wrong."""
    if not isinstance(raw, t.Mapping):
        return {}, [f"nic: {brief(raw)} … a mapping was expected"]
    problems: list[str] = []
    nic: dict[str, t.Any] = {}
    for key, value in raw.items():
        if value is not None:
            _take(str(key), value, nic, problems)
    problems += _contradictions(nic.get("coalesce", {}))
    return {key: value for key, value in nic.items() if value != {}}, problems


def _take(key: str, value: t.Any, nic: dict[str, t.Any], problems: list[str]) -> None:
    if key in _VALUES:
        nic.update(_checked("nic", {key: value}, _VALUES, problems))
    elif key in _SECTIONS:
        nic[key] = _section(key, value, _SECTIONS[key], problems)
    elif key in _BY_NAME:
        nic[key] = _section(key, value, None, problems)
    else:
        known = ", ".join([*_SECTIONS, *_BY_NAME, *_VALUES])
        problems.append(f"nic: unknown field {key!r} … one of {known} was expected")


def _section(
    key: str, value: t.Any, allowed: dict[str, tuple[Check, str]] | None, problems: list[str]
) -> dict[str, t.Any]:
    if not isinstance(value, t.Mapping):
        problems.append(f"nic.{key}: {brief(value)} … a mapping was expected")
        return {}
    given = {str(name): part for name, part in value.items() if part is not None}
    if allowed is None:
        problems += [
            f"nic.{key}: {name!r} … a name as ethtool prints it was expected"
            for name in given
            if not _NAME.fullmatch(name)
        ]
        allowed = dict.fromkeys(given, _SWITCH)
    return _checked(f"nic.{key}", given, allowed, problems)


def _checked(
    where: str, given: dict[str, t.Any], allowed: dict[str, tuple[Check, str]], problems: list[str]
) -> dict[str, t.Any]:
    values = {}
    for name, part in given.items():
        if name not in allowed:
            problems.append(f"{where}: unknown field {name!r} … one of {', '.join(allowed)} was expected")
            continue
        check, expected = allowed[name]
        try:
            values[name] = check(part)
        except ValueError:
            problems.append(f"{where}.{name}: {brief(part)} … {expected} was expected")
    return values


def _contradictions(coalesce: dict[str, t.Any]) -> list[str]:
    return [
        f"nic.coalesce: {way}_{unit} is given and adaptive_{way} is on: the driver would choose it by itself"
        for way in ("rx", "tx")
        for unit in ("usecs", "frames")
        if coalesce.get(f"adaptive_{way}") and f"{way}_{unit}" in coalesce
    ]
