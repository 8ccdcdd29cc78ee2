"""Options of the cluster autoscaler that the product sets and the simulator replays, as values.

The reasons for the flags are in `components.cluster.autoscaler_settings`.
"""

from collections.abc import Mapping
from datetime import timedelta

from ebbtide.provisioning_labels import NodeKind

EXPANDER = "priority,least-waste"
DELAY_AFTER_ADD = timedelta(minutes=3)
UNREMOVABLE_RECHECK = timedelta(minutes=1)

USUAL_BACKOFF, LONGEST_BACKOFF = timedelta(minutes=5), timedelta(minutes=30)
"""First and longest pause of an Auto Scaling group after a failed launch: the autoscaler's defaults. Each failure after
a pause doubles it."""

THRESHOLD = 0.65
"""Utilization below which a node may be removed. A node above it is never considered, whatever the budgets. A higher
threshold thrashes: docs/adr/0005. On GPU nodes only GPU utilization counts; on other nodes it never does."""

UNNEEDED: Mapping[NodeKind, timedelta] = {
    NodeKind.FLEXIBLE: timedelta(minutes=1),
    NodeKind.GPU: timedelta(minutes=3),
    NodeKind.SPOT: timedelta(minutes=1),
}
"""How long a node is unneeded before the autoscaler removes it.

Keeping a node for longer than it takes to boot costs more than the boot; but a job that finds no GPU waits longest.
Chosen by replays of public traces on held-out weeks: docs/evidence/defaults.md.

Fixed groups set neither option: the autoscaler's careful defaults apply, below half utilization for ten minutes.
"""


def unneeded_time(kind: NodeKind, *, gpus: bool) -> timedelta | None:
    """Return the time of a group; None for fixed groups. Spot nodes with GPUs wait as long as other GPU nodes."""
    return UNNEEDED.get(NodeKind.GPU if gpus else kind)
