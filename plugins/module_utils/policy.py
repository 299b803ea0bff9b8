# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The policy of a fabric: defaults, validation, derived values. Pure. Private to the collection.

Everything on a node is derived from one policy, so that no two settings can disagree. A policy that
contradicts itself is refused as a whole, naming both fields; what is odd but harmless is a warning.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, fields, replace
from functools import partial

from .errors import PolicyError, brief
from .nic import parse_nic
from .settings.base import State, Value
from .settings.cma import MODES
from .settings.dcqcn import dcqcn_value
from .settings.mqprio import ABSENT, mqprio_value
from .settings.partial import Partial
from .settings.registry import NAMES, SETTINGS
from .values import integer, number, one_of, switch

PRIOS = 8
RDMA_MTUS = (256, 512, 1024, 2048, 4096)
# include/rdma/ib_addr.h: GRH 40 + UDP 8 + BTH 12 + XRC 4 + AtomicETH 28 + ICRC 4 bytes.
RDMA_HEADERS = 96
T = t.TypeVar("T")
_ALLOWED = {
    "prios": "a list of priorities 0 to 7",
    "dscp_map": "a mapping of DSCP 0..63 to priority 0..7",
    "ets": "a list of {tc: 0..7, prios: [0..7], tsa: ets or strict, bw: 0..100}",
    "ecn": "a list of priorities 0 to 7, or a mapping of them to true or false",
    "buffers": "{prio_buffer: 8 buffers 0 to 7, one per priority, buffer_size: 8 sizes in bytes}",
    "mqprio": "'absent' or {num_tc: 1..16, map: [0..15], queues: [COUNT@OFFSET], hw: bool, mode: dcb or channel}",
}


def rdma_mtu(netdev_mtu: int) -> int:
    """The largest RDMA MTU in bytes that fits into a netdev MTU; 0 when none does."""
    return max((mtu for mtu in RDMA_MTUS if mtu + RDMA_HEADERS <= netdev_mtu), default=0)


@dataclass(frozen=True)
class EtsClass:
    """One traffic class: its priorities, its algorithm and its share of the link in percent."""

    tc: int
    prios: tuple[int, ...]
    tsa: str
    bw: int = 0


@dataclass(frozen=True)
class Policy:
    """A checked policy. Fields are those of the variable ``roce_policy``; see docs/policy.md."""

    link_gbps: float | None = None
    efficiency: float = 0.9
    mtu: int = 9000
    rdma_mtu: int = 4096
    dcbx: str = "host"
    pause: bool = False
    trust: str = "dscp"
    dscp_map: dict[int, int] = field(default_factory=dict)
    data_prio: int = 3
    data_dscp: int = 26
    cnp_prio: int = 6
    cnp_dscp: int = 48
    pfc: tuple[int, ...] = (3,)
    ets: tuple[EtsClass, ...] = ()
    roce_mode: str = "RoCE v2"
    tos: int = 106
    mqprio: Value | None = None
    nic: Value | None = None
    ecn: dict[int, bool] = field(default_factory=lambda: {3: True})
    dcqcn: Value | None = None
    cable_length: int | None = None
    buffers: Value | None = None
    unmanaged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def dscp_overrides(self) -> dict[int, int]:
        """What differs from DSCP>>3: the declared map, then data and CNP on their priorities."""
        return {**self.dscp_map, self.data_dscp: self.data_prio, self.cnp_dscp: self.cnp_prio}

    def ets_table(self) -> Value:
        """The ETS classes as the three tables of eight that the kernel keeps; unused classes are strict."""
        tsa, bw, prio_tc = ["strict"] * PRIOS, [0] * PRIOS, [0] * PRIOS
        for class_ in self.ets:
            tsa[class_.tc], bw[class_.tc] = class_.tsa, class_.bw
            for prio in class_.prios:
                prio_tc[prio] = class_.tc
        return {"tsa": tsa, "bw": bw, "prio_tc": prio_tc}

    def nccl(self) -> dict[str, str]:
        """NCCL variables that follow from the policy alone.

        Control messages (FIFO) and queue pairs made by GPUs (GIN) have a class of their own in some versions. Where
        ports trust the VLAN priority, mlx5 takes it from the service level.
        """
        classes = {name: str(self.tos) for name in ("NCCL_IB_TC", "NCCL_IB_FIFO_TC", "NCCL_GIN_IB_TC")}
        return {**classes, "NCCL_IB_SL": str(self.data_prio)} if self.trust == "pcp" else classes

    def derived(self) -> dict[str, t.Any]:
        """What follows from the policy, as plain JSON, for inventories, templates and reports."""
        return {
            "tos": self.tos,
            "traffic_class": self.tos,
            "nccl": self.nccl(),
            "rdma_mtu": self.rdma_mtu,
            "mtu": self.mtu,
            "link_gbps": self.link_gbps,
            "efficiency": self.efficiency,
            "min_gbps": None if self.link_gbps is None else round(self.link_gbps * self.efficiency, 6),
            "warnings": list(self.warnings),
        }


