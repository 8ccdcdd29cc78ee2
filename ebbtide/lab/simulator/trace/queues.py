"""`--queues old=new`: a trace's queues, renamed to queues that the stack's pools serve."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ebbtide.lab.simulator.trace.table import Progress
from ebbtide.lab.simulator.trace.traces import Reading, Trace, TraceError, find_trace
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.file.problems import did_you_mean
from ebbtide.settings.model import StackSettings

BY_FIT = "No pool serves a queue of the trace: jobs go to the smallest pool that fits."


def trace_for(
    stacks: Sequence[StackSettings], path_or_name: str, reading: Reading, progress: Progress | None = None
) -> Trace:
    """Read a trace in the zone of the first stack, with its queues renamed to queues of the stacks' pools.

    Raises `TraceError`.
    """
    trace = find_trace(path_or_name, replace(reading, zone=stacks[0].business_hours.timezone), progress)
    return with_queue_names([trace], reading.queue_names, stacks)[0]


def with_queue_names(traces: Sequence[Trace], names: Mapping[str, str], stacks: Sequence[StackSettings]) -> list[Trace]:
    """Rename queues of the traces to queues of the stacks' pools. Raises `TraceError` with a line for each fault."""
    if not names:
        return list(traces)
    queues = sorted(frozenset[str]().union(*(trace.queues for trace in traces)))
    served = sorted(frozenset[str]().union(*map(_served_queues, stacks)))
    faults = list(_faults(names, queues, served))
    if faults:
        raise TraceError("\n".join(faults))
    return [
        replace(
            trace,
            jobs=tuple(replace(job, queue=names[job.queue]) if job.queue in names else job for job in trace.jobs),
            queue_names=names,
        )
        for trace in traces
    ]


def served_by_none(trace: Trace, stack: StackSettings) -> bool:
    """True if no pool of the stack serves a queue of the trace: its jobs then go to the smallest pool that fits."""
    return trace.queues.isdisjoint(_served_queues(stack))


def _served_queues(stack: StackSettings) -> set[str]:
    return {queue for pool in with_adopted_pools(stack).workers.values() for queue in pool.source.queues}


def _faults(names: Mapping[str, str], queues: Sequence[str], served: Sequence[str]) -> Iterator[str]:
    for old, new in names.items():
        if old not in queues:
            yield f"--queues {old}={new}: wanted a queue of the trace, found {old!r}; {did_you_mean(old, queues)}"
        if new not in served:
            yield (
                f"--queues {old}={new}: wanted a queue that a pool serves (source.queues), found {new!r}; "
                f"{did_you_mean(new, served)}"
            )
