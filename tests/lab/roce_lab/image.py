"""The disk image that all nodes share: built once per recipe, then kept in a cache.

Two layers: the base (Debian and, apart from it, the tool chain), which takes
half a minute, and the image (base, kernel module, the lab's own files, a key),
which takes seconds and is all that a change of the kernel module costs.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .errors import LabError
from .host import check_disk
from .process import command_lines, tail
from .progress import Progress
from .state import LAB_FOLDER, locked

SUITE = "trixie"
IMAGE_SIZE = "6G"  # sparse
BUILD_DISK_MIB = 3000
KEEP = 4  # images and bases that survive a newer one
MODULE_SOURCES = LAB_FOLDER / "mlx5sim"
IMAGE_FILES = LAB_FOLDER / "image"  # rootfs/ goes into the nodes, initrd/ boots them
ROOTFS = IMAGE_FILES / "rootfs"

# A bare server: what RoCE needs on top of it is for the collection to install.
# python3-apt is there because Ansible cannot plan an installation without it.
BASE_PACKAGES = (
    "linux-image-amd64",
    "systemd-sysv",
    "udev",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "ethtool",
    "kmod",
    "iputils-ping",
    "procps",
    "perl",
    # Container engines, which servers mostly have already: their services are off (rootfs, system-preset).
    "docker.io",
    "docker-cli",
    "podman",
    "iptables",
)
# What the collection installs, from a repository in the image: nodes reach no network.
REPOSITORY_PACKAGES = (
    "rdma-core",
    "ibverbs-utils",
    "ibverbs-providers",
    "infiniband-diags",
    "perftest",
    "librdmacm1",
    "rdmacm-utils",
    "pciutils",
    "nftables",
    "mstflint",
    "lldpad",
    "lldpd",
    "numactl",
    "docker-buildx",
    "openssl",
    "python3-requests",
    "docker-registry",
    "firewalld",
    "ufw",
    "tcpdump",
    "slurm-wlm",
    "munge",
)
# Files of these are unpacked by a test: mpirun needs no more, and by their dependencies (a GPU's compiler, for MPI
# programs) the nodes would get 250 MB.
UNPACKED_PACKAGES = ("openmpi-bin", "openmpi-common", "libopenmpi40")
TOOL_PACKAGES = (
    "linux-headers-amd64",
    "gcc",
    "make",
    "base-files",
    "dash",
    "bash",
    "coreutils",
    "sed",
    "grep",
    "mawk",
    "findutils",
    "kmod",
    "busybox-static",
    "cpio",
)
# In the nodes' initrd: the root disk's drivers, and the network's, to name the devices early.
INITRD_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4")
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*")
# Nodes boot with an initrd of the lab; Debian's own is kept small, since it is made anew
# whenever a package asks for it.
INITRD_HOOK = (
    'mkdir -p "$1/etc/initramfs-tools/conf.d"; '
    r'printf "MODULES=list\nCOMPRESS=lz4\n" > "$1/etc/initramfs-tools/conf.d/lab"; '
    r'printf "virtio_pci\nvirtio_blk\next4\n" > "$1/etc/initramfs-tools/modules"'
)
DOWNLOAD_HOOK = (
    'mkdir -p "$1/srv/lab-repo" && chroot "$1" apt-get install -y --no-install-recommends '
    "--download-only -o Dir::Cache::archives=/srv/lab-repo "
    + " ".join(REPOSITORY_PACKAGES)
    + f' && chroot "$1" sh -c "cd /srv/lab-repo && apt-get download {" ".join(UNPACKED_PACKAGES)}"'
)
SOURCE_LINE = "deb [trusted=yes] file:/srv/lab-repo ./\n"
MASKED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "getty-static.service",
    "systemd-pstore.service",
    "systemd-hibernate-clear.service",
    "man-db.timer",
    "systemd-binfmt.service",
    "proc-sys-fs-binfmt_misc.automount",
    "dev-mqueue.mount",
    "sys-fs-fuse-connections.mount",
    "ldconfig.service",
    "systemd-update-done.service",
    "systemd-journal-catalog-update.service",
    "systemd-sysusers.service",
    "systemd-udev-load-credentials.service",
    "systemd-tpm2-setup.service",
    "systemd-tpm2-setup-early.service",
    "modprobe@drm.service",
)


def base_argv(target: str) -> list[str]:
    """The command that makes the nodes' root file system."""
    excludes = [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=apt",
        "--format=directory",
        *excludes,
        '--aptopt=APT::Install-Recommends "false"',
        f"--essential-hook={INITRD_HOOK}",
        f"--customize-hook={DOWNLOAD_HOOK}",
        f"--include={','.join(BASE_PACKAGES)}",
        SUITE,
        target,
    ]


