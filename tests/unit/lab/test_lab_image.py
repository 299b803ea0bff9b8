"""The recipe of the image and what is derived from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from roce_lab.image import (
    IMAGE_FILES,
    base_argv,
    cache_folder,
    digest,
    image_hash,
    load_order,
    module_files,
)


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A kernel module's sources, with leftovers of a build in place."""
    for name in ("Makefile", "main.c", "sim.h", "main.o", "sim.mod.c", ".main.o.cmd"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_only_sources_count(module: Path) -> None:
    assert [path.name for path in module_files(module)] == ["Makefile", "main.c", "sim.h"]


def test_no_makefile_means_no_module(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("")
    assert module_files(tmp_path) == []


def test_hash_follows_the_sources(module: Path) -> None:
    before = image_hash(module)
    (module / "main.o").write_text("built")
    assert image_hash(module) == before
    (module / "main.c").write_text("changed")
    assert image_hash(module) != before


def test_hash_follows_the_lab_files(module: Path, tmp_path: Path) -> None:
    files = tmp_path / "image"
    files.mkdir()
    before = image_hash(module, files)
    (files / "unit").write_text("x")
    after = image_hash(module, files)
    (files / "unit").chmod(0o755)
    assert len({before, after, image_hash(module, files)}) == 3


def test_hash_does_not_run_parts_together() -> None:
    assert digest([b"ab", b"c"]) != digest([b"a", b"bc"])


def test_base_names_no_mirror() -> None:
    argv = base_argv("/target")
    assert argv[-2:] == ["trixie", "/target"]
    assert not any("://" in word for word in argv)


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/lossless-roce-lab"
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own/lossless-roce-lab"


def test_modules_load_after_what_they_need() -> None:
    dependencies = (
        "kernel/a/virtio_net.ko.xz: kernel/b/net_failover.ko.xz kernel/b/failover.ko.xz\n"
        "kernel/b/net_failover.ko.xz: kernel/b/failover.ko.xz\n"
        "kernel/b/failover.ko.xz:\n"
        "kernel/c/ext4.ko.xz: kernel/c/jbd2.ko.xz\n"
    )
    assert load_order(dependencies, ["virtio_net", "ext4", "built_in"]) == [
        "kernel/b/failover.ko.xz",
        "kernel/b/net_failover.ko.xz",
        "kernel/a/virtio_net.ko.xz",
        "kernel/c/jbd2.ko.xz",
        "kernel/c/ext4.ko.xz",
    ]


def test_guest_files_are_executable_where_they_are_run() -> None:
    for name in (
        "initrd/init",
        "rootfs/usr/local/sbin/lab-hardware",
        "rootfs/usr/local/sbin/lab-ready",
        "rootfs/usr/local/sbin/lab-port",
    ):
        assert (IMAGE_FILES / name).stat().st_mode & 0o111