class _Reader:
    """Reads fields of the user's mapping one by one and collects what is wrong with them."""

    def __init__(self, raw: t.Mapping[str, t.Any]) -> None:
        self._raw = raw
        self.problems: list[str] = []

    def given(self, key: str) -> bool:
        return self._raw.get(key) is not None

    def take(self, key: str, default: t.Any, convert: t.Callable[[t.Any], t.Any], allowed: str) -> t.Any:
        """The converted value of a field; a wrong one becomes a problem and the default."""
        if not self.given(key):
            return default
        try:
            return convert(self._raw[key])
        except (TypeError, ValueError):
            self.problem(key, self._raw[key], allowed)
            return default

    def nic(self) -> Value | None:
        """The field ``nic``; each thing that is wrong in it is a problem of its own."""
        if not self.given("nic"):
            return None
        value, problems = parse_nic(self._raw["nic"])
        self.problems += problems
        return value

    def problem(self, key: str, value: t.Any, allowed: str) -> None:
        self.problems.append(f"{key}: {brief(value)} … {allowed} was expected")


def _integer(low: int, high: int) -> t.Callable[[t.Any], int]:
    return partial(integer, low=low, high=high)


def _number(low: float, high: float) -> t.Callable[[t.Any], float]:
    def convert(value: t.Any) -> float:
        found = number(value)
        if not low < found <= high:
            raise ValueError
        return found

    return convert


def _choice(*allowed: t.Any) -> t.Callable[[t.Any], t.Any]:
    def convert(value: t.Any) -> t.Any:
        for choice in allowed:
            if value == choice and isinstance(value, bool) == isinstance(choice, bool):
                return choice
        raise ValueError

    return convert


def _list(value: t.Any) -> t.Sequence[t.Any]:
    """A list, and not text, whose letters would do as one."""
    if not isinstance(value, (list, tuple)):
        raise ValueError
    return value


def _prios(value: t.Any) -> tuple[int, ...]:
    return tuple(sorted({integer(item, 0, PRIOS - 1) for item in _list(value)}))


def _dscp_map(value: t.Any) -> dict[int, int]:
    if not isinstance(value, t.Mapping):
        raise ValueError
    return {integer(dscp, 0, 63): integer(prio, 0, PRIOS - 1) for dscp, prio in value.items()}


def _names(value: t.Any) -> tuple[str, ...]:
    return tuple(_choice(*NAMES)(item) for item in _list(value))


def _ets(value: t.Any) -> tuple[EtsClass, ...]:
    if not _list(value):
        raise ValueError
    return tuple(_ets_class(item) for item in value)


def _ets_class(item: t.Any) -> EtsClass:
    if not isinstance(item, t.Mapping) or set(item) - {"tc", "prios", "tsa", "bw"}:
        raise ValueError
    return EtsClass(
        tc=integer(item.get("tc"), 0, PRIOS - 1),
        prios=_prios(item.get("prios", [])),
        tsa=_choice("ets", "strict")(item.get("tsa", "ets")),
        bw=integer(item.get("bw", 0), 0, 100),
    )


