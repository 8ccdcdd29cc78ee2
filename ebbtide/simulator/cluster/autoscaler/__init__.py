"""The cluster autoscaler, by its own rules: what it sees, what it decides, what it carries out.

`loop` runs the parts; `snapshot` is what-if space; `scale_up` (with `estimator`, `expander`) and `planner`
(with `removal`) decide; `drains` acts.
"""

from ebbtide.simulator.cluster.autoscaler.kept import Keeps, Kept
from ebbtide.simulator.cluster.autoscaler.loop import Autoscaler
from ebbtide.simulator.cluster.autoscaler.reach import Evictor, Fleet, Reach
from ebbtide.simulator.cluster.autoscaler.removal import Why

__all__ = ["Autoscaler", "Evictor", "Fleet", "Keeps", "Kept", "Reach", "Why"]
