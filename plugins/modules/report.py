#!/usr/bin/python
# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Judge findings, print their summary and write the report
version_added: 0.1.0
description:
  - Takes the findings that modules and roles of this collection return, and gives them one verdict.
  - Prints a summary and writes C(report.html), one file that needs no network, the same as data in C(report.json),
    C(junit.xml) for CI systems, and C(lossless_roce.prom) for the textfile collector of node_exporter.
  - Runs on the control node only, once for all hosts of the play. No host is connected to.
    With C(run_once) all hosts get the registered result, and without it the first one.
  - Several playbooks may write into one folder, one after the other. Each run has a title, and is a section of the
    report. A new run takes the place of the former run with the same title.
  - A host of O(hosts) without any finding fails as C(reached), since it gave no answer.
  - Writing the report changes no node, so RV(ignore:changed) is always V(false).
author:
  - lossless.roce contributors (!UNKNOWN)
extends_documentation_fragment:
  - lossless.roce.attributes
attributes:
  check_mode:
    support: full
    details: Prints the summary and returns the verdict, and writes nothing.
  diff_mode:
    support: none
  idempotent:
    support: full
    details: Never reports a change. The files carry the time of the run.
  action_group:
    support: none
options:
  title:
    description:
      - Name of the run, such as V(bootstrap), V(drift) or V(verify). It names the run's files.
      - Letters, digits, C(-) and C(_), at most 64 of them. V(report) is taken.
    type: str
    required: true
  findings:
    description:
      - Findings as modules of this collection return them, each with C(check) and C(verdict), and where known
        C(observed), C(expected), C(evidence), C(cause), C(remedy), C(host), C(port) and C(layers).
      - A finding that is not as it should be fails the task, with its place in the list.
    type: list
    elements: dict
    required: true
  hosts:
    description: Hosts that were meant to give findings.
    type: list
    elements: str
    default: []
  path:
    description: Folder for the report, made if missing. A relative one starts where Ansible was started.
    type: path
    default: build/report
  fail:
    description: Whether the task fails when the verdict of this run is V(fail).
    type: bool
    default: true
  ports:
    description:
      - What the ports of each host are, as a mapping of host names to lists of mappings, for the settings of a node.
      - C(netdev), C(ibdev), C(pci), C(numa_node), C(driver), C(state) and C(speed_gbps) are shown.
    type: dict
  bandwidth:
    description:
      - Measured pairs that no finding carries, each with C(client), C(server), C(rail), C(gbps) and C(min_gbps).
      - They are drawn in the heat map and have no say in the verdict.
      - Findings of check C(ib_write_bw) are drawn without being named here.
    type: list
    elements: dict
  timing:
    description:
      - How long the rounds of the bandwidth tests took, as filter P(lossless.roce.fabric_timing#filter) returns it.
      - A mapping with C(rounds), a list of mappings with C(round), C(seconds) and C(ideal_s), and where known
        C(wall_s), C(ideal_s) and C(ratio) of all; what is not given of these is reckoned from the rounds.
      - It is shown, and has no say in the verdict.
    type: dict
"""

EXAMPLES = r"""
- name: Write the report and fail if a check failed
  lossless.roce.report:
    title: verify
    hosts: "{{ ansible_play_hosts_all }}"
    findings: "{{ ansible_play_hosts_all | map('extract', hostvars) | lossless.roce.findings }}"
  run_once: true
  delegate_to: localhost

- name: Only look, and keep the report elsewhere
  lossless.roce.report:
    title: drift
    hosts: "{{ groups['roce_nodes'] }}"
    findings: "{{ groups['roce_nodes'] | map('extract', hostvars) | lossless.roce.findings }}"
    path: /var/www/html/roce
    fail: false
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
msg:
  description: One line that says how the run went.
  returned: always
  type: str
  sample: "verify: 2 of 33 checks failed on node2 (ib_write_bw, pfc); see /srv/fabric/build/report/report.html"
verdict:
  description:
    - V(fail) if any finding failed; else V(pending) if any is pending; else V(unknown) if any is unknown; else V(pass).
    - V(unknown) too where no finding passed, since nothing was shown then.
  returned: success and failure
  type: str
  sample: pass
summary:
  description: How many findings have each verdict, and their C(total).
  returned: success and failure
  type: dict
  sample: {fail: 2, pending: 0, unknown: 0, skipped: 1, pass: 30, total: 33}
hosts:
  description: Hosts that were meant to answer or have findings, in natural order.
  returned: success and failure
  type: list
  elements: str
  sample: [node1, node2, node10]
report:
  description: Path of the page with all runs of the folder.
  returned: when the report was written
  type: str
  sample: /srv/fabric/build/report/report.html
json:
  description: Path of the same as data.
  returned: when the report was written
  type: str
  sample: /srv/fabric/build/report/report.json
junit:
  description: Path of the same for CI systems.
  returned: when the report was written
  type: str
  sample: /srv/fabric/build/report/junit.xml
prometheus:
  description: Path of the metrics, for the textfile collector of node_exporter.
  returned: when the report was written
  type: str
  sample: /srv/fabric/build/report/lossless_roce.prom
"""
