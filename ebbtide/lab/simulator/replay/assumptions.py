"""The assumptions of a replay, in sentences: no figure is meaningful without them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta

from ebbtide.kube.autoscaler import THRESHOLD, UNNEEDED
from ebbtide.lab.simulator.strategies.hpa import GROWS_TO_AT_LEAST, STABILISATION_S, SYNC_S, TOLERANCE
from ebbtide.lab.simulator.strategies.keda import COOLDOWN_S, POLL_S
from ebbtide.lab.simulator.strategies.plans import (
    FLAGS,
    KUBERNETES_GRACE_S,
    NODE_BOOT_S,
    POD_START_S,
    none_priced,
    without_plan_rate,
    without_spot_price,
)
from ebbtide.lab.simulator.strategies.steady import steady_sentence
from ebbtide.lab.simulator.world.ray.clusters import LOOK_S
from ebbtide.lab.simulator.world.ray.drives import JOIN_S
from ebbtide.lab.simulator.world.ray.work import RayWork
from ebbtide.lab.simulator.world.rollouts import USED_SHARE
from ebbtide.lab.simulator.world.saves import Saves
from ebbtide.prices import PricingAssumption, estimates_text, price_date
from ebbtide.prices.missing import named
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.process_documents import RESYNC
from ebbtide.settings.capacity.shapes_of_group import types_of_nodes
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import RaySettings
from ebbtide.vocabulary.labels import Category
from ebbtide.vocabulary.workloads import SleepWhen


def assumptions_of(
    settings: StackSettings,
    *,
    aligned: bool,
    left_out: int,
    resync: timedelta,
    rollouts: bool,
    saves: Mapping[str, Saves],
    capacity_varies: bool = False,
) -> tuple[str, ...]:
    return (
        *_job_sentences(left_out, aligned=aligned),
        _rollout_sentence(rollouts=rollouts),
        *_node_sentences(settings, resync, capacity_varies=capacity_varies),
        *_strategy_sentences(),
        *_checkpoint_sentences(saves),
        *_disk_sentences(settings),
        *_adopted_sentences(settings),
        *_sleep_sentences(settings, except_in="fixed-fleet and peak-fleet"),
        *_price_sentences(settings),
    )


def night_assumptions(settings: StackSettings, *, resync: timedelta, rollouts: bool) -> tuple[str, ...]:
    """Return the assumptions of a replay without jobs, about pods that are there at all times."""
    return (
        *([_rollout_sentence(rollouts=rollouts)] if settings.all_workloads else []),
        *_node_sentences(settings, resync),
        *_disk_sentences(settings),
        *_adopted_sentences(settings),
        *_sleep_sentences(settings, except_in="never-moved"),
        *_list_price_sentences(settings),
    )


def _job_sentences(left_out: int, *, aligned: bool) -> Iterator[str]:
    if aligned:
        yield (
            "The trace's clock is not the customer's: the middle of its busiest 12 hours is aligned with the "
            "middle of a Monday's business hours; --start sets another time."
        )
    if left_out:
        yield f"{left_out} jobs longer than --max-job were excluded before anything was counted."
    yield (
        "Node-hours are counted from second 0 to the end of the last day, for jobs submitted in that time; jobs that "
        "have not ended by then are unfinished, and one that never started counts with its wait so far."
    )
    yield (
        "A job that is interrupted is queued again and starts from zero, unless its pool has checkpoints; its wait "
        "counts until its first start."
    )


def _rollout_sentence(*, rollouts: bool) -> str:
    if not rollouts:
        return "Services are never deployed (--no-rollouts): a pod stays where it was put unless it is evicted."
    return (
        "Services are deployed: each flexible workload once on every working day, each fixed one once a week, at times "
        f"drawn within the first {USED_SHARE:.0%} of the day's business hours and the same for every strategy; one pod "
        "at a time, with 1 pod extra for flexible and 1 fewer for fixed workloads, never outside business hours. "
        "A pod replaced this way is not counted as an eviction."
    )


def _node_sentences(settings: StackSettings, resync: timedelta, *, capacity_varies: bool = False) -> Iterator[str]:
    zones, on_demand = ("zones are treated as one", "")
    if capacity_varies:
        zones, on_demand = (f"{zones} but for spot capacity", " on demand")
    yield (
        f"A node takes pods {NODE_BOOT_S:g} s after its launch and a pod is ready {POD_START_S:g} s after it is bound; "
        f"{zones}, DaemonSet requests are subtracted from every node, and capacity"
        f"{on_demand} is always available."
    )
    yield _autoscaler_sentence(settings) if settings.cluster.context is None else _existing_nodes_sentence(settings)
    yield (
        "Pods are placed by kube-scheduler's scores: on the emptiest node that fits, except the product's "
        "pods, which prefer nodes with pods of their own category."
    )
    yield (
        f"The controller resyncs every {resync.total_seconds():g} s here, because in virtual time no event is lost. It "
        f"reconciles at once for new jobs, and within {RESYNC.total_seconds():g} s, production's resync interval, for "
        "any other event."
    )


def _strategy_sentences() -> Iterator[str]:
    yield (
        "fixed-fleet has in each pool the fewest workers with which the pool's p95 wait is no longer than in "
        "fixed-flexible, and no more of its jobs are unfinished; its nodes and the stack's workloads run all the time."
    )
    yield (
        "cluster-autoscaling, worker-autoscaling and keda-defaults use one mixed group of the largest flexible shape, "
        "with the minimum and maximum of the groups that it replaces; only cluster-autoscaling opens budgets."
    )
    yield (
        "peak-fleet has as many workers in each pool as its jobs need at peak if all start when submitted, even above "
        "the pool's max, and the nodes for them all the time."
    )
    yield (
        f"keda-defaults: polling interval {POLL_S:g} s, scale to zero {COOLDOWN_S:g} s after the last job, in between "
        f"the HorizontalPodAutoscaler every {SYNC_S:g} s (stabilization {STABILISATION_S:g} s, tolerance "
        f"{TOLERANCE:.0%}, at most doubling or to {GROWS_TO_AT_LEAST}), pods to delete chosen by the ReplicaSet "
        f"controller, stock workers killed {KUBERNETES_GRACE_S:g} s after SIGTERM, a cluster autoscaler with its own "
        "defaults. Waiting and running jobs count, with the pool's jobs per worker; KEDA's default, the list length "
        "with 5 per worker, would repeatedly kill every job that outlasts the cooldown."
    )
    yield (
        "zero-wait-bound is calculated, not run: every job starts when submitted, on fractions of the cheapest nodes "
        "of the stack's groups, billed by the second, with no boot time; services and each group's minimum are "
        "included. Attainable is its saving relative to fixed-fleet."
    )


def _autoscaler_sentence(settings: StackSettings) -> str:
    waits = ", ".join(f"{kind.value} {wait.total_seconds():g} s" for kind, wait in UNNEEDED.items())
    return (
        f"Cluster autoscaler: unneeded time by kind of group {waits}, threshold {THRESHOLD:.0%} (fixed: its defaults, "
        f"{FLAGS.scale_down_unneeded_s:g} s and {FLAGS.utilization_threshold:.0%}), re-check of unremovable nodes "
        f"{FLAGS.unremovable_recheck_s:g} s, delay after a scale-up {FLAGS.scale_down_delay_after_add_s:g} s, "
        f"drain parallelism {settings.cluster.parallel_drains}."
    )


def _existing_nodes_sentence(settings: StackSettings) -> str:
    shapes = settings.cluster.node_shapes
    constant = [name for name in settings.autoscaled_groups if not shapes[name].autoscaled]
    scaled = [name for name in settings.autoscaled_groups if shapes[name].autoscaled]
    sentences = [
        "Nodes have the sizes in cluster.nodeShapes; their labels are unknown, and assumed to match all pods.",
        f"Nodes of {', '.join(constant)} are always present." if constant else "",
        f"Nodes of {', '.join(scaled)} have a cluster autoscaler with its default settings." if scaled else "",
    ]
    return " ".join(filter(None, sentences))


def _checkpoint_sentences(saves: Mapping[str, Saves]) -> Iterator[str]:
    """`saves`: by pool, including pools that only a strategy gives checkpoints to."""
    for pools, save in _pools_by_saves(saves):
        yield (
            f"Each job of {pools} opens a checkpoint and saves after every {save.every_s:g} s of work, which takes "
            f"{save.takes_s:g} s, and when its worker receives SIGTERM. It continues from its save, at the head of its "
            "queue; loading takes no time. keda-defaults has no checkpoints."
        )


def _pools_by_saves(saves: Mapping[str, Saves]) -> Iterator[tuple[str, Saves]]:
    for save in dict.fromkeys(saves.values()):
        yield ", ".join(name for name, other in saves.items() if other == save), save


def _disk_sentences(settings: StackSettings) -> Iterator[str]:
    names = [name for name, spec in settings.all_workloads.items() if spec.has_disks]
    if names:
        yield (
            f"Each pod of {', '.join(names)} has a disk (perPod) in the zone of its first node, and runs only on nodes "
            "of that zone; a new node goes to the zone with the fewest nodes of its group, unless such a pod waits. "
            "Zones have no other effect. A disk is free once its previous pod no longer exists."
        )


def _adopted_sentences(settings: StackSettings) -> Iterator[str]:
    rules = settings.adopted.items()
    if rules:
        asleep = ", except while they sleep," if any(rule.sleep for _, rule in rules) else ""
        yield (
            f"Adopted pods ({', '.join(f'{name} {rule.count}' for name, rule in rules)}) run all the time{asleep} and "
            "are never deployed. All strategies place them by their category and give them a budget."
        )
    if workers := [name for name, rule in rules if rule.category is Category.WORKER and rule.count]:
        yield (
            f"Pods of {', '.join(workers)} stay on their flexible nodes, also at night: pods that no controller "
            "recreates are never moved."
        )


def _sleep_sentences(settings: StackSettings, *, except_in: str) -> Iterator[str]:
    """`except_in`: the strategies whose pods never sleep."""
    sleeping = {name: sleep.when for name, sleep in settings.sleeps.items()}
    if by_clock := [name for name, when in sleeping.items() if when is SleepWhen.OUTSIDE_HOURS]:
        yield (
            f"{', '.join(by_clock)}: asleep by the workload controller's own calendar in all strategies but "
            f"{except_in}, whose pods run all the time; no operator wakes anything."
        )
    if idle := [name for name, when in sleeping.items() if when is SleepWhen.IDLE]:
        yield f"{', '.join(idle)}: awake at all times, since a trace does not say when a workload is idle."


def _list_price_sentences(settings: StackSettings) -> Iterator[str]:
    if settings.cluster.context is not None:
        yield _existing_price_sentence(settings)
        return
    if none_priced(settings):
        return
    yield (
        f"Dollars are nodes only: on-demand Linux prices of {settings.region} as of "
        f"{price_date(settings.region).on_demand.isoformat()}, billed by the second from launch to termination, "
        "the first instance type of each group."
    )
    if estimates := estimated_prices(settings):
        yield f"Prices that are not list prices: {estimates}."


def _price_sentences(settings: StackSettings) -> Iterator[str]:
    yield from _list_price_sentences(settings)
    if settings.cluster.context is not None or none_priced(settings):
        return
    assumption = PricingAssumption(settings.costs.pricing_assumption)
    if assumption.approximate:
        yield (
            f"Nodes up to each group's min (the mixed group's, too) cost the {assumption.value} rate (approximate) in "
            "every hour, present or not; nodes above it cost the on-demand price. All nodes of fixed-fleet and "
            "peak-fleet are steady and cost that rate; zero-wait-bound commits with hindsight."
        )
        if on_demand := without_plan_rate(settings):
            yield f"No {assumption.value} discount is known for {named(on_demand)}: their nodes are priced on demand."
    else:
        yield (
            "No commitment is assumed, not even for fixed-fleet, whose steady nodes would gain most from one; "
            "costs.pricingAssumption: compute-1y-no-upfront shows the effect."
        )
    yield from _spot_sentences(settings)
    yield (
        f"Dollars with spot: flexible nodes above their group's min at the typical spot price of a month "
        f"({price_date(settings.region).spot.isoformat()}), whether or not their pods tolerate interruptions."
    )


def _existing_price_sentence(settings: StackSettings) -> str:
    """The prices of an existing cluster's nodes. Its region is empty if the stack file has none."""
    listed = any(shape.instance_types for shape in settings.cluster.node_shapes.values())
    if not listed or not settings.region:
        return "Dollars are nodes only, at usdPerHour of cluster.nodeShapes."
    return (
        "Dollars are nodes only, at usdPerHour of cluster.nodeShapes; nodes with instanceTypes at on-demand Linux "
        f"prices of {settings.region} as of {price_date(settings.region).on_demand.isoformat()}, billed by the second."
    )


