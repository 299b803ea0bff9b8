# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the demo says at its end, and how it runs the step that is meant to fail."""

from __future__ import annotations

import typing as t

import demo
import pytest

PAIR = {"client": "node2", "server": "node1", "rail": "0", "gbps": 0.049342, "min_gbps": 0.045, "verdict": "pass"}


def test_the_end_says_what_was_shown_with_the_rates_and_both_pages() -> None:
    said = "\n".join(
        demo.shown({"runs": {"verify": {"bandwidth": [PAIR, {**PAIR, "client": "node1", "server": "node2"}]}}})
    )
    assert "node2 to node1, rail 0: 0.0493 Gb/s measured, at least 0.045 expected" in said
    assert "node1 to node2, rail 0" in said
    assert str(demo.FAULT / "report.html") in said and str(demo.REPORT / "report.html") in said
    assert "simulated" in said


def test_the_failure_that_is_meant_has_a_page_of_its_own_and_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, dict[str, t.Any]]] = []

    def playbook(name: str, *_words: str, **options: t.Any) -> dict[str, int]:
        calls.append((name, options))
        return {"changed": 1 if len(calls) == 1 else 0}

    monkeypatch.setattr(demo, "playbook", playbook)
    monkeypatch.setattr(demo, "lab", lambda *_words: None)
    demo.main_job()
    assert [name for name, _options in calls] == ["bootstrap", "bootstrap", "verify", "drift", "drift"]
    assert calls[3][1] == {"report": demo.FAULT, "expect_failure": True}
    assert all(not options for _name, options in [*calls[:3], calls[4]])
    said = capsys.readouterr().out
    assert "is meant to fail" in said and "That failure was expected" in said
