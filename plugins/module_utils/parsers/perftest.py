# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Output of perftest's bandwidth and latency tests -> data. Pure. Sources: perftest_parameters.c, perftest_resources.c.

Text is read by its header: the unit stands there. JSON (--out_json) names no unit, but carries the
message rate, from which the unit follows. perftest's MB and MiB are both 2^20 bytes.
"""

from __future__ import annotations

import json
import math
import re
import typing as t
from dataclasses import dataclass, field

from ..errors import ParseError
from .numbers import is_int

_MIB_TO_GBPS = 8.388608 / 1000
_UNITS = {"Gb/sec": 1.0, "MiB/sec": _MIB_TO_GBPS, "MB/sec": _MIB_TO_GBPS}
_HEADER = re.compile(r"#bytes\s+#iterations\s+BW peak\[([^\]]+)\]\s+BW average\[([^\]]+)\](.*)")
# Which columns there are depends on the version, and on -D: "t_avg[usec]    tps average".
_LATENCY_HEADER = re.compile(r"#bytes\s+#iterations\s+(t_\w+\[usec\].*)")
_LATENCY_COLUMN = re.compile(r"(\S+)(?: percentile)?\[usec\]")
# Bounded, so that a garbled line can be no number beyond what a float or an int holds.
_WHOLE = re.compile(r"\d{1,15}", re.ASCII)
_NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?", re.ASCII)
_TITLE = re.compile(r"^\s*(\S.* Test)\s*$", re.MULTILINE)
_FIELD = re.compile(r"(Device|Number of qps|PCIe relax order|Mtu|Link type|GID index)\s*:\s*(\S+)")


@dataclass(frozen=True)
class Row:
    """One message size: bytes, iterations, Gb/s, million messages a second. None: not measured."""

    size: int
    iterations: int
    peak_gbps: float | None
    average_gbps: float
    mpps: float | None


@dataclass(frozen=True)
class LatencyRow:
    """One message size: bytes, iterations, microseconds. None: not measured, as most are with -D.

    Writes and sends are timed there and back and halved; a read counts whole. typical: the median.
    """

    size: int
    iterations: int
    average_usec: float
    typical_usec: float | None = None
    min_usec: float | None = None
    max_usec: float | None = None
    stdev_usec: float | None = None
    p99_usec: float | None = None
    p999_usec: float | None = None


@dataclass(frozen=True)
class Measurement:
    """What one run reported. ``bidirectional`` means that averages are sums of both directions.

    ``relaxed_ordering`` is perftest's own word: ON, OFF, Unsupported; empty where it says nothing.
    A bandwidth test has ``rows``, a latency test ``latencies``.
    """

    test: str = ""
    device: str = ""
    qps: int | None = None
    rdma_mtu: int | None = None
    gid_index: int | None = None
    link_type: str = ""
    relaxed_ordering: str = ""
    bidirectional: bool = False
    rows: list[Row] = field(default_factory=list)
    latencies: list[LatencyRow] = field(default_factory=list)

    def results(self) -> t.Sequence[Row | LatencyRow]:
        """What was measured, of whichever kind, by size."""
        return self.rows or self.latencies

    def best(self, smallest: int = 0) -> Row | None:
        """The row with the highest average, of those with messages of ``smallest`` bytes and more if there are any."""
        large = [row for row in self.rows if row.size >= smallest]
        return max(large or self.rows, key=lambda row: row.average_gbps, default=None)


def parse_text(text: str, *, bidirectional: bool = False) -> Measurement:
    """A measurement from text; without rows when the run printed none. Raises ParseError for an unknown unit.

    ``bidirectional`` says that -b was given: the title tells it as well, where it was kept.
    """
    title = _TITLE.search(text)
    words = dict(_FIELD.findall(text))
    return Measurement(
        test=title.group(1) if title else "",
        device=words.get("Device", ""),
        qps=_whole(words.get("Number of qps")),
        rdma_mtu=_whole(words.get("Mtu")),
        gid_index=_whole(words.get("GID index")),
        link_type=words.get("Link type", ""),
        relaxed_ordering=words.get("PCIe relax order", ""),
        bidirectional=bidirectional or "Bidirectional" in (title.group(1) if title else ""),
        rows=_rows(text),
        latencies=_latencies(text),
    )


def _rows(text: str) -> list[Row]:
    header = _HEADER.search(text)
    if header is None:
        return []
    if header.group(2) not in _UNITS:
        raise ParseError(f"perftest: unit {header.group(2)!r}, one of {', '.join(_UNITS)} was expected")
    factor = _UNITS[header.group(2)]
    # A line that was cut in its last column still has a whole average, so all columns must be there.
    columns = 5 if "MsgRate" in header.group(3) else 4
    lines = (line.split() for line in text[header.end() :].splitlines())
    # Warnings on the CPU's frequency stand between header and rows: only lines of numbers count.
    return [_row(words, factor) for words in lines if len(words) >= columns and _is_row(words)]


def _row(words: list[str], factor: float) -> Row:
    numbers = [float(word) for word in words[:5] if _NUMBER.fullmatch(word)]
    return Row(
        size=int(numbers[0]),
        iterations=int(numbers[1]),
        # In duration mode the peak is printed as 0.00 and was not measured.
        peak_gbps=round(numbers[2] * factor, 6) if numbers[2] else None,
        average_gbps=round(numbers[3] * factor, 6),
        mpps=numbers[4] if len(numbers) > 4 else None,
    )


def _is_row(words: list[str]) -> bool:
    return all(map(_WHOLE.fullmatch, words[:2])) and all(map(_NUMBER.fullmatch, words[2:4]))


# perftest's names of columns (text) and of keys (JSON) -> ours.
_LATENCIES = {
    "t_avg": "average_usec",
    "t_typical": "typical_usec",
    "t_min": "min_usec",
    "t_max": "max_usec",
    "t_stdev": "stdev_usec",
    "99%": "p99_usec",
    "percentile_99": "p99_usec",
    "99.9%": "p999_usec",
    "percentile_99.9": "p999_usec",
}


def _latencies(text: str) -> list[LatencyRow]:
    header = _LATENCY_HEADER.search(text)
    if header is None:
        return []
    columns = _LATENCY_COLUMN.findall(header.group(1))
    found = (_latency_of(columns, line.split()) for line in text[header.end() :].splitlines())
    return [row for row in found if row is not None]


def _latency_of(columns: list[str], words: list[str]) -> LatencyRow | None:
    """A line of numbers as a row; None for another line, and for one that was cut short or has no average."""
    if len(words) < 2 + len(columns) or not all(map(_WHOLE.fullmatch, words[:2])):
        return None
    # A deviation may be "-nan": what is no number was not measured.
    numbers = {name: float(word) for name, word in zip(columns, words[2:]) if _NUMBER.fullmatch(word)}
    return _latency(int(words[0]), int(words[1]), numbers) if "t_avg" in numbers else None


def _latency(size: int, iterations: int, numbers: t.Mapping[str, float]) -> LatencyRow:
    return LatencyRow(size, iterations, **{_LATENCIES[key]: numbers[key] for key in numbers if key in _LATENCIES})


def _whole(word: str | None) -> int | None:
    found = _WHOLE.match(word or "")
    return int(found.group()) if found else None


def parse_json(text: str, *, bidirectional: bool = False, gbits: bool = True) -> Measurement:
    """A measurement from the file of --out_json; ``gbits`` decides only where the message rate can't.

    ``bidirectional`` says that -b was given: the test's name tells it as well. Raises ParseError for
    anything but a complete file.
    """
    try:
        data = json.loads(text)
        info = dict(data["test_info"])
        results = dict(data["results"])
        latencies = [_json_latency(results)] if "t_avg" in results else []
        rows = [] if latencies else [_json_row(results, gbits)]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise ParseError(f"perftest: JSON was not understood: {text.strip()[:80]!r}") from exc
    return Measurement(
        test=str(info.get("test", "")),
        device=str(info.get("Device", "")),
        qps=_int_or_none(info.get("Number_of_qps")),
        rdma_mtu=_int_or_none(info.get("Mtu")),
        gid_index=_int_or_none(info.get("GID_index")),
        link_type=str(info.get("Link_type", "")),
        relaxed_ordering=str(info.get("PCIe_relax_order", "")),
        bidirectional=bidirectional or "Bidirectional" in str(info.get("test", "")),
        rows=rows,
        latencies=latencies,
    )


def _json_row(results: dict[str, t.Any], gbits: bool) -> Row:
    size, average = int(results["MsgSize"]), float(results["BW_average"])
    mpps = float(results.get("MsgRate") or 0)
    peak = float(results.get("BW_peak") or 0)
    if not all(math.isfinite(number) and number >= 0 for number in (size, average, mpps, peak)):
        raise ValueError("a number of perftest is finite and not below 0")
    factor = _unit_of(average, size * 8 * mpps / 1000) or (1.0 if gbits else _MIB_TO_GBPS)
    return Row(
        size=size,
        iterations=int(results["n_iterations"]),
        peak_gbps=round(peak * factor, 6) if peak else None,
        average_gbps=round(average * factor, 6),
        mpps=mpps or None,
    )


def _json_latency(results: dict[str, t.Any]) -> LatencyRow:
    numbers = {key: float(results[key]) for key in _LATENCIES if key in results}
    size, iterations = int(results["MsgSize"]), int(results["n_iterations"])
    if not all(math.isfinite(number) and number >= 0 for number in (size, *numbers.values())):
        raise ValueError("a number of perftest is finite and not below 0")
    return _latency(size, iterations, numbers)


def _unit_of(average: float, gbps: float) -> float | None:
    """The factor to Gb/s that makes ``average`` agree with the rate computed from messages, or None."""
    for factor in (1.0, _MIB_TO_GBPS):
        if gbps > 0 and abs(average * factor - gbps) < 0.05 * gbps:
            return factor
    return None


def _int_or_none(value: t.Any) -> int | None:
    return value if is_int(value) else None


# -- failures ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """Why a run gave no result: kind (a short name), perftest's own line, cause and remedy in a sentence."""

    kind: str
    line: str
    cause: str
    remedy: str


