"""What `ebbtide check` warns of and a page has to say too, seen on the resources themselves.

A transformation, or a workload of the customer's own, may have the probe that the stack file has no key for.
"""

from collections.abc import Iterator, Sequence

from ebbtide.policies.pods import pods_of
from ebbtide.preview.resources import Resource
from ebbtide.settings.cautions import ready_at_once, told_too_late
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.labels import Category


def eviction_cautions(settings: StackSettings, resources: Sequence[Resource]) -> Iterator[str]:
    """Where a pod leaves sooner, or later, than its budget promises."""
    pods = [pods for resource in resources for pods in pods_of(resource)]
    silent = {it.name for it in pods if it.category is Category.FLEXIBLE and it.lasting and not it.tells_when_ready}
    if silent:
        yield ready_at_once(sorted(silent))
    yield from told_too_late(settings)
