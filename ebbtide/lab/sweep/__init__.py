"""Many replays at once: stacks, traces, settings and seeds, on the cores of this machine or on a Ray cluster.

It may not import commands, reports or advice. `calls` runs any function many times; the other modules run replays.
"""
