# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Whether what the role pytorch_image was asked for fits together. Pure.

Everything that is wrong is told at once, each with the option's name, its value and what was expected.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.lossless.roce.plugins.module_utils.values import integer

from .container_options import OptionError

_TOKEN = 16  # characters of a Jupyter token at least
# Docker's own grammar of references, but for IPv6 addresses.
_NAME = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_REGISTRY = re.compile(rf"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{{1,5}})?(?:/{_NAME.pattern})?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_UID_MAX = 2**31 - 1
_KEY = re.compile(r"(?:ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/=]+(?: [^\n]*)?")


def check_request(asked: Mapping[str, t.Any]) -> None:
    """Raise OptionError for all that is wrong.

    asked: the role's options of the same names without their prefix (name, tag, source, base, builder, distribute,
    registry, serve_registry, digest, nccl_tests_url, nccl_tests_checksum, user, uid, sshd, ssh_keys, jupyter), hosts
    (those of the play), and token_length in place of the secret itself
    """
    problems = [*_names(asked), *_user(asked), *_ways(asked), *_digests(asked), *_services(asked)]
    if problems:
        raise OptionError("; ".join(f"pytorch_image_{problem}" for problem in problems))


def _names(asked: Mapping[str, t.Any]) -> t.Iterator[str]:
    if not _NAME.fullmatch(asked["name"]):
        yield f"name: {asked['name']!r} … lower-case words, without registry and tag, were expected"
    if not _TAG.fullmatch(asked["tag"]):
        yield f"tag: {asked['tag']!r} … letters, digits, and . _ - in between were expected"
    if asked["registry"] and not _REGISTRY.fullmatch(asked["registry"]):
        yield f"registry: {asked['registry']!r} … host:port, perhaps with a path, and no scheme, was expected"


def _user(asked: Mapping[str, t.Any]) -> t.Iterator[str]:
    """The user that is made in the image. Whether the base has one like that is seen by the build."""
    if not asked["user"]:
        return
    if not _USER.fullmatch(asked["user"]):
        yield f"user: {asked['user']!r} … a name of a Linux user was expected"
    elif asked["user"] == "root":
        yield "user: 'root' … another user was expected, or none for the base's own"
    try:
        integer(asked["uid"], 1, _UID_MAX)
    except ValueError:
        yield f"uid: {asked['uid']!r} … a number from 1 to {_UID_MAX} was expected"


def _ways(asked: Mapping[str, t.Any]) -> t.Iterator[str]:
    """Where the image comes from, and how it gets to the hosts."""
    if asked["source"] == "build" and not asked["base"]:
        yield "base: '' … an image to build upon was expected, since pytorch_image_source is build"
    # Docker's own registry is pulled from without its name, and cannot be pushed to.
    if asked["distribute"] == "registry" and asked["source"] != "pull" and not asked["registry"]:
        yield "registry: '' … host:port was expected, since pytorch_image_distribute is registry"
    if asked["serve_registry"] and asked["distribute"] != "registry":
        yield f"serve_registry: true, and pytorch_image_distribute is {asked['distribute']} … registry was expected"
    if asked["builder"] not in asked["hosts"]:
        yield f"builder: {asked['builder']!r} … one of {', '.join(asked['hosts'])} was expected"


def _digests(asked: Mapping[str, t.Any]) -> t.Iterator[str]:
    digest = asked["digest"]
    if digest and not _DIGEST.fullmatch(digest):
        yield f"digest: {digest!r} … sha256: and 64 hex digits were expected"
    elif digest and asked["source"] == "build":
        yield f"digest: {digest!r}, and pytorch_image_source is build … none was expected: it is known after the build"
    if asked["nccl_tests_url"] and not _DIGEST.fullmatch(asked["nccl_tests_checksum"]):
        yield (
            f"nccl_tests_checksum: {asked['nccl_tests_checksum']!r} … sha256: and 64 hex digits were expected, since"
            " pytorch_image_nccl_tests_url is given"
        )


def _services(asked: Mapping[str, t.Any]) -> t.Iterator[str]:
    """A service without a key or a token would be open, or of no use."""
    keys: Sequence[t.Any] = asked["ssh_keys"] if asked["sshd"] else ()
    if asked["sshd"] and not keys:
        yield "ssh_keys: [] … public keys were expected, since pytorch_image_sshd is true"
    for key in keys:
        if not _KEY.fullmatch(str(key)):
            yield f"ssh_keys: {str(key)[:40]!r} … one line of a .pub file was expected"
    if asked["jupyter"] and asked["token_length"] < _TOKEN:
        yield (
            f"jupyter_token: has {asked['token_length']} characters … {_TOKEN} or more were expected, since"
            " pytorch_image_jupyter is true"
        )
