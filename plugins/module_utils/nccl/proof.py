# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What NCCL's own log proves of its path: over which network, on which ports, with GPUDirect or not. Pure.

Bandwidth is no proof: a part of the channels may go over TCP and nobody sees it. So every channel is looked at.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.nccl_log import Channel, Hca, NcclLog, host_of
from .meaning import failures

EVIDENCE = "NCCL_DEBUG=INFO"
_SHOWN = 4


@dataclass(frozen=True)
class Inside:
    """What a rank sees where it runs, in a container or on the host. None: not known.

    ibdevs: RDMA devices in sysfs; uverbs: nodes in /dev/infiniband; libibverbs: whether it can be loaded
    """

    ibdevs: tuple[str, ...] | None = None
    uverbs: tuple[str, ...] | None = None
    libibverbs: bool | None = None


@dataclass(frozen=True)
class Expected:
    """What a run is held against.

    ibdevs: RDMA devices that NCCL may use; empty: any
    gdr: whether GPUDirect is asked for; not on machines whose GPU shares the processor's memory
    accept_socket: TCP will do, as where there is no RDMA at all
    one_host: all ranks are on one host, so that nothing has to leave it
    ranks: how many ranks the log has to show; None: all of the job, as far as the log says how many these are
    """

    ibdevs: tuple[str, ...] = ()
    gdr: bool = True
    accept_socket: bool = False
    one_host: bool = False
    ranks: int | None = None
    inside: Inside = field(default_factory=Inside)


def prove(log: NcclLog, expected: Expected) -> list[Finding]:
    """Findings on what went wrong, on the path, on its ports and on GPUDirect; one cause is one finding."""
    wrong = failures(log, expected.ibdevs)
    if wrong and not log.channels:
        return wrong
    if expected.one_host:
        return [*wrong, _one_host(log, expected)]
    path = _path(log, expected)
    if not any(channel.rdma for channel in log.channels):
        # Nothing to say of ports and GPUDirect but where the log tells of GPUDirect alone.
        return [*wrong, path, *([] if path.verdict == FAIL else _gdr(log, expected))]
    return [*wrong, path, *_ports(log, expected), *_gdr(log, expected)]


# -- the path ------------------------------------------------------------------------------------


def _path(log: NcclLog, expected: Expected) -> Finding:
    net = [channel for channel in log.channels if channel.network]
    tcp = [channel for channel in net if channel.network == "Socket"]
    if tcp or (not net and "Socket" in log.networks):
        return _socket(log, expected, tcp, net)
    if "no_network" in log.signs:
        return _of("nccl_path", FAIL, log, *_no_network(log, expected))
    other = [channel for channel in net if not channel.rdma]
    if other:
        return _of(
            "nccl_path",
            FAIL,
            log,
            f"channels go over {_networks(other)}, which is not NET/IB: {_named(other)}",
            "NCCL_NET=IB, and NCCL_NET_PLUGIN=none where a plugin took over",
        )
    nvlink = [channel for channel in log.channels if "MNNVL" in channel.via]
    if nvlink:
        cause = f"channels between nodes go over NVLink ({_named(nvlink)}): they say nothing on RoCE"
        return _of("nccl_path", FAIL, log, cause, "NCCL_MNNVL_ENABLE=0 for this test")
    astray = _astray(log, expected)
    if astray and not _incomplete(log, expected):
        cause = f"channels to ranks of other hosts are said to stay inside this one ({_named(astray)}, {astray[0].via})"
        return _of("nccl_path", FAIL, log, f"{cause}: NCCL takes the hosts for one", _ONE_FOR_TWO)
    unproven = _unproven(log, expected)
    if unproven:
        return _of("nccl_path", UNKNOWN, log, unproven, _HOW_TO_LOG)
    return _of("nccl_path", PASS, log)


_ONE_FOR_TWO = "no NCCL_HOSTID that hosts share; hosts that have name and boot_id in common need one each"


def _astray(log: NcclLog, expected: Expected) -> list[Channel]:
    """Channels that do not leave the node, and whose other end is none of the ranks that the log shows on it."""
    homes = {rank: host_of(process) for process, rank in log.ranks.items()}
    homes.update((channel.rank, host_of(channel.process)) for channel in log.channels if channel.process)
    local = [channel for channel in log.channels if channel.process and not channel.network]
    if expected.ranks is None and log.nranks is None:
        # Of an excerpt nobody knows which ranks it leaves out.
        local = [channel for channel in local if channel.other in homes]
    return [channel for channel in local if homes.get(channel.other) != host_of(channel.process)]


_HOW_TO_LOG = "the whole output of every rank with NCCL_DEBUG=INFO, up to the first collective and past it"


