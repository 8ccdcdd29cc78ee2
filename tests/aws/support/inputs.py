"""Every AWS resource of a recording, seen by Terraform's rules and by the provider's own validators."""

from collections.abc import Sequence
from dataclasses import dataclass

from ebbtide.recording.resources import Resource, short_type
from tests.aws.support.provider import Provider
from tests.aws.support.stacks import of_aws
from tests.aws.support.translation import ids_of_aws, terraform_type, translated


@dataclass(frozen=True, slots=True, order=True)
class Objection:
    type: str  # Terraform's
    path: str
    resource: str
    text: str

    def __str__(self) -> str:
        return f"{self.resource}, {self.path}: {self.text}"


def objections(
    provider: Provider, resources: Sequence[Resource], about: Sequence[Resource] | None = None
) -> list[Objection]:
    """What is said about those of AWS; `about` names some of them alone."""
    ids = ids_of_aws(resources)
    found: list[Objection] = []
    for resource in of_aws(resources if about is None else about):
        type_ = terraform_type(resource.type, provider.schemas)
        told = translated(resource, provider.schemas[type_], ids)
        shown = f"{short_type(resource.type)} {resource.name}"
        complaints = (*told.complaints, *provider.complaints(type_, told.config))
        found += [Objection(type_, each.path, shown, each.text) for each in complaints]
    return found
