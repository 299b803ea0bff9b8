# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a container holds and is allowed to do, as one JSON object. Runs inside it, and judges nothing.

Standard library only. PyTorch is looked at in a process of its own, since a broken one may crash. Every part that
cannot be read says so under ``error``. Words on the command line name further programs to look for.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import glob
import json
import os
import resource
import shutil
import subprocess
import sys
import typing as t

TOOLS = ("ibv_devices", "ibv_devinfo", "rdma", "ib_write_bw", "numactl")
# Larger than the limits that distributions and engines set (64 KiB to 8 MiB).
REGISTERED = 64 * 1024 * 1024
TORCH_LIMIT = 300  # seconds; an import takes 3 to 30, and minutes where the processor is emulated
EMPTY_SLOTS = 256  # a gap in a GID table after which no entry is looked for
VERBS = "/sys/class/infiniband"

TORCH = """
import ctypes, json, torch, torch.distributed as dist
cuda, cudnn = torch.version.cuda, torch.backends.cudnn
said = {"version": torch.__version__, "cuda": cuda, "cudnn": None, "cudnn_cuda": None, "nccl": None,
        "gloo": dist.is_available() and dist.is_gloo_available(), "gpus": 0, "driver_cuda": None}
if cuda:
    said["cudnn"] = cudnn.version()
    said["nccl"] = list(torch.cuda.nccl.version())
    said["gpus"] = torch.cuda.device_count()
    try:
        # Of the library that PyTorch has loaded, not of one that lies about.
        said["cudnn_cuda"] = int(ctypes.CDLL("libcudnn.so.%d" % (9 if cudnn.version() >= 90000 else 8))
                                 .cudnnGetCudartVersion())
    except (OSError, AttributeError):
        pass
    try:
        number = ctypes.c_int()
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) == 0:
            said["driver_cuda"] = number.value
    except OSError:
        pass
print("\\n" + json.dumps(said))
"""


def torch_facts() -> dict[str, t.Any]:
    """Versions of PyTorch and of what it was built with and has loaded."""
    argv = [sys.executable, "-c", TORCH]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TORCH_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"import torch: not done after {TORCH_LIMIT} s"}
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        return t.cast("dict[str, t.Any]", json.loads(lines[-1]))
    said = done.stderr.strip().splitlines()
    return {"error": said[-1] if said else f"import torch: exit status {done.returncode}"}


def providers() -> list[str]:
    """Names of the verbs providers (mlx5, rxe) that libibverbs can load."""
    found = set()
    for folder in ("/usr/lib*/libibverbs", "/usr/lib/*/libibverbs", "/usr/local/lib*/libibverbs"):
        for path in glob.glob(f"{folder}/lib*-rdmav*.so"):
            if os.path.exists(path):  # a link may lead nowhere
                found.add(os.path.basename(path)[len("lib") :].split("-", 1)[0])
    return sorted(found)


