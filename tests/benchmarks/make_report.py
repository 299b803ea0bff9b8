# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write the report of a simulated fabric of 512 nodes, and print what it took as JSON. See test_report.py.

Usage: make_report.py FOLDER {ring,all,both}
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "build" / "collections"), str(ROOT / "tests" / "unit" / "report")]

import fleet
from ansible_collections.lossless.roce.plugins.plugin_utils.report.run import build_run
from ansible_collections.lossless.roce.plugins.plugin_utils.report.store import now, save

NODES, RAILS = 512, 8


def main(folder: Path, scope: str) -> None:
    """Make the findings, then judge and write them as the action does, then once more into the same folder."""
    hosts = fleet.names(NODES)
    findings = [finding for host in hosts for finding in fleet.settings(host, RAILS, bad=host == "node77")]
    if scope in ("ring", "both"):
        findings += fleet.ring(hosts, RAILS)
    if scope in ("all", "both"):
        findings += fleet.all_pairs(hosts, rail=0, bad=["node77"])
    before_mib = _peak_mib()
    walls = []
    for _time in range(2):
        start = time.monotonic()
        run = build_run("verify", findings, hosts, generated=now(), version="0", timing=fleet.timing(NODES - 1))
        assert save(folder, run) == []
        walls.append(time.monotonic() - start)
    figures = {"findings": len(findings), "pairs": len(run["bandwidth"]), "first_s": walls[0], "again_s": walls[1]}
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    print(json.dumps({**figures, "before_mib": before_mib, "peak_mib": _peak_mib(), "sizes": sizes}))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