def _unproven(log: NcclLog, expected: Expected) -> str:
    """Why the log cannot prove the path; empty when it does."""
    net = [channel for channel in log.channels if channel.network]
    if not net:
        kind = " (the HCAs are in InfiniBand mode)" if any(hca.link == "IB" for hca in log.hcas) else ""
        said = f"NCCL chose {', '.join(sorted({h.ibdev for h in log.hcas}))}{kind}, and " if log.hcas else ""
        return f"{said}no channel between nodes is in the log: the path is not proven"
    return _garbled(log) or _one_way(log, net) or _incomplete(log, expected)


def _garbled(log: NcclLog) -> str:
    if not log.garbled:
        return ""
    return f"{log.garbled} channels could not be read, since lines of several ranks ran into each other"


def _one_way(log: NcclLog, net: list[Channel]) -> str:
    """Each host that the log tells of from the start sends and receives; of an excerpt one host does."""
    hosts = sorted(set(map(host_of, log.ranks)))
    for direction, shown in (("send", "sends"), ("receive", "receives")):
        seen = {host_of(channel.process) for channel in net if channel.direction == direction}
        silent = [host for host in hosts if host not in seen]
        if silent or not seen:
            name = silent[0] if len(hosts) > 1 and silent else "this host"
            return f"only one direction is in the log: nothing shows how {name} {shown}"
    return ""


def _incomplete(log: NcclLog, expected: Expected) -> str:
    """Which ranks may have channels that the log does not show; empty when it shows all."""
    wanted = log.nranks if expected.ranks is None else expected.ranks
    shown = len({channel.rank for channel in log.channels})
    if wanted is not None and shown < wanted:
        return f"the log shows channels of {shown} of {wanted} ranks: the others may have taken any path"
    cut = [(rank, host_of(process)) for process, rank in log.ranks.items() if process not in log.connected]
    if cut:
        rank, host = min(cut)
        return f"the log of rank {rank} ({host}) ends before all its channels are connected"
    return ""


def _socket(log: NcclLog, expected: Expected, tcp: list[Channel], net: list[Channel]) -> Finding:
    if expected.accept_socket:
        return _of("nccl_path", PASS, log, "over TCP sockets, which was declared acceptable")
    if tcp and len(tcp) < len(net):
        cause = f"fell back to Socket in part: {len(tcp)} of {len(net)} channels ({_named(tcp)})"
        return _of("nccl_path", FAIL, log, cause, "look for a port that is down, has no GID, or is not in NCCL_IB_HCA")
    why, remedy = why_socket(log, expected)
    return _of("nccl_path", FAIL, log, f"fell back to Socket: {why}", f"{remedy}{_too_many_interfaces(log)}")


def _too_many_interfaces(log: NcclLog) -> str:
    """What to do where NCCL took whatever interface there was."""
    if len(log.interfaces) < 2 or "NCCL_SOCKET_IFNAME" in log.settings:
        return ""
    names = [name for name, _address in log.interfaces]
    addresses = [address for _name, address in log.interfaces]
    shared = sorted({address for address in addresses if addresses.count(address) > 1})
    twice = f", several of them with {', '.join(shared)}" if shared else ""
    return f"; and NCCL_SOCKET_IFNAME, since NCCL took {', '.join(names)}{twice}"


def _no_network(log: NcclLog, expected: Expected) -> tuple[str, str]:
    why, remedy = why_socket(log, expected)
    return f"NCCL has no network: IB was asked for (NCCL_NET=IB), so it did not fall back to Socket: {why}", remedy


def why_socket(log: NcclLog, expected: Expected) -> tuple[str, str]:
    """Why NCCL does not use verbs, the nearest cause first, and what to do."""
    inside, settings = expected.inside, log.settings
    if settings.get("NCCL_IB_DISABLE", "0") not in ("0", ""):
        return "NCCL_IB_DISABLE switches InfiniBand and RoCE off", "remove NCCL_IB_DISABLE"
    if settings.get("NCCL_NET", "").lower() == "socket":
        return "NCCL_NET=Socket asks for it", "NCCL_NET=IB, or leave it out"
    if "no_libibverbs" in log.signs or inside.libibverbs is False:
        return (
            "libibverbs is missing where the ranks run",
            "install libibverbs and the provider (rdma-core, ibverbs-providers) in the image, or on the host",
        )
    if "no_provider" in log.signs:
        return (
            "libibverbs has no provider for the card where the ranks run",
            "install ibverbs-providers (rdma-core on RHEL) in the image",
        )
    if inside.ibdevs == ():
        return (
            "no RDMA device: /sys/class/infiniband is empty",
            "load the driver (mlx5_ib) on the host, or declare the socket path acceptable where there is no RDMA",
        )
    if inside.ibdevs and inside.uverbs == ():
        return (
            "the ranks see no /dev/infiniband/uverbs* and the node has RDMA devices: they were not given the container",
            "start the container with --device lossless.roce/rdma=all, or --device /dev/infiniband",
        )
    if "NCCL_IB_HCA" in settings and inside.ibdevs:
        return (
            f"NCCL_IB_HCA={settings['NCCL_IB_HCA']} names no active port of {', '.join(inside.ibdevs)}",
            "correct NCCL_IB_HCA; ibv_devinfo shows which ports are active",
        )
    if "no_device" in log.signs:
        return (
            "NCCL found no RDMA device that it can use: none there, none in the container, or no port is active",
            "ibv_devinfo where the ranks run must list the ports as PORT_ACTIVE",
        )
    if "no_interface" in log.signs:
        return "NCCL found no IP interface for its bootstrap", "correct NCCL_SOCKET_IFNAME"
    return "the log does not say why", "run with NCCL_DEBUG_SUBSYS=INIT,NET,ENV and look at lines of NET/IB"


