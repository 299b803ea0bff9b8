# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The policy saved on a node: when it is written, what is said of it, and what is refused."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.lossless.roce.plugins.module_utils.errors import HostError, PolicyError
from ansible_collections.lossless.roce.plugins.module_utils.node import Options, Result, converge_all
from ansible_collections.lossless.roce.plugins.module_utils.saved import (
    ENABLED,
    PATH,
    PROGRAM,
    Declared,
    parse_saved,
)
from ansible_collections.lossless.roce.plugins.module_utils.settings.registry import SETTINGS
from hypothesis import given
from hypothesis import strategies as st
from sim_node import SimNode, SimPort


def node(*, agent: bool = True) -> SimNode:
    """A node with two ports at factory defaults, with or without what applies a saved policy at boot."""
    made = SimNode({"ens1np0": SimPort("mlx5_0"), "ens2np0": SimPort("mlx5_1")})
    if agent:
        made.files |= {PROGRAM: "", ENABLED: ""}
    return made


def declared(policy: dict[str, t.Any] | None = None, *ports: str) -> Declared:
    """One policy on both ports."""
    return Declared(((ports or ("ens1np0", "ens2np0"), policy or {}),))


def run(host: SimNode, what: Declared, *, save: bool = True, **options: t.Any) -> Result:
    """A whole run."""
    return converge_all(host, what.demands(), SETTINGS, Options(save=what if save else None, **options))


def on_disk(result: Result) -> list[tuple[str, str]]:
    """Verdict and cause on what is saved."""
    return [(finding.verdict, finding.cause) for finding in result.findings() if finding.check == "on_disk"]


def test_a_run_that_ends_right_saves_and_the_next_one_writes_nothing() -> None:
    host = node()
    predicted, done = run(host, declared(), dry_run=True).as_dict(), run(host, declared()).as_dict()
    for key in ("changed", "diff", "commands", "ports"):
        assert predicted[key] == done[key], key
    assert done["diff"]["before"][PATH] is None and done["diff"]["after"][PATH]["policies"][0]["policy"] == {}
    assert json.loads(host.files[PATH])["policies"] == [{"policy": {}, "ports": ["ens1np0", "ens2np0"]}]
    host.written.clear()
    again = run(host, declared())
    assert host.written == [] and not again.as_dict()["changed"] and again.as_dict()["commands"] == []
    assert on_disk(again) == [("pass", "")]


def test_only_the_file_differs_and_the_run_says_so() -> None:
    host = node()
    run(host, declared({"link_gbps": 100}))
    report = run(host, declared({"link_gbps": 200}), dry_run=True)
    assert on_disk(report) == [("fail", "another policy is saved, and would come back after the next boot")]
    assert report.as_dict()["changed"]
    done = run(host, declared({"link_gbps": 200})).as_dict()
    assert done["changed"] and [command[:2] for command in done["commands"]] == [["write", PATH]]
    assert not run(host, declared({"link_gbps": 200})).as_dict()["changed"]


def test_every_setting_shows_its_saved_value() -> None:
    host = node()
    run(host, declared({"data_prio": 4}))
    found = {f.check: f for f in run(host, declared({}), dry_run=True).findings() if f.port == "ens1np0"}
    assert found["pfc"].layers == {
        "declared": {"enabled_prios": [3]},
        "running": {"enabled_prios": [4]},
        "on_disk": {"enabled_prios": [4]},
    }
    assert all("on_disk" in finding.layers for finding in found.values())
    after = {f.check: f for f in run(host, declared({})).findings() if f.port == "ens1np0"}
    assert after["pfc"].layers["on_disk"] == {"enabled_prios": [3]}, "the file that the run has written"


def test_a_failed_port_leaves_the_former_file_and_that_is_said() -> None:
    host = node()
    run(host, declared())
    former = host.files[PATH]
    host.fail = lambda line: line.startswith("dcb pfc set dev ens2np0")
    result = run(host, declared({"data_prio": 4}))
    assert host.files[PATH] == former
    assert list(result.failed()) == ["ens2np0"]
    assert on_disk(result) == [("fail", f"{PATH} was left as it is, since not all ports are as declared")]
    assert f"{PATH} was left as it is" in result.message()
    busy = run(host, declared({"data_prio": 5}, "ens1np0", "ens9np0"), dry_run=True)
    assert PATH not in busy.as_dict()["diff"]["after"], "a port that is not there: the file would stay"


def test_a_failed_port_on_a_bare_node_leaves_nothing_saved() -> None:
    host = node()
    host.fail = lambda line: line.startswith("dcb pfc set dev ens2np0")
    result = run(host, declared())
    assert PATH not in host.files and result.as_dict()["changed"], "the other port has changed"
    assert on_disk(result) == [("fail", f"{PATH} was not written, since not all ports are as declared")]


def test_a_failed_port_says_nothing_against_the_policy_that_is_saved_already() -> None:
    host = node()
    run(host, declared())
    host.ports["ens1np0"].pfc = set()
    host.fail = lambda line: line.startswith("dcb pfc set dev ens1np0")
    assert on_disk(run(host, declared())) == [("pass", "")]


def test_a_file_that_cannot_be_written_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    host = node()

    def full(path: str, _content: str) -> None:
        raise HostError(f"{path}: cannot write: No space left on device")

    plain = host.write
    monkeypatch.setattr(host, "write", lambda path, text: full(path, text) if path == PATH else plain(path, text))
    result = run(host, declared())
    assert "the policy could not be saved" in result.message() and "No space left" in result.message()
    assert result.failed() == {} and host.ports["ens1np0"].pfc == {3}
    assert [verdict for verdict, _cause in on_disk(result)] == ["fail"]


