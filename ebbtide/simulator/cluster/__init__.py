"""The modelled cluster: kube-scheduler, ReplicaSets, budgets and the cluster autoscaler in virtual time.

Knows nothing of queues, jobs and the controller, so it can be replayed against recordings of the real thing.
"""

from ebbtide.simulator.cluster.autoscaler import DrainBlock, RetainedNode, Retention
from ebbtide.simulator.cluster.cluster import ClusterModel
from ebbtide.simulator.cluster.model import AutoscalerFlags, Eviction, GroupModel, StopReason, Taint, WorkloadModel
from ebbtide.simulator.cluster.state import Listener, Node, Pod

__all__ = [
    "AutoscalerFlags",
    "ClusterModel",
    "DrainBlock",
    "Eviction",
    "GroupModel",
    "Listener",
    "Node",
    "Pod",
    "RetainedNode",
    "Retention",
    "StopReason",
    "Taint",
    "WorkloadModel",
]
