# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL prints at NCCL_DEBUG=INFO -> data. Pure. Sources: init.cc, net.cc, net_ib.cc, net_socket.cc, 2.5 to 2.30.

Records of several ranks may stand in one text in any order. Everything is searched for and nothing is expected at
the start of a line: launchers put tags in front, and NCCL a time. What cannot be read is counted, not guessed.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

# host:pid:tid [dev] NCCL INFO text; WARN has file.cc:line in front of NCCL, since 2.30 "(function)" too.
# The host may be empty, the tid missing.
_RECORD = re.compile(
    r"(?P<host>[A-Za-z0-9_.-]{0,255}):(?P<pid>[0-9]{1,9})(?::[0-9]{1,9})? \[-?[0-9]{1,4}\] "
    r"(?:[\w./+<>-]{1,200}:[0-9]{1,6} (?:\([^()\n]{1,200}\) )?)?NCCL (?P<level>INFO|WARN) "
)
# The number in brackets is the device's, in older versions the bus id. An end has to be seen: a digit may be cut off.
# A plugin's name may have blanks (AWS Libfabric), which a torn line has too.
_NAME = r"(?:[A-Z]\w{2,40}(?: [A-Z]\w{2,40}){1,3}|[A-Za-z]\w{0,40})"
_CHANNEL = re.compile(
    r"(?:Channel|Ring) (?P<number>[0-9]{1,4})(?:/[0-9]{1,4})? : (?P<source>[0-9]{1,6})\[\w{1,16}\] -> "
    r"(?P<target>[0-9]{1,6})\[\w{1,16}\](?: \[(?P<direction>send|receive)\])? via "
    rf"(?P<via>NET/{_NAME}/[0-9]\S*|direct shared memory|\S+(?: pointer)?)(?=\s|$)"
)
_CHANNEL_START = re.compile(
    r"(?:Channel|Ring) [0-9]{1,4}(?:/[0-9]{1,4})? : [0-9]{1,6}\[|\bvia (?:NET|P2P|SHM|direct shared)\b"
)
_NET = re.compile(
    rf"NET/(?P<network>{_NAME})/(?P<device>[0-9]{{1,4}})(?:\([0-9]{{1,6}}\))?(?P<rest>(?:/GDRDMA|\(PCI\)|/Shared)*)"
)
_LOCAL = re.compile(r"direct shared memory|(?:P2P|SHM|NVLS|COLLNET|CollNet)(?:/[\w\[\] ]{1,40}){1,4}")
_HCA = re.compile(r"\[([0-9]{1,4})\] ?([\w.+-]{1,64}):([0-9]{1,3})/(IB|RoCE)(?![A-Za-z])")
# 2.21 and 2.22 list ports that they use as one in braces: [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [2]mlx5_2:1/RoCE
_DEVICE = re.compile(r"\[[0-9]{1,4}\](?:=\{([^{}]{1,600})\}|([\w.+-]{1,64}:[0-9]{1,3}/(?:IB|RoCE))(?![A-Za-z]))")
_VIRTUAL = re.compile(r"Made virtual device \[([0-9]{1,4})\] name=([\w.+-]{1,200})")
_INTERFACE = re.compile(r"\[[0-9]{1,4}\]([\w.@-]{1,32}):([0-9a-fA-F.:%]{2,64})<[0-9]{1,5}>")
_SETTING = re.compile(r"\b(NCCL_[A-Z0-9_]{1,60}) set by (?:environment|config file \S+) to ([^\s]{1,500})")
_GDR = re.compile(
    rf"NET/({_NAME}) : GPU Direct RDMA (Enabled|Disabled) for HCA"
    r" [0-9]{1,4} '([\w.+-]{1,64})'(?: \(([^)]{1,60})\))?"
)
_RANK = re.compile(r"\brank ([0-9]{1,6}) nranks ([0-9]{1,6})\b")
# What a rank says once it is connected. Up to 2.21 Init COMPLETE comes after the channels, later before them.
_CONNECTED = re.compile(r"Connected (?:all rings|all trees|NVLS tree|binomial trees)|- (?:Init|Destroy) COMPLETE")
_NODES = re.compile(r"\bnNodes ([0-9]{1,6})\b")
_VERSION = re.compile(r"NCCL version ([0-9]{1,3}(?:\.[0-9]{1,3}){1,3})(?![0-9])")
_NETWORK = re.compile(r"Using network (\w[\w .()-]{0,60})")
_PLUGIN = re.compile(r"NET/Plugin ?: ((?:Loaded net plugin |Using |No plugin found|Could not find)[^\n]{0,80})")
_COMPLETION = re.compile(
    r"Got completion from peer (\S{1,100}) with "
    r"(?:error ([0-9]{1,4})|status=(?:([0-9]{1,4})\b|[^()\s]{0,60}\(([0-9]{1,4})\)))"
)
_ERRNO = {
    "No such device": 19,
    "Invalid argument": 22,
    "Network is unreachable": 101,
    "Connection timed out": 110,
    "No route to host": 113,
}
_GIDS = re.compile(r"local ?gids?(?::? )([0-9a-f:.]{2,64}),? remote ?gids?(?:: | )?([0-9a-f:.]{2,64})", re.IGNORECASE)


