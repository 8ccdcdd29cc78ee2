"""The bound by hand, against every packing there is, and against whoever makes no job wait."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.bound import CostSteps, ZeroWait, covered_usd_per_day, discounts_of, zero_wait
from ebbtide.lab.simulator.strategies.constant import fleet_bill, fleet_groups, fleet_pools, fleet_runs, fleet_series
from ebbtide.lab.simulator.strategies.fleet import peak_fleet
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.lab.simulator.world.pools import PooledJob, assign
from ebbtide.prices import Capacity, PricingAssumption, hourly, instance_type, usable
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.pod import Gpu
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.replay import priced
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_trace, a_workload
from tests.counts import examples

DAY = 24 * HOUR
PLANS = st.sampled_from([PricingAssumption.ON_DEMAND, PricingAssumption.COMPUTE_1Y, PricingAssumption.EC2_3Y])
JOBS = st.lists(
    st.builds(
        PooledJob,
        st.integers(0, 86_000).map(float),
        st.integers(1, 200_000).map(float),
        st.sampled_from(["train", "wide", "vision"]),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=25,
).map(lambda jobs: tuple(sorted(jobs, key=lambda job: job.submitted_at)))


@cache
def stack(plan: PricingAssumption = PricingAssumption.ON_DEMAND) -> StackSettings:
    """Two sizes on flexible nodes, one on GPU nodes, and services."""
    workers = {
        "train": a_pool(most=99),
        "wide": a_pool("wide", cpu="3", memory="40Gi", most=99),
        "vision": a_pool("vision", cpu="6", memory="24Gi", gpu=1, most=99),
    }
    return a_stack(workers).model_copy(update={"costs": CostSettings(pricing_assumption=plan)})


def bound(jobs: tuple[PooledJob, ...], plan: PricingAssumption = PricingAssumption.ON_DEMAND) -> ZeroWait:
    return bound_of(stack(plan), jobs)


def bound_of(
    chosen: StackSettings, jobs: tuple[PooledJob, ...], strategy: Strategy = Strategy.ZERO_WAIT_BOUND
) -> ZeroWait:
    return zero_wait(cluster_plan(chosen, strategy), jobs, discounts=discounts_of(chosen), end_s=DAY, day_ends=(DAY,))


def test_one_job_by_hand() -> None:
    """A worker of 6 cores, 24 GiB and 1 GPU for an hour: the GPU is all of its node's, the rest less."""
    idle, busy = bound(()), bound((PooledJob(HOUR, HOUR, "vision"),))

    assert busy.node_hours["gpu"] - idle.node_hours["gpu"] == pytest.approx(1.0)
    assert priced(busy.usd_on_demand) - priced(idle.usd_on_demand) == pytest.approx(hourly("us-east-1", "g5.2xlarge"))


def test_services_and_fixed_nodes_are_paid_for_all_day() -> None:
    """The fixed group's minimum of one node, and of a flexible one what three pods of 2 cores take."""
    idle = bound(())
    flexible = usable(instance_type("m7i.4xlarge"))

    assert idle.node_hours["fixed"] == pytest.approx(24)
    assert idle.node_hours["flexible"] == pytest.approx(24 * 6000 / flexible.cpu)
    assert idle.series.nodes["gpu"] == (0,)
    assert bound((), PricingAssumption.COMPUTE_1Y).usd_per_day[0] < idle.usd_per_day[0]


def test_jobs_count_from_submission_to_their_end_and_not_past_the_replay() -> None:
    short = bound((PooledJob(DAY - 10, 5, "vision"),))
    long = bound((PooledJob(DAY - 10, 5 * DAY, "vision"),))

    assert long.node_hours["gpu"] == pytest.approx(10 / 3600)
    assert short.node_hours["gpu"] == pytest.approx(5 / 3600)


