# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What GPUs and RDMA ports do while a job runs: sampled by the launcher, judged afterwards.

Sources: nvidia-smi --help-query-gpu; the kernel's sysfs-class-infiniband (port_xmit_data counts 4-byte words).
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..checks.counters import read_rdma
from ..errors import RoceError
from ..findings import FAIL, PASS, SKIPPED, Finding
from ..parsers.statistics import growth

if t.TYPE_CHECKING:
    from ..host import Host
    from ..ports import Port

_QUERY = ("nvidia-smi", "--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits")
_WORD = 4
_DATA = ("port_xmit_data", "port_rcv_data")
# Packets had to be sent again: on a lossless class none has. Order (out_of_sequence) is not among them: routes may
# change for good reasons.
LOSS = ("local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err")


def parse_utilisation(text: str) -> dict[int, int]:
    """GPU -> percent; a GPU that says [N/A] is left out."""
    found = re.findall(r"^\s*([0-9]{1,4})\s*,\s*([0-9]{1,3})\s*$", text, re.MULTILINE)
    return {int(gpu): int(percent) for gpu, percent in found}


@dataclass
class Samples:
    """Readings of one run.

    gpus: GPU -> percents; rates: netdev -> Gb/s sent and received between readings; growth: netdev -> counters
    """

    gpus: dict[int, list[int]] = field(default_factory=dict)
    sent: dict[str, list[float]] = field(default_factory=dict)
    received: dict[str, list[float]] = field(default_factory=dict)
    growth: dict[str, dict[str, int]] = field(default_factory=dict)

    def utilisation(self) -> dict[int, float]:
        """GPU -> mean percent from its first work to its last: start and end of the job are not its load."""
        means = {}
        for gpu, percents in self.gpus.items():
            busy = [index for index, percent in enumerate(percents) if percent > 0]
            if busy:
                span = percents[busy[0] : busy[-1] + 1]
                means[gpu] = round(sum(span) / len(span), 1)
        return means

    def as_dict(self) -> dict[str, t.Any]:
        """In short, as plain JSON."""
        return {
            "gpu_percent": {str(gpu): percent for gpu, percent in self.utilisation().items()},
            "gpu_samples": max(map(len, self.gpus.values()), default=0),
            "peak_gbps": {
                netdev: {"sent": max(sent, default=None), "received": max(self.received[netdev], default=None)}
                for netdev, sent in self.sent.items()
            },
            "grew": {netdev: grew for netdev, grew in self.growth.items() if grew},
        }


class Sampler:
    """Takes readings until the job ends. What cannot be read is left out."""

    def __init__(self, host: Host, ports: t.Sequence[Port]) -> None:
        self._host, self._ports = host, ports
        self._gpus = host.which("nvidia-smi") is not None
        self._start = {port.netdev: read_rdma(host, port) for port in ports}
        self._last: dict[str, tuple[float, dict[str, int]]] = {}
        self.samples = Samples()

    def take(self) -> None:
        """One reading of everything."""
        if self._gpus:
            self._take_gpus()
        for port in self._ports:
            self._take_port(port)

    def _take_gpus(self) -> None:
        try:
            text = self._host.run(*_QUERY, timeout=10).out
        except RoceError:
            self._gpus = False  # a tool without a driver: it will not do better next time
            return
        for gpu, percent in parse_utilisation(text).items():
            self.samples.gpus.setdefault(gpu, []).append(percent)

    def _take_port(self, port: Port) -> None:
        now, data = self._host.now(), read_rdma(self._host, port, "counters", _DATA)
        if len(data) < len(_DATA):
            return
        if port.netdev in self._last:
            then, former = self._last[port.netdev]
            for name, series in zip(_DATA, (self.samples.sent, self.samples.received)):
                grown = (data[name] - former[name]) * _WORD * 8 / 1e9
                if now > then and grown >= 0:
                    series.setdefault(port.netdev, []).append(round(grown / (now - then), 3))
        self._last[port.netdev] = (now, data)

    def finish(self) -> Samples:
        """The readings, with how much the counters of each port grew from start to end."""
        for port in self._ports:
            grown = growth(self._start[port.netdev], read_rdma(self._host, port))
            self.samples.growth[port.netdev] = {name: amount for name, amount in grown.items() if amount}
        return self.samples


def judge_gpus(samples: Samples, target: float, *, judged: bool) -> list[Finding]:
    """Utilisation against the target; nothing where no GPU was seen at work. A sweep of sizes is only told."""
    means = samples.utilisation()
    if not means:
        return []
    low = {gpu: mean for gpu, mean in means.items() if mean < target}
    verdict = PASS if not low else FAIL if judged else SKIPPED
    return [
        Finding(
            check="nccl_gpu",
            verdict=verdict,
            observed={"mean_percent": {str(gpu): mean for gpu, mean in means.items()}},
            expected=f"{target:g} %",
            evidence=" ".join(_QUERY),
            cause=""
            if not low
            else f"GPU {', '.join(map(str, low))}: below {target:g} % while the job ran"
            + ("" if judged else "; a sweep of collectives is no training, so this is told and not judged"),
            remedy="larger batches, or less time in communication: see its share" if low and judged else "",
        )
    ]


def judge_ports(samples: Samples) -> list[Finding]:
    """Whether packets were lost meanwhile, and what the ports carried; nothing where no counter could be read."""
    found = []
    for netdev, grown in samples.growth.items():
        if not grown and netdev not in samples.sent:
            continue
        lost = {name: grown[name] for name in LOSS if grown.get(name)}
        found.append(
            Finding(
                check="nccl_ports",
                verdict=FAIL if lost else PASS,
                observed={
                    "peak_sent_gbps": max(samples.sent.get(netdev, []), default=None),
                    "peak_received_gbps": max(samples.received.get(netdev, []), default=None),
                    "grew": grown,
                },
                expected="no retransmission",
                evidence=f"counters of {netdev} before and after",
                cause=f"packets had to be sent again while the job ran: {_listed(lost)}" if lost else "",
                remedy="PFC and ECN of this port and its switch port; then cable and discards (ethtool -S)"
                if lost
                else "",
                port=netdev,
            )
        )
    return found


def _listed(counters: dict[str, int]) -> str:
    return ", ".join(f"{name} +{count}" for name, count in counters.items())
