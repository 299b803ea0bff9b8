# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a container image holds, what its container may do, and whether all hosts run the same one. Pure.

The facts are what roles/pytorch_image/files/verify_image.py prints inside the container.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..errors import ParseError
from ..findings import FAIL, PASS, SKIPPED, UNKNOWN, Finding
from ..parsers.gids import Gid, choose

Facts = t.Mapping[str, t.Any]

_INSIDE = "verify_image.py inside the container"
_PACKAGES = {
    "ibv_devices": "ibverbs-utils",
    "ibv_devinfo": "ibverbs-utils",
    "rdma": "iproute2",
    "ib_write_bw": "perftest",
    "numactl": "numactl",
    "all_reduce_perf": "nccl-tests (pytorch_image_nccl_tests_url)",
    "sshd": "openssh-server",
    "jupyter": "jupyterlab",
}
_BY_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
# A version, a URL or a wheel; == with a * is a range.
_BY_VERSION = re.compile(r"===?[^=*]+$| @ |\.whl$")
_VERSIONS = {"RoCE v2": 2, "IB/RoCE v1": 1}


def parse_facts(text: str) -> dict[str, t.Any]:
    """The facts, from what the script printed; an image's own banner may stand before them. Raises ParseError."""
    lines = text.strip().splitlines()
    try:
        facts = json.loads(lines[-1] if lines else "")
    except (ValueError, RecursionError):
        facts = None
    shapes: dict[str, t.Any] = {"torch": dict, "verbs": dict, "tools": dict, "gids": list, "netdevs": dict}
    if not isinstance(facts, dict) or not all(isinstance(facts.get(key), kind) for key, kind in shapes.items()):
        said = (lines[-1] if lines else "")[:200]
        raise ParseError(f"{_INSIDE}: {said!r} … one JSON object was expected")
    return facts


def check_image(
    facts: Facts, *, cuda: bool, nccl_min: str = "", torch: str = "", provider: str = "mlx5"
) -> list[Finding]:
    """Findings on what the image holds.

    cuda: whether a CPU build of PyTorch is wrong; nccl_min, torch: versions such as "2.18" and "2.8", empty for any;
    provider: of libibverbs
    """
    found = [_torch(facts["torch"], torch)]
    if not facts["torch"].get("error"):
        found += [_cuda(facts["torch"], cuda), _nccl(facts["torch"], cuda, nccl_min)]
    return [*found, _verbs(facts["verbs"], provider), _tools(facts["tools"])]


def check_container(
    facts: Facts,
    *,
    ports: t.Sequence[t.Mapping[str, t.Any]],
    mtu: int | None,
    rdma_mtu: int | None,
    gpus: int | None = None,
    shm: int = 0,
    policies: t.Sequence[tuple[t.Sequence[str], t.Mapping[str, t.Any]]] = (),
) -> list[Finding]:
    """Findings on what this container may do. What lacks devices is said once, and not again by what needs them.

    ports: the declared ones as {name, rail, address}; mtu, rdma_mtu: by the policy; gpus: how many were declared;
    shm: least size of /dev/shm in bytes; policies: names of ports, and the mtu and rdma_mtu of their own policy
    """
    own = {name: policy for names, policy in policies for name in names}
    found = [_gpus(facts["torch"], gpus), _shm(facts, shm)]
    devices = _devices(facts, len(ports))
    found += [devices, _memlock(facts, devices.verdict == PASS)]
    if devices.verdict == PASS:
        found += [finding for port in ports for finding in _port(facts, port, {"mtu": mtu, "rdma_mtu": rdma_mtu}, own)]
    return [finding for finding in found if finding.verdict != SKIPPED or finding.cause]


# -- the image -----------------------------------------------------------------------------------


def _finding(
    check: str, right: bool, observed: t.Any, expected: t.Any, cause: str = "", remedy: str = "", port: str = ""
) -> Finding:
    """Cause and remedy count where it is not right."""
    return Finding(
        check=check,
        verdict=PASS if right else FAIL,
        observed=observed,
        expected=expected,
        evidence=_INSIDE,
        cause="" if right else cause,
        remedy="" if right else remedy,
        port=port,
    )


def version(text: t.Any) -> tuple[int, ...]:
    """The numbers that a version begins with: 2.13.0+cpu is (2, 13, 0)."""
    found = re.match(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}", str(text))
    return tuple(map(int, found.group().split("."))) if found else ()


