"""One reading of a cluster. A missing part has a line that says why, and does not hide the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.monitoring.client import Answer, Prometheus, UnknownAnswer
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import Metrics
from ebbtide.operate.api import CannotOperate, controller_config_of, items, readable, require_customer
from ebbtide.operate.objects import Document
from ebbtide.operate.status import NoStatus, ServerView, from_pods, server_view
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.controller_config import ControllerConfig

NO_PROMETHEUS = UnknownAnswer(
    "no Prometheus: the stack file has none (monitoring.prometheus), and --prometheus names none"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopFacts:
    now: datetime
    config: ControllerConfig | None = None
    status: Document | None = None  # the controller's report
    server: ServerView | None = None  # the API server's view, if the controller does not answer
    nodes: Sequence[Document] | None = None
    pods: Sequence[Document] | None = None  # that have not ended
    measured: Mapping[str, Answer]  # by the keys of `queries`
    unread: Sequence[str] = ()


def top_facts(api: KubeApi, namespace: str, customer: str, prometheus: Prometheus | None) -> TopFacts:
    """Read all parts. Raises `ApiError` without a server, and `CannotOperate` for another customer's cluster."""
    unread: list[str] = []
    now, config, status, server = datetime.now(UTC), None, None, None
    try:
        config = controller_config_of(api, namespace)
    except (ApiError, CannotOperate) as error:
        if isinstance(error, ApiError) and error.status == 0:
            raise
        unread.append(f"pools and budgets: {collapsed(error)}")
    if config is not None:
        require_customer(config, customer)
        try:
            status = from_pods(api, namespace)
        except (NoStatus, ApiError) as error:
            unread.append(f"queues and reasons: the controller does not answer: {collapsed(error)}")
            server = readable("pools and budgets", unread, lambda: server_view(api, namespace, config, now))
    return TopFacts(
        now=now,
        config=config,
        status=status,
        server=server,
        nodes=readable("nodes", unread, lambda: items(api, "/api/v1/nodes", resourceVersion="0")),
        pods=readable("requests of pods", unread, lambda: _pods(api)),
        measured=_measured(prometheus, customer),
        unread=unread,
    )


def _pods(api: KubeApi) -> list[Document]:
    alive = "status.phase!=Succeeded,status.phase!=Failed"
    return [*items(api, "/api/v1/pods", fieldSelector=alive, resourceVersion="0")]


def queries(metrics: Metrics) -> Mapping[str, tuple[str, str]]:
    """Return expressions, each with the metric that it depends on.

    A calm cluster has no series for evictions. Then a series without a label shows whether the source works: 0 if it
    can see, -1 if it cannot. A pool without a series for waits has 0 if nothing waited, -1 if its waits are unknown.
    """
    used = {
        "used_cpu_cores": Recorded.USED_CPU,
        "used_memory_bytes": Recorded.USED_MEMORY,
        "used_gpus": Recorded.USED_GPUS,
    }
    evictions, waits = Recorded.EVICTIONS.of(metrics.customer), Recorded.WAITS.of(metrics.customer)
    return {
        **{name: (f"sum by (group) ({series.of(metrics.customer)})", "pod_info") for name, series in used.items()},
        "evictions": (
            f"sum by (workload) ({evictions}) or (max({metrics('exporter_sees', what='pods')}) - 1)",
            "exporter_sees",
        ),
        "waits": (f"max by (pool) ({waits}) or {metrics.without_waits('5m')}", "pool_jobs"),
    }


def _measured(prometheus: Prometheus | None, customer: str) -> dict[str, Answer]:
    expressions = queries(Metrics(customer))
    if prometheus is None:
        return dict.fromkeys(expressions, NO_PROMETHEUS)
    if (doubt := prometheus.doubt()) is not None:  # wait for one time-out, not for one per query
        return dict.fromkeys(expressions, doubt)
    return {name: prometheus.ask(expression, stands_on=[metric]) for name, (expression, metric) in expressions.items()}
