"""What Vertical Pod Autoscalers of the cluster recommend, ours and those that others made."""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.operate.api import items, one_line
from ebbtide.operate.objects import Document, at, rows_at
from ebbtide.units.quantities import MEBIBYTE, read_quantity

API = "/apis/autoscaling.k8s.io/v1"


def recommendations(
    api: KubeApi, namespaces: Iterable[str], unread: list[str]
) -> Mapping[tuple[str, str, str], tuple[int, int]]:
    """Millicores and MiB by namespace, workload and container. A cluster without that kind has none, and no line.

    What the API server refuses is a line in `unread`.
    """
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for namespace in namespaces:
        try:
            for item in items(api, f"{API}/namespaces/{namespace}/verticalpodautoscalers"):
                found |= {(namespace, *place): amounts for place, amounts in _of(item)}
        except ApiError as error:
            if error.status != 404:
                unread.append(one_line(error))
                break
    return found


def _of(item: Document) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
    workload = str(at(item, "spec", "targetRef", "name") or "")
    for one in rows_at(item, "status", "recommendation", "containerRecommendations"):
        cpu, memory = (read_quantity(at(one, "target", resource)) for resource in ("cpu", "memory"))
        if cpu is not None and memory is not None:
            yield (workload, str(one.get("containerName"))), (ceil(cpu * 1000), ceil(memory / MEBIBYTE))