def queue_pair(value: t.Any) -> list[int]:
    """``"8@2"`` (tc's COUNT@OFFSET) or ``[8, 2]`` -> [8, 2]. Raises ValueError."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return [integer(value[0], 1, 65535), integer(value[1], 0, 65535)]
    found = re.fullmatch(r"([0-9]{1,9})@([0-9]{1,9})", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError
    return [integer(found.group(1), 1, 65535), integer(found.group(2), 0, 65535)]


def _mqprio(value: t.Any) -> Value:
    if value == "absent":
        return ABSENT
    if not isinstance(value, t.Mapping) or set(value) - {"num_tc", "map", "queues", "hw", "mode"}:
        raise ValueError
    num_tc = integer(value.get("num_tc"), 1, 16)
    map_ = [integer(item, 0, 15) for item in _list(value.get("map", []))]
    queues = [queue_pair(item) for item in _list(value.get("queues", []))]
    offload = _choice("dcb", "channel")(value.get("mode", "dcb")) if switch(value.get("hw", False)) else "off"
    return mqprio_value(num_tc, map_, queues, offload)


def _ecn(value: t.Any) -> dict[int, bool]:
    if isinstance(value, t.Mapping):
        return {integer(prio, 0, PRIOS - 1): switch(on) for prio, on in value.items()}
    return dict.fromkeys(_prios(value), True)


def _buffers(value: t.Any) -> Value:
    if not isinstance(value, t.Mapping) or set(value) != {"prio_buffer", "buffer_size"}:
        raise ValueError
    if any(not isinstance(part, (list, tuple)) or len(part) != PRIOS for part in value.values()):
        raise ValueError
    return {
        "prio_buffer": [integer(buffer, 0, PRIOS - 1) for buffer in value["prio_buffer"]],
        "buffer_size": [integer(size, 0, 2**31) for size in value["buffer_size"]],
    }


def default_ets(data_prio: int, cnp_prio: int) -> tuple[EtsClass, ...]:
    """Half for RDMA, half for the rest, CNPs strict above both."""
    others = tuple(prio for prio in range(PRIOS) if prio not in (data_prio, cnp_prio))
    rest = 0 if data_prio != 0 and cnp_prio != 0 else others[0]
    return (
        EtsClass(tc=rest, prios=others, tsa="ets", bw=50),
        EtsClass(tc=data_prio, prios=(data_prio,), tsa="ets", bw=50),
        EtsClass(tc=cnp_prio, prios=(cnp_prio,), tsa="strict"),
    )


def _checked(name: str, value: t.Any, convert: t.Callable[[t.Any], T], allowed: str) -> T:
    """A converted option of a single-setting module. Raises PolicyError."""
    try:
        return convert(value)
    except (TypeError, ValueError) as exc:
        raise PolicyError(f"{name}: {brief(value)} … {allowed} was expected") from exc


def dscp_map(value: t.Any) -> dict[int, int]:
    """Checked overrides of the DSCP map. Raises PolicyError."""
    return _checked("dscp_map", value, _dscp_map, _ALLOWED["dscp_map"])


def prios(name: str, value: t.Any) -> tuple[int, ...]:
    """Checked priorities, sorted, each once. Raises PolicyError."""
    return _checked(name, value, _prios, _ALLOWED["prios"])


def tos_byte(value: t.Any) -> int:
    """A checked TOS byte. Raises PolicyError."""
    return _checked("tos", value, _integer(0, 255), "0 to 255")


def ets_table(value: t.Any) -> Value:
    """Checked ETS classes as the kernel's tables. Raises PolicyError."""
    classes = _checked("ets", value, _ets, _ALLOWED["ets"])
    problems = list(_ets_contradictions(classes))
    if problems:
        raise PolicyError("; ".join(problems))
    return Policy(ets=classes).ets_table()


def ecn_lists(on: t.Any, off: t.Any) -> dict[int, bool]:
    """Checked priorities with ECN on and off. Raises PolicyError."""
    enabled, disabled = prios("enabled_prios", on), prios("disabled_prios", off)
    both = sorted(set(enabled) & set(disabled))
    if both:
        raise PolicyError(f"priority {both[0]} is in enabled_prios and in disabled_prios: one of them was expected")
    return {**dict.fromkeys(enabled, True), **dict.fromkeys(disabled, False)}


def cnp_marks(dscp_: t.Any, prio: t.Any) -> Value:
    """Checked DSCP and priority of CNPs, those that are given. Raises PolicyError."""
    given = {"dscp": (dscp_, 63), "prio": (prio, PRIOS - 1)}
    return {
        name: _checked(f"cnp_{name}", value, _integer(0, most), f"0 to {most}")
        for name, (value, most) in given.items()
        if value is not None
    }


def cable_metres(value: t.Any) -> int:
    """A checked length of cable. Raises PolicyError."""
    return _checked("cable_length", value, _integer(1, 999), "1 to 999 metres")


def buffer_table(value: t.Any) -> Value:
    """Checked port buffers. Raises PolicyError."""
    return _checked("buffers", value, _buffers, _ALLOWED["buffers"])


def mqprio_table(value: t.Any) -> Value:
    """A checked root qdisc: "absent" or the mapping of ``roce_policy.mqprio``. Raises PolicyError."""
    return _checked("mqprio", value, _mqprio, _ALLOWED["mqprio"])


