"""The cluster autoscaler, modelled rule by rule.

`loop` runs the scans; `snapshot` tries pods on nodes; `scale_up` (with `expander`) and `planner` (with `removal`)
decide; `drains` acts.
"""

from ebbtide.lab.simulator.cluster.autoscaler.loop import ModelledAutoscaler
from ebbtide.lab.simulator.cluster.autoscaler.reach import Evictor, MachineControl, Reach
from ebbtide.lab.simulator.cluster.autoscaler.removal import DrainBlock
from ebbtide.lab.simulator.cluster.autoscaler.retention import RetainedNode, Retention

__all__ = ["DrainBlock", "Evictor", "MachineControl", "ModelledAutoscaler", "Reach", "RetainedNode", "Retention"]
