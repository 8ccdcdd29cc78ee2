"""Recording rules for pages and dashboards.

They read the metrics of Ebbtide's processes, of the stack's cluster autoscaler, and of the kubelet's cAdvisor.
**cAdvisor's series have no customer** in an existing Prometheus: joins with the exporter's pods and nodes select them,
so another cluster in the same Prometheus is left out unless it has a node and a pod of the same names.

During a rollout there may be two exporters, so the rules take the maximum of each of its series, and a node's or pod's
newest labels: one node never counts twice. Kubelets and GPUs may be scraped by two addresses, so the rules take the
maximum of each container and GPU before any sum.
"""

from collections.abc import Iterator, Sequence

from ebbtide.monitoring.gpus import EACH_GPU, gpu_use
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import CUSTOMER, Metrics, RecordingRule
from ebbtide.vocabulary.exporter import metric_label

_POD = ("namespace", "pod")
_BY = (CUSTOMER, "group", "category", "workload")


def recordings(customer: str, cost_labels: Sequence[str] = ()) -> tuple[RecordingRule, ...]:
    """Return the rules. `cost_labels`: labels of pods by which the ledger divides costs."""
    of = Metrics(customer)
    return (
        *_of_the_controller(of),
        *_of_nodes(of),
        *_of_money(of),
        *_of_requests(of),
        *(rule for label in cost_labels for rule in _of_label(of, label)),
        *_of_use(of),
        *_of_trouble(of),
    )


def _of_the_controller(of: Metrics) -> Iterator[RecordingRule]:
    spent, reconciles = (f"rate({of(name)}[5m])" for name in ("reconcile_seconds_total", "reconciles_total"))
    opened = f"{of.highest('budget_max_unavailable', 'budget')} > 0"
    reason = of.highest("budget_reason", "budget", "reason")
    waited = f"quantile_over_time(0.95, {of('pool_oldest_wait_seconds')}[1h])"
    yield RecordingRule(record=Recorded.JOBS, expr=f"sum by (customer, part) ({of('pool_jobs')})")
    yield RecordingRule(record=Recorded.WORKERS_RUNNING, expr=f"sum by (customer) ({of('pool_running')})")
    yield RecordingRule(record=Recorded.WORKERS_WANTED, expr=f"sum by (customer) ({of('pool_wanted')})")
    yield RecordingRule(
        record=Recorded.WORKER_HOURS,
        expr=f"sum by (customer, pool) (increase({of('worker_hours_total')}[1d]))",
    )
    yield RecordingRule(record=Recorded.WAITS, expr=f"max by (customer, pool) ({waited})")
    yield RecordingRule(
        record=Recorded.BUDGETS_OPEN,
        expr=f"count by (customer, reason) ({reason} and on (customer, budget) ({opened}))",
    )
    yield RecordingRule(
        record=Recorded.RECONCILE,
        expr=f"sum by (customer) ({spent}) / sum by (customer) ({reconciles})",
    )


def _of_nodes(of: Metrics) -> Iterator[RecordingRule]:
    yield RecordingRule(record=Recorded.NODES, expr=f"count by (customer, group) ({_groups(of)})")
    yield RecordingRule(record=Recorded.PAID_CPU, expr=_by_group(of, "node_cpu_cores"))
    yield RecordingRule(record=Recorded.PAID_MEMORY, expr=_by_group(of, "node_memory_bytes"))
    yield RecordingRule(record=Recorded.PAID_GPUS, expr=_by_group(of, "node_gpus"))
    born = of.highest("node_created_timestamp_seconds", "node")
    aged = f"(time() - {born}) * on (customer, node) group_left (group) {_groups(of)}"
    yield RecordingRule(record=Recorded.OLDEST_NODE, expr=f"max by (customer, group) ({aged})")
    yield RecordingRule(record=Recorded.MEDIAN_NODE, expr=f"quantile by (customer, group) (0.5, {aged})")
    unremovable = f'cluster_autoscaler_unremovable_nodes_count{{{CUSTOMER}="{of.customer}"}}'
    yield RecordingRule(record=Recorded.UNREMOVABLE, expr=f"max by (customer, reason) ({unremovable})")


def _of_money(of: Metrics) -> Iterator[RecordingRule]:
    yield RecordingRule(record=Recorded.DOLLARS, expr=_by_group(of, "node_dollars_per_hour"))
    # Not a mean of groups: a group without nodes has no series, so that its mean would leave its zeros out.
    yield RecordingRule(
        record=Recorded.ALL_DOLLARS,
        expr=f"sum by (customer) ({of.highest('node_dollars_per_hour', 'node')})",
    )


