"""What can go wrong in the lab, told in one line."""

from __future__ import annotations


class LabError(Exception):
    """The lab cannot do what was asked; the text is meant for people."""


class Interrupted(BaseException):
    """SIGINT or SIGTERM came: everything is torn down on the way out."""