class Verbs:
    """The few calls of libibverbs that show whether RDMA works at all. Source: infiniband/verbs.h."""

    def __init__(self) -> None:
        self.lib = lib = ctypes.CDLL("libibverbs.so.1", use_errno=True)
        pointer = ctypes.c_void_p
        lib.ibv_get_device_list.restype = ctypes.POINTER(pointer)
        lib.ibv_get_device_list.argtypes = [pointer]
        lib.ibv_free_device_list.argtypes = [ctypes.POINTER(pointer)]
        lib.ibv_get_device_name.restype = ctypes.c_char_p
        lib.ibv_get_device_name.argtypes = [pointer]
        for name in ("ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr"):
            getattr(lib, name).restype = pointer
        lib.ibv_open_device.argtypes = lib.ibv_alloc_pd.argtypes = [pointer]
        lib.ibv_reg_mr.argtypes = [pointer, pointer, ctypes.c_size_t, ctypes.c_int]
        lib.ibv_query_port.argtypes = [pointer, ctypes.c_uint8, pointer]
        for name in ("ibv_dereg_mr", "ibv_dealloc_pd", "ibv_close_device"):
            getattr(lib, name).argtypes = [pointer]

    def devices(self) -> list[dict[str, t.Any]]:
        """Each device that the library lists: can it be opened, can memory be registered, which MTU has port 1."""
        count = ctypes.c_int()
        listed = self.lib.ibv_get_device_list(ctypes.byref(count))
        if not listed:
            return []
        try:
            return [self._device(listed[index]) for index in range(count.value)]
        finally:
            self.lib.ibv_free_device_list(listed)

    def _device(self, device: int | None) -> dict[str, t.Any]:
        said: dict[str, t.Any] = {"ibdev": self.lib.ibv_get_device_name(device).decode(errors="replace")}
        context = self.lib.ibv_open_device(device)
        if not context:
            return {**said, "error": f"ibv_open_device: {_reason()}"}
        try:
            return {**said, "active_mtu": self._active_mtu(context), "register_error": self._register(context)}
        finally:
            self.lib.ibv_close_device(context)

    def _active_mtu(self, context: int) -> int | None:
        # struct ibv_port_attr begins with the enums state, max_mtu and active_mtu; 1 is 256 bytes, 5 is 4096.
        attributes = (ctypes.c_int * 64)()
        if self.lib.ibv_query_port(context, 1, attributes) or not 1 <= attributes[2] <= 5:
            return None
        return 128 << attributes[2]

    def _register(self, context: int) -> str:
        """Empty when memory can be registered, else why not."""
        domain = self.lib.ibv_alloc_pd(context)
        if not domain:
            return f"ibv_alloc_pd: {_reason()}"
        memory = ctypes.create_string_buffer(REGISTERED)
        region = self.lib.ibv_reg_mr(domain, memory, REGISTERED, 1)  # IBV_ACCESS_LOCAL_WRITE
        why = "" if region else f"ibv_reg_mr: {_reason()}"
        if region:
            self.lib.ibv_dereg_mr(region)
        self.lib.ibv_dealloc_pd(domain)
        return why


def _reason() -> str:
    return os.strerror(ctypes.get_errno())


def verbs_facts() -> dict[str, t.Any]:
    """The library, its providers and what can be done with the devices."""
    try:
        return {"providers": providers(), "devices": Verbs().devices()}
    except (OSError, AttributeError) as exc:
        return {"providers": providers(), "devices": [], "error": str(exc)}


def _text(path: str) -> str:
    try:
        with open(path) as stream:
            return stream.read().strip()
    except OSError:  # an empty slot of a GID table, or a file that is not there
        return ""


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def gids() -> list[dict[str, t.Any]]:
    """GIDs in use of all ports, as sysfs shows them in this network namespace."""
    found = []
    for ibdev in _names(VERBS):
        for port in _names(f"{VERBS}/{ibdev}/ports"):
            found += _port_gids(ibdev, f"{VERBS}/{ibdev}/ports/{port}")
    return found


def _port_gids(ibdev: str, folder: str) -> list[dict[str, t.Any]]:
    found: list[dict[str, t.Any]] = []
    for index in sorted(map(int, _names(f"{folder}/gids"))):
        if index - (found[-1]["index"] if found else -1) > EMPTY_SLOTS:
            break
        gid = _text(f"{folder}/gids/{index}")
        if gid.strip("0:"):
            kind = _text(f"{folder}/gid_attrs/types/{index}")
            netdev = _text(f"{folder}/gid_attrs/ndevs/{index}")
            found.append({"ibdev": ibdev, "index": index, "gid": gid, "type": kind, "netdev": netdev})
    return found


def netdevs() -> dict[str, int]:
    """MTU of each network device in this network namespace."""
    found = {name: _text(f"/sys/class/net/{name}/mtu") for name in _names("/sys/class/net")}
    return {name: int(mtu) for name, mtu in found.items() if mtu.isdigit()}


def memlock() -> int | None:
    """Bytes that a process may lock; None without a limit."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def main() -> None:
    """Print what there is."""
    shm = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    facts = {
        "torch": torch_facts(),
        "verbs": verbs_facts(),
        "tools": {name: shutil.which(name) for name in (*TOOLS, *sys.argv[1:])},
        "memlock": memlock(),
        "shm": shm.f_blocks * shm.f_frsize if shm else 0,
        "device_nodes": _names("/dev/infiniband"),
        "gids": gids(),
        "netdevs": netdevs(),
    }
    print("\n" + json.dumps(facts))


main()