def _of_requests(of: Metrics) -> Iterator[RecordingRule]:
    requested = {
        Recorded.REQUESTED_CPU: "cpu_cores",
        Recorded.REQUESTED_MEMORY: "memory_bytes",
        Recorded.REQUESTED_GPUS: "gpus",
    }
    for record, resource in requested.items():
        requested_amount = of.highest(f"pod_requested_{resource}", *_POD)
        yield RecordingRule(
            record=record,
            expr=f"sum by ({', '.join(_BY)}) ({requested_amount} * on (customer, namespace, pod) group_left "
            f"(category, workload, node) {_pods(of)} * on (customer, node) group_left (group) {_groups(of)})",
        )


def _of_label(of: Metrics, key: str) -> Iterator[RecordingRule]:
    """Yield the requests by value of one label. Labels are apart, so that their values do not multiply."""
    name = metric_label(key)
    requested = {
        Recorded.LABELLED_CPU: "cpu_cores",
        Recorded.LABELLED_MEMORY: "memory_bytes",
        Recorded.LABELLED_GPUS: "gpus",
    }
    pods = of.newest("pod_info", _POD, "node", name)
    for record, resource in requested.items():
        requested_amount = of.highest(f"pod_requested_{resource}", *_POD)
        joined = (
            f"{requested_amount} * on (customer, namespace, pod) group_left ({name}, node) {pods} "
            f"* on (customer, node) group_left (group) {_groups(of)}"
        )
        value = f'label_replace({joined}, "value", "$1", "{name}", "(.*)")'
        yield RecordingRule(record=record, expr=f"sum by (customer, group, value) ({value})", labels={"label": key})


def _of_use(of: Metrics) -> Iterator[RecordingRule]:
    cpu = 'rate(container_cpu_usage_seconds_total{container!=""}[5m])'
    yield RecordingRule(record=Recorded.USED_CPU, expr=_used(of, cpu))
    memory = 'container_memory_working_set_bytes{container!=""}'
    yield RecordingRule(record=Recorded.USED_MEMORY, expr=_used(of, memory))
    used = gpu_use('pod!=""')
    by_pod = f"sum by (namespace, pod) (max by ({EACH_GPU}) ({used}) / 100)"
    yield RecordingRule(
        record=Recorded.USED_GPUS,
        expr=f"sum by ({', '.join(_BY)}) ({by_pod} * on (namespace, pod) group_left "
        f"(customer, category, workload, node) {_pods(of)} * on (customer, node) group_left (group) {_groups(of)})",
    )
    slowed, periods = (
        _by_workload(of, f'rate(container_cpu_cfs_{counter}_total{{container!=""}}[5m])')
        for counter in ("throttled_periods", "periods")
    )
    yield RecordingRule(record=Recorded.THROTTLED, expr=f"{slowed} / {periods}")


def _of_trouble(of: Metrics) -> Iterator[RecordingRule]:
    counted = {
        Recorded.RESTARTS: "container_restarts_total",
        Recorded.OOM_KILLS: "container_oom_kills_total",
        Recorded.EVICTIONS: "evictions_total",
    }
    for record, counter in counted.items():
        yield RecordingRule(record=record, expr=f"sum by (customer, workload) (increase({of(counter)}[1h]))")


def _groups(of: Metrics) -> str:
    return of.newest("node_info", ("node",), "group")


def _pods(of: Metrics) -> str:
    return of.newest("pod_info", _POD, "node", "category", "workload")


def _by_group(of: Metrics, metric: str) -> str:
    by_node = of.highest(metric, "node")
    return f"sum by (customer, group) ({by_node} * on (customer, node) group_left (group) {_groups(of)})"


def _of_pods(of: Metrics, series: str) -> str:
    """Sum by node and pod, with the exporter's labels of the pod."""
    by_container = f"max by (node, namespace, pod, container) ({series})"
    by_pod = f"sum by (node, namespace, pod) ({by_container})"
    return f"{by_pod} * on (node, namespace, pod) group_left (customer, category, workload) {_pods(of)}"


def _used(of: Metrics, series: str) -> str:
    return f"sum by ({', '.join(_BY)}) ({_of_pods(of, series)} * on (customer, node) group_left (group) {_groups(of)})"


def _by_workload(of: Metrics, series: str) -> str:
    return f"sum by (customer, workload) ({_of_pods(of, series)})"
