"""The namespace and the workload that a row names: of a pod by its ARN and tags, of volumes and load balancers by tags.

Keys of tags have underscores only. Volumes have the tags of the EBS driver, load balancers those of the AWS Load
Balancer Controller or of Kubernetes' own. Names of claims are left out: they often name people.
Source: AWS Data Exports User Guide, "Understanding split cost allocation data"; the drivers' documentation of tags.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from ebbtide.lab.ledger.bill.lines import Part
from ebbtide.lab.ledger.bill.report import LineItem, kubernetes_name

_POD = re.compile(r"arn:[\w-]+:eks:[\w-]+:\d{12}:pod/[\w-]+/(?P<namespace>[a-z0-9-]+)/")
_OURS, _DEPLOYMENT, _WORKLOAD, _KIND = (
    "ebbtide_dev_workload",
    "aws_eks_deployment",
    "aws_eks_workload_name",
    "aws_eks_workload_type",
)
_SCHEDULED = re.compile(r"-\d{8,10}$")
"""The suffix of a CronJob's Jobs: their scheduled time in minutes since 1970."""
_CLAIM = "kubernetes_io_created_for_pvc_namespace"
_SERVICES = ("service_k8s_aws_stack", "kubernetes_io_service_name", "ingress_k8s_aws_stack")
"""Tags in the form namespace/name. A group of Ingresses has a bare name, and belongs to no namespace."""


class Owner(NamedTuple):
    """A namespace and a workload or Service; "" for what the row does not name."""

    namespace: str = ""
    workload: str = ""


def owner_of_pod(row: LineItem, tags: Mapping[str, str]) -> Owner | None:
    """Return whose pod a row is about; None for rows of other resources.

    The ARN has the namespace, but only tags have the workload. Ebbtide's own label is among them if AWS imports
    Kubernetes' labels.
    """
    pod = _POD.match(row.line_item_resource_id)
    if pod is None:
        return None
    name = tags.get(_WORKLOAD, "")
    names = (tags.get(_OURS), tags.get(_DEPLOYMENT), _SCHEDULED.sub("", name) if tags.get(_KIND) == "Job" else name)
    return Owner(kubernetes_name(pod["namespace"]), next((kubernetes_name(name) for name in names if name), ""))


def owner_of(part: Part, tags: Mapping[str, str]) -> Owner:
    """Return whose volume or load balancer a row is about."""
    if part is Part.VOLUMES:
        return Owner(kubernetes_name(tags.get(_CLAIM, "")))
    if part is Part.BALANCERS:
        named = (tags[key].partition("/") for key in _SERVICES if "/" in tags.get(key, ""))
        namespace, _, name = next(named, ("", "", ""))
        return Owner(kubernetes_name(namespace), kubernetes_name(name))
    return Owner()
