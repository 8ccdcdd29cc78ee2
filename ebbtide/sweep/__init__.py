"""Many replays at once: stacks, traces, settings and seeds, on the cores of this machine or on a Ray cluster.

May not know: commands, reports, advice. `calls` runs any function many times; the other modules are about replays.
"""
