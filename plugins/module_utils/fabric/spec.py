# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options of a matrix: one table for module fabric_bandwidth and for the program that needs no Ansible. Pure.

The tables have the form of Ansible's argument specs; ``checked`` reads as much of that form as they use.
"""

from __future__ import annotations

import math
import typing as t

from ..errors import PolicyError
from ..parsers.numbers import is_int
from .bandwidth import TOOLS
from .rounds import SCOPES

Spec = t.Mapping[str, t.Mapping[str, t.Any]]

PORT_SPEC: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "required": True},
    "rail": {"type": "int", "required": True},
    "address": {"type": "str", "required": True},
    "link_gbps": {"type": "float"},
}
HOST_SPEC: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "dict", "required": True, "options": PORT_SPEC},
}
PAIR_SPEC: dict[str, dict[str, t.Any]] = {
    "hosts": {"type": "list", "elements": "str", "required": True},
    "rail": {"type": "int", "required": True},
}
MATRIX_SPEC: dict[str, dict[str, t.Any]] = {
    "hosts": {"type": "list", "elements": "dict", "required": True, "options": HOST_SPEC},
    "scope": {"type": "str", "choices": list(SCOPES), "default": "all"},
    "samples": {"type": "int", "default": 1},
    "seed": {"type": "int", "default": 0},
    "reference": {"type": "str", "default": ""},
    "rails": {"type": "str", "choices": ["one_by_one", "at_once"], "default": "one_by_one"},
    "left_out": {"type": "list", "elements": "dict", "default": [], "options": PAIR_SPEC},
    "pairs": {"type": "list", "elements": "dict", "default": [], "options": PAIR_SPEC},
    "budget": {"type": "float", "default": 0},
}
RUN_SPEC: dict[str, dict[str, t.Any]] = {
    "tool": {"type": "str", "choices": list(TOOLS), "default": "ib_write_bw"},
    "size": {"type": "int"},
    "qps": {"type": "int", "default": 1},
    "iterations": {"type": "int", "default": 5000},
    "duration": {"type": "int", "default": 0},
    "all_sizes": {"type": "bool", "default": False},
    "bidirectional": {"type": "bool", "default": False},
    "use_cm": {"type": "bool", "default": False},
    "tclass": {"type": "int"},
    "tx_depth": {"type": "int"},
    "qp_timeout": {"type": "int"},
    "rdma_mtu": {"type": "int"},
    "cuda": {"type": "int"},
    "dmabuf": {"type": "bool", "default": False},
    "rdma_cm": {"type": "bool", "default": False},
    "time_limit": {"type": "float", "default": 60},
    "barrier_limit": {"type": "float", "default": 120},
}
JUDGE_SPEC: dict[str, dict[str, t.Any]] = {
    "link_gbps": {"type": "float"},
    "efficiency": {"type": "float", "default": 0.9},
    "max_latency_usec": {"type": "float"},
    "when_busy": {"type": "str", "choices": ["refuse", "force"], "default": "refuse"},
}

_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
}


def checked(raw: t.Any, spec: Spec, where: str) -> dict[str, t.Any]:
    """``raw`` (from JSON) with every default of ``spec`` filled in. Raises PolicyError naming value and place."""
    if not isinstance(raw, dict):
        raise _wrong(where, raw, "a mapping")
    unknown = sorted(str(key) for key in raw if key not in spec)
    if unknown:
        raise PolicyError(f"{where}: {unknown[0]} … one of {', '.join(sorted(spec))} was expected")
    lacking = [key for key, rule in spec.items() if rule.get("required") and raw.get(key) is None]
    if lacking:
        raise PolicyError(f"{where}: {lacking[0]} is missing … {_WORDS[spec[lacking[0]]['type']]} was expected")
    return {key: _value(raw.get(key), rule, f"{where}: {key}") for key, rule in spec.items()}


def _value(value: t.Any, rule: t.Mapping[str, t.Any], where: str) -> t.Any:
    if value is None:
        return rule.get("default")
    if not _fits(value, rule["type"]):
        raise _wrong(where, value, _WORDS[rule["type"]])
    if "choices" in rule and value not in rule["choices"]:
        raise _wrong(where, value, f"one of {', '.join(rule['choices'])}")
    if rule["type"] != "list":
        return value
    items = [(item, f"{where}[{number}]") for number, item in enumerate(value)]
    if "options" in rule:
        return [checked(item, rule["options"], at) for item, at in items]
    return [_value(item, {"type": rule["elements"]}, at) for item, at in items]


def _fits(value: t.Any, kind: str) -> bool:
    if kind in ("int", "float"):
        return is_int(value) or (kind == "float" and isinstance(value, float) and math.isfinite(value))
    return isinstance(value, {"str": str, "bool": bool, "list": list, "dict": dict}[kind])


def _wrong(where: str, value: t.Any, expected: str) -> PolicyError:
    shown = repr(value)
    return PolicyError(f"{where}: {shown if len(shown) <= 60 else shown[:57] + '...'} … {expected} was expected")