def _one_host(log: NcclLog, expected: Expected) -> Finding:
    local = [channel for channel in log.channels if not channel.network]
    if not log.channels:
        return _of("nccl_path", UNKNOWN, log, "no channel is in the log", _HOW_TO_LOG)
    if len(local) < len(log.channels):
        cause = f"ranks of one host talk over the network: {_named([c for c in log.channels if c.network])}"
        return _of("nccl_path", FAIL, log, cause, "look for NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_HOSTID")
    unproven = _garbled(log) or _incomplete(log, expected)
    if unproven:
        return _of("nccl_path", UNKNOWN, log, unproven, _HOW_TO_LOG)
    return _of("nccl_path", PASS, log, "one host: NVLink, PCIe or shared memory; this says nothing on the fabric")


# -- ports ---------------------------------------------------------------------------------------


def _ports(log: NcclLog, expected: Expected) -> list[Finding]:
    """On which ports the channels are; nothing where no port was declared."""
    if not expected.ibdevs:
        return []
    used = ibdevs_used(log)
    if used is None:
        cause = "the log does not name the ports (no line NET/IB : Using): a channel's number alone says nothing"
        return [_of("nccl_hca", UNKNOWN, log, cause, _HOW_TO_LOG, expected=list(expected.ibdevs))]
    strange = sorted(used - set(expected.ibdevs))
    if strange:
        return [
            _of(
                "nccl_hca",
                FAIL,
                log,
                f"channels are on {', '.join(strange)}, which the policy's ports do not include",
                f"NCCL_IB_HCA=={','.join(expected.ibdevs)} (a leading = is exact: mlx5_1 alone is mlx5_10 as well)",
                expected=list(expected.ibdevs),
                observed=sorted(used),
            )
        ]
    left_out = _left_out(log, expected)
    if left_out:
        return [_of("nccl_hca", *left_out, expected=list(expected.ibdevs), observed=sorted(_listed(log.hcas)))]
    return [_right("nccl_hca", log, expected, sorted(used), list(expected.ibdevs))]


def _left_out(log: NcclLog, expected: Expected) -> tuple[str, NcclLog, str, str] | None:
    """Verdict, log, cause and remedy where a declared port is not among those that NCCL lists; else None.

    One that is listed and has no channel is right: with few ranks there are fewer channels than ports.
    """
    lacking = {
        process: set(expected.ibdevs) - _listed(hca for hca in log.hcas if hca.process == process)
        for process in {hca.process for hca in log.hcas}
    }
    missing = sorted(
        {
            f"{name} ({host_of(process)})"
            for process, names in lacking.items()
            if process in log.listed
            for name in names
        }
    )
    if missing:
        cause = f"declared, and NCCL does not use it: {', '.join(missing)}: its port is not active, or it has no GID"
        return (
            FAIL,
            log,
            cause,
            "ibv_devinfo where the ranks run must list it as PORT_ACTIVE, show_gids its RoCE v2 GID",
        )
    if any(lacking.values()):
        return UNKNOWN, log, "the line NET/IB : Using is torn: it may name more ports than can be read", _HOW_TO_LOG
    return None


def _listed(hcas: t.Iterable[Hca]) -> set[str]:
    """RDMA devices by name. A merged one is named after its ports."""
    return {name for hca in hcas for name in hca.ibdev.split("+")}


def _right(check: str, log: NcclLog, wanted: Expected, observed: t.Any, expected: t.Any = None) -> Finding:
    """What is right on all channels of the log is proven only where these are all channels."""
    unproven = _unproven(log, wanted)
    verdict, remedy = (UNKNOWN, _HOW_TO_LOG) if unproven else (PASS, "")
    return _of(check, verdict, log, unproven, remedy, observed=observed, expected=expected)


