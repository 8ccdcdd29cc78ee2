"""Alternatives of made-up months whose own alternatives are known: each node's life and type is given."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbtide.lab.ledger.build import ledger_of
from ebbtide.lab.ledger.lives import NodeKey, Sightings
from ebbtide.lab.ledger.month import Alternative, Ledger, Month
from ebbtide.lab.ledger.rates import rates_of
from ebbtide.lab.ledger.reading import RecordedMonth, Steps
from ebbtide.lab.ledger.replayed import MonthReplay, ReplayedUsd
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplayOptions, night_setup_of, with_known_nodes
from ebbtide.lab.simulator.strategies.table import StrategyResults
from ebbtide.lab.simulator.world.sleep import Asleep
from ebbtide.prices import PricingAssumption, hourly, on_demand
from ebbtide.settings import StackSettings
from tests.builders.settings import loaded, shortest

APRIL = Month(year=2026, month=4, zone="Europe/Berlin")
SOON = datetime(2026, 5, 3, tzinfo=UTC)
REGION = "us-east-1"
SMALL, LARGE = "m7i.2xlarge", "m7i.4xlarge"
FIRST, LAST = APRIL.begin.timestamp(), APRIL.end.timestamp()
HOURS = APRIL.hours
CA = "cluster-autoscaler"
EVERY = 240.0  # seconds between two samples


def price(kind: str) -> float:
    return on_demand(REGION, kind)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of one group, in hours of the month. Nodes of a group do not share names."""

    group: str
    kind: str
    begin: float
    end: float
    capacity: str = "on-demand"


def recorded(
    nodes: Sequence[Node], workers: Sequence[tuple[float, float]], asleep: Mapping[str, Sequence[tuple[float, float]]]
) -> RecordedMonth:
    """`workers` of the pool train, and the sleep of each workload: pairs of an hour and the value from then on."""
    looks = [FIRST - 600 + number * EVERY for number in range(round((LAST - FIRST + 1200) / EVERY))]
    seen: dict[NodeKey, list[float]] = {}
    created: dict[str, list[float]] = {}
    for number, node in enumerate(nodes):
        born, gone = FIRST + node.begin * 3600, FIRST + node.end * 3600
        name = f"ip-10-0-0-{number}"
        key = NodeKey(name, node.group, node.group, node.kind, node.capacity)
        seen[key] = [at for at in looks if born <= at < gone]
        created[name] = [born]
    return RecordedMonth(
        source="a made-up month",
        sightings=Sightings(looks=looks, seen=seen, created=created),
        prices={},
        wanted={"train": _steps(workers)},
        asleep={workload: _steps(steps) for workload, steps in asleep.items()},
        requests={},
        forgotten="",
    )


def _steps(steps: Sequence[tuple[float, float]]) -> Steps:
    return tuple((FIRST + hour * 3600, value) for hour, value in steps)


def awake(days: range) -> Iterator[tuple[float, float]]:
    """The hours in which the workload is awake: from six to twenty."""
    return ((24.0 * day + 6, 24.0 * day + 20) for day in days)


def stack(
    folder: Path, *, groups: str, more: str = "", pods: str = "replicas: 1, cpu: 6, memory: 20Gi"
) -> StackSettings:
    """A service that fills a node of 8 CPUs, and sleeps at night."""
    sleep = "sleep: { when: outsideBusinessHours }"
    api = f'{{ category: flexible, image: "a:1", {pods}, {sleep} }}'
    return loaded(shortest(more=f"aws:region: {REGION}\n{groups}\nebbtide:workloads:\n  api: {api}\n{more}"), folder)


EXISTING = (
    "kind: existing, context: x, nodeSelectors: {{ fixed: {{ pool: a }}, flexible: {{ pool: b }} }}, nodeShapes: {{ "
    "fixed: {{ instanceTypes: [m7i.2xlarge], max: 2 }}, "
    "flexible: {{ instanceTypes: [m7i.4xlarge], max: 20, {more} }} }}{pools}"
)
FIXED_NODES = "fixed: { instanceTypes: [m7i.2xlarge], min: 2, max: 4 }"
FIXED = [Node(group="fixed", kind=SMALL, begin=-24, end=HOURS + 24) for _ in range(2)]
NIGHTS = HOURS - 30 * 14.0  # hours in which the service sleeps


def flexible(types: str, provisioner: str = "karpenter") -> str:
    group = f"{{ instanceTypes: [{types}], provisioner: {provisioner}, max: 20 }}"
    return f"ebbtide:nodeGroups:\n  {FIXED_NODES}\n  flexible: {group}"


