"""Replays of a service: requests of a trace, pods that answer them, and the autoscaler's rules.

Pure: settings and counts in, figures out. Arrivals, service times and balancing have separate random generators, so
strategies differ only by their decisions. No I/O, no clock. May import the strategies' `hpa`, the trace, the settings
and the calendar's rule; not the world of jobs.
"""