def nic_state(raw: t.Mapping[str, t.Any]) -> State:
    """The wanted settings of a checked field ``nic``. Raises PolicyError listing everything that is wrong."""
    value, problems = parse_nic(raw)
    if problems:
        raise PolicyError("; ".join(problems))
    policy = Policy(nic=value)
    return {s.name: wanted for s in SETTINGS for wanted in [s.wanted(policy)] if isinstance(s, Partial) and wanted}


def parse_policy(raw: t.Mapping[str, t.Any]) -> Policy:
    """A policy from the user's mapping. Raises PolicyError listing everything that is wrong."""
    if not isinstance(raw, t.Mapping):
        raise PolicyError(f"roce_policy: {brief(raw)} … a mapping was expected")
    known = {item.name for item in fields(Policy)} - {"warnings"}
    unknown = sorted(brief(name) for name in raw if name not in known)
    reader = _Reader(raw)
    policy = _read(reader)
    problems = list(reader.problems)
    if unknown:
        problems.append(f"unknown field {', '.join(unknown)} … one of {', '.join(sorted(known))} was expected")
    problems = problems or _contradictions(policy)
    if problems:
        raise PolicyError("roce_policy: " + "; ".join(problems))
    return replace(policy, warnings=tuple(_warnings(policy)))


def _read(reader: _Reader) -> Policy:
    prio, dscp = _integer(0, PRIOS - 1), _integer(0, 63)
    data_prio = reader.take("data_prio", 3, prio, "0 to 7")
    data_dscp = reader.take("data_dscp", 26, dscp, "0 to 63")
    cnp_prio = reader.take("cnp_prio", 6, prio, "0 to 7")
    tos = reader.take("tos", data_dscp * 4 + 2, _integer(0, 255), "0 to 255")
    return Policy(
        link_gbps=reader.take("link_gbps", None, _number(0, 100000), "the link rate in Gb/s, above 0,"),
        efficiency=reader.take("efficiency", 0.9, _number(0, 1), "a share of the link rate, above 0 and at most 1,"),
        mtu=reader.take("mtu", 9000, _integer(68, 9978), "68 to 9978"),
        rdma_mtu=reader.take("rdma_mtu", 4096, partial(one_of, allowed=RDMA_MTUS), "256, 512, 1024, 2048 or 4096"),
        dcbx=reader.take("dcbx", "host", _choice("host"), "'host' (or dcbx listed under unmanaged)"),
        pause=reader.take("pause", False, switch, "true or false"),
        trust=reader.take("trust", "dscp", _choice("dscp", "pcp"), "'dscp' or 'pcp'"),
        dscp_map=reader.take("dscp_map", {}, _dscp_map, _ALLOWED["dscp_map"]),
        data_prio=data_prio,
        data_dscp=data_dscp,
        cnp_prio=cnp_prio,
        cnp_dscp=reader.take("cnp_dscp", 48, dscp, "0 to 63"),
        pfc=reader.take("pfc", (data_prio,), _prios, _ALLOWED["prios"]),
        ets=reader.take("ets", default_ets(data_prio, cnp_prio), _ets, _ALLOWED["ets"]),
        roce_mode=reader.take("roce_mode", "RoCE v2", _choice(*MODES), "'RoCE v2' or 'IB/RoCE v1'"),
        tos=tos,
        mqprio=reader.take("mqprio", None, _mqprio, _ALLOWED["mqprio"]),
        nic=reader.nic(),
        ecn=reader.take("ecn", {data_prio: True}, _ecn, _ALLOWED["ecn"]),
        dcqcn=reader.take("dcqcn", None, dcqcn_value, ""),
        cable_length=reader.take("cable_length", None, _integer(1, 999), "1 to 999 metres"),
        buffers=reader.take("buffers", None, _buffers, _ALLOWED["buffers"]),
        unmanaged=reader.take("unmanaged", (), _names, f"a list of {', '.join(NAMES)}"),
    )


def _warnings(policy: Policy) -> t.Iterator[str]:
    tos, prio = policy.tos, policy.data_prio
    if tos & 3 == 0:
        # mlx5 takes the DSCP from the TOS and sets ECT by itself when congestion control is on.
        yield f"tos: {tos} has no ECN bits ({tos | 2} has); mlx5 programs only its DSCP, other stacks may send non-ECT"
    if "ecn" not in policy.unmanaged and not policy.ecn.get(prio):
        yield f"ecn: data_prio {prio} is not on: senders will not slow down, congestion is left to PFC alone"
    if policy.buffers is not None:
        yield from _shared_buffers(policy.pfc, policy.buffers["prio_buffer"])