@settings(max_examples=examples(60), deadline=None)
@given(jobs=JOBS, plan=PLANS)
def test_a_fleet_in_which_no_job_ever_waits_never_costs_less(
    jobs: tuple[PooledJob, ...], plan: PricingAssumption
) -> None:
    chosen = stack(plan)
    pools = fleet_pools(chosen, jobs)
    fleet = peak_fleet(pools, fleet_groups(chosen, cluster_plan(chosen, Strategy.PEAK_FLEET)))
    runs = fleet_runs(pools, fleet.workers, DAY)
    bill = fleet_bill(fleet, chosen, fleet_series(fleet, runs, DAY), [DAY])

    assert all(run.started_at == run.submitted_at for run in runs)
    least = bound(jobs, plan)
    assert sum(bill.usd_per_day) >= sum(least.usd_per_day) - 1e-6
    assert priced(bill.usd_on_demand) >= priced(least.usd_on_demand) - 1e-6
    assert (bill.usd_with_spot or 0) >= (least.usd_with_spot or 0) - 1e-6


@dataclass(frozen=True)
class Pod:
    cpu: int
    memory: int


NODES = {"m7i.4xlarge": usable(instance_type("m7i.4xlarge"))}


def cheapest_packing(pods: tuple[Pod, ...], open_nodes: tuple[tuple[str, int, int], ...] = ()) -> float:
    """Every way to put whole pods on whole nodes: of each way the dollars an hour, and the least of them."""
    if not pods:
        return sum(hourly("us-east-1", name) for name, _, _ in open_nodes)
    pod, rest = pods[0], pods[1:]
    ways: list[float] = []
    for i, (name, cpu, memory) in enumerate(open_nodes):
        if pod.cpu <= cpu and pod.memory <= memory:
            taken = (name, cpu - pod.cpu, memory - pod.memory)
            ways.append(cheapest_packing(rest, (*open_nodes[:i], taken, *open_nodes[i + 1 :])))
    for name, room in NODES.items():
        if fits(pod, room):
            ways.append(cheapest_packing(rest, (*open_nodes, (name, room.cpu - pod.cpu, room.memory - pod.memory))))
    return min(ways)


def fits(pod: Pod, room: Capacity) -> bool:
    return pod.cpu <= room.cpu and pod.memory <= room.memory


@settings(max_examples=examples(60), deadline=None)
@given(train=st.integers(0, 3), wide=st.integers(0, 3))
def test_no_packing_of_whole_nodes_is_cheaper_at_any_instant(train: int, wide: int) -> None:
    jobs = tuple(PooledJob(0.0, 2 * DAY, name) for name, n in (("train", train), ("wide", wide)) for _ in range(n))
    chosen = stack().model_copy(update={"workloads": {}})
    specs = [chosen.workers[job.pool] for job in jobs]
    own = priced(bound_of(chosen, jobs).usd_on_demand) / 24
    mixed = priced(bound_of(chosen, jobs, Strategy.CLUSTER_AUTOSCALING).usd_on_demand) / 24

    packed = cheapest_packing(tuple(Pod(spec.cpu, spec.memory) for spec in specs))

    assert packed >= own - hourly("us-east-1", "m7i.xlarge") - 1e-9  # its fixed node holds none of these pods
    assert max(packed, hourly("us-east-1", "m7i.4xlarge")) >= mixed - 1e-9  # its one group has a minimum of one


def on_gpu(**gpu: str) -> WorkloadSettings:
    return a_workload(Category.FLEXIBLE).model_copy(update={"gpu": Gpu.model_validate({"count": 1, **gpu})})


def stack_with_two_gpus(service: WorkloadSettings) -> StackSettings:
    """GPUs with 24 and with 48 GB, a service that may use both, and a pool."""
    groups = {
        name: NodeGroupSettings(kind=NodeKind.GPU, instance_types=(type_,), max=9)
        for name, type_ in (("gpu", "g6.2xlarge"), ("gpu-large", "g6e.2xlarge"))
    }
    pool = a_pool("train", gpu=1, most=99).model_copy(update={"node_group": "gpu-large"})
    chosen = a_stack({"train": pool})
    return chosen.model_copy(
        update={"node_groups": {**chosen.node_groups, **groups}, "workloads": {**chosen.workloads, "ranker": service}}
    )


