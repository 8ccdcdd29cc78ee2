"""When two clocks disagree."""

from datetime import timedelta

MAX_CLOCK_SKEW = timedelta(seconds=60)
"""Clocks that differ by more disagree: nothing is decided by one of them alone, and their times are not compared."""