def ibdevs_used(log: NcclLog) -> set[str] | None:
    """RDMA devices of the channels; None when the log cannot tell of one of them."""
    names = _by_number(log.hcas)
    used = {names.get((channel.process, channel.device or 0)) for channel in log.channels if channel.rdma}
    if None in used or not used:
        return None
    # A merged device is named after its ports.
    return {name for merged in used if merged for name in merged.split("+")}


def _by_number(hcas: t.Sequence[Hca]) -> dict[tuple[str, int], str]:
    """Process and number -> name: each process counts its own.

    Merged devices come after the plain ones, and their numbers are those that channels use.
    """
    return {(hca.process, hca.index): hca.ibdev for hca in hcas}


# -- GPUDirect -----------------------------------------------------------------------------------


def _gdr(log: NcclLog, expected: Expected) -> list[Finding]:
    without = [channel for channel in log.channels if channel.rdma and not channel.gdr]
    direct = [channel for channel in log.channels if channel.rdma and channel.gdr]
    disabled = sorted(name for name, (enabled, _reason) in log.gdr.items() if not enabled)
    if not (without or direct or disabled):
        return []
    if not expected.gdr:
        return [_of("nccl_gdr", SKIPPED, log, "GPUDirect was not asked for")]
    if not without and direct:
        return [_right("nccl_gdr", log, expected, {"channels": len(direct)})]
    reasons = sorted({reason for _enabled, reason in log.gdr.values() if reason})
    return [
        _of(
            "nccl_gdr",
            FAIL,
            log,
            _why_no_gdr(without, direct, disabled, reasons),
            _remedy_gdr(reasons),
            observed={"with": len(direct), "without": len(without), "disabled": disabled},
            expected="/GDRDMA on every channel, both ways",
        )
    ]


def _why_no_gdr(without: list[Channel], direct: list[Channel], disabled: list[str], reasons: list[str]) -> str:
    part = f"{len(without)} of {len(without) + len(direct)} channels are without GPUDirect" if without else ""
    said = f"NCCL has it disabled for {', '.join(disabled)}" if disabled else ""
    why = f" ({', '.join(reasons)}: nv_peer_mem or nvidia_peermem is not loaded)" if "no module" in reasons else ""
    return f"no GPUDirect: {'; '.join(text for text in (part, said) if text)}{why}"


def _remedy_gdr(reasons: list[str]) -> str:
    if "no module" in reasons:
        return "modprobe nvidia_peermem, or a kernel and driver with dma-buf (module lossless.roce.mlx5_driver)"
    return (
        "nvidia_peermem built against the RDMA stack that runs (loaded is no proof), or dma-buf (kernel 5.12, open"
        " NVIDIA module), or a newer NCCL; where GPU and NIC are far apart NCCL_NET_GDR_LEVEL=PHB or SYS"
    )


# -- words ---------------------------------------------------------------------------------------


def summary(log: NcclLog) -> dict[str, t.Any]:
    """The path in short, as plain JSON: what a report shows."""
    net = [channel for channel in log.channels if channel.network]
    return {
        "version": log.version,
        "network": log.networks,
        "hcas": list(dict.fromkeys(f"{hca.ibdev}:{hca.port}/{hca.link}" for hca in log.hcas if hca.link)),
        "channels": {via: sum(_kind(c) == via for c in log.channels) for via in sorted(set(map(_kind, log.channels)))},
        "send": sum(channel.direction == "send" for channel in net),
        "receive": sum(channel.direction == "receive" for channel in net),
        "plugins": log.plugins,
    }


def _kind(channel: Channel) -> str:
    if not channel.network:
        return channel.via
    return f"NET/{channel.network}{'/GDRDMA' if channel.gdr else ''}"


def _networks(channels: list[Channel]) -> str:
    return ", ".join(sorted({f"NET/{channel.network}" for channel in channels}))


def _named(channels: list[Channel]) -> str:
    """Some channels in NCCL's own words."""
    shown = [f"{c.number:02d} {c.source}->{c.target} {c.direction}".strip() for c in channels[:_SHOWN]]
    more = f" and {len(channels) - _SHOWN} more" if len(channels) > _SHOWN else ""
    return f"channel {', '.join(shown)}{more}"


def _of(
    check: str,
    verdict: str,
    log: NcclLog,
    cause: str = "",
    remedy: str = "",
    *,
    observed: t.Any = None,
    expected: t.Any = None,
) -> Finding:
    return Finding(
        check=check,
        verdict=verdict,
        observed=summary(log) if observed is None else observed,
        expected="NET/IB, both ways" if check == "nccl_path" else expected,
        evidence=EVIDENCE,
        cause=cause,
        remedy=remedy,
    )
