"""The modelled cluster: kube-scheduler, ReplicaSets, budgets and the cluster autoscaler in virtual time.

It does not know queues, jobs or the controller, so it can be compared with recordings of real clusters.
"""

from ebbtide.lab.simulator.cluster.autoscaler import DrainBlock, RetainedNode, Retention
from ebbtide.lab.simulator.cluster.cluster import ClusterModel
from ebbtide.lab.simulator.cluster.model import AutoscalerFlags, Eviction, GroupModel, StopReason, WorkloadModel
from ebbtide.lab.simulator.cluster.state import Listener, Node, Pod

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
    "WorkloadModel",
]