def by_day(*kinds: str) -> list[Node]:
    """One node while the service is awake; each day has the next of the types."""
    return [
        Node(group="flexible", kind=kinds[day % len(kinds)], begin=begin, end=end)
        for day, (begin, end) in enumerate(awake(range(30)))
    ]


def sleeping() -> list[tuple[float, float]]:
    spans = [(0.0, 1.0)]
    for begin, end in awake(range(30)):
        spans += [(begin, 0.0), (end, 1.0)]
    return spans


def month_of(
    settings: StackSettings,
    nodes: Sequence[Node],
    workers: Sequence[tuple[float, float]] = ((0, 0),),
    prices: Mapping[str, Steps] | None = None,
) -> Ledger:
    recording = recorded(nodes, workers, {"deployment ebbtide/api": sleeping()})
    return ledger_of(replace(recording, prices=prices or {}), settings, APRIL, SOON)


def named(ledger: Ledger, name: str) -> Alternative:
    return next(entry for entry in ledger.alternatives if entry.name == name)


def saved(ledger: Ledger, name: str) -> tuple[float, float]:
    found = ledger.saved[name]
    assert found is not None, named(ledger, name).why
    return found


def has(entry: Alternative, text: str) -> bool:
    return any(text in assumption for assumption in entry.assumptions)


@pytest.mark.parametrize(
    ("groups", "kinds"),
    [
        pytest.param(flexible("m7i.2xlarge, m7i.4xlarge"), [SMALL], id="the smaller of Karpenter's types"),
        pytest.param(flexible("m7i.2xlarge, m7i.4xlarge"), [LARGE], id="the larger of Karpenter's types"),
        pytest.param(flexible("m7i.4xlarge"), [SMALL], id="a type that Karpenter's group no longer lists"),
        pytest.param(
            flexible("m7i.2xlarge, m6a.2xlarge", CA), ["m6a.2xlarge"], id="the second type of a managed group"
        ),
        pytest.param(flexible("m7i.2xlarge, m6a.2xlarge", CA), ["m6a.2xlarge", SMALL], id="both types in turn"),
        pytest.param(flexible("m7i.4xlarge", CA), [SMALL], id="a type that the managed group no longer lists"),
    ],
)
def test_that_nothing_sleeps_costs_the_types_that_ran(groups: str, kinds: list[str], tmp_path: Path) -> None:
    ledger = month_of(stack(tmp_path, groups=groups), [*FIXED, *by_day(*kinds)])

    low, high = saved(ledger, "nothing sleeps")
    truth = NIGHTS * sum(map(price, kinds)) / len(kinds)
    assert low <= truth <= high
    assert (low + high) / 2 == pytest.approx(truth, rel=0.03)
    assert has(named(ledger, "nothing sleeps"), f"node types as they ran: fixed {SMALL}; flexible {min(kinds)}")