@dataclass(frozen=True)
class Hca:
    """A port that a process uses: its number among NCCL's devices there, RDMA device, port, and RoCE or IB.

    Several ports as one device have their names joined by +, port 0 and no link; the number of each of them is then -1.
    """

    index: int
    ibdev: str
    port: int
    link: str
    process: str = ""


@dataclass(frozen=True)
class Channel:
    """One direction of a channel between two ranks, as one end reported it.

    network: IB, Socket or a plugin's name (IBext_v8, ...); empty for what stays inside a node (``via`` says how)
    device: NCCL's number of the port, or None
    """

    number: int
    source: int
    target: int
    direction: str
    via: str
    network: str
    device: int | None
    gdr: bool
    process: str

    @property
    def rdma(self) -> bool:
        """Whether it goes over verbs, by NCCL's own code or by the plugins that replace it."""
        return self.network == "IB" or self.network.startswith("IBext")

    @property
    def rank(self) -> int:
        """The rank that reported it. What stays inside a node is reported by the rank that sends."""
        return self.target if self.direction == "receive" else self.source

    @property
    def other(self) -> int:
        """The rank at its other end."""
        return self.source if self.direction == "receive" else self.target


@dataclass(frozen=True)
class Trouble:
    """A warning that means something: its kind, NCCL's words, and what of them is worth to be named."""

    kind: str
    text: str
    process: str = ""
    facts: dict[str, t.Any] = field(default_factory=dict)


@dataclass
class NcclLog:
    """Everything that a text tells.

    nranks: ranks of the largest communicator; connected: processes that had channels, and said that these are all
    garbled: number of channels that could not be read
    """

    version: str = ""
    processes: list[str] = field(default_factory=list)
    ranks: dict[str, int] = field(default_factory=dict)  # process -> rank
    nranks: int | None = None
    nnodes: int | None = None
    hcas: list[Hca] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)  # processes whose line of HCAs is there to its end
    networks: list[str] = field(default_factory=list)
    interfaces: list[tuple[str, str]] = field(default_factory=list)
    plugins: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    gdr: dict[str, tuple[bool, str]] = field(default_factory=dict)  # HCA -> enabled, reason
    channels: list[Channel] = field(default_factory=list)
    connected: set[str] = field(default_factory=set)
    signs: set[str] = field(default_factory=set)
    troubles: list[Trouble] = field(default_factory=list)
    garbled: int = 0

    @property
    def release(self) -> tuple[int, ...]:
        """The version as numbers, empty when it was not printed."""
        return tuple(map(int, self.version.split("."))) if self.version else ()

    def hosts(self) -> list[str]:
        """Names of the hosts that printed, as NCCL calls them."""
        return sorted(set(map(host_of, self.processes)))


def host_of(process: str) -> str:
    """The host of a process (``host:pid``), as NCCL calls it."""
    return process.rpartition(":")[0]


_NO_NETWORK = re.compile(r"Failed to initialize any NET plugin|Error: network \S{0,40} ?not found")

