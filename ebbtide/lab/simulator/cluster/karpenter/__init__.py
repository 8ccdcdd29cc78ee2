"""Karpenter 1.14, modelled rule by rule.

`provisioner` launches nodes for waiting pods, `consolidation` chooses nodes to remove, `loop` runs its passes and
`removal` acts. `packing` simulates kube-scheduler for both; `fleet` is Karpenter's view of its nodes.

Not modelled: drift, expiry, `minValues`, startup taints, spot-to-spot consolidation, volumes, preferences of pods
(Karpenter treats a preferred affinity as required as long as it can), feature gates.
"""

from ebbtide.lab.simulator.cluster.karpenter.loop import ModelledKarpenter
from ebbtide.lab.simulator.cluster.karpenter.model import DisruptionBudget, DisruptionReason, NodePoolModel, TypeModel

__all__ = ["DisruptionBudget", "DisruptionReason", "ModelledKarpenter", "NodePoolModel", "TypeModel"]