_STATUS = {
    4: ("gpu_memory", "the card may not read or write the registered memory (local protection error)", "GPU"),
    5: ("flushed", "requests were flushed: another error came first, on this end or the other", "see the other end"),
    10: (
        "flags_differ",
        "the peer's buffer does not fit (remote access error): the two ends run with different flags",
        "give both ends the same size, -a, -q, -b and -R",
    ),
    12: (
        "data_path",
        "the TCP exchange worked, and no RoCE packet came through or was answered (transport retries exceeded)",
        "DATA_PATH",
    ),
    13: ("receiver_not_ready", "the receiver was not ready (RNR retries exceeded)", "look at the other end's log"),
}
_REMEDIES = {
    "GPU": "check GPUDirect: nvidia_peermem or dma-buf, IOMMU in passthrough, ACS off",
    "DATA_PATH": (
        "check UDP 4791 on the way (switch ACL; on Soft-RoCE also the hosts' firewalls), the MTU of every hop,"
        " the route between the two addresses, and that both ends use the same RoCE version"
    ),
}
_REFUSED = r"Couldn't allocate MR|[Ff]ailed to create (?:mr|MR)"
_ON_GPU = re.compile(r"initializing CUDA|creating CUDA Ctx|cuMemAlloc|allocated GPU buffer")
_NO_DMABUF = (
    "no_dmabuf",
    "kernel or driver cannot register dma-buf memory",
    "use nvidia_peermem, or a kernel and driver with dma-buf registration",
)
_TEXTS: tuple[tuple[str, str, str, str], ...] = (
    # pattern, kind, cause, remedy; in the order in which one explains the other
    (r"IB device (\S+) not found", "wrong_device", "there is no RDMA device of that name", "rdma link show names them"),
    (
        r"Did not detect devices|Unable to find the Infiniband/RoCE device|No IB devices found",
        "no_device",
        "no verbs device can be used where the test ran: a container without /dev/infiniband, or no provider library",
        "pass /dev/infiniband into the container and install ibverbs-providers (rdma-core) there",
    ),
    (r"Port number \d+ state is Down", "port_down", "the RDMA port is down", "check cable, switch port and netdev"),
    (
        (
            r"unrecognized option|Unsupported memory type|DMABUF requested but not supported in this build"
            r"|should be between|Invalid Command or flag|Parser function exited"
        ),
        "unknown_option",
        "this build of perftest does not know an option or refuses its value",
        "compare with ib_write_bw --help; distribution builds have no CUDA",
    ),
    (r"DMA-BUF is not supported|OFED stack does not support DMA-BUF", *_NO_DMABUF),
    (_REFUSED, "registration", "", ""),  # _registration has its words
    (
        r"Failed to modify QP \d+ to RTR",
        "no_path",
        "the stack cannot reach the peer's GID: wrong GID index, no route or neighbour, or another network namespace",
        "check the GID index on both ends, ip route get PEER, and that the container uses the host's network",
    ),
    (
        r"Unexpected CM event|Unable to connect \(retries|rdma_connect failed",
        "no_cm_path",
        "rdma_cm could not connect over the RoCE path",
        "check address, route and UDP 4791; -R needs the RoCE port's own address",
    ),
    (
        r"Couldn't connect to \S+|Unable to (?:init|open).* socket connection",
        "no_server",
        "the control connection (TCP) was not made: no server listens, the host is down, or the port is filtered",
        "check that the server's end started, and TCP 18515 and up between the hosts",
    ),
    (
        r"Failed to exchange data between server and clients|Couldn't read remote address",
        "peer_gone",
        "the peer went away or runs with other options",
        "look at the other end's log",
    ),
)