def _torch(torch: Facts, wanted: str) -> Finding:
    if torch.get("error"):
        return _finding(
            "image_torch",
            False,
            str(torch["error"]),
            f"PyTorch {wanted}".strip(),
            "PyTorch cannot be imported by the image's python3",
            "another base image (pytorch_image_base), or PyTorch in pytorch_image_pip_packages",
        )
    numbers = version(wanted)
    return _finding(
        "image_torch",
        version(torch["version"])[: len(numbers)] == numbers,
        torch["version"],
        wanted or "any",
        "the image holds another version of PyTorch than declared",
        "another base image, or another pytorch_image_torch_version",
    )


def _cuda(torch: Facts, required: bool) -> Finding:
    if not torch.get("cuda"):
        if not required:
            return Finding("image_cuda", SKIPPED, "CPU build", evidence=_INSIDE, cause="PyTorch is a build for CPUs")
        return _finding(
            "image_cuda",
            False,
            "CPU build",
            "a build for CUDA",
            "PyTorch in this image is a build for CPUs: it uses no GPU and has no NCCL",
            "a base image with PyTorch for CUDA, or pip's index of the CUDA builds",
        )
    built, cudnn, driver = version(torch["cuda"])[:1], torch.get("cudnn"), torch.get("driver_cuda")
    for_cuda = _major(torch.get("cudnn_cuda"))
    observed = {"cuda": torch["cuda"], "cudnn": cudnn, "cudnn_built_for": for_cuda, "driver": _major(driver)}
    expected = "cuDNN for the CUDA that PyTorch was built for, and a driver at least as new"
    if not cudnn:
        why = "PyTorch finds no cuDNN"
    elif for_cuda is not None and (for_cuda,) != built:
        why = f"cuDNN was built for CUDA {for_cuda}, PyTorch for CUDA {torch['cuda']}"
    elif driver is not None and (_major(driver),) < built:
        why = f"the node's driver knows CUDA {_major(driver)} at most, PyTorch was built for CUDA {torch['cuda']}"
    else:
        return _finding("image_cuda", True, observed, expected)
    return _finding("image_cuda", False, observed, expected, why, "versions that belong together, or a newer driver")


def _major(number: t.Any) -> int | None:
    """12 of CUDA's 12080."""
    return number // 1000 if isinstance(number, int) else None


def _nccl(torch: Facts, cuda: bool, least: str) -> Finding:
    observed = ".".join(map(str, torch.get("nccl") or ()))
    if not observed and not (cuda and torch.get("cuda")):
        # Where CUDA was required and is missing, the finding on CUDA has said so.
        gloo = "gloo only" if torch.get("gloo") else "no backend between hosts"
        return Finding("image_nccl", SKIPPED, gloo, evidence=_INSIDE, cause="a build for CPUs has no NCCL")
    return _finding(
        "image_nccl",
        bool(observed) and version(observed) >= version(least),
        observed or "none",
        f"{least} or newer" if least else "any",
        "the image's NCCL is older than declared" if observed else "PyTorch was built without NCCL",
        "a newer base image",
    )


def _verbs(verbs: Facts, provider: str) -> Finding:
    providers = list(verbs.get("providers") or ())
    expected = f"libibverbs with the provider {provider}"
    if verbs.get("error"):
        return _finding(
            "image_verbs",
            False,
            str(verbs["error"]),
            expected,
            "libibverbs cannot be loaded in the image: NCCL falls back to sockets",
            "package libibverbs1 in the image",
        )
    return _finding(
        "image_verbs",
        provider in providers,
        providers,
        expected,
        f"libibverbs has no provider for {provider} in the image, and does not see such cards",
        "package ibverbs-providers (rdma-core on RHEL) in the image",
    )


def _tools(tools: Facts) -> Finding:
    missing = sorted(name for name, path in tools.items() if not path)
    packages = ", ".join(sorted({_PACKAGES.get(name, name) for name in missing}))
    return _finding(
        "image_tools",
        not missing,
        {"missing": missing},
        sorted(tools),
        f"programs are not in the image: {', '.join(missing)}",
        f"add to the image: {packages}",
    )


