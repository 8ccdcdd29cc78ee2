"""For each alert, what goes wrong: series that are well, those that are not, and the message that must arrive.

A case is played in minutes on `promtool test rules`: well, then wrong for as long as the alert waits and longer, then
well again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ebbtide.monitoring.rules import Alert
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.sections.costs import CostSettings
from tests.builders.settings import shortest
from tests.builders.stack import pool_settings
from tests.components.ray.stack import ray_settings

_SERVED = """\
ebbtide:monitoring: { prometheus: bundled }
ebbtide:nodeGroups: { fixed: { max: 8 }, gpu: { max: 8 } }
ebbtide:services:
  embedder:
    image: example.com/embedder:1
    cpu: 3
    memory: 12Gi
    gpu: 1
    ports: { http: 8000 }
    port: http
    probes: { readiness: { http: /healthz, port: http } }
    longestRequest: 60s
    slo: { p95: 400ms, errors: 0.1% }
    scale: { metrics: { inFlight: 3 }, min: 1, max: 4, floor: forecast }
    route: { host: models.acme.internal }
"""
_ADOPTED = """\
ebbtide:cluster: { version: "1.36" }
ebbtide:adopted:
  hub: { namespace: jupyter, selector: { app: hub }, category: fixed, replicas: 1, cpu: 1, memory: 2Gi }
