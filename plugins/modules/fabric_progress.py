#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_progress
short_description: Show how far a matrix of bandwidth tests is
version_added: 0.1.0
description:
  - Prints a line for each step that M(lossless.roce.fabric_bandwidth) has done on one host.
  - Returns when that host is through, or cannot be reached any more.
  - Runs once for all hosts of the play and looks at the first, or with C(delegate_to) at another one. Hosts keep step,
    so one stands for all.
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
attributes:
  check_mode:
    support: full
    details: Skipped in check mode, in which no test runs.
  diff_mode:
    support: N/A
  idempotent:
    support: full
  action_group:
    support: full
options:
  run:
    description: The run to look for, as given to M(lossless.roce.fabric_bandwidth).
    type: str
    required: true
  limit:
    description: Seconds after which to stop looking.
    type: float
    required: true
  interval:
    description: Seconds between two looks.
    type: float
    default: 5
  job:
    description:
      - File of the background job, C(results_file) of the task that started it.
      - With it the task also ends when the job has ended early, such as by an error.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Follow the tests
  lossless.roce.fabric_progress:
    run: "{{ run }}"
    limit: 600
    job: "{{ started.results_file }}"
"""

RETURN = r"""
status:
  description: The last status that was seen - C(run), C(name), C(step), C(steps), C(left_s), C(done), C(pid).
  returned: when not in check mode
  type: dict
lost:
  description: Whether the host could not be reached any more. Another one can be looked at then.
  returned: when not in check mode
  type: bool
"""
