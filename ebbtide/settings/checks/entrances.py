"""Check Ingresses and load balancers against each other, the network and the cluster."""

import re
from collections.abc import Iterator

from ebbtide.settings.checks.parsed import CheckRule, ParsedSections
from ebbtide.settings.file.document import REGION
from ebbtide.settings.file.keys import CLUSTER, NETWORK, WORKLOADS
from ebbtide.settings.file.problems import Finding, Location
from ebbtide.settings.sections.cluster import ClusterKind
from ebbtide.settings.sections.entrance import CERTIFICATE, LOAD_BALANCER_ENDINGS, Ingress
from ebbtide.settings.sections.network import Nat, NetworkSettings


def _hosts_are_taken_once(parsed: ParsedSections) -> Iterator[Finding]:
    taken: list[tuple[str, Ingress]] = []
    for name, workload in parsed.stack.workloads.items():
        ingress = workload.ingress
        if ingress is None:
            continue
        first_owner = next((owner for owner, taken_ingress in taken if _collide(taken_ingress, ingress)), None)
        if first_owner is None:
            taken.append((name, ingress))
            continue
        yield Finding(
            code="ingress.host-taken",
            at=(WORKLOADS, name, "ingress", "host"),
            wanted="a host and path of only one workload",
            found=f"{ingress.host}{ingress.path}, which leads to workload {first_owner!r}",
            hint="give it another path or its own host",
        )


def _collide(first: Ingress, second: Ingress) -> bool:
    """A trailing slash makes no difference; two classes are two entrances."""
    same = (first.host, first.path.rstrip("/")) == (second.host, second.path.rstrip("/"))
    return same and not (first.class_ and second.class_ and first.class_ != second.class_)


def _names_are_free(parsed: ParsedSections) -> Iterator[Finding]:
    """The load balancer's Service is named after the workload, with a suffix."""
    for name, workload in parsed.stack.workloads.items():
        for ending in LOAD_BALANCER_ENDINGS if workload.expose is not None else ():
            if f"{name}{ending}" in parsed.stack.workloads:
                yield Finding(
                    code="expose.name-taken",
                    at=(WORKLOADS, f"{name}{ending}"),
                    wanted=f"another name: workload {name!r} is exposed by a Service of this name",
                    found=repr(f"{name}{ending}"),
                )


def _load_balancers_need_eks(parsed: ParsedSections) -> Iterator[Finding]:
    for name, workload in parsed.stack.workloads.items():
        if workload.expose is not None:
            yield Finding(
                code="expose.existing-cluster",
                at=(WORKLOADS, name, "expose"),
                wanted="ingress instead: the kind of load balancer is known only on EKS",
                found="expose on an existing cluster",
                example="ingress: { host: api.example.com }",
            )


def _load_balancers_have_subnets(parsed: ParsedSections) -> Iterator[Finding]:
    for name, workload in parsed.stack.workloads.items():
        if workload.expose is not None and workload.expose.public:
            yield from no_public_subnets((WORKLOADS, name, "expose", "public"), parsed.stack.network)


def _certificates_are_of_the_region(parsed: ParsedSections) -> Iterator[Finding]:
    for name, workload in parsed.stack.workloads.items():
        if workload.expose is not None:
            at: Location = (WORKLOADS, name, "expose", "certificate")
            yield from certificate_of_another_region(at, workload.expose.certificate, parsed.stack.region)


def no_public_subnets(at: Location, network: NetworkSettings) -> Iterator[Finding]:
    why = ""
    if network.vpc is not None:
        why = "for an existing VPC the stack knows only private subnets"
    elif network.nat is Nat.NONE:
        why = "with nat: none the network has no public subnets"
    if why:
        yield Finding(
            code="expose.no-public-subnets", at=at, wanted=f"false: {why}", found="true", example="public: false"
        )


def certificate_of_another_region(at: Location, certificate: str | None, region: str) -> Iterator[Finding]:
    place = re.fullmatch(CERTIFICATE, certificate or "")
    if place is not None and place[1] != region:
        yield Finding(
            code="expose.certificate-region",
            at=at,
            wanted=f"a certificate of the stack's region, {region}",
            found=f"one of {place[1]}",
            hint="a load balancer accepts no other",
        )


RULES = (
    CheckRule((WORKLOADS,), _hosts_are_taken_once),
    CheckRule((WORKLOADS, CLUSTER), _names_are_free, on=ClusterKind.EKS),
    CheckRule((WORKLOADS, CLUSTER), _load_balancers_need_eks, on=ClusterKind.EXISTING),
    CheckRule((WORKLOADS, CLUSTER, NETWORK), _load_balancers_have_subnets, on=ClusterKind.EKS),
    CheckRule((WORKLOADS, CLUSTER, REGION), _certificates_are_of_the_region, on=ClusterKind.EKS),
)
