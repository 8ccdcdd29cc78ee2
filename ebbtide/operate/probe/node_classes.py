"""Check the EC2NodeClass of a NodePool against the one that the stack would create. Pure.

The condition `Ready` reports whether AWS has its role, subnets, security groups and images. `tags`, `context`,
`detailedMonitoring` and `instanceStorePolicy` end no pod and keep no node; `userData` is not read. Source:
aws/karpenter-provider-aws 1.14.1, `pkg/apis/v1/ec2nodeclass.go`, and `components.cluster.karpenter.pools`.
"""

from collections.abc import Iterator

from components.cluster.karpenter.pools import IMAGES
from controllers.adapters.kube_api import Json
from ebbtide.operate.objects import at, rows_at
from ebbtide.operate.probe.facts import Answer, Denied, NodePoolWant
from ebbtide.operate.probe.findings import ProbeFinding, missing, note
from ebbtide.operate.probe.node_templates import unready
from ebbtide.settings.sections.shapes import NodeSetShape


def class_faults(want: NodePoolWant, name: str, answer: Answer, shape: NodeSetShape | None) -> Iterator[ProbeFinding]:
    """Yield the faults of class `name`, to which NodePool `want` refers, that affect the pods of its set."""
    subject = f"ec2nodeclass {name}"
    if isinstance(answer, Denied):
        yield note(subject, "cannot be read: you need the right to get ec2nodeclasses")
    elif answer is None:
        yield missing(
            subject,
            f"not there, so Karpenter launches no node of nodepool {want.name}; create it, or change nodeClassRef",
        )
    else:
        if fault := unready(answer):
            yield missing(f"{subject} Ready", f"{fault}: Karpenter launches no node of nodepool {want.name}")
        yield from _images(subject, answer)
        yield from _kubelet(subject, answer, shape)
        yield from _machine(subject, answer)
        yield from _reservations(subject, answer)


def _images(subject: str, item: Json) -> Iterator[ProbeFinding]:
    for term in rows_at(item, "spec", "amiSelectorTerms"):
        alias = str(term.get("alias", ""))
        if alias.startswith("windows"):
            yield missing(f"{subject} amiSelectorTerms", f"wanted Linux, found {alias}: no pod of Ebbtide starts")
        elif alias.endswith("@latest"):
            yield note(
                f"{subject} amiSelectorTerms",
                f"{alias}: each new image makes all nodes drift, and they are replaced in the next window; write a "
                f"release (for example {IMAGES})",
            )


def _kubelet(subject: str, item: Json, shape: NodeSetShape | None) -> Iterator[ProbeFinding]:
    kubelet: Json = at(item, "spec", "kubelet") or {}
    if soft := kubelet.get("evictionSoft"):
        found = ", ".join(f"{signal} {threshold}" for signal, threshold in soft.items())
        yield note(
            f"{subject} kubelet.evictionSoft",
            f"{found}: the kubelet then evicts pods, workers included, whatever their budgets; remove it",
        )
    most = kubelet.get("maxPods")
    if shape is not None and most is not None and most < shape.pods:
        yield note(
            f"{subject} kubelet.maxPods",
            f"wanted {shape.pods}, as in the stack file, found {most}: its nodes hold fewer pods",
        )


def _machine(subject: str, item: Json) -> Iterator[ProbeFinding]:
    metadata: Json = at(item, "spec", "metadataOptions") or {}
    hops, tokens = metadata.get("httpPutResponseHopLimit", 1), metadata.get("httpTokens", "required")
    if hops > 1 or tokens != "required":
        yield note(
            f"{subject} metadataOptions",
            f"wanted httpTokens: required and httpPutResponseHopLimit: 1, found {tokens} and {hops}: a pod can take "
            "the role of its node",
        )
    for disk in rows_at(item, "spec", "blockDeviceMappings"):
        ebs: Json = disk.get("ebs") or {}
        if ebs.get("deleteOnTermination") is False:
            yield note(
                f"{subject} blockDeviceMappings {disk.get('deviceName')}",
                "deleteOnTermination: false, so the disk of each removed node stays and is paid for; write true",
            )
        if ebs.get("encrypted") is False:
            yield note(f"{subject} blockDeviceMappings {disk.get('deviceName')} encrypted", "false; write true")
    if at(item, "spec", "associatePublicIPAddress") is True:
        yield note(f"{subject} associatePublicIPAddress", "true, so the internet reaches the nodes; write false")


def _reservations(subject: str, item: Json) -> Iterator[ProbeFinding]:
    blocks = [
        row for row in rows_at(item, "status", "capacityReservations") if row.get("reservationType") == "capacity-block"
    ]
    if blocks:
        ends = ", ".join(str(row.get("endTime", "its end")) for row in blocks)
        yield note(
            f"{subject} capacityReservationSelectorTerms",
            f"a capacity block ends at {ends}, and its nodes are drained shortly before, workers included; leave it "
            "out for jobs that last longer",
        )
