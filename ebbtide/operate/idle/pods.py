"""The pods that run now, and the monthly cost of each pod's requests.

A pod costs its share of its node's list price: the mean of its shares of CPU and memory, or its share of GPUs on a node
with GPUs. Spot nodes have the typical spot price of the price tables, but none on a cluster whose region is unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from ebbtide.monitoring.client import Prometheus, UnknownAnswer
from ebbtide.monitoring.rules import CUSTOMER
from ebbtide.prices import NoPrice, spot_typical
from ebbtide.settings.model import StackSettings
from ebbtide.text.money import HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPod:
    """`namespace`, `pod` and `workload` are labels of its series. `usd` is None if its node has no price."""

    namespace: str
    pod: str
    workload: str
    category: str
    gpus: float
    usd: float | None


def usd_of(pods: Sequence[PricedPod]) -> float | None:
    """Return US dollars a month; None if a pod has no price."""
    prices = [pod.usd for pod in pods if pod.usd is not None]
    return sum(prices) if len(prices) == len(pods) else None


def _spot_usd(region: str, kind: str, listed: float | None) -> float | None:
    """Return the typical spot price, or the list price without one. Without a region no spot price is known."""
    if not region:
        return None
    try:
        return spot_typical(region, kind)
    except NoPrice:
        return listed


def running_pods(prometheus: Prometheus, settings: StackSettings) -> list[PricedPod] | UnknownAnswer:
    everything = f'{{__name__=~"ebbtide_(pod|node)_.+",{CUSTOMER}="{settings.customer}"}}'
    samples = prometheus.ask(everything, stands_on=("pod_info",))
    if isinstance(samples, UnknownAnswer):
        return samples
    values: dict[tuple[str, ...], float] = {}  # by metric and pod, or metric and node
    labels_of: dict[tuple[str, ...], Mapping[str, str]] = {}
    for sample in samples:
        # Another team's recording rule may use this name with other labels.
        metric, labels = sample.labels.get("__name__", "").removeprefix("ebbtide_"), sample.labels
        thing = [labels.get(label, "") for label in (("namespace", "pod") if metric.startswith("pod_") else ("node",))]
        values[metric, *thing], labels_of[metric, *thing] = sample.value, labels
    pods: list[PricedPod] = []
    for (metric, *pod), labels in labels_of.items():
        if metric != "pod_info":
            continue
        on = labels.get("node", "")
        node = labels_of.get(("node_info", on), {})
        usd = values.get(("node_dollars_per_hour", on))
        if node.get("capacity_type", "").lower() == "spot":
            usd = _spot_usd(settings.stated_region, node.get("instance_type", ""), usd)
        requested = {of: values.get((f"pod_requested_{of}", *pod), 0.0) for of in ("cpu_cores", "memory_bytes", "gpus")}
        resources = ("gpus",) if values.get(("node_gpus", on)) else ("cpu_cores", "memory_bytes")
        share = sum(requested[of] / (values.get((f"node_{of}", on)) or inf) for of in resources) / len(resources)
        pods.append(
            PricedPod(
                namespace=pod[0],
                pod=pod[1],
                workload=labels.get("workload", ""),
                category=labels.get("category", ""),
                gpus=requested["gpus"],
                usd=None if usd is None else usd * share * HOURS_PER_MONTH,
            )
        )
    return pods