# Why NCCL has no verbs device, as it says itself. Plain words, since they did not change from 2.5 to 2.30.
_SIGNS = (
    ("no_device", re.compile(r"NET/IB : No device found")),
    ("no_libibverbs", re.compile(r"Failed to open libibverbs\.so")),
    ("no_provider", re.compile(r"no userspace device-specific driver found for")),
    ("no_interface", re.compile(r"(?i:no) (?:socket |IP )?interface found")),
    ("ib_not_initialised", re.compile(r"Failed to initialize NET plugin IB")),
    ("no_network", _NO_NETWORK),
)

# Warnings by kind; the first that fits counts. All but the last kinds are failures.
_TROUBLES = (
    ("completion", re.compile(r"Got completion from peer")),
    ("modify_qp", re.compile(r"Call to ibv_modify_qp failed")),
    (
        "memlock",
        re.compile(r"Call to ibv_(?:reg_mr\w*|create_cq|create_qp|alloc_pd) failed[^\n]{0,40}Cannot allocate memory"),
    ),
    ("register", re.compile(r"Call to ibv_reg_\w*mr\w* failed")),
    ("open_device", re.compile(r"Call to ibv_open_device failed|Unable to open device")),
    ("verbs", re.compile(r"Call to ibv_\w+ failed")),
    ("async_event", re.compile(r"async fatal event|Got async event : (?!client reregistration|GID table|port active)")),
    ("no_network", _NO_NETWORK),
    ("link_types", re.compile(r"Attempted to (?:connect|merge) incompatible devices|incompatible with the local \[")),
    ("versions", re.compile(r"Mismatched NCCL version")),
    ("same_gpu", re.compile(r"Duplicate GPU detected|Multiple Ranks are using the same GPU")),
    ("no_interface", re.compile(r"(?:No IP|no socket|NET/Socket : no) interface found", re.IGNORECASE)),
    ("token", re.compile(r"Unrecognized element token")),
    (
        "peer_gone",
        re.compile(
            r"Connection (?:closed|reset) by (?:remote )?peer|Connection refused|Broken pipe"
            r"|remote process has (?:exited|terminated)"
        ),
    ),
    ("cuda", re.compile(r"Cuda failure")),
)


def parse_log(text: str) -> NcclLog:
    """All that a text of one or many ranks tells; a text without NCCL's records gives an empty log."""
    log = NcclLog()
    for line in _whole_lines(text):
        _read_line(log, line)
    log.garbled = max(0, len(_starts(text)) - len(log.channels))
    return log


def _whole_lines(text: str) -> list[str]:
    """The lines; of a last one that was cut the channel is taken out, unless what is left of it is enough."""
    lines = text.splitlines()
    if lines and not text.endswith(("\n", "\r")):
        head, _via, how = lines[-1].rpartition("via NET/")
        lines[-1] = lines[-1] if "/GDRDMA" in how else head or lines[-1]
    return lines


def _starts(text: str) -> list[str]:
    """What begins or ends a channel record: of a whole record there are two, so of a torn one at least one."""
    found = _CHANNEL_START.findall(text)
    ended = [start for start in found if start.startswith("via")]
    return max([start for start in found if not start.startswith("via")], ended, key=len)


def _read_line(log: NcclLog, line: str) -> None:
    # Two records may stand in one line when their writers met: each goes up to where the next begins.
    records = list(_RECORD.finditer(line))
    bounds = [record.start() for record in records] + [len(line)]
    _read_text(log, line[: bounds[0]], "")
    for record, end in zip(records, bounds[1:]):
        process = f"{record['host']}:{record['pid']}"
        if process not in log.processes:
            log.processes.append(process)
        text = line[record.end() : end].rstrip()
        _read_text(log, text, process)
        if record["level"] == "WARN":
            _read_warning(log, text, process)


def _read_text(log: NcclLog, text: str, process: str) -> None:
    _read_init(log, text, process)
    _read_network(log, text, process)
    _read_channels(log, text, process)
    if _CONNECTED.search(text) and any(channel.process == process for channel in log.channels):
        log.connected.add(process)
    log.signs |= {name for name, pattern in _SIGNS if pattern.search(text)}


