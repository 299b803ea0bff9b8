# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node with simulated ports, so that plans can be applied, broken and undone without a kernel.

It understands exactly the commands that the settings issue and answers as the tools do. The lab
(tests/lab) holds the same behaviour against real tools; this one is for thousands of random cases.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError
from ansible_collections.lossless.roce.plugins.module_utils.settings.buffers import xoff_bytes
from ansible_collections.lossless.roce.plugins.module_utils.settings.dcqcn import PARAMETERS
from fake_host import FakeHost

MODERATION = {"rx-usecs": 8, "rx-frames": 128, "tx-usecs": 16, "tx-frames": 32}


@dataclass
class SimPort:
    """State of one port, at the factory defaults of mlx5."""

    ibdev: str
    mtu: int = 1500
    host_dcbx: bool = False
    app: dict[int, int] = field(default_factory=dict)
    tsa: list[str] = field(default_factory=lambda: ["vendor"] * 8)
    bw: list[int] = field(default_factory=lambda: [0] * 8)
    prio_tc: list[int] = field(default_factory=lambda: [1, 0, 2, 3, 4, 5, 6, 7])
    pfc: set[int] = field(default_factory=set)
    rx: bool = True
    tx: bool = True
    qdisc: dict[str, t.Any] = field(default_factory=lambda: {"kind": "mq", "handle": "0:", "root": True})
    combined: int = 8
    rings: dict[str, int] = field(default_factory=lambda: {"rx": 1024, "tx": 1024})
    coalesce: dict[str, t.Any] = field(default_factory=lambda: {**MODERATION, "adaptive-rx": True, "adaptive-tx": True})
    features: dict[str, bool] = field(default_factory=lambda: {"generic-receive-offload": True, "rx-gro-hw": False})
    flags: dict[str, bool] = field(default_factory=lambda: {"rx_cqe_moder": True, "rx_cqe_compress": False})
    tos: int = 0
    exposed: bool = False
    flavour: str = ""  # inbox or ofed: where the card's congestion control is shown; empty: nowhere
    cable: int = 7
    prio_buffer: list[int] = field(default_factory=lambda: [0] * 8)
    buffer_size: list[int] = field(default_factory=lambda: [262016] + [0] * 7)

    def fits(self) -> bool:
        """The driver's rules for buffers, on a link of 200 Gb/s."""
        prios = set(range(8)) if self.rx or self.tx else self.pfc
        room = xoff_bytes(200, self.cable, self.mtu) + 9978 + 128
        lossless = [self.buffer_size[self.prio_buffer[prio]] for prio in prios]
        return all(size >= room for size in lossless) and sum(self.buffer_size) <= 1027072


