#!/usr/bin/env python3
"""The lab's command: boot QEMU nodes with Soft-RoCE, reach them, take them down."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from roce_lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
