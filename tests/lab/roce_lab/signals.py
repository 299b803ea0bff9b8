"""Signals: end tidily on the first, finish tidying whatever comes."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from .errors import Interrupted


@contextlib.contextmanager
def _handlers(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's affair
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in former.items():
            signal.signal(number, old)


def _raise(number: int, _frame: Any) -> None:
    raise Interrupted(signal.Signals(number).name)


def interruptible() -> contextlib.AbstractContextManager[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into an exception."""
    return _handlers(_raise)


def uninterruptible() -> contextlib.AbstractContextManager[None]:
    """Let tearing down finish."""
    return _handlers(signal.SIG_IGN)