def test_a_group_without_a_price_that_only_one_replay_uses_leaves_the_comparison_that_has_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only nodes of workloads that are awake, beside DaemonSets that the file lacks, have no price."""
    replayed = MonthReplay.usd

    def usd(
        self: MonthReplay, naps: tuple[Asleep, ...], *, opens: bool, daemons: bool = False
    ) -> tuple[ReplayedUsd, ...] | None:
        return None if daemons and not naps else replayed(self, naps, opens=opens, daemons=daemons)

    monkeypatch.setattr(MonthReplay, "usd", usd)

    ledger = month_of(stack(tmp_path, groups=flexible("m7i.2xlarge")), [*FIXED, *by_day(SMALL)])

    low, high = saved(ledger, "nothing sleeps")
    assert low <= NIGHTS * price(SMALL) <= high


def test_a_replay_has_the_prices_of_each_time(tmp_path: Path) -> None:
    """The price doubles in the middle of the month."""
    usd, half = price(SMALL), FIRST + HOURS / 2 * 3600
    settings = stack(tmp_path, groups=flexible("m7i.2xlarge, m7i.4xlarge"))
    ledger = month_of(settings, [*FIXED, *by_day(SMALL)], prices={SMALL: ((FIRST, usd), (half, 2 * usd))})

    low, high = saved(ledger, "nothing sleeps")
    assert low <= NIGHTS * 1.5 * usd <= high
    assert (low + high) / 2 == pytest.approx(NIGHTS * 1.5 * usd, rel=0.03)


def test_a_pod_that_fits_no_type_that_ran_has_the_smallest_listed_one_that_it_fits(tmp_path: Path) -> None:
    """The service was asleep all month, and only small nodes of another pod ran."""
    types = "m7i.xlarge, m7i.2xlarge, m7i.4xlarge"
    nodes = [*FIXED, Node(group="flexible", kind="m7i.xlarge", begin=0, end=HOURS)]
    asleep = {"deployment ebbtide/api": [(0.0, 1.0)]}
    settings = stack(tmp_path, groups=flexible(types))
    ledger = ledger_of(recorded(nodes, [(0, 0)], asleep), settings, APRIL, SOON)

    low, high = saved(ledger, "nothing sleeps")
    assert low <= HOURS * price(SMALL) <= high
    assert high < HOURS * price(LARGE)


def test_the_peak_fleet_has_the_types_of_the_hour_with_most_nodes(tmp_path: Path) -> None:
    """Two large nodes ran most of the time, and for an hour one of them with three small ones."""
    more = [Node(group="flexible", kind=SMALL, begin=300, end=301) for _ in range(3)]
    larger = [
        Node(group="flexible", kind=LARGE, begin=0, end=HOURS),
        Node(group="flexible", kind=LARGE, begin=0, end=299),
        Node(group="flexible", kind=LARGE, begin=302, end=HOURS),
    ]
    settings = stack(tmp_path, groups=flexible(f"{SMALL}, {LARGE}"))
    peak = named(month_of(settings, [*FIXED, *more, *larger]), "peak fleet")

    truth = HOURS * (5 * price(SMALL) + price(LARGE))
    assert (peak.low_usd, peak.high_usd) == pytest.approx((truth, truth))
    assert has(peak, f"nodes: 2 fixed ({SMALL}), 3 flexible ({SMALL}), 1 flexible ({LARGE})")


def test_of_two_hours_with_most_nodes_the_peak_fleet_costs_from_the_cheaper_to_the_dearer(tmp_path: Path) -> None:
    nodes = [
        Node(group="flexible", kind=kind, begin=at, end=at + 1)
        for kind, at in ((SMALL, 5), (LARGE, 9))
        for _ in range(3)
    ]
    peak = named(month_of(stack(tmp_path, groups=flexible(f"{SMALL}, {LARGE}")), [*FIXED, *nodes]), "peak fleet")

    low, high = (HOURS * (2 * price(SMALL) + 3 * price(kind)) for kind in (SMALL, LARGE))
    assert (peak.low_usd, peak.high_usd) == pytest.approx((low, high))


def test_nodes_without_a_group_are_in_the_peak_fleet(tmp_path: Path) -> None:
    stray = Node(group="", kind=LARGE, begin=10, end=20)
    peak = named(month_of(stack(tmp_path, groups=flexible(SMALL)), [*FIXED, *by_day(SMALL), stray]), "peak fleet")

    assert peak.high_usd == pytest.approx(HOURS * (3 * price(SMALL) + price(LARGE)))
    assert has(peak, f"1 without a group ({LARGE})")


@pytest.mark.parametrize(("ran", "nodes"), [(SMALL, 5), (LARGE, 2)])
def test_workers_at_the_peak_have_the_nodes_of_the_peak(ran: str, nodes: int, tmp_path: Path) -> None:
    """A small node holds a worker or the service; of two large ones one holds three workers, and one the rest."""
    busy = [Node(group="flexible", kind=ran, begin=100, end=104) for _ in range(nodes)]
    fleet = named(at_work(tmp_path, flexible(ran), busy), "workers at the peak")

    truth = HOURS * (2 * price(SMALL) + nodes * price(ran))
    assert (fleet.low_usd, fleet.high_usd) == pytest.approx((truth, truth))
    assert has(fleet, f"nodes: 2 fixed ({SMALL}), {nodes} flexible ({ran})")


def at_work(folder: Path, groups: str, busy: Sequence[Node]) -> Ledger:
    """Four workers from hour 100 to 104."""
    return month_of(stack(folder, groups=groups), [*FIXED, *busy], [(0, 0), (100, 4), (104, 0)])


def test_a_fleet_that_stays_may_have_more_nodes_than_the_groups_max(tmp_path: Path) -> None:
    """The `max` was lowered after the month."""
    busy = [Node(group="flexible", kind=SMALL, begin=100, end=104) for _ in range(5)]
    fleet = named(at_work(tmp_path, flexible(SMALL, CA).replace("max: 20", "max: 3"), busy), "workers at the peak")

    assert fleet.low_usd == pytest.approx(HOURS * 7 * price(SMALL))


def test_workers_at_the_peak_are_a_range_if_karpenter_may_launch_cheaper_types_than_those_that_ran(
    tmp_path: Path,
) -> None:
    busy = [Node(group="flexible", kind=SMALL, begin=100, end=104) for _ in range(5)]
    fleet = named(at_work(tmp_path, flexible(f"{SMALL}, {LARGE}"), busy), "workers at the peak")

    low, high = (HOURS * (2 * price(SMALL) + usd) for usd in (2 * price(LARGE), 5 * price(SMALL)))
    assert (fleet.low_usd, fleet.high_usd) == pytest.approx((low, high))
    assert has(fleet, f"2 flexible ({LARGE}), or 2 fixed ({SMALL}), 5 flexible ({SMALL})")


@pytest.mark.parametrize(
    ("reserved", "most"), [pytest.param("", 2, id="unknown"), pytest.param(", reserved: { cpu: 20m }", 1, id="known")]
)
def test_pods_that_fill_a_node_may_need_two_beside_daemon_sets_that_the_file_lacks(
    reserved: str, most: int, tmp_path: Path
) -> None:
    groups = flexible(SMALL, CA).replace("max: 20 }", f"max: 20{reserved} }}")
    ledger = month_of(
        stack(tmp_path, groups=groups, pods="replicas: 2, cpu: 3800m, memory: 2Gi"), [*FIXED, *by_day(SMALL)]
    )

    low, high = saved(ledger, "nothing sleeps")
    usd = NIGHTS * price(SMALL)
    assert low < usd
    assert (high > 2 * usd) == (most == 2)
    assert has(named(ledger, "nothing sleeps"), "DaemonSets that the stack file lacks: 250m and 256Mi on each node")


def test_a_pod_that_needs_an_entire_node_still_has_it(tmp_path: Path) -> None:
    settings = stack(tmp_path, groups=flexible(SMALL, CA), pods="replicas: 1, cpu: 7500m, memory: 2Gi")

    low, _ = saved(month_of(settings, [*FIXED, *by_day(SMALL)]), "nothing sleeps")
    assert low > 0.7 * NIGHTS * price(SMALL)


def test_workers_at_the_peak_count_a_service_that_two_groups_take_once(tmp_path: Path) -> None:
    """A node of the group memory runs for its two workers, and has room for the service."""
    groups = f"{flexible(LARGE, CA)}\n  memory: {{ kind: flexible, instanceTypes: [r7i.4xlarge], max: 4 }}"
    text = stack(tmp_path, groups=groups)
    pool = text.workers["train"].model_copy(update={"node_group": "memory"})
    settings = text.model_copy(update={"workers": {"train": pool}})
    busy = [Node(group="memory", kind="r7i.4xlarge", begin=100, end=104)]
    fleet = named(month_of(settings, [*FIXED, *busy], [(0, 0), (100, 2), (104, 0)]), "workers at the peak")

    truth = HOURS * (2 * price(SMALL) + price("r7i.4xlarge"))
    assert (fleet.low_usd, fleet.high_usd) == pytest.approx((truth, truth))


def test_a_month_is_replayed_with_several_seeds_where_pods_may_use_several_groups(tmp_path: Path) -> None:
    """Services are on nodes of whichever group has them first."""
    memory = "  memory: { kind: flexible, instanceTypes: [r7i.4xlarge], max: 12 }"
    services = "  cache: { category: flexible, image: a:1, replicas: 3, cpu: 2, memory: 24Gi }"
    settings = with_known_nodes(stack(tmp_path, groups=f"{flexible(SMALL, CA)}\n{memory}", more=services))
    nothing = recorded(FIXED, (), {})
    model = MonthReplay(
        settings=settings,
        ledger=month_of(settings, FIXED),
        pools={"train": ((FIRST, 4.0),)},
        rates=rates_of(settings, nothing),
        mixes={},
        planned={},
    )

    replays = model.usd((), opens=True)
    assert replays is not None
    without_rollouts = replays[: len(replays) // 2]
    assert len({usd.listed for usd in without_rollouts}) > 1


BEFORE = "fixed fleet before"


@pytest.mark.parametrize(
    ("before", "usd", "text"),
    [
        pytest.param("{ nodes: 8, instanceType: m6a.4xlarge }", 8 * price("m6a.4xlarge"), "8 flexible (m6a.4xlarge)"),
        pytest.param("{ nodes: 8 }", 8 * price(SMALL), f"8 flexible ({SMALL}, which ran most)"),
        pytest.param("8", 8 * price(SMALL), f"8 flexible ({SMALL}, which ran most)"),
    ],
)
def test_the_fleet_before_has_the_type_of_the_file_or_the_one_that_ran_most(
    before: str, usd: float, text: str, tmp_path: Path
) -> None:
    costs = f"ebbtide:costs: {{ before: {{ flexible: {before} }} }}"
    settings = stack(tmp_path, groups=flexible(f"{SMALL}, {LARGE}"), more=costs)
    fleet = named(month_of(settings, [*FIXED, *by_day(SMALL, SMALL, LARGE)]), BEFORE)

    assert (fleet.low_usd, fleet.high_usd) == pytest.approx((HOURS * usd, HOURS * usd))
    assert has(fleet, f"nodes: {text}")


def test_of_a_group_in_which_nothing_ran_the_fleet_before_has_the_first_type(tmp_path: Path) -> None:
    costs = "ebbtide:costs: { before: { flexible: 8 } }"
    fleet = named(month_of(stack(tmp_path, groups=flexible("m7i.4xlarge, m6a.4xlarge"), more=costs), FIXED), BEFORE)

    assert fleet.high_usd == pytest.approx(HOURS * 8 * price(LARGE))
    assert has(fleet, f"8 flexible ({LARGE}, the group's first type)")


def test_under_an_assumed_plan_a_constant_fleet_is_covered_by_it_and_names_its_list_price(tmp_path: Path) -> None:
    plan = PricingAssumption.COMPUTE_1Y
    costs = f"ebbtide:costs: {{ before: {{ flexible: 8 }}, pricingAssumption: {plan} }}"
    fleet = named(month_of(stack(tmp_path, groups=flexible(SMALL), more=costs), [*FIXED, *by_day(SMALL)]), BEFORE)

    assert fleet.high_usd == pytest.approx(HOURS * 8 * hourly(REGION, SMALL, plan))
    assert has(fleet, f"the fleet costs ${HOURS * 8 * price(SMALL):,.0f} at list prices")


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param("kind: eks, parallelDrains: 1", id="drains"),
        pytest.param(EXISTING.format(more="autoscaled: true", pools=""), id="existing, cluster autoscaler"),
        pytest.param(EXISTING.format(more="", pools=", nodePools: { flexible: [general] }"), id="existing, Karpenter"),
    ],
)
def test_the_replay_of_a_stack_is_the_one_of_simulate(cluster: str, tmp_path: Path) -> None:
    """Many services, whose rollouts leave nodes that the autoscaler or Karpenter consolidates by night."""
    on_eks = "kind: eks" in cluster
    services = "\n".join(
        f"  s{n}: {{ category: flexible, image: a:1, replicas: 5, cpu: {n}, memory: 4Gi }}" for n in (1, 2, 3, 5)
    )
    groups = (
        f"ebbtide:nodeGroups:\n  {FIXED_NODES}\n  flexible: {{ instanceTypes: [{LARGE}], max: 20 }}" if on_eks else ""
    )
    text = f"aws:region: {REGION}\n{groups}\nebbtide:cluster: {{ {cluster} }}\nebbtide:workloads:\n{services}"
    settings = with_known_nodes(loaded(shortest(more=text), tmp_path))
    setup = night_setup_of(settings, ReplayOptions(start=APRIL.begin, days=30))
    simulated = StrategyResults(setup).of(Strategy.FIXED_FLEXIBLE)
    ledger = month_of(settings, FIXED)
    model = MonthReplay(
        settings=settings,
        ledger=ledger,
        pools={},
        rates=rates_of(settings, recorded(FIXED, (), {})),
        mixes={},
        planned={},
    )

    replays = model.usd((), opens=True)
    assert replays is not None
    assert replays[1].listed == pytest.approx(sum(simulated.usd_per_day), rel=1e-3)


def crowd(nodes: int) -> list[Node]:
    """A node for each worker, from eight to sixteen of each day."""
    return [
        Node(group="flexible", kind=SMALL, begin=24 * day + 8, end=24 * day + 16)
        for day in range(30)
        for _ in range(nodes)
    ]


def crowded(workers: int) -> list[tuple[float, float]]:
    return [(24.0 * day + hour, count) for day in range(30) for hour, count in ((0, 0), (8, workers), (16, 0))]


ASLEEP = {"deployment ebbtide/api": [(0.0, 1.0)]}
PEAK_WORKERS, NEVER_OPEN = "workers at the peak", "budgets never open"


@pytest.mark.parametrize(
    ("recorded_max", "nodes"),
    [
        pytest.param((), 12, id="not recorded"),
        pytest.param(((-100.0, 20.0), (600.0, 6.0)), 20, id="recorded, lowered in the month"),
        pytest.param(((-100.0, 6.0),), 12, id="lowered before the month: nodes stayed"),
    ],
)
def test_a_max_that_is_lower_by_now_limits_no_replay(
    recorded_max: Sequence[tuple[float, float]], nodes: int, tmp_path: Path
) -> None:
    """Twelve workers had a node each, and the file says six by now."""
    settings = stack(tmp_path, groups=flexible(SMALL, CA).replace("max: 20", "max: 6"))
    recording = recorded([*FIXED, *crowd(12)], crowded(12), ASLEEP)
    ledger = ledger_of(replace(recording, most_nodes={"flexible": _steps(recorded_max)}), settings, APRIL, SOON)

    entry = named(ledger, NEVER_OPEN)
    assert has(entry, f"flexible may have {nodes} nodes as in the month, max is 6 by now")
    assert entry.noise_usd == pytest.approx(0.02 * ledger.recorded_usd)


SETS = """
ebbtide:cluster:
  kind: existing
  context: x
  nodeSelectors: { fixed: { pool: a }, flexible: { pool: b }, spot: { pool: c } }
  nodeShapes:
    fixed: { instanceTypes: [m7i.2xlarge], max: 4 }
    flexible: { instanceTypes: [m7i.2xlarge], max: 20, autoscaled: true }
    spot: { instanceTypes: [m7i.4xlarge], max: 8 }