def test_work_for_a_large_gpu_pays_for_large_gpus_beside_a_service_that_may_use_any() -> None:
    """The service makes one choice of both groups; its own GPU is a small one, which is cheaper."""
    chosen = stack_with_two_gpus(on_gpu())

    idle, busy = bound_of(chosen, ()), bound_of(chosen, (PooledJob(HOUR, HOUR, "train"),) * 3)

    assert (idle.node_hours["gpu"], idle.node_hours["gpu-large"]) == (pytest.approx(24), 0)
    assert (busy.node_hours["gpu"], busy.node_hours["gpu-large"]) == (pytest.approx(24), pytest.approx(3))


def test_a_service_that_needs_40_gib_of_gpu_memory_pays_for_no_gpu_with_24() -> None:
    chosen = stack_with_two_gpus(on_gpu())
    both = chosen.model_copy(update={"workloads": {**chosen.workloads, "writer": on_gpu(memory="40Gi")}})

    hours = bound_of(both, ()).node_hours

    assert (hours["gpu"], hours["gpu-large"]) == (pytest.approx(24), pytest.approx(24))


def test_work_pays_for_no_node_that_is_too_small_for_one_of_its_pods() -> None:
    """Karpenter may choose r7i.large and m7i.4xlarge; only these hold 24 GiB."""
    group = NodeGroupSettings(
        kind=NodeKind.FLEXIBLE,
        instance_types=("r7i.large", "m7i.4xlarge"),
        max=20,
        provisioner=Provisioner.KARPENTER,
    )
    chosen = a_stack({"train": a_pool(cpu="1", memory="24Gi", most=99)})
    chosen = chosen.model_copy(update={"node_groups": {**chosen.node_groups, "flexible": group}, "workloads": {}})

    hours = bound_of(chosen, (PooledJob(HOUR, HOUR, "train"),) * 4).node_hours

    assert hours["flexible/r7i.large"] == pytest.approx(0)
    assert hours["flexible/m7i.4xlarge"] > 1  # four of them fill more than one


@pytest.mark.parametrize("strategy", [Strategy.FIXED_FLEXIBLE, Strategy.CLUSTER_AUTOSCALING])
def test_workers_kept_warm_for_every_job_cost_more_than_the_bound(strategy: Strategy) -> None:
    """Over-provisioned: as many workers as jobs are always there, so no wait is longer than a pop."""
    warm = a_stack({"train": a_pool().model_copy(update={"min": 6})})
    jobs = a_trace([a_job(3 * HOUR + 900 * i, 2 * HOUR) for i in range(6)])
    noon = datetime(2026, 6, 1, 12)  # noqa: DTZ001 - local time of the customer

    replayed = replay(warm, jobs, ReplayOptions(days=1, start=noon, strategies=(strategy, Strategy.ZERO_WAIT_BOUND)))

    kept, least = replayed.strategies[strategy], replayed.strategies["zero-wait-bound"]
    assert kept.wait_quantiles_s[-1] < 0.1
    assert priced(kept.usd) > priced(least.usd)
    assert priced(kept.usd) > priced(bound_of(warm, pooled(jobs, warm), strategy).usd_on_demand)
    assert (least.wait_p99_s, least.jobs_done) == (0.0, 6)


def pooled(trace: Trace, chosen: StackSettings) -> tuple[PooledJob, ...]:
    return assign(trace.jobs, chosen.workers).jobs


STEPS = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 30)), min_size=1, max_size=12)


@given(steps=STEPS, discount=st.sampled_from([0.0, 0.1, 0.28, 0.5, 0.72]))
def test_no_level_of_commitment_is_cheaper_than_the_one_that_was_chosen(
    steps: list[tuple[int, int]], discount: float
) -> None:
    at: list[float] = []
    usd: list[float] = []
    now = 0.0
    for lasts, amount in steps:
        at.append(now)
        usd.append(float(amount))
        now += lasts * 60.0
    chosen = CostSteps(at=tuple(at), usd_per_hour=tuple(usd), end_s=now)

    paid = sum(covered_usd_per_day(chosen, discount, (now / 2, now)))

    of_level = [
        sum((level * (1 - discount) + max(0.0, each - level)) * (end - begin) for begin, end, each in chosen.spans())
        for level in range(32)
    ]
    assert paid == pytest.approx(min(of_level) / 3600)
