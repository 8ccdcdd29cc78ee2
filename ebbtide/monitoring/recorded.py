"""The names of what recording rules make, for the rules and for whoever asks: pages, dashboards and commands."""

from enum import StrEnum

from ebbtide.monitoring.rules import CUSTOMER


class Recorded(StrEnum):
    """Each has the label `customer`, and those in front of its first colon."""

    NODES = "customer_group:ebbtide_nodes:count"
    PAID_CPU = "customer_group:ebbtide_node_cpu_cores:sum"
    PAID_MEMORY = "customer_group:ebbtide_node_memory_bytes:sum"
    PAID_GPUS = "customer_group:ebbtide_node_gpus:sum"
    DOLLARS = "customer_group:ebbtide_node_dollars_per_hour:sum"
    REQUESTED_CPU = "customer_group_category_workload:ebbtide_requested_cpu_cores:sum"
    REQUESTED_MEMORY = "customer_group_category_workload:ebbtide_requested_memory_bytes:sum"
    REQUESTED_GPUS = "customer_group_category_workload:ebbtide_requested_gpus:sum"
    USED_CPU = "customer_group_category_workload:ebbtide_used_cpu_cores:sum"
    USED_MEMORY = "customer_group_category_workload:ebbtide_used_memory_bytes:sum"
    USED_GPUS = "customer_group_category_workload:ebbtide_used_gpus:sum"
    JOBS = "customer_part:ebbtide_pool_jobs:sum"
    WORKERS_RUNNING = "customer:ebbtide_pool_running:sum"
    WORKERS_WANTED = "customer:ebbtide_pool_wanted:sum"
    WAITS = "customer_pool:ebbtide_pool_oldest_wait_seconds:p95_1h"
    BUDGETS_OPEN = "customer_reason:ebbtide_budgets_open:count"
    UNREMOVABLE = "customer_reason:ebbtide_unremovable_nodes:max"
    EVICTIONS = "customer_workload:ebbtide_evictions:increase1h"
    RESTARTS = "customer_workload:ebbtide_container_restarts:increase1h"
    OOM_KILLS = "customer_workload:ebbtide_container_oom_kills:increase1h"
    THROTTLED = "customer_workload:ebbtide_throttled_periods:ratio5m"
    OLDEST_NODE = "customer_group:ebbtide_node_age_seconds:max"
    MEDIAN_NODE = "customer_group:ebbtide_node_age_seconds:p50"
    ALL_DOLLARS = "customer:ebbtide_node_dollars_per_hour:sum"
    WORKER_HOURS = "customer_pool:ebbtide_worker_hours:increase1d"
    RECONCILE = "customer:ebbtide_reconcile_seconds:mean5m"
    IN_FLIGHT = "customer_service_variant:ebbtide_requests_in_flight:sum"
    MEDIAN_LATENCY = "customer_service_variant:ebbtide_answer_seconds:p50_5m"
    P95_LATENCY = "customer_service_variant:ebbtide_answer_seconds:p95_5m"
    THROUGHPUT = "customer_service_variant:ebbtide_answers:rate1m"
    FAILING = "customer_service_variant:ebbtide_requests_failed:rate5m"
    TURNED_AWAY = "customer_service_variant:ebbtide_requests_turned_away:rate5m"
    PODS = "customer_service_variant:ebbtide_service_replicas:max"
    PODS_WANTED = "customer_service_variant:ebbtide_service_wanted_replicas:max"
    PODS_AT_MOST = "customer_service_variant:ebbtide_service_max_replicas:max"
    GPU_BUSY = "customer_service_variant:ebbtide_service_gpu_percent:mean"
    USUAL = "customer_service_variant:ebbtide_requests_usual:median7d"
    LEVEL = "customer_service_variant:ebbtide_requests_level:ratio1h"
    FORECAST_PODS = "customer_service_variant:ebbtide_service_forecast_pods:max"
    ERRORS_5M = "customer_service:ebbtide_requests_failed:ratio5m"
    ERRORS_30M = "customer_service:ebbtide_requests_failed:ratio30m"
    ERRORS_1H = "customer_service:ebbtide_requests_failed:ratio1h"
    ERRORS_6H = "customer_service:ebbtide_requests_failed:ratio6h"
    BURN = "customer_service:ebbtide_error_budget_burn:ratio1h"
    NO_POD = "customer:ebbtide_requests_without_a_pod:rate5m"

    def of(self, customer: str, **labels: str) -> str:
        matchers = ",".join(f'{key}="{value}"' for key, value in {CUSTOMER: customer, **labels}.items())
        return f"{self.value}{{{matchers}}}"