"""


def test_sets_without_an_autoscaler_have_the_nodes_that_ran(tmp_path: Path) -> None:
    """Three of four fixed nodes ran, one of them replaced within minutes, and at times up to three of eight others."""
    fixed = [Node(group="fixed", kind=SMALL, begin=-24, end=HOURS + 24) for _ in range(2)]
    replaced = [Node(group="fixed", kind=SMALL, begin=begin, end=end) for begin, end in ((-24, 300.1), (300.4, 744))]
    others = [Node(group="spot", kind=LARGE, begin=24.0 * at, end=24.0 * at + 2) for at in range(9) for _ in range(3)]
    ledger = month_of(stack(tmp_path, groups=SETS), [*fixed, *replaced, *others, *crowd(4)], crowded(4))

    peak = named(ledger, PEAK_WORKERS)
    assert has(peak, "fixed had 3 nodes, and 4 by the stack file, without an autoscaler")
    assert has(peak, "spot had 0 to 3 nodes, and 8 by the stack file, without an autoscaler")
    assert has(peak, f"nodes: 3 fixed ({SMALL}), 5 flexible ({SMALL})")
    assert peak.low_usd == pytest.approx(HOURS * 8 * price(SMALL))
    assert has(named(ledger, NEVER_OPEN), "fixed had 3 nodes, and 4 by the stack file, without an autoscaler")


def test_a_set_without_an_autoscaler_may_have_more_nodes_than_the_file_says(tmp_path: Path) -> None:
    nodes = [Node(group="fixed", kind=SMALL, begin=-24, end=HOURS + 24) for _ in range(6)]
    ledger = month_of(stack(tmp_path, groups=SETS), [*nodes, *crowd(4)], crowded(4))

    assert has(named(ledger, PEAK_WORKERS), f"nodes: 6 fixed ({SMALL}), 5 flexible ({SMALL})")


def test_a_min_that_is_higher_by_now_keeps_no_node_in_a_replay(tmp_path: Path) -> None:
    """The assumed plan covers eight, in the replay as in the paid dollars."""
    groups = flexible(SMALL, CA).replace("min: 2, max: 4", "min: 8, max: 8")
    plan = f"ebbtide:costs: {{ pricingAssumption: {PricingAssumption.COMPUTE_1Y} }}"
    recording = recorded([*FIXED, *crowd(4)], crowded(4), ASLEEP)
    ledger = ledger_of(recording, stack(tmp_path, groups=groups, more=plan), APRIL, SOON)

    assert has(named(ledger, PEAK_WORKERS), f"nodes: 2 fixed ({SMALL}), 5 flexible ({SMALL})")
    assert has(named(ledger, PEAK_WORKERS), "fixed keeps 2 nodes as in the month, min is 8 by now")
    assert named(ledger, NEVER_OPEN).noise_usd == pytest.approx(0.02 * ledger.recorded_usd)
