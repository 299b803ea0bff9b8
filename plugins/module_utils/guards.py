# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Do no harm: which ports must not be touched now, and why. Private to the collection."""

from __future__ import annotations

import typing as t

from .errors import RoceError
from .parsers.addresses import parse_addresses
from .parsers.rdma import parse_user_qps
from .pci_tree import PCI_ADDRESS
from .ports import functions_of

if t.TYPE_CHECKING:
    from .host import Host
    from .ports import Port

_PARENTS = 20
_DEVICES = "/sys/bus/pci/devices"
_RDMA = "/sys/class/infiniband"
_VERBS = "/sys/class/infiniband_verbs"
_NODES = "/dev/infiniband"
_VFIO = "/dev/vfio"

Holders = dict[str, set[tuple[str, int]]]  # RDMA device -> name and number of each process


def management_netdevs(host: Host) -> dict[str, str]:
    """Netdevs that carry the connection to this node, those below them included -> the reason."""
    reasons = {}
    address = _ssh_server_address(host)
    for netdev in _netdevs_with(host, address) if address else []:
        reasons[netdev] = f"the management connection comes in on {address}"
    for netdev in _default_route_netdevs(host):
        reasons.setdefault(netdev, "the default route uses it")
    for netdev, reason in list(reasons.items()):
        for lower in _lower_netdevs(host, netdev):
            reasons.setdefault(lower, f"{netdev} is on top of it, and {reason}")
    return reasons


def _ssh_server_address(host: Host) -> str:
    """This node's address of the ssh connection that started us; sudo hides it in a parent's environment."""
    value, pid = host.env("SSH_CONNECTION"), host.pid()
    for _generation in range(_PARENTS):
        if value or pid <= 1:
            break
        environment = host.read_optional(f"/proc/{pid}/environ") or ""
        value = dict(item.partition("=")[::2] for item in environment.split("\0")).get("SSH_CONNECTION")
        pid = _parent(host, pid)
    words = (value or "").split()
    return words[2] if len(words) == 4 else ""


