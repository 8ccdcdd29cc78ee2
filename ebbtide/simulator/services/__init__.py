"""A service replayed: requests of a trace, pods that answer them, and the autoscaler's rules between the two.

Pure: settings and counts in, figures out; chance is drawn from a seed, apart for arrivals, service times and balancing,
so that strategies differ by what they do alone. No I/O, no clock. May import the strategies' `hpa`, the trace, the
settings and the calendar's rule; not the world of jobs.
"""
