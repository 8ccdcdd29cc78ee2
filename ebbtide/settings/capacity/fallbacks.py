"""The pause of an Auto Scaling group after a failed launch, by the fallbacks of a stack. Pure.

A spot group has an Auto Scaling group for each shape and zone. Without spot capacity their launches fail one after the
other: for one pending pod the cluster autoscaler grows one of them at a time. AWS reports the failed launch, and the
autoscaler reads it within a minute, takes the request back and pauses the group; then it tries the next one.

The trap: if the first one's pause ends before the last one has failed, the autoscaler begins again with the first, and
the fallback never grows. So the first pause lasts as long as all of them need, up to the longest pause; a spot group
with more Auto Scaling groups than fit into it has a caution (`ebbtide.settings.checks.spot_cautions`).

Sources: kubernetes/autoscaler 1.35.2, cloudprovider/aws/auto_scaling_groups.go (isNodeGroupAvailable), aws_manager.go
(refreshInterval), utils/backoff/exponential_backoff.go; its issue 4958 for the trap. The tag
`autoscaling-options/maxnodeprovisiontime` would not help: aws_manager.go (GetAsgOptions) does not read it.
"""

from datetime import timedelta

from ebbtide.kube.autoscaler import LONGEST_BACKOFF, USUAL_BACKOFF
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.settings.model import StackSettings

NOTICED_WITHIN = timedelta(minutes=2)
"""From a launch without capacity to the pause: a minute for AWS' report, which is assumed, and one until it is read."""


MOST_GROUPS = LONGEST_BACKOFF // NOTICED_WITHIN
"""Auto Scaling groups of one spot group that can all fail within the longest pause."""


def groups_before_fallback(settings: StackSettings) -> dict[str, int]:
    """Return the number of Auto Scaling groups of each spot group with a fallback under the cluster autoscaler."""
    return {
        name: len(parts_of(name, group)) * len(settings.cluster.zones)
        for name, group in settings.autoscaled_groups.items()
        if group.has_fallback
    }


def first_backoff(settings: StackSettings) -> timedelta:
    """Return the first pause of every Auto Scaling group of the stack, 5 to 30 minutes; 5 without a fallback."""
    most = max(groups_before_fallback(settings).values(), default=0)
    return min(LONGEST_BACKOFF, max(USUAL_BACKOFF, NOTICED_WITHIN * most))