def check_pinned(bases: t.Sequence[str], packages: t.Sequence[str]) -> Finding:
    """Whether another build by the same recipe is upon the same: images by digest, Python packages by version."""
    loose = [name for name in bases if not _BY_DIGEST.search(name)]
    loose += [name for name in packages if not _BY_VERSION.search(name.partition(";")[0].rstrip())]
    expected = "images as name@sha256:…, Python packages as name==version"
    if not loose:
        return Finding("image_pinned", PASS, {"not pinned": []}, expected, "the role's variables")
    return Finding(
        "image_pinned",
        UNKNOWN,
        {"not pinned": loose},
        expected,
        "the role's variables",
        f"another build may be upon something else: {', '.join(loose)} {'is' if len(loose) == 1 else 'are'} not pinned",
        "pin images by their digest (docker image inspect shows it as RepoDigests), packages by their version",
    )


# -- the container -------------------------------------------------------------------------------


def _gpus(torch: Facts, declared: int | None) -> Finding:
    if declared is None or torch.get("error") or not torch.get("cuda"):
        return Finding("container_gpus", SKIPPED)
    return _finding(
        "container_gpus",
        torch.get("gpus") == declared,
        torch.get("gpus"),
        declared,
        "PyTorch sees another number of GPUs in the container than declared",
        "pytorch_image_gpus and pytorch_image_gpu_devices say which ones are given; nvidia-smi on the node lists them",
    )


def _shm(facts: Facts, least: int) -> Finding:
    return _finding(
        "container_shm",
        int(facts.get("shm") or 0) >= least,
        facts.get("shm"),
        f"{least} bytes or more",
        "/dev/shm is smaller than declared: NCCL and data loaders fail with bus errors or No space left on device",
        "pytorch_image_shm_size, or --ipc=host",
    )


def _devices(facts: Facts, declared: int) -> Finding:
    if not declared:
        return Finding("container_devices", SKIPPED, evidence=_INSIDE, cause="no port is declared for this host")
    nodes = list(facts.get("device_nodes") or ())
    listed = facts["verbs"].get("devices") or []
    opened = [device["ibdev"] for device in listed if not device.get("error")]
    # The library itself missing is a finding on the image.
    if facts["verbs"].get("error"):
        return Finding("container_devices", SKIPPED, evidence=_INSIDE, cause="libibverbs cannot be loaded")
    if not any(name.startswith("uverbs") for name in nodes):
        cause = "the container was given no verbs device: libibverbs finds none, and NCCL falls back to sockets"
        remedy = "start it with --device /dev/infiniband or --device lossless.roce/rdma=all (pytorch_image_rdma)"
    elif not opened and listed:
        cause = f"no RDMA device can be opened: {listed[0]['ibdev']}: {listed[0]['error']}"
        remedy = "pass all of /dev/infiniband; devices that appeared after the start need a new container"
    else:
        cause = "libibverbs sees fewer devices than ports are declared: a provider or a device node is missing"
        remedy = "package ibverbs-providers in the image, and all of /dev/infiniband in the container"
    observed = {"opened": opened, "device_nodes": nodes}
    return _finding("container_devices", len(opened) >= declared, observed, f"{declared} device(s)", cause, remedy)


def _memlock(facts: Facts, devices: bool) -> Finding:
    limit = facts.get("memlock")
    failed = {
        device["ibdev"]: device["register_error"]
        for device in facts["verbs"].get("devices") or []
        if devices and device.get("register_error")
    }
    observed = {"limit": "unlimited" if limit is None else limit, "registration": failed or None}
    if limit is not None:
        cause = f"locked memory is limited to {limit} bytes inside: NCCL cannot register its buffers"
        remedy = "start it with --ulimit memlock=-1 (pytorch_image_memlock)"
    else:
        cause = "memory cannot be registered: " + "; ".join(f"{name}: {why}" for name, why in failed.items())
        remedy = "look at the kernel's messages; Cannot allocate memory is a limit, Operation not permitted a right"
    return _finding("container_memlock", limit is None and not failed, observed, "unlimited", cause, remedy)