def _spot_sentences(settings: StackSettings) -> Iterator[str]:
    spot = [name for name, group in settings.node_groups.items() if group.kind is NodeKind.SPOT]
    if spot:
        unknown = ", ".join(without_spot_price(settings))
        but = f", but the on-demand price for {unknown}, whose saving is unknown" if unknown else ""
        yield (
            f"Nodes of the spot groups ({', '.join(spot)}) cost the typical spot price of a month{but}; "
            f"{steady_sentence(settings)}."
        )


def ray_assumptions(ray: Mapping[str, RaySettings], works: Sequence[RayWork]) -> Iterator[str]:
    """`works`: the tasks that the drivers of the replay request."""
    if not ray:
        return
    yield from _driver_sentences(works)
    yield (
        f"Ray: its own autoscaler looks every {LOOK_S:g} s and keeps no spare worker. It removes an idle worker after "
        "idleAfter unless a task of its group waits, and never removes a busy one. The head is never lost, and a task "
        "takes equally long on any worker. The pods of the operator, the workload controller and the scaler are left "
        "out."
    )
    sleeping = [name for name, cluster in ray.items() if cluster.sleep.when is not SleepWhen.NEVER]
    if sleeping:
        yield (
            f"{', '.join(sleeping)} sleeps by the workload controller's own decision, in which a driver counts from "
            "its start to its end; there are no manual wake-ups."
        )
    yield (
        "fixed-fleet keeps Ray's heads, drivers and workers all the time. Their numbers are minimized group by group, "
        "worsening no pool's waits or unfinished jobs; the total may exceed the minimum over all groups. "
        "zero-wait-bound pays for shares of workers, and for the heads of clusters that never sleep."
    )


def _driver_sentences(works: Sequence[RayWork]) -> Iterator[str]:
    if not works:
        return
    gangs = [work.members for work in works if work.members > 1]
    over = f", {len(gangs)} of them over 2 to {max(gangs)} workers that start together" if gangs else ""
    yield (
        f"{len(works)} jobs are Ray drivers: each holds a worker of its pool and joins within {JOIN_S:g} s. Together "
        f"they request {sum(work.tasks for work in works)} tasks{over}. A task requests the resources of its row, goes "
        "to the smallest group that fits and starts first come, first served; without a tasks column a row is one task."
    )
    parted = sum(work.tasks > work.at_once for work in works)
    if parted:
        yield f"{parted} of them have work above longestTask: they request it in equal parts, one after the other."


def estimated_prices(settings: StackSettings) -> str:
    return estimates_text(settings.region, types_of_nodes(settings).values())


def price_dates(region: str) -> Mapping[str, date]:
    """The date of each kind of price at its source."""
    current = price_date(region)
    return {"on-demand": current.on_demand, "commitments": current.plans, "spot": current.spot}