def _read_init(log: NcclLog, text: str, process: str) -> None:
    if found := _VERSION.search(text):
        log.version = log.version or found.group(1)
    if found := _RANK.search(text):
        log.nranks = max(log.nranks or 0, int(found.group(2)))
        if process:
            log.ranks[process] = int(found.group(1))
    if found := _NODES.search(text):
        log.nnodes = int(found.group(1))
    for name, value in _SETTING.findall(text):
        log.settings[name] = value.rstrip(".")


def _read_network(log: NcclLog, text: str, process: str) -> None:
    if "NET/IB" in text and "Using" in text:
        merged = "={" in text
        _add(
            log.hcas,
            (
                Hca(-1 if merged else int(n), name, int(port), link, process)
                for n, name, port, link in _HCA.findall(text)
            ),
        )
        if merged:
            _add(log.hcas, _merged(text, process))
        if "; OOB " in text:
            log.listed.add(process)
    for number, name in _VIRTUAL.findall(text):
        # Two ports that NCCL uses as one: the channels' numbers are then those of the merged devices.
        _add(log.hcas, [Hca(int(number), name, 0, "", process)])
    if "NET/Socket : Using" in text:
        _add(log.interfaces, _INTERFACE.findall(text))
    _add(log.networks, (name.strip() for name in _NETWORK.findall(text)))
    _add(log.plugins, (name.strip() for name in _PLUGIN.findall(text)))
    for transport, state, name, reason in _GDR.findall(text):
        if transport != "Socket":
            log.gdr[name] = (state == "Enabled", reason)


def _merged(text: str, process: str) -> t.Iterator[Hca]:
    """The devices as channels number them: by their place in the line. The numbers that are shown are the ports'."""
    for index, (several, one) in enumerate(_DEVICE.findall(text)):
        names = [port.partition("]")[2].strip() for port in several.split(",")] if several else [one]
        yield Hca(index, "+".join(name.partition(":")[0] for name in names), 0, "", process)


def _read_channels(log: NcclLog, text: str, process: str) -> None:
    for found in _CHANNEL.finditer(text):
        net, local = _NET.fullmatch(found["via"]), _LOCAL.match(found["via"])
        if net is None and local is None:
            continue
        log.channels.append(
            Channel(
                number=int(found["number"]),
                source=int(found["source"]),
                target=int(found["target"]),
                direction=found["direction"] or "",
                via=found["via"],
                network=net["network"] if net else "",
                device=int(net["device"]) if net else None,
                gdr=bool(net and "/GDRDMA" in net["rest"]),
                process=process,
            )
        )


def _read_warning(log: NcclLog, text: str, process: str) -> None:
    kind = next((name for name, pattern in _TROUBLES if pattern.search(text)), "other")
    log.troubles.append(Trouble(kind, text[:500], process, _facts(text)))


def _facts(text: str) -> dict[str, t.Any]:
    """Peer, status, errno, device and GIDs, as far as a warning names them."""
    facts = _errno_of_words(text)
    if found := _COMPLETION.search(text):
        facts = {"peer": found.group(1).partition("<")[0], "status": int(next(filter(None, found.groups()[1:])))}
    if found := _GIDS.search(text):
        facts.update(local_gid=found.group(1), remote_gid=found.group(2))
    for name, pattern in (
        ("errno", r"(?:errno |failed with )([0-9]{1,4})\b"),
        ("device", r"(?:on dev |hca |Unable to open device )([\w.+-]{1,64}(?::[0-9]{1,3})?)"),
        ("gid_index", r"local GID index ([0-9]{1,5})"),
    ):
        if found := re.search(pattern, text):
            value = found.group(1)
            facts[name] = int(value) if value.isdecimal() else value
    return facts


def _errno_of_words(text: str) -> dict[str, t.Any]:
    """The errno of a verbs call whose version prints the C library's words alone (2.5 to 2.18)."""
    found = re.search(r"Call to ibv_\w+ failed with error ([A-Z][a-z ]{1,40})", text)
    errno = _ERRNO.get(found.group(1).strip()) if found else None
    return {} if errno is None else {"errno": errno}


def _add(known: list[t.Any], new: t.Iterable[t.Any]) -> None:
    """Append what is not there yet, in order."""
    known.extend(item for item in dict.fromkeys(new) if item not in known)
