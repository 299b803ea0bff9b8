# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of mstconfig (mlxconfig) -> data, and the comparison of its values. Pure.

Shapes: mstflint's mlxconfig/mlxcfg_ui.cpp of 4.21, 4.31 and 4.36, whose columns differ in width. Where a
query prints one column, that is the value of the next boot; the other two are then unknown.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..errors import ParseError
from .json_output import read_json
from .numbers import is_int

_COLUMNS = ("default", "current", "next_boot")
_ANSI = re.compile(r"\x1b?\[[0-9;]*m")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\[[0-9]+(\.\.[0-9]+)?\])?")
_FIELDS = {"Device type": "device_type", "Name": "name", "Description": "description", "Device": "address"}
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}")
_WITH_NUMBER = re.compile(r"(.*)\(([0-9]{1,20}|0[xX][0-9a-fA-F]{1,16})\)")
_ABSENT = "N/A"


@dataclass(frozen=True)
class Parameter:
    """One NV parameter as text such as ``ETH(2)``; None where the tool or the firmware does not say."""

    name: str
    next_boot: str | None
    current: str | None = None
    default: str | None = None
    read_only: bool = False

    def as_dict(self) -> dict[str, t.Any]:
        """The parameter's three layers as plain JSON."""
        return {
            "default": self.default,
            "current": self.current,
            "next_boot": self.next_boot,
            "read_only": self.read_only,
        }

    def reset_pending(self) -> bool | None:
        """Whether the next boot brings another value than the one that runs; None when unknown."""
        if self.current is None or self.next_boot is None:
            return None
        return not same_value(self.next_boot, self.current)


@dataclass
class Device:
    """One block of a query. Fields that the output lacks are empty."""

    address: str = ""
    device_type: str = ""
    name: str = ""
    description: str = ""
    parameters: dict[str, Parameter] = field(default_factory=dict)


@dataclass
class Query:
    """All blocks of a query, and its ``-E-`` lines without the mark."""

    devices: list[Device] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def parse_query(text: str) -> Query:
    """The text of ``query``, of one device or of several, with or without ``-e``.

    Raises ParseError when it holds neither a parameter, a device nor an error.
    """
    query, columns = Query(), ()  # type: tuple[Query, tuple[str, ...]]
    for raw in _ANSI.sub("", text).splitlines():
        line = raw.strip()
        if line.startswith("-E-"):
            query.errors.append(line[3:].strip())
        elif re.fullmatch(r"Device #[0-9]+:", line):
            query.devices.append(Device())
            columns = ()
        elif line.startswith("Configurations:"):
            columns = _columns(line)
        elif not _take_field(query, line):
            _take_parameter(query, line, columns)
    if not (query.devices or query.errors):
        raise ParseError(f"mstconfig: no parameter in its output: {text.strip()[:80]!r}")
    return query


def _columns(line: str) -> tuple[str, ...]:
    """The names of the value columns, from the header line."""
    titles = {"Default": "default", "Current": "current", "Next Boot": "next_boot", "New": "new"}
    return tuple(titles[found] for found in re.findall(r"Default|Current|Next Boot|New\b", line))


def _take_field(query: Query, line: str) -> bool:
    """Keep a line such as ``Name:   MCX...`` of the device's head."""
    title, colon, value = line.partition(":")
    if not colon or title not in _FIELDS:
        return False
    if query.devices:
        setattr(query.devices[-1], _FIELDS[title], value.strip())
    return True


def _take_parameter(query: Query, line: str, columns: tuple[str, ...]) -> None:
    words = line.split()
    if words and words[0].startswith("*"):
        words = [rest for rest in (words[0][1:],) if rest] + words[1:]
    read_only = bool(words) and words[0] == "RO"
    name, *values = (words[1:] if read_only else words) or [""]
    layers = _layers(values, columns)
    if layers is None or not _NAME.fullmatch(name):
        return
    # An excerpt without its head, or a head that was not recognised: a name comes once for each device.
    if not query.devices or name in query.devices[-1].parameters:
        query.devices.append(Device())
    query.devices[-1].parameters[name] = Parameter(name, read_only=read_only, **layers)


def _layers(values: list[str], columns: tuple[str, ...]) -> dict[str, str | None] | None:
    """The columns by name; None when this line is no parameter."""
    # Without the header line, one column is the next boot, and three are all of them.
    titles = columns or {1: _COLUMNS[2:], 3: _COLUMNS}.get(len(values), ())
    if not titles or len(values) != len(titles) or "next_boot" not in titles:
        return None
    found = dict(zip(titles, values))
    return {title: None if found.get(title, _ABSENT) == _ABSENT else found[title] for title in _COLUMNS}


def parse_query_json(text: str) -> Query:
    """The file that ``-j FILE query`` writes (mstflint 4.31 and newer). Raises ParseError."""
    data = read_json(text, "mstconfig")
    if not isinstance(data, dict) or not data:
        raise ParseError(f"mstconfig: an object of devices was expected: {text.strip()[:80]!r}")
    return Query([_device_from_json(title, entry) for title, entry in sorted(data.items())])


def _device_from_json(title: str, entry: t.Any) -> Device:
    parameters = entry.get("tlv_configuration") if isinstance(entry, dict) else None
    if parameters is None and isinstance(entry, dict):
        parameters = {}
    if not isinstance(parameters, dict) or not all(isinstance(value, dict) for value in parameters.values()):
        raise ParseError(f"mstconfig: {title}: tlv_configuration with parameters was expected")
    return Device(
        address=str(entry.get("device", "")),
        device_type=str(entry.get("device_type", "")),
        name=str(entry.get("name", "")),
        description=str(entry.get("description", "")),
        parameters={name: _parameter_from_json(name, value) for name, value in parameters.items()},
    )


def _parameter_from_json(name: str, value: dict[str, t.Any]) -> Parameter:
    next_boot, current, default = (_json_text(value.get(f"{key}_value")) for key in ("next", "current", "default"))
    return Parameter(name, next_boot, current, default, value.get("read_only") is True)


def _json_text(value: t.Any) -> str | None:
    if is_int(value):
        return str(value)
    return value if isinstance(value, str) and value != _ABSENT else None


# -- values --------------------------------------------------------------------------------------


def split_value(value: t.Any) -> tuple[str, int | None]:
    """The text and the number of ``ETH(2)``, ``0x10``, 16, True or ``ETH``; the number may be unknown."""
    if isinstance(value, bool):
        return str(value), int(value)
    text = str(value).strip()
    both = _WITH_NUMBER.fullmatch(text)
    if both:
        return both.group(1), _number(both.group(2))
    number = _number(text)
    if number is None and text.lower() in ("true", "false"):
        number = int(text.lower() == "true")
    return text, number


def _number(text: str) -> int | None:
    return int(text, 0 if text[:2] in ("0x", "0X") else 10) if _NUMBER.fullmatch(text) else None


def same_value(wanted: t.Any, shown: str | None) -> bool:
    """Whether a value as users write it is the one that the tool shows: by number where both have one, else by text."""
    if shown is None:
        return False
    (wanted_text, wanted_number), (shown_text, shown_number) = split_value(wanted), split_value(shown)
    if wanted_number is not None and shown_number is not None:
        return wanted_number == shown_number
    return wanted_text.lower() == shown_text.lower()


def as_argument(wanted: t.Any) -> str:
    """The value as ``set`` takes it: ``ETH(2)`` is only a way to show 2."""
    text, number = split_value(wanted)
    given_with_number = isinstance(wanted, str) and text != wanted.strip()
    return str(number) if given_with_number or isinstance(wanted, bool) else text
