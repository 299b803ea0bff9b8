# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the modules that change ports share: their common options, one call, one exit.

Private to the collection.
"""

from __future__ import annotations

import typing as t

from .errors import RoceError
from .host import Host
from .node import Options, converge_all
from .saved import Declared, Demand
from .settings.base import State
from .settings.registry import SETTINGS

GUARD_OPTIONS: dict[str, t.Any] = {
    "when_busy": {"type": "str", "choices": ["refuse", "force"], "default": "refuse"},
    "allow_busy": {"type": "list", "elements": "str", "default": []},
    "allow_management": {"type": "list", "elements": "str", "default": []},
}
PORT_OPTIONS: dict[str, t.Any] = {"ports": {"type": "list", "elements": "str", "required": True}, **GUARD_OPTIONS}


def run_port_module(
    module: t.Any, wanted: t.Callable[[dict[str, t.Any]], State], strict: bool = True, **extra: t.Any
) -> None:
    """Bring the ports to what ``wanted`` makes of the module's parameters, and exit with ``extra`` results.

    strict: a setting that a port does not have is an error (see Options).
    """
    run_demands(module, lambda: [Demand(tuple(module.params["ports"]), wanted(module.params))], strict, **extra)


def run_demands(
    module: t.Any,
    demands: t.Callable[[], list[Demand]],
    strict: bool = False,
    save: Declared | None = None,
    **extra: t.Any,
) -> None:
    """Bring every group of ports to what is demanded, and exit with ``extra`` results."""
    params = module.params
    options = Options(
        dry_run=module.check_mode,
        strict=strict,
        when_busy=params["when_busy"],
        allow_busy=tuple(params["allow_busy"]),
        allow_management=tuple(params["allow_management"]),
        save=save,
    )
    try:
        result = converge_all(Host(), demands(), SETTINGS, options)
    except RoceError as exc:
        module.fail_json(msg=str(exc))
    for note in result.notes():
        module.warn(note)
    if result.message():
        module.fail_json(msg=result.message(), **result.as_dict(), **extra)
    module.exit_json(**result.as_dict(), **extra)
