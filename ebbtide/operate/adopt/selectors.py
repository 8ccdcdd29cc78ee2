"""Choose a selector for each workload of a namespace: few labels, exactly its pods, disjoint from all others. Pure.

All begin with all their labels, which select the fewest pods. Then labels are taken away, the least telling first,
while each selector still selects exactly its pods and no pod can match two of them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ebbtide.operate.adopt.programs import DEFAULT_PLACE
from ebbtide.operate.adopt.workloads import rank
from ebbtide.settings.sections.adopted import disjoint

Labels = Mapping[str, str]
_SHOWN = 4


class Candidate(NamedTuple):
    name: str
    runs: bool  # now; if not, its rule can wait
    labels: Labels  # that all its pods have
    changing: tuple[str, ...] = ()  # keys of labels that all its pods have and that do not last
    place: str = DEFAULT_PLACE  # where a label is added to all its pods


class Other(NamedTuple):
    """A pod of the namespace and the workload it belongs to, or what else it is of."""

    of: str
    labels: Labels


class Chosen(NamedTuple):
    selector: dict[str, str]  # empty if there is none
    why_not: str = ""


def choose(
    candidates: Sequence[Candidate], pods: Sequence[Other], rules: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> list[Chosen]:
    """Return a selector for each candidate, or why there is none. `pods` are all of the namespace, `rules` the existing
    selectors by rule.
    """
    refused: dict[int, str] = {}
    selectors: dict[int, dict[str, str]] = {}
    for index, each in sorted(enumerate(candidates), key=lambda pair: not pair[1].runs):
        if why := _why_not(each, [candidates[other] for other in selectors], pods, rules):
            refused[index] = why
        else:
            selectors[index] = dict(each.labels)

    def holds(index: int, selector: Labels, among: Mapping[int, Labels]) -> bool:
        others = [*rules.values(), *(_listed(other) for key, other in among.items() if key != index)]
        return (
            bool(selector)
            and _caught(candidates[index], selector, pods) is None
            and all(disjoint(_listed(selector), other) for other in others)
        )

    keys = sorted({key for selector in selectors.values() for key in selector}, key=rank, reverse=True)
    for key in keys:
        for index, selector in selectors.items():
            fewer = {name: value for name, value in selector.items() if name != key}
            if key in selector and holds(index, fewer, selectors):
                selectors[index] = fewer
    return [Chosen(selectors.get(index, {}), refused.get(index, "")) for index in range(len(candidates))]


def _why_not(
    candidate: Candidate,
    accepted: Sequence[Candidate],
    pods: Sequence[Other],
    rules: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> str:
    """Return why no selector selects these pods and no others; empty if one does."""
    labels = _listed(candidate.labels)
    if not labels:
        return f"its pods share no label that lasts{_changing(candidate)}; add one {candidate.place}"
    if (caught := _caught(candidate, candidate.labels, pods)) is not None:
        return f"no label tells its pods from those of {caught}; add one {candidate.place}"
    if rule := next((name for name, rule in rules.items() if not disjoint(labels, rule)), ""):
        return f"no label has another value than rule {rule} selects; add one to rule {rule}"
    if other := next((each.name for each in accepted if not disjoint(labels, _listed(each.labels))), ""):
        place = ", such as app" if candidate.place == DEFAULT_PLACE else f": {candidate.place}"
        return f"it shares no label with {other} in which they differ; give both one{place}"
    return ""


def _changing(candidate: Candidate) -> str:
    keys = candidate.changing[:_SHOWN]
    names = " and ".join(filter(None, (", ".join(keys[:-1]), *keys[-1:])))
    return (
        f" ({names} name one object, run, user or version)" if len(keys) > 1 else f" ({names} does not)" if keys else ""
    )


def _caught(candidate: Candidate, selector: Labels, pods: Sequence[Other]) -> str | None:
    """Return the workload of another pod that the selector selects."""
    caught = (pod.of for pod in pods if pod.of != candidate.name and selector.items() <= pod.labels.items())
    return next(caught, None)


def _listed(selector: Labels) -> dict[str, tuple[str, ...]]:
    return {key: (value,) for key, value in selector.items()}
