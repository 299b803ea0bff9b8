# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The page in a real browser. Skipped where there is no chromium."""

from __future__ import annotations

import re
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.lossless.roce.plugins.plugin_utils.report.page import render
from ansible_collections.lossless.roce.plugins.plugin_utils.report.store import combined

Make = t.Callable[..., t.Any]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# Runs after the page's own script, and leaves what it saw in the page.
PROBE = """
<pre id="probe"></pre>
<script>
const seen = () => [...document.querySelectorAll("[data-verdict]")].filter((row) => !row.hidden).length;
const set = (id, value) => {
  const field = document.getElementById(id);
  field.value = value;
  field.dispatchEvent(new Event("input", {bubbles: true}));
};
const results = [seen()];
set("by-verdict", "fail"); results.push(seen());
set("by-host", "NODE10"); results.push(seen());
set("by-verdict", ""); set("by-host", ""); set("by-text", "was reset"); results.push(seen());
results.push(document.getElementById("matches").textContent);
set("by-text", ""); results.push(seen());
const cell = document.querySelector(".heat td.bad");
cell.dispatchEvent(new MouseEvent("mouseover", {bubbles: true}));
results.push(document.querySelector(".readout").textContent);
results.push(/ago/.test(document.querySelector("time").textContent));
results.push(performance.getEntriesByType("resource").length);
document.getElementById("probe").textContent = results.join("|");
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")
def test_the_filter_and_the_heat_map_work(tmp_path: Path, make_finding: Make, make_pair: Make, make_run: Make) -> None:
    run = make_run(
        [
            make_finding(host="node2", verdict="fail", cause="the mask was reset"),
            make_finding(host="node10", verdict="fail"),
            make_finding(host="node1", check="mtu"),
            make_pair("node1", "node2", 20),
        ],
        generated="2020-01-01T00:00:00Z",
    )
    page = tmp_path / "report.html"
    page.write_text(render(combined([run])).replace("</body>", PROBE + "</body>"), encoding="utf-8")
    done = subprocess.run(
        [str(BROWSER), *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout)
    assert found
    # Rows: three of the grid, two problems with pfc, one failed pair, one other pass.
    assert found[1].split("|") == [
        "7",
        "6",
        "2",
        "1",
        "1 of 7 rows",
        "7",
        "client node1, server node2: 20 Gb/s",
        "true",
        "0",
    ]
