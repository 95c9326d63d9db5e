"""This version of gputop."""

__version__ = "0.1.0"
