# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every setting there is. A new one is a file beside this one and a line here.

Static imports: Ansible ships only statically imported module_utils to a node.
"""

from __future__ import annotations

import typing as t

from .base import Setting, State
from .buffers import Buffers, Cable
from .channels import Channels
from .cma import Cma
from .cnp import Cnp
from .coalesce import Coalesce
from .dcbx import Dcbx
from .dcqcn import Dcqcn
from .ecn import Ecn
from .ets import Ets
from .features import Features
from .mqprio import Mqprio
from .mtu import Mtu
from .pause import Pause
from .pcie import Pcie
from .pfc import Pfc
from .priv_flags import PrivFlags
from .rings import Rings
from .traffic_class import TrafficClass
from .trust import Trust

if t.TYPE_CHECKING:
    from ..policy import Policy

SETTINGS: tuple[Setting, ...] = (
    Mtu(),
    Rings(),
    Channels(),
    PrivFlags(),
    Coalesce(),
    Features(),
    Pcie(),
    Dcbx(),
    Trust(),
    Ets(),
    Buffers(),
    Cable(),
    Pfc(),
    Pause(),
    Mqprio(),
    Ecn(),
    Cnp(),
    Dcqcn(),
    TrafficClass(),
    Cma(),
)
NAMES = tuple(setting.name for setting in SETTINGS)


def policy_state(policy: Policy) -> State:
    """The wanted value of every setting that the policy manages."""
    wanted = {s.name: s.wanted(policy) for s in SETTINGS if s.name not in policy.unmanaged}
    return {name: value for name, value in wanted.items() if value is not None}
