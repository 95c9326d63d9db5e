"""What can be wrong with a file, as a sentence that says what and what to do."""

from __future__ import annotations


class Unreadable(Exception):  # noqa: N818
    """A file that is no trace, is damaged, or is of a newer schema."""


class Busy(Exception):  # noqa: N818
    """A recording that another recorder writes now."""
