"""Progress lines with the seconds since the start."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Writes lines such as `[ 12s] booting node1` to a stream, or nowhere."""

    def __init__(self, stream: TextIO | None = sys.stderr) -> None:
        self._stream = stream
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since this object was made."""
        return time.monotonic() - self._start

    def __call__(self, text: str) -> None:
        """Write one line."""
        if self._stream is not None:
            print(f"[{self.elapsed:4.0f}s] {text}", file=self._stream, flush=True)
