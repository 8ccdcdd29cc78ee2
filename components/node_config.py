"""What a node is told when it starts: how many pods it takes. Pure.

With prefix delegation a network interface holds sixteen addresses where it held one, and no longer limits the pods: at
30 vCPUs or fewer a node takes 110, above 250, which is what EKS allows a managed group. Without this text nodes would
come up with the old, smaller number. Of several types the smallest number counts, as in EKS's own reckoning.

The trap: the number goes into the kubelet's configuration and not into nodeadm's `maxPodsExpression`. From the latter
nodeadm also reckons what it reserves, 11 MiB of memory for each pod, so that a node of 32 GiB would lose half a GiB and
with it the worker that just fitted. `ebbtide.prices` counts on the reservation that nodeadm makes by itself.

Sources: EKS user guide, "Assign more IP addresses to Amazon EKS nodes with prefixes"; awslabs/amazon-eks-ami,
nodeadm/doc/examples.md (text of the user data) and nodeadm/internal/kubelet/config.go (the reservation).
"""

from base64 import b64encode
from collections.abc import Sequence

from ebbtide.prices.catalog import instance_type

_USER_DATA = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="EBBTIDE"

--EBBTIDE
Content-Type: application/node.eks.aws

---
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxPods: {max_pods}

--EBBTIDE--
"""


def most_pods(instance_types: Sequence[str]) -> int:
    """How many pods every node of a group of these types takes."""
    return min(instance_type(name).max_pods for name in instance_types)


def user_data(max_pods: int) -> str:
    """For a launch template: one part, which EKS joins with its own, in base64."""
    return b64encode(_USER_DATA.format(max_pods=max_pods).encode()).decode()
