"""What the autoscaler takes a new node of a group for: a real one it has seen for a minute, before that a made-up one.

The providers' made-up node carries a kube-proxy pod of its own, so a group that was never seen running may take fewer
pods in the estimate than on its nodes; whoever sizes pods to fill a node exactly never gets one from zero.

Source: kubernetes/autoscaler 1.35.2, processors/nodeinfosprovider/mixed_nodeinfos_processor.go (`stabilizationDelay`,
the cache of former nodes) and cloudprovider/utils.go (`BuildKubeProxy`, 100 millicores).
"""

from collections.abc import Iterable

from ebbtide.simulator.cluster.model import GroupModel
from ebbtide.simulator.cluster.state import Node, Room

SEEN_FOR_S = 60.0


class Templates:
    def __init__(self, groups: Iterable[GroupModel]) -> None:
        self._made_up = {group.name for group in groups if group.template_less_cpu_m}
        self.next_seen: float | None = None  # when the next group will have been seen for long enough

    def learn(self, nodes: Iterable[Node], now: float) -> None:
        """Once seen, a group's node is remembered, whether the group keeps one or not."""
        self.next_seen = None
        if not self._made_up:
            return
        seen = [(node.ready_at + SEEN_FOR_S, node.group) for node in nodes if node.ready]
        self._made_up -= {group for at, group in seen if at < now}
        self.next_seen = min((at for at, group in seen if group in self._made_up), default=None)

    def room(self, group: GroupModel) -> Room:
        """What pods find on a new node."""
        room = Room(group)
        if group.name in self._made_up:
            room.cpu_m -= group.template_less_cpu_m
            room.pods_left -= 1
        return room
