"""What a replay takes for granted, in sentences: a figure without them is worth nothing."""

from collections.abc import Iterator
from datetime import timedelta

from ebbtide.prices import PricingAssumption, price_date
from ebbtide.settings.model import StackSettings
from ebbtide.simulator.rollouts import USED_SHARE
from ebbtide.simulator.strategies import FLAGS, NODE_BOOT_S, POD_START_S


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
    yield (
        f"Cluster autoscaler: unneeded time {FLAGS.scale_down_unneeded_s:g} s, re-check of unremovable nodes "
        f"{FLAGS.unremovable_recheck_s:g} s, delay after a scale-up {FLAGS.scale_down_delay_after_add_s:g} s, "
        f"threshold {FLAGS.utilization_threshold:.0%}, drain parallelism {FLAGS.max_drain_parallelism}."
    )
    yield (
        "Pods land on the emptiest node that takes them, as kube-scheduler scores; the product's preference for nodes "
        "of a pod's own category is left out."
    )
    yield f"The controller sweeps every {sweep.total_seconds():g} s here, because in virtual time no hint is lost."
    yield (
        "fixed-fleet is the cheapest constant number of workers, over all pools, whose overall p95 wait is not above "
        "that of fixed-flexible, with its nodes and the stack's workloads on all the time."
    )
    yield (
        "cluster-autoscaling and worker-autoscaling use one mixed group of the largest flexible shape, with the "
        "minimum and maximum of the groups that it replaces; worker-autoscaling never opens a budget."
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
            "(approximate) in every hour, present or not, and those above it on-demand; fixed-fleet, whose nodes are "
            "all steady, has that rate for all of them."
        )
    else:
        yield (
            "No commitment is assumed, not for fixed-fleet either, whose steady nodes would gain most by one; "
            "costs.pricingAssumption: compute-1y-no-upfront shows that."
        )