def tools_argv(target: str) -> list[str]:
    """The command that unpacks the tool chain, which never enters a node."""
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=extract",
        "--format=directory",
        f"--include={','.join(TOOL_PACKAGES)}",
        SUITE,
        target,
    ]


def digest(parts: Sequence[bytes]) -> str:
    """A short hash over a list of byte strings."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()[:12]


def base_hash() -> str:
    """The recipe of the base."""
    return digest([json.dumps([base_argv(""), tools_argv("")]).encode()])


def module_files(folder: Path = MODULE_SOURCES) -> list[Path]:
    """The kernel module's sources; empty when it has not got any."""
    if not (folder / "Makefile").exists():
        return []
    names = [path for path in folder.iterdir() if path.is_file() and _is_source(path.name)]
    return sorted(names)


def _is_source(name: str) -> bool:
    if name.startswith(".") or name.endswith(".mod.c"):  # left by a build in place
        return False
    return name in ("Makefile", "Kbuild") or name.endswith((".c", ".h"))


def _tree_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            mode = path.stat().st_mode & 0o777
            yield f"{path.relative_to(folder)} {mode:o}", path.read_bytes()


def image_hash(module: Path = MODULE_SOURCES, files: Path = IMAGE_FILES) -> str:
    """The recipe of the image: base, builder, the lab's files, the module's sources."""
    parts = [base_hash().encode(), Path(__file__).read_bytes()]
    for name, content in _tree_files(files):
        parts += [name.encode(), content]
    for path in module_files(module):
        parts += [path.name.encode(), path.read_bytes()]
    return digest(parts)


def cache_folder() -> Path:
    """Where images are kept: $LAB_CACHE, $XDG_CACHE_HOME or ~/.cache."""
    root = os.environ.get("LAB_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root).resolve() / "lossless-roce-lab"


class Image:
    """A finished image: disk, kernel, initrd, root's key and password."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = folder / "disk.raw"
        self.kernel = folder / "vmlinuz"
        self.initrd = folder / "initrd"
        self.key = folder / "id_ed25519"
        self.password = folder / "password"


def ensure_image(progress: Progress) -> Image:
    """The image of the present recipe, built when the cache lacks it."""
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / ".lock", progress, "the image cache"):
        image = Image(cache / image_hash())
        if image.folder.is_dir():
            os.utime(image.folder)
            return image
        _remove_drafts(cache)
        check_disk(cache, BUILD_DISK_MIB, "building the image")
        base = _ensure_base(cache, progress)
        _draft(cache, image.folder, lambda draft: _build_image(base, draft, progress))
        _prune(cache, image.folder, base)
        progress(f"image {image.folder.name} is ready")
        return image


def _remove(folder: Path) -> None:
    # One file system only: never follow what a killed build may have left mounted.
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=True)


def _remove_drafts(cache: Path) -> None:
    for draft in cache.glob(".draft-*"):  # we hold the lock: their builders are dead
        _remove(draft)


def _draft(cache: Path, target: Path, build: Callable[[Path], None]) -> None:
    """Build in a folder beside the target; it gets its name when it is complete.

    The draft is ours alone: the builder of a killed process may still be ending in its own.
    """
    draft = cache / f".draft-{target.name}-{os.getpid()}"
    try:
        draft.mkdir(mode=0o700)
        build(draft)
        draft.rename(target)
    except BaseException:
        _remove(draft)
        raise


def _prune(cache: Path, image: Path, base: Path) -> None:
    """Delete older images and bases, less those that a running node stands on."""
    used = "\0".join(word for argv in command_lines().values() for word in argv)
    folders = [path for path in cache.iterdir() if path.is_dir() and path not in (image, base)]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for group in (True, False):
        old = [path for path in folders if path.name.startswith("base-") is group]
        for path in old[KEEP - 1 :]:
            if f"{path}/" not in used:
                _remove(path)


# --- running builders ---------------------------------------------------------


def _start(argv: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a builder that ends when we do, its output in a log."""
    with log.open("ab") as stream:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *argv],
            stdout=stream,
            stderr=stream,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )


