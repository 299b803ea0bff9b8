# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The main job from end to end on two lab nodes; `make demo` runs it.

Boot bare nodes, bring them to the policy (the second run changes nothing), prove the fabric, break
one setting by hand, see drift name it and repair it, leave a report of either, and say what was shown.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LABCTL = (sys.executable, str(ROOT / "tests" / "lab" / "labctl.py"))
LAB = "demo"
INVENTORY = ROOT / "build" / "lab" / LAB / "inventory"
REPORT = ROOT / "build" / "report"
FAULT = REPORT / "fault"  # what drift found before the repair: in REPORT the repair takes its place
STARTED = time.monotonic()


class DemoFailed(Exception):
    """A step did not end as a user must be able to rely on."""


def say(text: str) -> None:
    """A headline with the time since the start."""
    seconds = int(time.monotonic() - STARTED)
    print(f"\n\033[1m[{seconds // 60:2d}:{seconds % 60:02d}] {text}\033[0m", flush=True)


def lab(*words: str) -> None:
    """Run a command of the lab; its own lines are the progress."""
    if subprocess.run([*LABCTL, *words], cwd=ROOT, check=False).returncode:
        raise DemoFailed(f"labctl {' '.join(words)} failed")


def playbook(name: str, *words: str, report: Path = REPORT, expect_failure: bool = False) -> dict[str, int]:
    """Run a playbook, show what it prints, and return its recap's sums. Raises DemoFailed."""
    argv = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        str(INVENTORY),
        f"lossless.roce.{name}",
        "-e",
        f"roce_report_path={report}",
        *words,
    ]
    env = {**os.environ, "ANSIBLE_DISPLAY_SKIPPED_HOSTS": "false", "PYTHONUNBUFFERED": "1"}
    if sys.stdout.isatty():
        env["ANSIBLE_FORCE_COLOR"] = "1"
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    failed = process.wait() != 0
    if failed != expect_failure:
        raise DemoFailed(f"playbook {name} {'passed, and should have failed' if expect_failure else 'failed'}")
    return recap("".join(lines))


def recap(output: str) -> dict[str, int]:
    """Sums of changed, failed and unreachable over the hosts of the recap."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output).rpartition("PLAY RECAP")[2]
    return {key: sum(map(int, re.findall(rf"\b{key}=(\d+)", plain))) for key in ("changed", "failed", "unreachable")}


def main_job() -> None:
    """What the demo shows, in order."""
    say("Boot two bare nodes (real kernels, Soft-RoCE, simulated mlx5 ports)")
    lab("up", "--name", LAB, "--nodes", "2", "--rails", "1", "--owner-pid", str(os.getpid()))
    say("Bootstrap: packages, kernel modules, limits, and the whole policy in one call per node")
    if playbook("bootstrap")["changed"] == 0:
        raise DemoFailed("the first bootstrap of bare nodes changed nothing")
    say("Bootstrap again: a right node gets no command")
    changed = playbook("bootstrap")["changed"]
    if changed:
        raise DemoFailed(f"the second bootstrap changed {changed} things")
    say("Verify: settings, path MTU, ib_write_bw both ways")
    playbook("verify")
    say("Somebody turns PFC off by hand on node1: dcb pfc set dev ens1np0 prio-pfc all:off")
    lab("ssh", "--name", LAB, "1", "--", "dcb pfc set dev ens1np0 prio-pfc all:off")
    say("Drift names it and changes nothing: this run is meant to fail, and 'changed' counts what a repair would do")
    playbook("drift", report=FAULT, expect_failure=True)
    print("That failure was expected: drift found the fault.", flush=True)
    say("Drift with enforce=true puts it right, and nothing else")
    playbook("drift", "-e", "enforce=true", "--diff")


def shown(report: dict[str, t.Any]) -> list[str]:
    """What a demo that ended well has shown, with the rates that verify measured, from its report.json."""
    rates = [
        f"  {pair['client']} to {pair['server']}, rail {pair['rail']}: {pair['gbps']:.3g} Gb/s measured, "
        f"at least {pair['min_gbps']:.3g} expected"
        for pair in report["runs"]["verify"]["bandwidth"]
    ]
    return [
        "- bootstrap brought two bare nodes to the policy, and a second run changed nothing",
        "- verify proved settings, path MTU and bandwidth (ib_write_bw, on links that the lab slows down):",
        *rates,
        f"- drift named the PFC that was turned off, with cause and remedy: {FAULT / 'report.html'}",
        f"- drift with enforce=true repaired it; bootstrap, verify and the repair: {REPORT / 'report.html'}",
        "The nodes' mlx5 ports are simulated: this shows what the collection does, not what a card does.",
    ]


def main() -> int:
    """Run the demo and take the lab down, whatever happens."""
    failure = ""
    try:
        main_job()
    except DemoFailed as exc:
        failure = str(exc)
    finally:
        say("Take the lab down")
        subprocess.run([*LABCTL, "down", "--name", LAB], cwd=ROOT, check=False)
    if failure:
        say(f"The demo failed: {failure}")
        return 1
    say("Done: every step ended as it should")
    print("\n".join(shown(json.loads((REPORT / "report.json").read_text(encoding="utf-8")))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
