"""What a replay takes for granted, in sentences: a figure without them is worth nothing."""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from ebbtide.prices import PricingAssumption, price_date
from ebbtide.settings.controller_document import SWEEP
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.hpa import GROWS_TO_AT_LEAST, STABILISATION_S, SYNC_S, TOLERANCE
from ebbtide.simulator.keda import COOLDOWN_S, POLL_S
from ebbtide.simulator.rollouts import USED_SHARE
from ebbtide.simulator.strategies import (
    FLAGS,
    KUBERNETES_GRACE_S,
    NODE_BOOT_S,
    POD_START_S,
    THRESHOLD,
    UNNEEDED_S,
)


def assumptions_of(
    settings: StackSettings, *, aligned: bool, left_out: int, sweep: timedelta, rollouts: bool
) -> tuple[str, ...]:
    return (
        *_of_jobs(left_out, aligned=aligned),
        _of_rollouts(rollouts=rollouts),
        *_of_cluster(sweep),
        *_of_money(settings),
    )


def _of_jobs(left_out: int, *, aligned: bool) -> Iterator[str]:
    if aligned:
        yield (
            "The trace's clock is not the customer's: the middle of its busiest 12 hours of the day was put on the "
            "middle of a Monday's business hours; --start chooses another time."
        )
    if left_out:
        yield f"{left_out} jobs longer than --max-job were left out before anything else was counted."
    yield (
        "A job runs on the smallest pool that fits its request and length, one job per worker, first in, first out; "
        "a fraction of a GPU takes a whole one."
    )
    yield (
        "Node-hours are counted from second 0 to the end of the last day, for jobs submitted in that time; jobs that "
        "have not ended by then are unfinished, and one that never started counts with its wait so far."
    )
    yield "A job that is interrupted is queued again and starts from zero; its wait is the one until its first start."


def _of_rollouts(*, rollouts: bool) -> str:
    if not rollouts:
        return "Services are never deployed (--no-rollouts): a pod stays where it was put unless it is evicted."
    return (
        "Services are deployed: each flexible workload once on every working day, each fixed one once a week, at times "
        f"drawn within the first {USED_SHARE:.0%} of the day's business hours and the same for every strategy; one pod "
        "after the other, with 1 pod extra for flexible and 1 fewer for fixed workloads, never in closed time. "
        "A pod replaced this way is no eviction."
    )


def _of_cluster(sweep: timedelta) -> Iterator[str]:
    yield (
        f"A node takes pods {NODE_BOOT_S:g} s after its launch and a pod is ready {POD_START_S:g} s after it got its "
        "node; zones count as one, DaemonSets are taken off every node, and capacity is always available."
    )
    waits = ", ".join(f"{kind.value} {seconds:g} s" for kind, seconds in UNNEEDED_S.items())
    yield (
        f"Cluster autoscaler: unneeded time by kind of group {waits}, threshold {THRESHOLD:.0%} (fixed: its defaults, "
        f"{FLAGS.scale_down_unneeded_s:g} s and {FLAGS.utilization_threshold:.0%}), re-check of unremovable nodes "
        f"{FLAGS.unremovable_recheck_s:g} s, delay after a scale-up {FLAGS.scale_down_delay_after_add_s:g} s, "
        f"drain parallelism {FLAGS.max_drain_parallelism}."
    )
    yield (
        "Pods land where kube-scheduler's scores put them: on the emptiest node that takes them, but for the product's "
        "pods, which prefer nodes with pods of their own category."
    )
    yield (
        f"The controller sweeps every {sweep.total_seconds():g} s here, because in virtual time no hint is lost. It "
        f"looks at new jobs at once and at any other news within {SWEEP.total_seconds():g} s, production's own sweep."
    )
    yield (
        "fixed-fleet is the cheapest constant number of workers, over all pools, whose overall p95 wait is not above "
        "that of fixed-flexible, with its nodes and the stack's workloads on all the time."
    )
    yield (
        "cluster-autoscaling, worker-autoscaling and keda-defaults use one mixed group of the largest flexible shape, "
        "with the minimum and maximum of the groups that it replaces; only cluster-autoscaling opens budgets."
    )
    yield (
        "peak-fleet has as many workers of each pool as its jobs want at once if all start when submitted, however "
        "many the pool may have, and the nodes for them all the time."
    )
    yield (
        f"keda-defaults: a look every {POLL_S:g} s, zero {COOLDOWN_S:g} s after the last job was seen, in between "
        f"the HorizontalPodAutoscaler every {SYNC_S:g} s ({STABILISATION_S:g} s before it shrinks, tolerance "
        f"{TOLERANCE:.0%}, at most doubling or to {GROWS_TO_AT_LEAST}), victims picked by the ReplicaSet controller, "
        f"stock workers killed {KUBERNETES_GRACE_S:g} s after they were told to stop, a cluster autoscaler with its "
        "own defaults. Waiting and running jobs count, as many to a worker as in the pool; KEDA's default, the list "
        "alone with 5 to a worker, would kill every job that outlasts the cooldown again and again."
    )
    yield (
        "zero-wait-bound runs nothing: every job starts when submitted, in the workers of its pool, on fractions of "
        "the cheapest nodes of the stack's groups, billed by the second, without a boot, services and each group's "
        "minimum included; attainable is what it saves against fixed-fleet."
    )


def _of_money(settings: StackSettings) -> Iterator[str]:
    assumption = PricingAssumption(settings.costs.pricing_assumption)
    yield (
        f"Dollars are nodes only: on-demand Linux prices of {settings.region} as of "
        f"{price_date(settings.region).on_demand.isoformat()}, billed by the second from launch to termination, "
        "the first instance type of each group."
    )
    if assumption.approximate:
        yield (
            f"The nodes up to each group's min (of the mixed group too) cost the {assumption.value} rate "
            "(approximate) in every hour, present or not, and those above it on-demand; fixed-fleet and peak-fleet, "
            "whose nodes are all steady, have that rate for all of them, and zero-wait-bound commits with hindsight."
        )
    else:
        yield (
            "No commitment is assumed, not for fixed-fleet either, whose steady nodes would gain most by one; "
            "costs.pricingAssumption: compute-1y-no-upfront shows that."
        )
    yield (
        f"Dollars with spot: flexible nodes above their group's min at the typical spot price of a month "
        f"({price_date(settings.region).spot.isoformat()}), whether or not their pods would bear it."
    )


def price_dates(region: str) -> Mapping[str, date]:
    """When each kind of price was current at its source."""
    current = price_date(region)
    return {"on-demand": current.on_demand, "commitments": current.plans, "spot": current.spot}
