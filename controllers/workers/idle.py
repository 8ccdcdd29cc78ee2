"""Which of a pool's pods say that they are idle. Pure.

A worker reports its host's name, and a host's name is cut at 63 characters and never ends in a dash or a dot: longer
pod names are compared in that form, and two pods that share one are both taken for busy. A source that cannot tell pod
from pod calls them idle all together, and only while nothing at all is in flight.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from controllers.ports import Known, PodName, PodPhase, PodSeen

_HOST_LIMIT = 63


def is_blind(known: Known) -> bool:
    """Whether work is in flight that any of the pods, the pending ones included, may hold."""
    return not known.names_idle and (known.in_flight > 0 or known.stale > 0)


def with_idle_pods(known: Known, pods: Sequence[PodSeen]) -> Known:
    """The same reading with `idle` in the names of these pods."""
    if not known.names_idle:
        quiet = () if is_blind(known) else pods
        return replace(known, idle=frozenset(pod.name for pod in quiet if pod.phase is PodPhase.RUNNING))
    if all(len(pod.name) <= _HOST_LIMIT for pod in pods):
        return known
    hosts = {pod.name: _host(pod.name) for pod in pods}
    sharing = Counter(hosts.values())
    return replace(known, idle=frozenset(pod for pod in hosts if hosts[pod] in known.idle and sharing[hosts[pod]] == 1))


def _host(pod: PodName) -> str:
    return pod if len(pod) <= _HOST_LIMIT else pod[:_HOST_LIMIT].rstrip("-.")