def classify(text: str) -> Failure | None:
    """The root failure in what a run printed, or None when it printed no known failure."""
    # "Failed status 12: …" up to 4.5, "Failed status-transport retry counter exceeded (12): …" since.
    status = re.search(r"Failed status(?: (\d{1,4})\b|-[^(\n]*\((\d{1,4})\)).*", text)
    if status is not None:
        return _status(int(status.group(1) or status.group(2)), " ".join(status.group(0).split()))
    for pattern, kind, cause, remedy in _TEXTS:
        # Line by line: a pattern that had to find the line's ends as well is slow on long garbage.
        found = next((line for line in text.splitlines() if re.search(pattern, line)), None)
        if found is not None and pattern == _REFUSED:
            return _registration(text, " ".join(found.split()))
        if found is not None:
            return Failure(kind, " ".join(found.split()), cause, remedy)
    return None


def _registration(text: str, line: str) -> Failure:
    """Why memory was not registered: by the errno, which old versions do not print, and by whose memory it was."""
    found = re.search(r"Couldn't allocate MR with error=([0-9]{1,5})", text)
    errno = int(found.group(1)) if found else None
    if errno in (93, 95):  # EPROTONOSUPPORT, EOPNOTSUPP
        return Failure(_NO_DMABUF[0], line, *_NO_DMABUF[1:])
    if errno == 14 or (errno is None and _ON_GPU.search(text)):  # EFAULT
        return Failure(
            "no_peermem",
            line,
            "GPU memory cannot be registered: nvidia_peermem is not there or not in use",
            "load nvidia_peermem, or test with --use_cuda_dmabuf",
        )
    if errno in (12, None):  # ENOMEM
        return Failure(
            "memlock",
            line,
            "memory registration was refused: first suspect is the limit on locked memory",
            "ulimit -l unlimited (role lossless.roce.baseline); in a container --ulimit memlock=-1 and --cap-add"
            " IPC_LOCK",
        )
    return Failure("registration", line, f"memory registration was refused, error {errno}", "dmesg of that node")


def _status(number: int, line: str) -> Failure:
    kind, cause, remedy = _STATUS.get(
        number, ("completion", f"a request failed with status {number}", "see rdma-core's verbs.h")
    )
    return Failure(kind, line, cause, _REMEDIES.get(remedy, remedy))


def addresses_exchanged(text: str) -> bool:
    """Whether the two ends had exchanged their addresses over TCP."""
    return "remote address:" in text