def test_a_saved_policy_that_nothing_applies_is_no_pass() -> None:
    result = run(node(agent=False), declared())
    ((verdict, cause),) = on_disk(result)
    assert verdict == "fail" and "nothing applies it at boot" in cause
    assert result.message() == "", "the run itself ended right"


@pytest.mark.parametrize(
    ("missing", "observed", "expected"),
    [
        ((ENABLED,), {"boot_unit": "disabled"}, {"boot_unit": "enabled"}),
        ((PROGRAM,), {"program": "missing"}, {"program": "installed"}),
        (
            (PROGRAM, ENABLED),
            {"program": "missing", "boot_unit": "disabled"},
            {"program": "installed", "boot_unit": "enabled"},
        ),
    ],
)
def test_what_is_wanting_for_the_next_boot_is_shown(
    missing: tuple[str, ...], observed: dict[str, str], expected: dict[str, str]
) -> None:
    host = node()
    for path in missing:
        del host.files[path]
    (found,) = (finding for finding in run(host, declared()).findings() if finding.check == "on_disk")
    assert (found.observed, found.expected) == (observed, expected)
    assert all(path in found.evidence for path in missing)


def test_the_remedy_on_a_bare_node_is_bootstrap() -> None:
    report = run(node(agent=False), declared(), dry_run=True)
    wrong = {finding.check: finding for finding in report.findings() if finding.verdict == "fail"}
    assert {"on_disk", "pfc"} <= set(wrong)
    for finding in wrong.values():
        assert "run playbook lossless.roce.bootstrap, or drift with enforce=true" in finding.remedy


def test_what_is_not_managed_is_left_alone() -> None:
    host = node()
    assert on_disk(run(host, declared(), save=False)) == []
    assert PATH not in host.files
    run(host, declared())
    former = host.files[PATH]
    result = run(host, declared({"data_prio": 4}), save=False)
    assert [verdict for verdict, _cause in on_disk(result)] == ["skipped"]
    assert host.files[PATH] == former


def test_a_broken_file_is_named_and_replaced() -> None:
    host = node()
    run(host, declared())
    host.files[PATH] = '{"format": 1,,}'
    report = run(host, declared(), dry_run=True)
    ((verdict, cause),) = on_disk(report)
    assert verdict == "fail" and "broken" in cause and "line 1 column 14" in cause
    assert all("on_disk" not in finding.layers for finding in report.findings())
    assert on_disk(run(host, declared())) == [("pass", "saved by this run")]
    assert parse_saved(host.files[PATH]) == declared()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("[" * 100000, "is not JSON"),
        ("[]", "format: None … 1 was expected"),
        ('{"format": 2}', "format: 2 … 1 was expected"),
        ('{"format": 1, "policies": []}', "policies: a list"),
        ('{"format": 1, "policies": [{"ports": "ens1np0", "policy": {}}]}', "policies: a list"),
        ('{"format": 1, "policies": [{"ports": ["a"], "policy": {}}]}', "allow_management: a list"),
        (declared({"data_prio": 6}).text(), "data_prio and cnp_prio are both 6"),
        (declared({"colour": 6}).text(), "unknown field 'colour'"),
    ],
)
def test_a_saved_policy_that_is_wrong_is_one_clear_error(text: str, says: str) -> None:
    with pytest.raises(PolicyError, match=PATH) as caught:
        parse_saved(text)
    assert says in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["format", "policies", "ports", "policy"]), inner),
)


@given(st.text() | JSON.map(json.dumps))
def test_garbage_is_never_anything_but_a_policy_error(text: str) -> None:
    with pytest.raises(PolicyError):
        parse_saved(text)


NAMES = st.lists(st.text(min_size=1), max_size=3).map(tuple)


@given(NAMES, NAMES, st.sampled_from([{}, {"mtu": 9000}, {"dscp_map": {"10": 5}}, {"unmanaged": ["ets"]}]))
def test_what_was_saved_is_read_back(ports: t.Any, allowed: t.Any, policy: dict[str, t.Any]) -> None:
    what = Declared(((ports, policy),), allowed)
    assert parse_saved(what.text()) == what


# -- several policies ------------------------------------------------------------------------------


def test_two_policies_in_one_run() -> None:
    host = node()
    both = Declared(((("ens1np0",), {}), (("mlx5_1",), {"data_prio": 4})))
    assert run(host, both).message() == ""
    assert (host.ports["ens1np0"].pfc, host.ports["ens2np0"].pfc) == ({3}, {4})
    host.sets.clear()
    again = run(host, both).as_dict()
    assert host.sets == [] and not again["changed"]
    saved = {(f["port"], f["check"]): f["layers"].get("on_disk") for f in again["findings"]}
    assert saved["ens1np0", "pfc"] == {"enabled_prios": [3]} and saved["ens2np0", "pfc"] == {"enabled_prios": [4]}


@pytest.mark.parametrize("second", ["ens1np0", "mlx5_0"])
def test_two_policies_that_select_one_port_are_refused(second: str) -> None:
    host = node()
    both = Declared(((("ens1np0", "ens2np0"), {}), ((second,), {"data_prio": 4})))
    with pytest.raises(PolicyError, match=r"mlx5_0/ens1np0 is selected by policies\[0\] and by policies\[1\]"):
        run(host, both)
    assert host.sets == [] and host.written == []


def test_a_wrong_policy_among_several_is_named() -> None:
    with pytest.raises(PolicyError, match=r"^policies\[1\]: roce_policy: data_prio and cnp_prio are both 6"):
        Declared(((("ens1np0",), {}), (("ens2np0",), {"data_prio": 6}))).demands()
    with pytest.raises(PolicyError, match="none are declared"):
        Declared(()).demands()