class SimNode(FakeHost):
    """``fail`` and ``ignore`` take a command line (or "write PATH") and say what goes wrong with it."""

    def __init__(self, ports: dict[str, SimPort]) -> None:
        super().__init__()
        self.ports = ports
        self.fail: t.Callable[[str], bool] = lambda _line: False
        self.ignore: t.Callable[[str], bool] = lambda _line: False
        self.sets: list[str] = []
        self.users: list[dict[str, t.Any]] = []
        for name, port in ports.items():
            self.files[f"/sys/class/net/{name}/carrier"] = "1\n"
            self.files[f"/sys/class/infiniband/{port.ibdev}/ports/1/link_layer"] = "Ethernet\n"
            self.files[f"/sys/class/net/{name}/speed"] = "200000\n"
            for queue in range(64):
                self.files[f"/sys/class/net/{name}/queues/tx-{queue}/tx_timeout"] = "0\n"
            self._add_congestion_files(name, port)
        self.files["/sys/kernel/config/rdma_cm/."] = ""

    def _add_congestion_files(self, name: str, port: SimPort) -> None:
        address = f"0000:{17 + list(self.ports).index(name)}:00.0"
        self.links[f"/sys/class/net/{name}/device"] = f"/sys/devices/pci0000:00/{address}"
        ecn, debugfs = f"/sys/class/net/{name}/ecn", f"/sys/kernel/debug/mlx5/{address}/cc_params"
        cnp = {"dscp": ("cnp_dscp", "np_cnp_dscp", 48), "prio": ("cnp_802p_prio", "np_cnp_prio", 6)}
        for ofed, inbox, value in cnp.values():
            self.files[f"{ecn}/roce_np/{ofed}" if port.flavour == "ofed" else f"{debugfs}/{inbox}"] = f"{value}\n"
        for ofed, parameter in PARAMETERS.items():
            path = f"{ecn}/roce_{parameter.side}/{ofed}" if port.flavour == "ofed" else f"{debugfs}/{parameter.inbox}"
            self.files[path] = f"{parameter.default}\n"
        if port.flavour == "ofed":
            switches = [f"{ecn}/roce_{side}/enable/{prio}" for side in ("np", "rp") for prio in range(8)]
            self.files.update(dict.fromkeys(switches, "1\n"))
            self.files[f"/sys/class/infiniband/{port.ibdev}/tc/1/traffic_class"] = ""
        elif port.flavour == "inbox":
            self.files[f"{debugfs}/np_cnp_prio_mode"] = "1\n"
        else:
            self.files = {path: text for path, text in self.files.items() if not path.startswith(debugfs)}

    # -- files -----------------------------------------------------------------------------

    def read(self, path: str) -> str:
        for name, port in self.ports.items():
            if path == f"/sys/class/net/{name}/mtu":
                return f"{port.mtu}\n"
            if path.startswith(f"/sys/kernel/config/rdma_cm/{port.ibdev}/") and port.exposed:
                return f"{port.tos}\n" if path.endswith("_tos") else "RoCE v2\n"
        return super().read(path)

    def exists(self, path: str) -> bool:
        if path.startswith("/sys/kernel/config/rdma_cm/"):
            return any(path.split("/")[5] == port.ibdev and port.exposed for port in self.ports.values())
        return super().exists(path)

    def mkdir(self, path: str) -> None:
        if not path.startswith("/sys/"):
            super().mkdir(path)
            return
        if self._goes_wrong(f"mkdir {path}"):
            return
        for port in self.ports.values():
            port.exposed = port.exposed or path.endswith(port.ibdev)

    def write(self, path: str, content: str) -> None:
        if self._goes_wrong(f"write {path}"):
            return
        if path in self.files and path.startswith("/sys/"):
            self._write_congestion(path, int(content))
            return
        if not path.startswith("/sys/"):
            super().write(path, content)
            return
        port = next(port for port in self.ports.values() if path.split("/")[5] == port.ibdev)
        if path.endswith("_tos"):
            port.tos = int(content)

    def _write_congestion(self, path: str, value: int) -> None:
        self.files[path] = f"{value}\n"
        if path.endswith("/np_cnp_prio"):
            self.files[f"{path}_mode"] = "0\n"
        if path.endswith("/traffic_class"):
            self.files[path] = f"Global tclass={value}\n" if value >= 0 else ""

    # -- commands --------------------------------------------------------------------------

    def run(self, *argv: str, check: bool = True, timeout: float = 60.0) -> t.Any:
        answer = self._answer(list(argv))
        self.outputs[" ".join(argv)] = answer
        return super().run(*argv, check=check, timeout=timeout)

    def _goes_wrong(self, line: str) -> bool:
        self.sets.append(line)
        if self.fail(line):
            raise HostError(f"{line}: exit status 2: refused")
        return self.ignore(line)

    def _answer(self, argv: list[str]) -> str:  # noqa: C901 - one line for each program
        if argv[:4] == ["rdma", "-j", "link", "show"]:
            return json.dumps(
                [{"ifname": p.ibdev, "port": 1, "state": "ACTIVE", "netdev": n} for n, p in self.ports.items()]
            )
        if argv[:4] == ["rdma", "-j", "resource", "show"]:
            return json.dumps(self.users)
        if argv[:3] == ["ip", "-j", "-d"]:
            return json.dumps([{"ifname": argv[6], "mtu": self.ports[argv[6]].mtu, "max_mtu": 9978}])
        if argv[:3] == ["ip", "-j", "address"]:
            return "[]"
        if argv[0] == "dcb" and argv[1] == "-j":
            return json.dumps(self._dcb_show(argv[2], self.ports[argv[5]]))
        if argv[:2] == ["ethtool", "--json"] and argv[2] == "-a":
            return json.dumps(
                [
                    {
                        "ifname": argv[3],
                        "autonegotiate": False,
                        "rx": self.ports[argv[3]].rx,
                        "tx": self.ports[argv[3]].tx,
                    }
                ]
            )
        if argv[:2] == ["ethtool", "--json"]:
            return json.dumps([self._ethtool_show(argv[2], self.ports[argv[3]])])
        if argv[:2] == ["ethtool", "--show-priv-flags"]:
            flags = self.ports[argv[2]].flags
            return "Private flags for x:\n" + "".join(f"{n}: {'on' if on else 'off'}\n" for n, on in flags.items())
        if argv[:3] == ["tc", "-j", "qdisc"]:
            return json.dumps([self.ports[argv[5]].qdisc])
        if not self._goes_wrong(" ".join(argv)):
            self._set(argv)
        return ""

    @staticmethod
    def _ethtool_show(option: str, port: SimPort) -> dict[str, t.Any]:
        if option == "-l":
            return {"combined-max": 63, "combined": port.combined}
        if option == "-g":
            return {"rx-max": 8192, "tx-max": 8192, **port.rings}
        if option == "-c":
            return port.coalesce
        assert option == "-k"
        features = {name: {"active": on, "fixed": False, "requested": on} for name, on in port.features.items()}
        return {"ifname": "x", **features, "rx-fcs": {"active": False, "fixed": True, "requested": False}}

    @staticmethod
    def _dcb_show(what: str, port: SimPort) -> dict[str, t.Any]:
        if what == "dcbx":
            return {"cee": True, "ieee": True, **({"host": True} if port.host_dcbx else {})}
        if what == "app":
            return {"dscp_prio": [[d, p, " "] for d, p in sorted(port.app.items())]} if port.app else {}
        if what == "ets":
            return {"tc_tsa": port.tsa, "tc_bw": port.bw, "prio_tc": port.prio_tc}
        if what == "buffer":
            return {"prio_buffer": port.prio_buffer, "buffer_size": port.buffer_size, "total_size": 1027072}
        return {"pfc_cap": 8, "delay": port.cable, "prio_pfc": [prio in port.pfc for prio in range(8)]}

    def _set(self, argv: list[str]) -> None:
        if argv[0] == "ip":
            self.ports[argv[4]].mtu = int(argv[6])
        elif argv[0] == "ethtool":
            self._set_ethtool(argv[1], self.ports[argv[2]], dict(zip(argv[3::2], argv[4::2], strict=True)))
        elif argv[0] == "tc":
            self._set_qdisc(argv)
        else:
            self._set_dcb(argv[1], argv[2], self.ports[argv[4]], argv[5:])

    @staticmethod
    def _set_ethtool(option: str, port: SimPort, values: dict[str, str]) -> None:
        switches = {name: value == "on" for name, value in values.items()}
        if option == "-A":
            port.rx, port.tx = switches["rx"], switches["tx"]
        elif option == "-G":
            port.rings.update({way: int(size) for way, size in values.items()})
        elif option == "-L":
            assert port.qdisc.get("options", {}).get("mode") != "channel", "mqprio in channel mode holds the channels"
            port.combined = int(values["combined"])
        elif option == "-K":
            port.features.update(switches)
        elif option == "--set-priv-flags":
            port.flags.update(switches)
            if "rx_cqe_moder" in switches:
                port.coalesce.update(MODERATION)
        else:
            for name, value in values.items():
                port.coalesce[name] = value == "on" if name.startswith("adaptive") else int(value)
            if any(name.startswith("adaptive") for name in values):
                port.coalesce.update(MODERATION)  # as mlx5 does it, even for what the same call asks for

    def _set_qdisc(self, argv: list[str]) -> None:
        port = self.ports[argv[4]]
        if argv[2] == "del":
            port.qdisc = {"kind": "mq", "handle": "0:", "root": True}
            return
        assert port.qdisc["kind"] != "mqprio", "mqprio cannot be changed in place"
        words = argv[argv.index("map") + 1 :]
        queues = [word.split("@") for word in words if "@" in word]
        offload = "channel" if "channel" in argv else "dcb" if argv[argv.index("hw") + 1] == "1" else "off"
        num_tc = int(argv[argv.index("num_tc") + 1])
        ranges = [[int(offset), int(offset) + int(count) - 1] for count, offset in queues]
        if offload == "dcb":
            ranges = [[0, port.combined - 1]] * num_tc
        options = {"tc": num_tc, "map": [int(word) for word in words[:16]], "queues": ranges}
        options["mode"] = "channel" if offload == "channel" else "dcb"
        port.qdisc = {"kind": "mqprio", "handle": "8001:", "root": True, "options": options}

    @staticmethod
    def _set_dcb(what: str, verb: str, port: SimPort, words: list[str]) -> None:
        pairs = [word.split(":") for word in words if ":" in word]
        if what == "dcbx":
            port.host_dcbx = "host" in words
        elif what == "pfc" and "delay" in words:
            port.cable = int(words[words.index("delay") + 1])
            assert port.fits(), "a cable too long for the buffers"
        elif what == "buffer":
            port.prio_buffer = [int(buffer) for _prio, buffer in pairs[:8]]
            port.buffer_size = [int(size) // 128 * 128 for _buffer, size in pairs[8:]]
            assert port.fits(), "buffers too small, or too large together"
        elif what == "pfc":
            assert not (port.rx or port.tx) or all(state == "off" for _prio, state in pairs), (
                "PFC on under global pause"
            )
            port.pfc = {int(prio) for prio, state in pairs if state == "on"}
            assert port.fits(), "PFC on a buffer that is too small"
        elif what == "app" and verb == "flush":
            port.app = {}
        elif what == "app":
            port.app.update({int(dscp): int(prio) for dscp, prio in pairs})
        else:
            port.tsa, port.bw = [state for _tc, state in pairs[:8]], [int(share) for _tc, share in pairs[8:16]]
            port.prio_tc = [int(tc) for _prio, tc in pairs[16:]]
