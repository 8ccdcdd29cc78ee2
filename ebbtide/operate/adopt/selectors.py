"""Choose a selector for each workload of a namespace: few labels, exactly its pods, disjoint from all others. Pure.

Each selector starts with all labels of its workload, which select the fewest pods. Labels are then removed, the least
specific first, as long as each selector still selects exactly its pods and no pod can match two selectors.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ebbtide.operate.adopt.programs import DEFAULT_PLACE
from ebbtide.operate.adopt.workloads import rank
from ebbtide.settings.sections.adopted import disjoint

Labels = Mapping[str, str]
_SHOWN = 4


class RuleCandidate(NamedTuple):
    name: str
    runs: bool  # has pods now; if not, its rule can wait
    labels: Labels  # that all its pods have
    changing: tuple[str, ...] = ()  # keys that all its pods have, whose values do not last
    place: str = DEFAULT_PLACE  # where a team adds a label to all its pods


class Other(NamedTuple):
    """A pod's labels, and the name of its workload or else of the pod itself."""

    of: str
    labels: Labels


class Chosen(NamedTuple):
    selector: dict[str, str]  # empty if there is none
    why_not: str = ""


def choose(
    candidates: Sequence[RuleCandidate], pods: Sequence[Other], rules: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> list[Chosen]:
    """Return a selector for each candidate, or why there is none.

    `pods` are all pods of the namespace; `rules` are the existing selectors by rule name.
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
    candidate: RuleCandidate,
    accepted: Sequence[RuleCandidate],
    pods: Sequence[Other],
    rules: Mapping[str, Mapping[str, tuple[str, ...]]],
) -> str:
    """Return why no selector can select exactly these pods; empty if one can."""
    labels = _listed(candidate.labels)
    if not labels:
        return f"its pods share no label that lasts{_changing(candidate)}; add one {candidate.place}"
    if (caught := _caught(candidate, candidate.labels, pods)) is not None:
        return f"no label tells its pods from those of {caught}; add one {candidate.place}"
    if rule := next((name for name, rule in rules.items() if not disjoint(labels, rule)), ""):
        return f"no label keeps its pods out of rule {rule}; add one to rule {rule}"
    if other := next((each.name for each in accepted if not disjoint(labels, _listed(each.labels))), ""):
        place = ", such as app" if candidate.place == DEFAULT_PLACE else f": {candidate.place}"
        return f"it and {other} have no label with different values; give both one{place}"
    return ""


def _changing(candidate: RuleCandidate) -> str:
    keys = candidate.changing[:_SHOWN]
    names = " and ".join(filter(None, (", ".join(keys[:-1]), *keys[-1:])))
    return (
        f" ({names} name one object, run, user or version)" if len(keys) > 1 else f" ({names} does not)" if keys else ""
    )


def _caught(candidate: RuleCandidate, selector: Labels, pods: Sequence[Other]) -> str | None:
    """Return the workload of another pod that the selector selects."""
    caught = (pod.of for pod in pods if pod.of != candidate.name and selector.items() <= pod.labels.items())
    return next(caught, None)


def _listed(selector: Labels) -> dict[str, tuple[str, ...]]:
    return {key: (value,) for key, value in selector.items()}