def _port(
    facts: Facts, port: t.Mapping[str, t.Any], fabric: t.Mapping[str, t.Any], own: t.Mapping[str, t.Any]
) -> t.Iterator[Finding]:
    """GID and MTU of a declared port. fabric: {mtu, rdma_mtu}; own: the same of single ports, by either name."""
    name, address = str(port.get("name", "")), str(port.get("address") or "")
    ibdev, index = _gid(facts["gids"], name, address)
    here = [gid["ibdev"] for gid in facts["gids"] if gid.get("netdev") == name]
    yield _finding(
        "container_gid",
        index is not None,
        {"ibdev": ibdev, "gid_index": index},
        f"a RoCE v2 GID of {address or 'its address'} on {name}",
        f"{name} is in the container, and has no RoCE v2 GID of {address}"
        if name in facts["netdevs"]
        else f"{name} is not in the container's network namespace, and a GID works only where its netdev is",
        "the port's address on the node: role lossless.roce.roce_policy says more"
        if name in facts["netdevs"]
        else "start it with --network host (pytorch_image_network)",
        port=name,
    )
    if name in facts["netdevs"] and (ibdev or here):
        device = ibdev or here[0]
        wanted = own.get(name) or own.get(device) or fabric
        yield _mtu(facts, name, device, wanted["mtu"], wanted["rdma_mtu"])


def _gid(gids: t.Sequence[Facts], netdev: str, address: str) -> tuple[str, int | None]:
    for ibdev in sorted({str(gid.get("ibdev")) for gid in gids}):
        table = [
            Gid(int(gid["index"]), str(gid["gid"]), str(gid["netdev"]), _VERSIONS.get(str(gid.get("type"))))
            for gid in gids
            if gid.get("ibdev") == ibdev
        ]
        index = choose(table, address, netdev)
        if index is not None:
            return ibdev, index
    return "", None


def _mtu(facts: Facts, name: str, ibdev: str, mtu: int | None, rdma_mtu: int | None) -> Finding:
    active = next(
        (device.get("active_mtu") for device in facts["verbs"].get("devices") or [] if device["ibdev"] == ibdev), None
    )
    observed = {"mtu": facts["netdevs"][name], "active_mtu": active}
    right = (mtu is None or observed["mtu"] == mtu) and (rdma_mtu is None or active == rdma_mtu)
    return _finding(
        "container_mtu",
        right,
        observed,
        {"mtu": mtu, "active_mtu": rdma_mtu},
        "the port has another MTU in the container than the policy's",
        "role lossless.roce.roce_policy sets it on the node",
        port=name,
    )


# -- the same image everywhere -------------------------------------------------------------------


def check_same_image(
    images: t.Mapping[str, t.Mapping[str, t.Any] | None], reference: str, wanted: str = ""
) -> dict[str, Finding]:
    """A finding a host: is its image that of the reference host, and the declared digest?

    images: what ``docker image inspect`` says of it by host, None where there is none. Two images are the same when
    they have one ID, or one digest of a registry: engines with another image store give other IDs.
    """
    first = images.get(reference)
    return {host: _same(image, first, reference, wanted) for host, image in images.items()}


def digests(image: t.Mapping[str, t.Any] | None) -> set[str]:
    """Digests by which registries know an image."""
    return {str(name).rpartition("@")[2] for name in (image or {}).get("RepoDigests") or []}


def _same(
    image: t.Mapping[str, t.Any] | None, first: t.Mapping[str, t.Any] | None, reference: str, wanted: str
) -> Finding:
    known = sorted(digests(image))
    observed = {"id": image.get("Id"), "digests": known} if image else None
    evidence = "docker image inspect"
    expected: t.Any = wanted or {"id": (first or {}).get("Id"), "digests": sorted(digests(first))}
    if image is None:
        cause = "the image is not on this host"
        remedy = "run lossless.roce.image, with pytorch_image_distribute not none"
    elif wanted and not _is(image, wanted) and not (first and _is(first, wanted) and _alike(image, first)):
        cause, remedy = "the image is not the one of the declared digest", "pull it by its digest (lossless.roce.image)"
    elif first is None:
        return Finding(
            "image_digest", UNKNOWN, observed, expected, evidence, f"{reference} has no such image to compare with"
        )
    elif not _alike(image, first):
        cause = f"this host has another image under the same name than {reference}"
        remedy = "run lossless.roce.image, with pytorch_image_distribute not none; then start its containers anew"
    else:
        return Finding("image_digest", PASS, observed, expected, evidence)
    return Finding("image_digest", FAIL, observed, expected, evidence, cause, remedy)


def _is(image: t.Mapping[str, t.Any], digest: str) -> bool:
    """Where docker keeps images in containerd, an image's ID is the digest of its manifest."""
    return digest == image.get("Id") or digest in digests(image)


def _alike(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> bool:
    return one.get("Id") == other.get("Id") or bool(digests(one) & digests(other))