def _parent(host: Host, pid: int) -> int:
    # /proc/PID/stat: "pid (comm) state ppid …", and comm may hold blanks and parentheses.
    after_comm = (host.read_optional(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return int(after_comm[1]) if len(after_comm) > 1 else 0


def _netdevs_with(host: Host, address: str) -> list[str]:
    addresses = parse_addresses(host.run("ip", "-j", "address", "show").out)
    return [netdev for netdev, own in addresses.items() if address in own]


def _default_route_netdevs(host: Host) -> list[str]:
    rows = [line.split() for line in (host.read_optional("/proc/net/route") or "").splitlines()[1:]]
    # fib_trie.c: Iface, Destination, Gateway, Flags, RefCnt, Use, Metric, Mask, …, in hexadecimal.
    return sorted({row[0] for row in rows if len(row) > 7 and row[1] == row[7] == "00000000"})


def _lower_netdevs(host: Host, netdev: str) -> t.Iterator[str]:
    for name in host.listdir(f"/sys/class/net/{netdev}"):
        if name.startswith("lower_"):
            lower = name[len("lower_") :]
            yield lower
            yield from _lower_netdevs(host, lower)


def busy_ports(host: Host, ports: t.Iterable[Port]) -> dict[str, str]:
    """Netdevs whose RDMA device, or that of a VF or SF on it, is in use by user-space programs -> who uses it.

    In use is a device with queue pairs, or whose verbs node is open: a job that starts has no queue pairs yet.
    A virtual function that belongs to vfio-pci is in use while a virtual machine has it open.
    """
    try:
        users = parse_user_qps(host.run("rdma", "-j", "resource", "show", "qp").out)
    except RoceError as exc:
        return {port.netdev: f"whether a job uses the port could not be found out: {exc}" for port in ports}
    with_pairs: Holders = {}
    for user in users:
        with_pairs.setdefault(user["ibdev"], set()).add((user["comm"], user["pid"]))
    with_node = _node_holders(host)
    virtual_machines = host.holders(_VFIO) if host.exists(_VFIO) else []
    busy = {}
    for port in ports:
        reasons = [text for ibdev in _devices_on(host, port) for text in _use(ibdev, with_pairs, with_node)]
        reasons += _handed_over(host, port, virtual_machines)
        if reasons:
            busy[port.netdev] = "; ".join(reasons)
    return busy


def _node_holders(host: Host) -> Holders:
    """Who has the verbs node of each RDMA device open."""
    found: Holders = {}
    for path, comm, pid in host.holders(_NODES):
        ibdev = (host.read_optional(f"{_VERBS}/{path.rpartition('/')[2]}/ibdev") or "").strip()
        if ibdev:
            found.setdefault(ibdev, set()).add((comm, pid))
    return found


def _use(ibdev: str, with_pairs: Holders, with_node: Holders) -> t.Iterator[str]:
    pairs = with_pairs.get(ibdev, set())
    node = with_node.get(ibdev, set()) - pairs
    if pairs:
        yield f"busy: RDMA queue pairs on {ibdev} belong to {_names(pairs)}"
    if node:
        yield f"busy: the verbs device of {ibdev} is held open by {_names(node)}"


def _names(processes: set[tuple[str, int]]) -> str:
    return ", ".join(f"{comm} (pid {pid})" for comm, pid in sorted(processes))


def _devices_on(host: Host, port: Port) -> list[str]:
    """RDMA devices that a change of the port reaches: its own, and those of its virtual functions and subfunctions."""
    functions = functions_of(port)
    others = [name for name in host.listdir(_RDMA) if name != port.ibdev and _owner(host, name) in functions]
    return [port.ibdev, *others]


def _owner(host: Host, ibdev: str) -> str:
    """Address of the physical function that an RDMA device stands on; empty without one."""
    device = f"{_RDMA}/{ibdev}/device"
    path = host.realpath(f"{device}/physfn" if host.exists(f"{device}/physfn") else device)
    # A subfunction is a device of the auxiliary bus, below its function.
    return next((part for part in reversed(path.split("/")) if PCI_ADDRESS.fullmatch(part)), "")


def _handed_over(host: Host, port: Port, open_nodes: list[tuple[str, str, int]]) -> t.Iterator[str]:
    """What is said of each virtual function of the port that belongs to vfio-pci and is in use, or may be."""
    for function in sorted(functions_of(port)):
        for name in host.listdir(f"{_DEVICES}/{function}"):
            link = f"{_DEVICES}/{function}/{name}"
            if name.startswith("virtfn") and host.realpath(f"{link}/driver").rpartition("/")[2] == "vfio-pci":
                yield from _vfio_use(host, link, open_nodes)


def _vfio_use(host: Host, link: str, open_nodes: list[tuple[str, str, int]]) -> t.Iterator[str]:
    """Who has it open: by its IOMMU group, or since Linux 6.6 by itself (drivers/vfio: group.c, device_cdev.c)."""
    address = host.realpath(link).rpartition("/")[2]
    group = host.realpath(f"{link}/iommu_group").rpartition("/")[2] if host.exists(f"{link}/iommu_group") else ""
    nodes = {f"{_VFIO}/devices/{name}" for name in host.listdir(f"{link}/vfio-dev")}
    if group:
        nodes |= {f"{_VFIO}/{group}", f"{_VFIO}/noiommu-{group}"}
    users = {(comm, pid) for path, comm, pid in open_nodes if path in nodes}
    if users:
        yield f"busy: virtual function {address} (vfio-pci) is held open by {_names(users)}"
    elif not nodes:
        yield (
            f"whether a job uses the port could not be found out: its virtual function {address} belongs to vfio-pci (a"
            " virtual machine)"
        )
