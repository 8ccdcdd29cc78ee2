"""What the verdicts are in the stack file: each key that changes, with the value that is there now."""

from collections.abc import Iterator, Mapping
from typing import cast

from ebbtide.advice.sizes.containers import Container
from ebbtide.advice.sizes.rules import Resource, Verdict, rounded
from ebbtide.settings.file.entries import SERVICES, VARIANTS
from ebbtide.settings.file.problems import Location, value_at
from ebbtide.settings.patch import Change
from ebbtide.units.quantities import memory_text


def changes_of_container(
    config: Mapping[str, object], it: Container, verdicts: Mapping[Resource, Verdict]
) -> Iterator[Change]:
    """`config` is what the file has below `config:`."""
    for resource, verdict in verdicts.items():
        if not verdict.changes:
            continue
        yield _change(config, it.at, (resource.value,), written(resource, verdict.to), verdict.reason)
    yield from _limits(config, it, verdicts)


def _limits(config: Mapping[str, object], it: Container, verdicts: Mapping[Resource, Verdict]) -> Iterator[Change]:
    """A limit goes up with a request that would pass it; and with one that goes up because the limit was short."""
    for resource, verdict in verdicts.items():
        limit = it.pod.limits.cpu if resource is Resource.CPU else it.pod.limits.memory
        if limit is None or verdict.to <= verdict.now:
            continue
        to = max(limit, verdict.to)
        if verdict.short:
            to = max(to, rounded(limit * verdict.to / verdict.now, resource))
        if to > limit:
            reason = "it goes up with the request"
            yield _change(config, it.at, ("limits", resource.value), written(resource, to), reason)


def written(resource: Resource, amount: int) -> object:
    """As people write it: whole cores are a number."""
    if resource is Resource.MEMORY:
        return memory_text(amount)
    return amount // 1000 if amount % 1000 == 0 else f"{amount}m"


def _change(config: Mapping[str, object], pod: Location, key: Location, after: object, reason: str) -> Change:
    """Where a service has the key for its variants, the variant gets its own."""
    at = (*pod, *key)
    top = (*pod, key[0])
    service = pod[:2]
    if len(key) > 1 and _is_variant(pod) and value_at(config, top) is None:
        inherited = value_at(config, (*service, key[0]))
        if isinstance(inherited, Mapping):
            whole = {**cast("Mapping[str, object]", inherited), str(key[1]): after}
            return Change(at=top, before=None, after=whole, reason=reason)
    return Change(at=at, before=value_at(config, at), after=after, reason=reason)


def _is_variant(pod: Location) -> bool:
    return len(pod) > 3 and pod[0] == SERVICES and pod[2] == VARIANTS
