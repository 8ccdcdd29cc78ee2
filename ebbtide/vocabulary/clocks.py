"""The limit above which two clocks disagree."""

from datetime import timedelta

MAX_CLOCK_SKEW = timedelta(seconds=60)
"""Clocks that differ by more disagree: no decision relies on one of them, and their times are not compared."""
