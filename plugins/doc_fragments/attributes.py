# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation that all modules share: what they can do in check mode and the like."""

from __future__ import annotations


class ModuleDocFragment:
    """Extended as ``lossless.roce.attributes``; a module states its own ``support``."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and tell what would change without changing the node.
    support: none
  diff_mode:
    description: Returns what changed, or would change in C(check_mode), when in diff mode.
    support: none
  idempotent:
    description: When run a second time with the same options, it changes nothing and reports C(changed=false).
    support: none
  action_group:
    description: Use C(group/lossless.roce.all) in C(module_defaults) to set the defaults of options that modules share.
    support: full
    membership:
      - lossless.roce.all
"""
