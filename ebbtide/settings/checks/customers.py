"""Checks across stacks: the name of a customer is the name of its cluster, so it is unique in a region."""

from collections.abc import Mapping, Sequence

from ebbtide.settings.model import StackSettings


def shared_names(stacks: Sequence[StackSettings]) -> Mapping[str, str]:
    """Return a warning for each stack whose customer another stack has too, in the same region or existing cluster."""
    same: dict[tuple[str, str], list[str]] = {}
    for settings in stacks:
        same.setdefault((_place(settings), settings.customer), []).append(settings.stack)
    return {
        stack: (
            f"ebbtide:customer: expected one stack for each customer in {place}, got {customer} in "
            f"{', '.join(names)}. Their resources have the same names"
        )
        for (place, customer), names in same.items()
        if len(names) > 1
        for stack in names
    }


def _place(settings: StackSettings) -> str:
    """The region. An existing cluster is known by its id, since its context may have another name elsewhere."""
    if settings.cluster.context is None:
        return settings.region
    return settings.cluster.cluster_id or settings.place