def _shared_buffers(pfc: tuple[int, ...], prio_buffer: list[int]) -> t.Iterator[str]:
    lossless = {prio_buffer[prio] for prio in pfc}
    lossy = [prio for prio in range(PRIOS) if prio not in pfc and prio_buffer[prio] in lossless]
    if lossy:
        yield f"buffers: priorities {lossy} are not in pfc and share a buffer with pfc {list(pfc)}: they fill its room"


def _contradictions(policy: Policy) -> list[str]:
    return [
        *_priority_contradictions(policy),
        *_dscp_contradictions(policy),
        *_ets_contradictions(policy.ets),
        *_channel_contradictions(policy),
        *_buffer_contradictions(policy),
    ]


def _priority_contradictions(policy: Policy) -> t.Iterator[str]:
    if policy.data_prio == policy.cnp_prio:
        yield f"data_prio and cnp_prio are both {policy.data_prio}: CNPs would queue behind the data"
    if policy.cnp_prio in policy.pfc:
        yield f"cnp_prio {policy.cnp_prio} is in pfc {list(policy.pfc)}: a paused class would hold back CNPs"
    if "pfc" not in policy.unmanaged and policy.pfc and policy.data_prio not in policy.pfc:
        yield f"data_prio {policy.data_prio} is not in pfc {list(policy.pfc)}: RDMA data would not be lossless"
    if policy.pause and policy.pfc:
        yield f"pause is on and pfc is {list(policy.pfc)}: a port does one or the other"
    if policy.rdma_mtu + RDMA_HEADERS > policy.mtu:
        yield (
            f"mtu {policy.mtu} is too small for rdma_mtu {policy.rdma_mtu}:"
            f" at least {policy.rdma_mtu + RDMA_HEADERS} was expected"
        )


def _dscp_contradictions(policy: Policy) -> t.Iterator[str]:
    if policy.data_dscp == policy.cnp_dscp:
        yield f"data_dscp and cnp_dscp are both {policy.data_dscp}"
    if policy.tos >> 2 != policy.data_dscp:
        yield f"tos {policy.tos} stands for DSCP {policy.tos >> 2}, and data_dscp is {policy.data_dscp}"
    for name in ("data", "cnp"):
        dscp, prio = getattr(policy, f"{name}_dscp"), getattr(policy, f"{name}_prio")
        mapped = policy.dscp_map.get(dscp, prio)
        if mapped != prio:
            yield f"dscp_map sends DSCP {dscp} ({name}_dscp) to priority {mapped}, and {name}_prio is {prio}"


def _ets_contradictions(classes: tuple[EtsClass, ...]) -> t.Iterator[str]:
    shared = [class_ for class_ in classes if class_.tsa == "ets"]
    total = sum(class_.bw for class_ in shared)
    if shared and total != 100:
        yield f"ets: the bandwidths {[class_.bw for class_ in shared]} add up to {total}, 100 was expected"
    for class_ in classes:
        if class_.tsa == "strict" and class_.bw:
            yield f"ets: tc {class_.tc} is strict and has bw {class_.bw}: only ets classes have a share"
        if class_.bw and not class_.prios:
            yield f"ets: tc {class_.tc} has bw {class_.bw} and no priority maps to it"
    yield from _ets_duplicates(classes)


def _channel_contradictions(policy: Policy) -> t.Iterator[str]:
    combined = (policy.nic or {}).get("channels", {}).get("combined")
    if combined is None or (policy.mqprio or {}).get("offload") != "channel" or "channels" in policy.unmanaged:
        return
    queues = sum(count for count, _offset in (policy.mqprio or {})["queues"])
    if queues != combined and "mqprio" not in policy.unmanaged:
        yield f"mqprio in mode channel has {queues} queues, nic.channels.combined is {combined}: they must be the same"


def _buffer_contradictions(policy: Policy) -> t.Iterator[str]:
    if policy.buffers is None:
        return
    prio_buffer, sizes = policy.buffers["prio_buffer"], policy.buffers["buffer_size"]
    for prio in policy.pfc:
        if sizes[prio_buffer[prio]] == 0:
            yield f"buffers: priority {prio} is in pfc, and its buffer {prio_buffer[prio]} has no size"


def _ets_duplicates(classes: tuple[EtsClass, ...]) -> t.Iterator[str]:
    tcs = [class_.tc for class_ in classes]
    prios = [prio for class_ in classes for prio in class_.prios]
    for what, values in (("tc", tcs), ("priority", prios)):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            yield f"ets: {what} {twice[0]} is listed twice"
    missing = sorted(set(range(PRIOS)) - set(prios))
    if missing:
        yield f"ets: priorities {missing} are in no class"
