"""Where the autoscaler begins to look for a place: its nodes come out of a Go map, begun anew at a random entry.

It lists the nodes it plans with anew after every pod it tries, so pods do not go round the nodes: each lands on the
first fitting node after a random one. Up to eight entries keep the order in which they came, and a walk begins at one
of eight slots, of which the empty ones stand for the first entry; more entries are in no order of their own.

Source: kubernetes/autoscaler 1.35.2, simulator/clustersnapshot/store/delta.go (`buildNodeInfoList`, `clearCaches`) and
predicate/plugin_runner.go (`lastIndex`); Go 1.24 and later, internal/runtime/maps (`Iter.Init`).
"""

import random

SLOTS = 8


def beginning(entries: int, rng: random.Random) -> int:
    """The entry at which one walk begins."""
    if entries > SLOTS:
        return rng.randrange(entries)
    slot = rng.randrange(SLOTS)
    return slot if slot < entries else 0
