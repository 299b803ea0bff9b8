# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Filters around container images: what one holds, whether all hosts have the same, and what the role was asked for."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.lossless.roce.plugins.module_utils.checks.image import (
    check_container,
    check_image,
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

DOCUMENTATION = r"""
name: image_findings
short_description: Judge what a container image holds
version_added: 0.1.0
description:
  - Takes what C(verify_image.py) of the role C(pytorch_image) printed inside a container.
positional: []
options:
  _input:
    description: What the script printed. Its last line is one JSON object.
    type: str
    required: true
  image:
    description: What is expected of the image, as C(cuda), C(nccl_min), C(torch) and C(provider).
    type: dict
    required: true
  container:
    description: What is expected of the container, as C(ports), C(mtu), C(rdma_mtu), C(gpus), C(shm) and C(policies).
    type: dict
    required: true
author:
  - lossless.roce contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Judge what was found inside
  ansible.builtin.set_fact:
    my_findings: "{{ said.stdout | lossless.roce.image_findings(image={'cuda': true}, container=expected) }}"
"""

RETURN = r"""
_value:
  description: The findings.
  type: list
  elements: dict
"""


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
            "container_options": options,
            "image_request": request,
        }
