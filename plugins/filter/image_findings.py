# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters around container images: what one holds, whether all hosts have the same, and what the role was asked for."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.module_utils.checks.image import (
    check_container,
    check_image,
    check_pinned,
    check_same_image,
    parse_facts,
)
from ansible_collections.lossless.roce.plugins.module_utils.errors import ParseError
from ansible_collections.lossless.roce.plugins.module_utils.findings import FAIL, Finding
from ansible_collections.lossless.roce.plugins.plugin_utils.container_options import (
    OptionError,
    container_options,
)
from ansible_collections.lossless.roce.plugins.plugin_utils.image_request import check_request


def image_findings(text: str, image: t.Mapping[str, t.Any], container: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Findings on image and container; one finding that says so where nothing can be read."""
    try:
        facts = parse_facts(text)
    except ParseError as exc:
        found = [Finding("image_verify", FAIL, evidence="docker exec", cause=str(exc), remedy="is there python3?")]
    else:
        found = [*check_image(facts, **image), *check_container(facts, **container)]
    return [finding.as_dict() for finding in found]


def same_image(
    images: t.Mapping[str, t.Mapping[str, t.Any]], host: str, reference: str, wanted: str = ""
) -> list[dict[str, t.Any]]:
    """The finding on one host's image, in a list; an empty mapping stands for no image."""
    return [
        check_same_image({name: image or None for name, image in images.items()}, reference, wanted)[host].as_dict()
    ]


def image_pinned(bases: t.Sequence[str], packages: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """The finding on what an image is built upon, in a list."""
    return [check_pinned(bases, packages).as_dict()]


def options(asked: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Arguments of docker_container."""
    try:
        return container_options(asked)
    except OptionError as exc:
        raise AnsibleFilterError(str(exc)) from exc


def request(asked: t.Mapping[str, t.Any]) -> bool:
    """True; or all that does not fit together as one clear error."""
    try:
        check_request(asked)
    except OptionError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    return True


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {
            "image_findings": image_findings,
            "same_image": same_image,
            "image_pinned": image_pinned,
            "container_options": options,
            "image_request": request,
        }
