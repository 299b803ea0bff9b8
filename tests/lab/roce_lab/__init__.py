"""A lab of QEMU nodes joined by RoCE rails: real kernels, no hardware.

Standard library only, so that it runs before any virtual environment exists.
"""

from __future__ import annotations

from .errors import LabError
from .lab import Lab
from .node import Node
from .process import Done

__all__ = ["Done", "Lab", "LabError", "Node"]
