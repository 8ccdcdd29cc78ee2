"""What a replay takes for granted about Ray clusters, in sentences."""

from collections.abc import Iterator, Mapping, Sequence

from ebbtide.settings.sections.ray import RaySettings, SleepWhen
from ebbtide.simulator.world.ray.clusters import LOOK_S
from ebbtide.simulator.world.ray.drives import JOIN_S
from ebbtide.simulator.world.ray.work import RayWork


def ray_assumptions(ray: Mapping[str, RaySettings], works: Sequence[RayWork]) -> Iterator[str]:
    """`works`: what the drivers of the replay ask for."""
    if not ray:
        return
    yield from _of_drivers(works)
    yield (
        f"Ray: workers come and go with its own autoscaler, which looks every {LOOK_S:g} s and keeps no spare worker; "
        "an idle worker goes after idleAfter unless a task of its group waits, a busy one never. The head is never "
        "lost, and a task takes as long on any worker. The operator's and the workload controller's pods are left out, "
        "like the scaler's."
    )
    sleeping = [name for name, it in ray.items() if it.sleep.when is not SleepWhen.NEVER]
    if sleeping:
        yield (
            f"{', '.join(sleeping)} sleeps by the workload controller's own decision, in which a driver counts from "
            "its start to its end; nobody wakes it by hand."
        )
    yield (
        "fixed-fleet keeps Ray's heads, drivers and workers all the time: group by group as few as leave no more jobs "
        "late, which may be more than the fewest together. zero-wait-bound pays for shares of workers, and for the "
        "heads of clusters that never sleep."
    )


def _of_drivers(works: Sequence[RayWork]) -> Iterator[str]:
    if not works:
        return
    gangs = [work.members for work in works if work.members > 1]
    over = f", {len(gangs)} of them over 2 to {max(gangs)} workers that start together" if gangs else ""
    yield (
        f"{len(works)} jobs are drivers of Ray: each holds a worker of its pool, joins within {JOIN_S:g} s and asks "
        f"for {sum(work.tasks for work in works)} tasks together{over}. Tasks ask for what the row asks for, go to the "
        "smallest group that fits and start first come, first served; without a tasks column a row is one task."
    )
    parted = sum(work.tasks > work.at_once for work in works)
    if parted:
        yield f"{parted} of them have work above longestTask: they ask for it in equal parts, one after the other."
