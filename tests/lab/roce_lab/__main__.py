"""`python3 -m roce_lab`: the same as labctl.py."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
