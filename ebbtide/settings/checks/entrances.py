"""Entrances against each other and against what the stack stands on, as far as they can be read."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from ebbtide.settings.defaults import REGION
from ebbtide.settings.file.problems import Finding, value_at
from ebbtide.settings.sections.checked import readable
from ebbtide.settings.sections.entrance import CERTIFICATE, LOAD_BALANCER_ENDINGS, Expose, Ingress
from ebbtide.settings.sections.network import Nat, NetworkSettings

_WORKLOADS = "ebbtide:workloads"
_NETWORK = "ebbtide:network"


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressDraft:
    host: str | None
    path: str | None
    class_: str | None  # what is not said or could not be read may be any class


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposeDraft:
    public: bool
    certificate: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrancesDraft:
    """By workload. What could not be read is nowhere."""

    ingresses: Mapping[str, IngressDraft]
    exposed: Mapping[str, ExposeDraft]
    names: frozenset[str]  # of all workloads
    region: str | None
    no_public_subnets: str  # why the stack knows none; "" where it has some, or may

    def findings(self, *, existing: bool) -> Iterator[Finding]:
        yield from self._hosts_are_taken_once()
        for name, exposed in self.exposed.items():
            if existing:
                yield _of_eks_alone(name)
                continue
            yield from self._names_are_free(name)
            yield from self._is_possible(name, exposed)

    def _hosts_are_taken_once(self) -> Iterator[Finding]:
        taken: list[tuple[str, IngressDraft]] = []
        for name, ingress in self.ingresses.items():
            other = next((owner for owner, there in taken if _collide(there, ingress)), None)
            if other is None:
                taken.append((name, ingress))
                continue
            yield Finding(
                code="ingress.host-taken",
                at=(_WORKLOADS, name, "ingress", "host"),
                wanted="a host and path of one workload alone",
                found=f"{ingress.host}{ingress.path}, which leads to workload {other!r}",
                hint="give it another path, or a host of its own",
            )

    def _names_are_free(self, name: str) -> Iterator[Finding]:
        """The Service of the load balancer has the workload's name and an ending."""
        for ending in LOAD_BALANCER_ENDINGS:
            if f"{name}{ending}" in self.names:
                yield Finding(
                    code="expose.name-taken",
                    at=(_WORKLOADS, f"{name}{ending}"),
                    wanted=f"another name: workload {name!r} is exposed by a Service of this one",
                    found=repr(f"{name}{ending}"),
                )

    def _is_possible(self, name: str, exposed: ExposeDraft) -> Iterator[Finding]:
        if exposed.public and self.no_public_subnets:
            yield Finding(
                code="expose.no-public-subnets",
                at=(_WORKLOADS, name, "expose", "public"),
                wanted=f"false: {self.no_public_subnets}",
                found="true",
                example="public: false",
            )
        place = re.fullmatch(CERTIFICATE, exposed.certificate or "")
        if place is not None and self.region is not None and place[1] != self.region:
            yield Finding(
                code="expose.certificate-region",
                at=(_WORKLOADS, name, "expose", "certificate"),
                wanted=f"a certificate of the stack's region, {self.region}",
                found=f"one of {place[1]}",
                hint="a load balancer takes no other",
            )


def entrances_draft(config: Mapping[str, object]) -> EntrancesDraft:
    workloads = _mapping(config, _WORKLOADS) or {}
    ingresses = {str(name): _mapping(entry, "ingress") for name, entry in workloads.items()}
    exposed = {str(name): _mapping(entry, "expose") for name, entry in workloads.items()}
    region = config.get("aws:region", REGION)
    return EntrancesDraft(
        ingresses={name: _ingress(given) for name, given in ingresses.items() if given is not None},
        exposed={name: _expose(given) for name, given in exposed.items() if given is not None},
        names=frozenset(map(str, workloads)),
        region=region if isinstance(region, str) else None,
        no_public_subnets=_no_public_subnets(config),
    )


def _mapping(parent: object, key: str) -> Mapping[object, object] | None:
    found = value_at(parent, (key,))
    return cast("Mapping[object, object]", found) if isinstance(found, Mapping) else None


def _ingress(given: object) -> IngressDraft:
    read = readable(Ingress, given)
    return IngressDraft(host=read.get("host"), path=read.get("path"), class_=read.get("class_"))


def _expose(given: object) -> ExposeDraft:
    read = readable(Expose, given)
    return ExposeDraft(public=read.get("public") is True, certificate=read.get("certificate"))


def _no_public_subnets(config: Mapping[str, object]) -> str:
    read = readable(NetworkSettings, config.get(_NETWORK, {}))
    if value_at(config, (_NETWORK, "vpc")) is not None:
        return "of a given VPC the stack knows private subnets alone"
    return "with nat: none the network has no public subnets" if read.get("nat") is Nat.NONE else ""


def _collide(one: IngressDraft, other: IngressDraft) -> bool:
    """Two prefixes that end in a slash or not are the same; of two classes each is an entrance of its own."""
    if one.host is None or one.path is None or other.path is None:
        return False
    same = (one.host, one.path.rstrip("/")) == (other.host, other.path.rstrip("/"))
    return same and not (one.class_ and other.class_ and one.class_ != other.class_)


def _of_eks_alone(name: str) -> Finding:
    return Finding(
        code="expose.existing-cluster",
        at=(_WORKLOADS, name, "expose"),
        wanted="ingress in its place: only on EKS is it known what makes a load balancer, and of what kind",
        found="expose on an existing cluster",
        example="ingress: { host: api.example.com }",
    )