"""
TARGET = {"drain_within": timedelta(minutes=10), "job_takes": timedelta(minutes=1)}
STACK = ray_settings().model_copy(
    update={
        "customer": "acme",
        "costs": CostSettings(plan=4000.0),
        "services": stack_of_text(shortest(more=_SERVED), stack="acme", file="Pulumi.acme.yaml").services,
        "workers": {"train": pool_settings(timedelta(minutes=30)).model_copy(update=TARGET)},
        "adopted": stack_of_text(shortest(more=_ADOPTED), stack="acme", file="Pulumi.acme.yaml").adopted,
    }
)
"""A stack that has every alert."""

GONE = "_"
"""As promtool writes a sample that is missing."""

_POOL, _BUDGET, _WORKLOAD = 'pool="train"', 'budget="api"', 'workload="raycluster ray/flow"'
REFUSED = f'ebbtide_pool_reason{{{_POOL},reason="cluster-creates-no-more-pods"}}'
UNKNOWN_READING = f'ebbtide_pool_reading{{{_POOL},state="unknown"}}'
OPEN, WANTED = f"ebbtide_budget_max_unavailable{{{_BUDGET}}}", f"ebbtide_budget_wanted{{{_BUDGET}}}"
CLOCK = "ebbtide_last_reconcile_timestamp_seconds"
WAIT = f"ebbtide_pool_oldest_wait_seconds{{{_POOL}}}"
RUNNING, PENDING = f"ebbtide_pool_running{{{_POOL}}}", f"ebbtide_pool_pending{{{_POOL}}}"
FAILING, ENDING = f"ebbtide_pool_failing{{{_POOL}}}", f"ebbtide_pool_terminating{{{_POOL}}}"
_HPA = 'namespace="ebbtide",hpa="api"'
HPA_SEES, HPA_REPLICAS = (f"ebbtide_hpa_{what}{{{_HPA}}}" for what in ("scaling_active", "replicas"))
CLOSER = 'cronjob="ebbtide-closer-0745"'
DUE, CLOSED = (f"ebbtide_closer_last_{what}_timestamp_seconds{{{CLOSER}}}" for what in ("schedule", "success"))
CERTIFICATE = 'ebbtide_certificate_end_timestamp_seconds{endpoint="redis:6379"}'
HOLIDAYS = "ebbtide_holidays_end_timestamp_seconds"
SEES_NODES = 'ebbtide_exporter_sees{what="nodes"}'
LEFT_ASLEEP = 'ebbtide_workload_left_asleep{workload="deployment ebbtide/notes"}'
LONG = "100000000"
UNLABELLED = 'ebbtide_adopted_pods_unlabelled{workload="hub"}'
OVERDUE = f'ebbtide_workload_workers_overdue{{{_WORKLOAD},group="gpu"}}'

_SERVICE_HPA = 'namespace="ebbtide",hpa="embedder"'
SERVICE_SEES, SERVICE_PODS = (f"ebbtide_hpa_{what}{{{_SERVICE_HPA}}}" for what in ("scaling_active", "replicas"))
_CLUSTER = 'envoy_cluster_name="httproute/ebbtide/embedder/rule/0"'
ACTIVE, WAITING = (f"envoy_cluster_upstream_rq_{what}{{{_CLUSTER}}}" for what in ("active", "pending_active"))
ENDPOINTS = f"envoy_cluster_membership_total{{{_CLUSTER}}}"
ONE_PROXY, OTHER_PROXY = (f'envoy_control_plane_connected_state{{proxy="{it}"}}' for it in ("one", "other"))
ANSWERED = f'envoy_cluster_upstream_rq{{{_CLUSTER},envoy_response_code="200"}}'
FAILED = f'envoy_cluster_upstream_rq{{{_CLUSTER},envoy_response_code="503"}}'
FULL = f"envoy_cluster_upstream_rq_pending_overflow{{{_CLUSTER}}}"
FAST, ALL = (f'envoy_cluster_upstream_rq_time_bucket{{{_CLUSTER},le="{le}"}}' for le in ("250", "+Inf"))
LATER = f'envoy_cluster_upstream_rq_time_bucket{{{_CLUSTER},le="500"}}'

WELL: Mapping[str, str] = {
    "ebbtide_leader": "1",
    "ebbtide_troubles": "0",
    "ebbtide_window_open": "0",
    OPEN: "0",
    WANTED: "0",
    UNKNOWN_READING: GONE,
    WAIT: "5",
    f"ebbtide_pool_wanted{{{_POOL}}}": "3",
    RUNNING: "3",
    PENDING: "0",
    FAILING: "0",
    ENDING: "0",
    REFUSED: GONE,
    "ebbtide_workloads_leader": "1",
    "ebbtide_exporter_config_good": "1",
    SEES_NODES: "1",
    HPA_SEES: "1",
    HPA_REPLICAS: "3",
    DUE: "0",
    CLOSED: "10",
    CERTIFICATE: LONG,
    HOLIDAYS: LONG,
    OVERDUE: "0",
    UNLABELLED: "0",
    LEFT_ASLEEP: GONE,
    SERVICE_SEES: "1",
    SERVICE_PODS: "4",
    ACTIVE: "10",
    WAITING: "2",
    ENDPOINTS: "4",
    ONE_PROXY: "1",
    OTHER_PROXY: "1",
    f"ebbtide_workload_noted{{{_WORKLOAD}}}": "0",
    f'ebbtide_workload_state{{{_WORKLOAD},state="unknown",why="cluster-unknown"}}': GONE,
}
"""Series of a stack that is well by day, by the value that each keeps. The clock of `CLOCK` goes on beside them."""

COUNTERS: Mapping[str, int] = {ANSWERED: 100, FAILED: 0, FULL: 0, FAST: 99, LATER: 100, ALL: 100}
"""By how much each grows in a minute while all is well. A fault says another number."""

BEFORE, AFTER = 20, 40  # minutes
PAST = 15  # minutes that a fault outlasts its alert's own wait


@dataclass(frozen=True, kw_only=True)
class Case:
    alert: str
    wrong: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    says: str  # the summary as it arrives


OF_TRAIN = {"pool": "train"}
OF_FLOW = {"workload": "raycluster ray/flow"}

OF_SERVICE = {"service": "embedder"}
_MISSING = "A metric that the pods embedder scale by is missing: their number stays as it is, whatever the load."
_FEW = "Fewer than two of the gateway's Envoys are seen: if the last one fails, no request is answered."

CASES = (
    Case(
        alert="EbbtideBudgetOpen",
        wrong={OPEN: "1"},
        labels={"budget": "api"},
        says="The budget api is open outside the disruption window, so that its pods may be moved.",
    ),
    Case(
        alert="EbbtideNoLeader",
        wrong={"ebbtide_leader": "0"},
        says="No controller is known to hold its Lease: queues are not scaled, budgets stay as they are.",
    ),
    Case(
        alert="EbbtideNoLeader",
        wrong={"ebbtide_leader": GONE},
        says="No controller is known to hold its Lease: queues are not scaled, budgets stay as they are.",
    ),
    Case(
        alert="EbbtideControllerStuck",
        wrong={CLOCK: "1200"},
        says="The controller holds the Lease and has not reconciled for 15m 0s.",
    ),
    Case(
        alert="EbbtideControllerBlind",
        wrong={UNKNOWN_READING: "1"},
        labels=OF_TRAIN,
        says="The controller cannot tell what the pool train needs, and holds its workers as they are.",
    ),
    Case(
        alert="EbbtideControllerInDoubt",
        wrong={"ebbtide_troubles": "1"},
        says="The controller distrusts a clock, its config or its calendar, or cannot see the cluster.",
    ),
    Case(
        alert="EbbtideQueueLate",
        wrong={WAIT: "700"},
        labels=OF_TRAIN,
        says="A job of the pool train has waited for 11m 40s, and drainWithin says 10m.",
    ),
    Case(
        alert="EbbtideWorkersFail",
        wrong={FAILING: "2"},
        labels=OF_TRAIN,
        says="Workers of the pool train crash in a loop or cannot get their image.",
    ),
    Case(
        alert="EbbtidePoolCapped",
        wrong={REFUSED: "1"},
        labels=OF_TRAIN,
        says="The cluster creates no more pods for the pool train: a quota or an admission rule.",
    ),
    Case(
        alert="EbbtideWorkersPending",
        wrong={PENDING: "1", RUNNING: "2"},
        labels=OF_TRAIN,
        says="Workers of the pool train have waited for nodes or images for half an hour.",
    ),
    Case(
        alert="EbbtideWorkerWillNotStop",
        wrong={ENDING: "1"},
        labels=OF_TRAIN,
        says="Pods of the pool train have been terminating for longer than a pod may take.",
    ),
    Case(
        alert="EbbtideExporterAway",
        wrong={"ebbtide_exporter_config_good": GONE},
        says="The exporter is away or cannot see a part of the cluster, so alerts that depend on it cannot fire.",
    ),
    Case(
        alert="EbbtideExporterAway",
        wrong={SEES_NODES: "0"},
        labels={"what": "nodes"},
        says="The exporter is away or cannot see a part of the cluster, so alerts that depend on it cannot fire.",
    ),
    Case(
        alert="EbbtideCloserFailed",
        wrong={DUE: "60"},
        labels={"cronjob": "ebbtide-closer-0745"},
        says="The closer ebbtide-closer-0745 was due 33m 0s ago and has not succeeded: budgets that the controller "
        "left open stay open.",
    ),
    Case(
        alert="EbbtideCloserFailed",
        wrong={DUE: "60", CLOSED: GONE},
        labels={"cronjob": "ebbtide-closer-0745"},
        says="The closer ebbtide-closer-0745 was due 33m 0s ago and has not succeeded: budgets that the controller "
        "left open stay open.",
    ),
    Case(
        alert="EbbtideCloserNotStarted",
        wrong={CLOSED: "-300000"},
        says="No closer has succeeded for 3d 12h 4m 0s, although openings are at most 73h apart.",
    ),
    Case(
        alert="EbbtideHpaBlind",
        wrong={HPA_SEES: "0"},
        labels={"namespace": "ebbtide", "hpa": "api"},
        says="The HPA api in ebbtide cannot read its metrics, and holds its replicas.",
    ),
    Case(
        alert="EbbtideWorkloadLeftAsleep",
        wrong={LEFT_ASLEEP: "1"},
        labels={"workload": "deployment ebbtide/notes"},
        says="The workload controller put deployment ebbtide/notes to sleep, and no entry of the stack file wakes it.",
    ),
    Case(
        alert="EbbtideCertificateEnds",
        wrong={CERTIFICATE: "700000"},
        labels={"endpoint": "redis:6379"},
        says="The certificate of redis:6379 ends in 8d 0h 52m 40s.",
    ),
    Case(
        alert="EbbtideHolidaysEnd",
        wrong={HOLIDAYS: "2000000"},
        says="Holidays are known for 23d 1h 59m 20s: later ones count as working days.",
    ),
    Case(
        alert="EbbtideWorkloadsNoLeader",
        wrong={"ebbtide_workloads_leader": GONE},
        says="No workload controller is known to hold its Lease: Ray clusters and workloads do not wake or sleep, "
        "floors of services stay.",
    ),
    Case(
        alert="EbbtideWorkloadNeedsALook",
        wrong={f"ebbtide_workload_noted{{{_WORKLOAD}}}": "1"},
        labels=OF_FLOW,
        says="Something about raycluster ray/flow has needed a look for half an hour.",
    ),
    Case(
        alert="EbbtideWorkloadNeedsALook",
        wrong={f'ebbtide_workload_state{{{_WORKLOAD},state="unknown",why="cluster-unknown"}}': "1"},
        labels=OF_FLOW,
        says="Something about raycluster ray/flow has needed a look for half an hour.",
    ),
    Case(
        alert="EbbtideRayWorkersKept",
        wrong={OVERDUE: "1"},
        labels={**OF_FLOW, "group": "gpu"},
        says="Ray keeps idle workers (1) of the group gpu of raycluster ray/flow past their idle timeout: ebbtide "
        "status shows what their nodes cost.",
    ),
    Case(
        alert="EbbtideAdoptedPodsUnlabelled",
        wrong={UNLABELLED: "2"},
        labels={"workload": "hub"},
        says="Pods of the rule hub have lacked its label for an hour: 2 may run on any node.",
    ),
    Case(
        alert="EbbtideServiceSlow",
        wrong={FAST: "50", LATER: "60"},
        labels=OF_SERVICE,
        says="5 in 100 answers of embedder take longer than 500ms, and slo.p95 says 400ms.",
    ),
    Case(
        alert="EbbtideServiceBurnsErrorBudget",
        wrong={ANSWERED: "0", FAILED: "100"},
        labels=OF_SERVICE,
        says="46.88% of the requests to embedder fail, and slo.errors allows 0.1%.",
    ),
    Case(
        alert="EbbtideServiceMetricMissing",
        wrong={SERVICE_SEES: "0"},
        labels=OF_SERVICE,
        says=_MISSING,
    ),
    Case(
        alert="EbbtideServiceMetricMissing",
        wrong={ACTIVE: GONE, WAITING: GONE, ENDPOINTS: GONE},
        labels=OF_SERVICE,
        says=_MISSING,
    ),
    Case(
        alert="EbbtideServiceAtMax",
        wrong={ACTIVE: "11", WAITING: "2", ENDPOINTS: "4"},
        labels=OF_SERVICE,
        says="The pods embedder are at their max of 4, with 13 requests in flight: the target for each pod is 3.",
    ),
    Case(alert="EbbtideGatewayProxiesFew", wrong={ONE_PROXY: GONE, OTHER_PROXY: GONE}, says=_FEW),
    Case(
        alert="EbbtideGatewayUnled",
        wrong={ONE_PROXY: "0", OTHER_PROXY: "0"},
        says="No Envoy of the gateway hears from Envoy Gateway: requests go only to pods that it knew before.",
    ),
    Case(alert="EbbtideGatewayProxiesFew", wrong={OTHER_PROXY: GONE}, says=_FEW),
)

HARMLESS: Mapping[str, Mapping[str, str]] = {
    "a budget open at night": {"ebbtide_window_open": "1", OPEN: "1", WANTED: "1"},
    "a budget that an operator holds shut at night and that is open still": {"ebbtide_window_open": "1", OPEN: "1"},
    "a budget that the file keeps open by day": {OPEN: "1", WANTED: "1"},
    "a job that waits for less than its target": {WAIT: "600"},
    "a closer that is at work": {DUE: str(2 * 3600 - 14 * 60)},
    "an HPA that is switched off": {HPA_SEES: "0", HPA_REPLICAS: "0"},
    "a full service that turns requests away": {ANSWERED: "90", FAILED: "10", FULL: "10"},
    "a service that nobody has called since Envoy began": {ACTIVE: GONE, WAITING: GONE},
    "a proxy that waits for its routes beside one that has them": {OTHER_PROXY: "0"},
    "as many requests as the most pods are to have": {ACTIVE: "10"},
    "a service that sleeps": {SERVICE_SEES: "0", SERVICE_PODS: "0"},
    "workers on their way while all that are wanted run": {PENDING: "1"},
}
"""What looks like a fault and is none: no alert fires on it, however long it lasts."""


def played(case: Case, alert: Alert, runbook: str) -> dict[str, Any]:
    """A test of promtool: quiet before, quiet while it waits, told once it lasts, quiet again."""
    waits = minutes(alert.lasting)
    fires = BEFORE + waits + PAST
    firing: dict[str, Any] = {
        "exp_labels": {"severity": alert.severity.value, "customer": "acme", **case.labels},
        "exp_annotations": {"summary": case.says, "runbook": runbook},
    }
    moments: list[tuple[int, list[dict[str, Any]]]] = [
        (BEFORE - 1, []),
        (BEFORE + waits - 2, []),
        (_told(case, waits), [firing]),
        (fires + AFTER - 1, []),
    ]
    return {
        "name": case.alert,
        "interval": "1m",
        "input_series": timeline(case.wrong, (BEFORE, waits + PAST, AFTER)),
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": expected} for minute, expected in moments
        ],
    }


def _told(case: Case, waits: int) -> int:
    """The minute at which it must have been told; the age of a clock that stands still is part of the message."""
    return 35 if case.alert == "EbbtideControllerStuck" else BEFORE + waits + PAST - 1


def timeline(
    wrong: Mapping[str, str], parts: tuple[int, int, int], customer: str = "acme"
) -> Sequence[Mapping[str, str]]:
    """All series of a stack, well for so many minutes, with these values for so many, and well again."""
    before, during, after = parts
    total = before + during + after
    found: list[Mapping[str, str]] = []
    for name, each in COUNTERS.items():
        steps = [each] * before + [int(wrong.get(name, each))] * during + [each] * after
        values = [str(sum(steps[: minute + 1])) for minute in range(total)]
        found.append({"series": scraped(name, customer), "values": " ".join(values)})
    for name, well in {CLOCK: "", **WELL}.items():
        values = [str(60 * minute) for minute in range(total)] if name == CLOCK else [well] * total
        if name in wrong:
            values[before : before + during] = [wrong[name]] * during
        found.append({"series": scraped(name, customer), "values": " ".join(values)})
    return found


def scraped(name: str, customer: str) -> str:
    """With what scraping adds where the process has no such label of its own."""
    metric, _, labels = name.partition("{")
    own = f",{labels}" if labels else "}"
    space = "" if "namespace=" in labels else ',namespace="ebbtide"'
    return f'{metric}{{customer="{customer}"{space},pod="one"{own}'


def minutes(lasting: timedelta) -> int:
    return int(lasting / timedelta(minutes=1))