def _finish(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.wait():
        text = tail(log.read_text(errors="replace"))
        command = " ".join(list(process.args)[3:])  # type: ignore[arg-type]
        raise LabError(f"{command[:100]}: exit status {process.returncode}:\n{text}")


def _build(argv: Sequence[str], log: Path) -> None:
    process = _start(argv, log)
    try:
        _finish(process, log)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        process.wait()


# --- the base -----------------------------------------------------------------


def _ensure_base(cache: Path, progress: Progress) -> Path:
    base = cache / f"base-{base_hash()}"
    if not base.is_dir():
        progress(f"building the base: Debian {SUITE} and the tool chain, from the default mirror")
        start = time.monotonic()
        _draft(cache, base, _build_base)
        progress(f"the base took {time.monotonic() - start:.0f} s")
    os.utime(base)
    return base


def _build_base(draft: Path) -> None:
    makers = (base_argv, tools_argv)
    folders = (draft / "root", draft / "tools")
    logs = (draft / "root.log", draft / "tools.log")
    builders = [_start(maker(str(folder)), log) for maker, folder, log in zip(makers, folders, logs, strict=True)]
    try:
        for builder, log in zip(builders, logs, strict=True):
            _finish(builder, log)
    finally:
        for builder in builders:
            _end(builder)
    _check_versions(*folders)
    (folders[1] / "usr/bin/awk").symlink_to("mawk")
    _index_repository(folders[0] / "srv/lab-repo")


def kernel_version(root: Path) -> str:
    """The version of the one kernel of a root file system."""
    versions = sorted(path.name for path in (root / "usr/lib/modules").iterdir())
    if len(versions) != 1:
        raise LabError(f"{root}: has kernels {versions}, one was expected")
    return versions[0]


def _headers(version: str) -> str:
    return f"usr/src/linux-headers-{version}"


def _check_versions(root: Path, tools: Path) -> None:
    version = kernel_version(root)
    if not (tools / _headers(version)).is_dir():
        raise LabError(f"kernel {version}: the mirror has no headers of this version; try again when it has settled")


def _index_repository(folder: Path) -> None:
    """Write the Packages index, as dpkg-scanpackages would."""
    shutil.rmtree(folder / "partial", ignore_errors=True)
    (folder / "lock").unlink(missing_ok=True)
    entries = [_index_entry(package) for package in sorted(folder.glob("*.deb"))]
    (folder / "Packages").write_text("\n".join(entries))


def _index_entry(package: Path) -> str:
    name, _, rest = package.name.partition("_")
    plain = package.rename(package.with_name(f"{name}_{rest.rpartition('%3a')[2]}"))
    fields = subprocess.run(["dpkg-deb", "-f", str(plain)], capture_output=True, text=True, check=True).stdout
    sha256 = hashlib.sha256(plain.read_bytes()).hexdigest()
    return f"{fields.rstrip()}\nFilename: ./{plain.name}\nSize: {plain.stat().st_size}\nSHA256: {sha256}\n"


# --- the image ----------------------------------------------------------------


def _build_image(base: Path, draft: Path, progress: Progress) -> None:
    progress("building the image: kernel module, lab files, disk")
    image, root, log = Image(draft), draft / "root", draft / "build.log"
    _build(["cp", "-a", "--reflink=auto", str(base / "root"), str(root)], log)
    _copy_rootfs(root)
    _write_system_files(root)
    _add_module(base / "tools", root, draft, log)
    _build(["chroot", str(root), "apt-get", "update", "-q"], log)
    _set_access(image, root, log)
    version = kernel_version(root)
    (root / f"boot/vmlinuz-{version}").rename(image.kernel)
    _make_initrd(base / "tools", root, draft, log)
    _build(
        [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-d",
            str(root),
            "-m",
            "0",
            "-J",
            "size=16",
            "-E",
            "lazy_itable_init=1,lazy_journal_init=1",
            "-L",
            "lab",
            str(image.disk),
            IMAGE_SIZE,
        ],
        log,
    )
    _remove(root)


def _copy_rootfs(root: Path) -> None:
    for source in sorted(ROOTFS.rglob("*")):
        target = root / source.relative_to(ROOTFS)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            shutil.copy(source, target)
            target.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
            os.chown(target, 0, 0)


def _write_system_files(root: Path) -> None:
    for source in (root / "etc/apt/sources.list.d").iterdir():
        source.unlink()
    (root / "etc/apt/sources.list").write_text(SOURCE_LINE)
    (root / "etc/fstab").write_text("")
    (root / "etc/machine-id").write_text("")  # each node gets its own at boot
    (root / "etc/resolv.conf").write_text("")
    (root / "etc/hostname").unlink(missing_ok=True)  # comes from the kernel's command line
    (root / "etc/hosts").write_text(_hosts())
    shutil.rmtree(root / "var/log/journal", ignore_errors=True)  # the journal stays in memory
    units = root / "etc/systemd/system"
    (units / "default.target").unlink(missing_ok=True)
    (units / "default.target").symlink_to("/usr/lib/systemd/system/multi-user.target")
    for unit in MASKED_UNITS:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    _disable_units(root)
    wants = units / "multi-user.target.wants"
    (wants / "lab-hardware.service").symlink_to("/etc/systemd/system/lab-hardware.service")


def _disable_units(root: Path) -> None:
    """Take back what the packages enabled and the lab's preset disables: a first boot only ever enables."""
    preset = (ROOTFS / "etc/systemd/system-preset/00-lab.preset").read_text()
    units = [line.split()[1] for line in preset.splitlines() if line.startswith("disable ")]
    for wants in (root / "etc/systemd/system").glob("*.wants"):
        for unit in units:
            (wants / unit).unlink(missing_ok=True)


def _hosts() -> str:
    nodes = "".join(f"10.100.0.{node} node{node}\n" for node in range(1, 5))
    return f"127.0.0.1 localhost\n::1 localhost\n{nodes}"


def _add_module(tools: Path, root: Path, draft: Path, log: Path) -> None:
    """Build the kernel module with the tool chain and put the result into the nodes."""
    sources = module_files()
    if not sources:
        return
    version = kernel_version(root)
    work = tools / "src" / draft.name.lstrip(".")
    work.mkdir(parents=True)
    try:
        for source in sources:
            shutil.copy(source, work)
        inside = f"/{work.relative_to(tools)}"
        _build(["chroot", str(tools), "make", "-j2", "-C", f"/{_headers(version)}", f"M={inside}", "modules"], log)
        updates = root / f"usr/lib/modules/{version}/updates"  # found before the kernel's own of the same name
        updates.mkdir()
        for module in work.glob("*.ko"):
            _build(["chroot", str(tools), "strip", "--strip-debug", f"{inside}/{module.name}"], log)
            shutil.copy(module, updates)
    finally:
        _remove(work)
    _build(["chroot", str(root), "depmod", version], log)


def load_order(dependencies: str, modules: Sequence[str]) -> list[str]:
    """Files to load for these modules, from the text of modules.dep."""
    needs = {}
    for line in dependencies.splitlines():
        path, _, rest = line.partition(":")
        needs[Path(path).name.partition(".")[0]] = [path, *rest.split()]
    order: list[str] = []
    for module in modules:
        # What a module needs is listed nearest first.
        order += [path for path in reversed(needs.get(module, [])) if path not in order]
    return order


def _make_initrd(tools: Path, root: Path, draft: Path, log: Path) -> None:
    """A node's initrd: busybox, a few modules and the lab's own init."""
    tree = tools / "src" / f"initrd-{draft.name.lstrip('.')}"
    for folder in ("bin", "dev", "modules", "proc", "root", "sys"):
        (tree / folder).mkdir(parents=True)
    shutil.copy(tools / "usr/bin/busybox", tree / "bin")
    shutil.copy(IMAGE_FILES / "initrd/init", tree)
    modules = root / "usr/lib/modules" / kernel_version(root)
    order = load_order((modules / "modules.dep").read_text(), INITRD_MODULES)
    for path in order:
        plain = tree / "modules" / Path(path).name.removesuffix(".xz")
        opener = lzma.open if path.endswith(".xz") else open
        with opener(modules / path, "rb") as stream:
            plain.write_bytes(stream.read())
    names = [Path(path).name.removesuffix(".xz") + "\n" for path in order]
    (tree / "modules/order").write_text("".join(names))
    inside = f"/{tree.relative_to(tools)}"
    _build(["chroot", str(tools), "sh", "-c", f"cd {inside} && find . | cpio -o -H newc --quiet > {inside}.cpio"], log)
    (tree.parent / f"{tree.name}.cpio").replace(draft / "initrd")
    _remove(tree)


def _set_access(image: Image, root: Path, log: Path) -> None:
    """Root logs in by the key; the password is for tests of a first contact."""
    _build(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "roce-lab", "-f", str(image.key)], log)
    folder = root / "root/.ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(image.key.with_suffix(".pub"), folder / "authorized_keys")
    password = secrets.token_urlsafe(12)
    image.password.touch(mode=0o600)
    image.password.write_text(password + "\n")
    subprocess.run(
        ["chroot", str(root), "chpasswd"], input=f"root:{password}\n", text=True, check=True, capture_output=True
    )
