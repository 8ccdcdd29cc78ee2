"""The cluster autoscaler, by its own rules: what it sees, what it decides, what it carries out.

`loop` runs the parts; `snapshot` is what-if space; `scale_up` (with `estimator`, `expander`) and `planner`
(with `removal`) decide; `drains` acts.
"""

from ebbtide.simulator.cluster.autoscaler.loop import ModelledAutoscaler
from ebbtide.simulator.cluster.autoscaler.reach import Evictor, MachineControl, Reach
from ebbtide.simulator.cluster.autoscaler.removal import DrainBlock
from ebbtide.simulator.cluster.autoscaler.retention import RetainedNode, Retention

__all__ = ["DrainBlock", "Evictor", "MachineControl", "ModelledAutoscaler", "Reach", "RetainedNode", "Retention"]
