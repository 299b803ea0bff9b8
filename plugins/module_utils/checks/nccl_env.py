# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""NCCL's variables: out of range, against the policy, or not what their author thinks.

Ranges and defaults are those of the NCCL sources (param.cc, net_ib.cc, 2.18 to 2.30).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..findings import FAIL, PASS, SKIPPED, Finding

if t.TYPE_CHECKING:
    from ..host import Host
    from ..policy import Policy
    from .base import Context

CONF = "/etc/nccl.conf"
FILES = ("/root/.nccl.conf", CONF)  # in the order in which NCCL reads them in jobs of root
_NAME, _QUOTED = r"(NCCL_[A-Z0-9_]+)", r"\"[^\"\n]*\"|'[^'\n]*'"
_ASSIGNMENTS = (
    # NAME=value at the start of a line, after export, behind -x, -e, --env of mpirun and docker, in units of systemd.
    re.compile(rf"(?:^|[\s;'\"=])(?:export\s+|-x\s+|-e\s+|--env[ =])?{_NAME}=({_QUOTED}|[^\s;'\"]*)"),
    # Python
    re.compile(rf"\benviron(?:\[|\.setdefault\()\s*[\"']{_NAME}[\"']\s*(?:\]\s*=(?!=)|,)\s*({_QUOTED})"),
    # YAML and JSON
    re.compile(rf"^\s*(?:-\s+)?[\"']?{_NAME}[\"']?:\s+({_QUOTED}|[^\s'\"#]+?),?\s*(?:#.*)?$"),
    # Dockerfile, csh, MPICH's launchers
    re.compile(rf"(?:^\s*ENV|^\s*setenv|\s-genv)\s+{_NAME}\s+({_QUOTED}|[^\s;'\"]+)"),
)
_PROTOS = ("ll", "ll128", "simple")
_ALGOS = ("ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
_LEVELS = ("loc", "nvl", "pix", "pxb", "phb", "sys", "nvb", "c2c", "p2c", "pxn", "0", "1", "2", "3", "4", "5")
_RANGES: dict[str, tuple[int, int]] = {
    "NCCL_IB_TIMEOUT": (1, 31),
    "NCCL_IB_RETRY_CNT": (0, 7),
    "NCCL_IB_QPS_PER_CONNECTION": (1, 128),
    "NCCL_MIN_NCHANNELS": (1, 64),
    "NCCL_MAX_NCHANNELS": (1, 64),
    "NCCL_LL128_NTHREADS": (160, 640),
    "NCCL_IB_TC": (-1, 255),
    "NCCL_IB_FIFO_TC": (-1, 255),
    "NCCL_GIN_IB_TC": (-1, 255),
    "NCCL_IB_SL": (-1, 15),
    "NCCL_CROSS_NIC": (0, 2),
    "NCCL_IB_GID_INDEX": (-1, 255),
}
_FEW = 5  # channels that are not few
_WORDS: dict[str, tuple[str, ...]] = {
    "NCCL_PROTO": _PROTOS,
    "NCCL_ALGO": _ALGOS,
    "NCCL_NET_GDR_LEVEL": _LEVELS,
    "NCCL_P2P_LEVEL": _LEVELS,
}
_MISNAMED = {
    "NCCL_MNNVL": "NCCL_MNNVL_ENABLE",
    "NCCL_IB_TRAFFIC_CLASS": "NCCL_IB_TC",
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL (its old name)",
    "NCCL_SOCKET_INTERFACE": "NCCL_SOCKET_IFNAME",
}


@dataclass(frozen=True)
class Setting:
    """One assignment: the value, and the file and line where it stands."""

    name: str
    value: str
    where: str


@dataclass(frozen=True)
class Node:
    """What the variables are held against: RDMA devices, and the right GID index of each declared port."""

    policy: Policy | None = None
    ibdevs: tuple[str, ...] = ()
    gid_indexes: tuple[int, ...] = ()


def parse_assignments(text: str, source: str) -> list[Setting]:
    """Assignments in a script, an environment file or the arguments of a launcher; comments are left out."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        hits = [hit for pattern in _ASSIGNMENTS for hit in pattern.findall(line)]
        found += [Setting(name, value.strip("\"'"), f"{source}:{number}") for name, value in hits]
    return found


def parse_conf(text: str, source: str) -> tuple[list[Setting], list[Finding]]:
    """Variables of nccl.conf, and findings on lines that NCCL reads otherwise than they look (param.cc)."""
    settings, findings = [], []
    for number, line in enumerate(text.split("\n"), 1):
        name, equals, value = line.partition("=")
        if line.startswith("#") or not line.strip():
            continue
        where = f"{source}:{number}"
        odd = name != name.strip() or value != value.strip() or name.startswith("export ") or " #" in value
        if not equals or odd or value[:1] in ("'", '"'):
            cause = "NCCL takes the line as it stands: no blanks around =, no export, no quotes, no comment behind"
            cause += "; this one ends in a carriage return, as Windows writes it" if line.endswith("\r") else ""
            remedy = "write NAME=VALUE, and comments on lines of their own"
            findings.append(_wrong("line", line.strip(), where, "NAME=VALUE", cause, remedy))
        else:
            settings.append(Setting(name, value, where))
    return settings, findings


def on_disk(host: Host) -> tuple[list[Setting], list[Finding]]:
    """Variables of FILES in order, and findings on lines that do not do what they look like."""
    parsed = [parse_conf(host.read_optional(path) or "", path) for path in FILES]
    settings = [setting for here, _odd in parsed for setting in here]
    first = that_count(settings)
    late = [_too_late(one, first[one.name]) for one in settings if one.value != first[one.name].value]
    return settings, [finding for _here, odd in parsed for finding in odd] + late


def that_count(settings: t.Iterable[Setting]) -> dict[str, Setting]:
    """By name: NCCL sets what is not set already (param.cc), so the first line counts, in one file as in both."""
    found: dict[str, Setting] = {}
    for setting in settings:
        found.setdefault(setting.name, setting)
    return found


def _too_late(setting: Setting, first: Setting) -> Finding:
    cause = f"NCCL takes the first line of a name, {first.where} {first.name}={first.value}; this one has no effect"
    return _of(setting, first.value, cause, "keep the line that is meant, and remove the other")


def diagnose(host: Host, context: Context) -> list[Finding]:
    """Findings on nccl.conf, on the option nccl_env, and on assignments in the files of the option review."""
    settings, findings = on_disk(host)
    given = context.options.get("nccl_env") or {}
    settings += [Setting(str(name), str(value), "nccl_env") for name, value in given.items()]
    for path, text in context.review.texts.items():
        settings += parse_assignments(text, path)
    node = Node(
        context.policy,
        tuple(port["ibdev"] for port in context.facts.get("ports", [])),
        tuple(context.options.get("gid_indexes") or ()),
    )
    return findings + check(settings, node)


def check(settings: t.Sequence[Setting], node: Node) -> list[Finding]:
    """Findings on variables; without any variable one that says that nothing was set."""
    if not settings:
        return [Finding("nccl_env", SKIPPED, cause="no NCCL variable is set in the places that were looked at")]
    found = [finding for setting in settings for finding in _check_one(setting, node)]
    if node.policy and not any(setting.name == "NCCL_IB_TC" for setting in settings):
        found.append(_unset_traffic_class(node.policy, settings))
    return found or [Finding("nccl_env", PASS, observed={setting.name: setting.value for setting in settings})]


def _check_one(setting: Setting, node: Node) -> t.Iterator[Finding]:
    for rule in (_range, _words, _threads, _few_channels, _misnamed, _against_policy, _disabled, _hca, _gid_index):
        finding = rule(setting, node)
        if finding is not None:
            yield finding


def _number(text: str) -> int | None:
    return int(text, 0) if re.fullmatch(r"-?(?:0x[0-9a-fA-F]{1,8}|[1-9][0-9]{0,9}|0)", text) else None


def _range(setting: Setting, _node: Node) -> Finding | None:
    if setting.name not in _RANGES:
        return None
    low, high = _RANGES[setting.name]
    number = _number(setting.value)
    if number is not None and low <= number <= high:
        return None
    cause = f"{setting.name}={setting.value} is out of range; NCCL takes another value or fails when it connects"
    return _of(setting, f"{low} to {high}", cause, "correct the value, or leave it out")


def _words(setting: Setting, _node: Node) -> Finding | None:
    allowed = _WORDS.get(setting.name)
    if allowed is None:
        return None
    tokens = [token.lstrip("^") for token in re.split(r"[,;:]", setting.value.lower())]
    functions = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce", "sendrecv")
    if all(token in allowed or token in functions for token in tokens if token):
        return None
    cause = f"{setting.name}={setting.value}: NCCL does not know that word and leaves its default"
    return _of(setting, ", ".join(allowed), cause, "correct the value, or leave it out")


def _threads(setting: Setting, _node: Node) -> Finding | None:
    if setting.name != "NCCL_NTHREADS":
        return None
    number = _number(setting.value)
    if number is not None and number % 32 == 0 and 64 <= number <= 512:
        return None
    instead = 64 if number is not None and number % 32 == 0 and 0 < number < 64 else 512
    cause = f"NCCL does not take NCCL_NTHREADS={setting.value}: it uses {instead} and says so only at NCCL_DEBUG=INFO"
    return _of(setting, "a multiple of 32, 64 to 512", cause, "leave it out: NCCL chooses well")


def _few_channels(setting: Setting, _node: Node) -> Finding | None:
    if setting.name not in ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS") or _number(setting.value) not in range(1, _FEW):
        return None
    cause = (
        f"{setting.name}={setting.value}: few channels bound NCCL's bandwidth: by them it spreads work over processors"
        " of the GPU and over NICs"
    )
    return _of(setting, f"{_FEW} or more, or not set", cause, "leave it out; measure before setting it")


def _misnamed(setting: Setting, _node: Node) -> Finding | None:
    if setting.name not in _MISNAMED:
        return None
    right = _MISNAMED[setting.name]
    return _of(setting, right, f"NCCL knows no variable {setting.name}", f"the name is {right}")


def _against_policy(setting: Setting, node: Node) -> Finding | None:
    """A class or service level that is not the policy's. -1 leaves the smaller classes to NCCL_IB_TC."""
    number, policy = _number(setting.value), node.policy
    wanted = policy.nccl().get(setting.name) if policy else None
    if policy is None or wanted is None or number is None or number == int(wanted):
        return None
    if number == -1 and setting.name != "NCCL_IB_TC":
        return None
    what = "service level" if setting.name == "NCCL_IB_SL" else "traffic class"
    cause = f"{setting.name} is {what} {number}, and the policy's is {wanted}{_hint(setting.name, number, policy)}"
    return _of(setting, int(wanted), cause, f"{setting.name}={wanted}")


def _hint(name: str, number: int, policy: Policy) -> str:
    if name == "NCCL_IB_SL":
        return " (with trust pcp the priority is the service level)"
    if number >> 2 == policy.data_dscp:
        return " (the DSCP is right; the ECN bits differ)"
    return " (it is the whole byte, DSCP * 4, and not the DSCP)" if number == policy.data_dscp else ""


def _disabled(setting: Setting, _node: Node) -> Finding | None:
    if setting.name == "NCCL_IB_DISABLE" and _number(setting.value):
        return _of(setting, "0", "RDMA is switched off for NCCL: everything goes over TCP sockets", "remove it")
    if setting.name == "NCCL_NET" and setting.value.lower() == "socket":
        return _of(setting, "IB", "NCCL is told to use TCP sockets", "NCCL_NET=IB, or leave it out")
    if setting.name == "NCCL_NET_GDR_LEVEL" and setting.value.upper() in ("LOC", "0"):
        cause = "GPUDirect RDMA is switched off: no NIC is as near to a GPU as the GPU itself"
        return _of(setting, "PXB", cause, "leave it out: the default is PXB")
    return None


def _hca(setting: Setting, node: Node) -> Finding | None:
    """A list without = matches by prefix: mlx5_1 is mlx5_10 as well."""
    if setting.name != "NCCL_IB_HCA" or setting.value[:1] in ("=", "^"):
        return None
    wanted = [item.partition(":")[0] for item in setting.value.split(",") if item]
    more = sorted({ibdev for name in wanted for ibdev in node.ibdevs if ibdev.startswith(name) and ibdev not in wanted})
    if not more:
        return None
    cause = f"NCCL_IB_HCA matches by prefix, so that {setting.value} selects {', '.join(more)} as well"
    return _of(setting, f"={setting.value}", cause, f"NCCL_IB_HCA=={setting.value} (a leading = is exact)")


def _gid_index(setting: Setting, node: Node) -> Finding | None:
    number = _number(setting.value)
    if setting.name != "NCCL_IB_GID_INDEX" or number is None or number < 0 or not node.gid_indexes:
        return None
    if set(node.gid_indexes) == {number}:
        return None
    right = sorted(set(node.gid_indexes))
    cause = (
        f"GID index {number} is hard-wired, and on this node the RoCE v2 GIDs of the declared addresses have {right}"
    )
    return _of(setting, right, cause, "leave it out: from 2.21 on NCCL finds it (NCCL_IB_ADDR_RANGE narrows it down)")


def _unset_traffic_class(policy: Policy, settings: t.Sequence[Setting]) -> Finding:
    where = ", ".join(sorted({setting.where.partition(":")[0] for setting in settings}))
    return _wrong(
        "NCCL_IB_TC",
        None,
        where,
        policy.tos,
        "NCCL_IB_TC is not set: NCCL's queue pairs use traffic class 0, the default and lossy class,"
        " unless the driver forces another one on them; queue pairs that GPUs make themselves need it in any case",
        f"NCCL_IB_TC={policy.tos}",
    )


def _of(setting: Setting, expected: t.Any, cause: str, remedy: str) -> Finding:
    return _wrong(setting.name, setting.value, setting.where, expected, cause, remedy)


def _wrong(name: str, value: t.Any, where: str, expected: t.Any, cause: str, remedy: str) -> Finding:
    return Finding(
        check="nccl_env",
        verdict=FAIL,
        observed={name: value},
        expected=expected,
        evidence=where,
        cause=cause,
        remedy=remedy,
    )
