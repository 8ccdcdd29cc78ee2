"""What always runs: the pods that a stack never goes below, and the nodes that they need, on average over a year.

The pods of each time (`ebbtide.preview.cost.floors`) are packed on nodes as the provisioners do: on the nodes of a
group's `min` first. No group exceeds its `max`. Jobs and cron jobs are not counted. Adopted pods count with the number
that the stack file states.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter

from ebbtide.preview.cost.floors import Calendar, Floor
from ebbtide.prices import Capacity, InstanceType
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.packing import Waiting, grown, nodes_of
from ebbtide.settings.capacity.placed import placed_pods
from ebbtide.settings.capacity.placement import node_of_type, with_adopted_pools
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.text.money import HOURS_PER_MONTH
from ebbtide.vocabulary.windows import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    node_hours: Mapping[str, Mapping[Capacity, float]]  # a month, by group and by what the pods take of a node
    served: Mapping[str, float]  # mean number of a service's or variant's pods, by their name


def what_always_runs(settings: StackSettings, year: int) -> Always:
    """Return the pods and nodes of a stack on EKS."""
    stack = with_adopted_pools(settings)
    calendar, placed = Calendar(stack, year), [*placed_pods(stack)]
    sizes = [(pod.size, pod.groups(stack.node_groups)) for pod in placed]
    nodes = nodes_of(stack)
    node_hours = {name: defaultdict[Capacity, float](float) for name in stack.node_groups}
    means = [0.0 for _ in placed]
    for numbers, share in shares([calendar.floor(pod) for pod in placed], calendar.span).items():
        pods = [Waiting(size, number, groups) for (size, groups), number in zip(sizes, numbers, strict=True)]
        packing = grown(pods, nodes)
        for name, group in stack.node_groups.items():
            for load, count in _at_most(group.max, packing.loads(name)):
                node_hours[name][load] += count * share * HOURS_PER_MONTH
        means = [mean + number * share for mean, number in zip(means, numbers, strict=True)]
    served = {pod.name: mean for pod, mean in zip(placed, means, strict=True) if isinstance(pod.pod, ServedWorkload)}
    return Always(node_hours=node_hours, served=served)


def karpenter_usd(
    group: NodeGroupSettings, usd_per_hour: Sequence[float], node_hours: Mapping[Capacity, float]
) -> float:
    """Price each of Karpenter's nodes as the cheapest type that holds its pods, as Karpenter chooses it.

    `usd_per_hour` has the price of each of the group's types, `node_hours` the hours by what pods take of a node.
    """
    prices = dict(zip(group.types, usd_per_hour, strict=True))
    return sum(hours * prices[launched(group, prices, load)] for load, hours in node_hours.items())


def launched(group: NodeGroupSettings, usd_per_hour: Mapping[InstanceType, float], load: Capacity) -> InstanceType:
    """Return the type of node that the provisioner launches for pods that take `load` of a node.

    Karpenter launches the cheapest type that holds them. A managed group launches its first type on demand; which one
    it launches on spot is not known: the cheapest counts, since the figure is a saving, which must not be too high.
    """
    types = group.types
    if not group.by_karpenter:
        return min(types, key=usd_per_hour.__getitem__) if group.kind is NodeKind.SPOT else types[0]
    return min((kind for kind in types if node_of_type(group, kind).holds(load)), key=usd_per_hour.__getitem__)


def shares(floors: Sequence[Floor], within: Span) -> Mapping[tuple[int, ...], float]:
    """Return the numbers that the floors have together, each with its share of the time."""
    changes: dict[datetime, dict[int, int]] = {within.start: {}}
    for index, floor in enumerate(floors):
        for at, pods in _steps(floor):
            if at < within.end:
                changes.setdefault(max(at, within.start), {})[index] = pods
    numbers = [floor.least for floor in floors]
    lasting: dict[tuple[int, ...], timedelta] = {}
    instants = sorted(changes)
    for at, until in zip(instants, (*instants[1:], within.end), strict=True):
        for index, pods in changes[at].items():
            numbers[index] = pods
        lasting[tuple(numbers)] = lasting.get(tuple(numbers), timedelta()) + (until - at)
    return {numbers: time / (within.end - within.start) for numbers, time in lasting.items()}


def _steps(floor: Floor) -> Iterator[tuple[datetime, int]]:
    """Yield each change of the highest number; of several at one instant the last one counts."""
    edges = [(span.start, 1, span.pods) for span in floor.raised] + [(span.end, -1, span.pods) for span in floor.raised]
    active: Counter[int] = Counter()
    for at, change, pods in sorted(edges, key=itemgetter(0)):
        active[pods] += change
        yield at, max([floor.least, *(number for number, spans in active.items() if spans)])


def _at_most(most: int, loads: Iterable[tuple[Capacity, int]]) -> Iterator[tuple[Capacity, int]]:
    """Yield loads of nodes up to this number; further pods would stay pending."""
    for load, nodes in loads:
        yield load, min(nodes, most)
        most -= min(nodes, most)
