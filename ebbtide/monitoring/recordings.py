"""Recording rules: what pages and dashboards ask for again and again, over the metrics of Ebbtide's own processes."""

from ebbtide.monitoring.rules import Metrics, Recording


def recordings(customer: str) -> tuple[Recording, ...]:
    of = Metrics(customer)
    spent, reconciles = (f"rate({of(name)}[5m])" for name in ("reconcile_seconds_total", "reconciles_total"))
    opened = f"{of.highest('budget_max_unavailable', 'budget')} > 0"
    reason = of.highest("budget_reason", "budget", "reason")
    return (
        Recording(record="customer_part:ebbtide_pool_jobs:sum", expr=f"sum by (customer, part) ({of('pool_jobs')})"),
        Recording(record="customer:ebbtide_pool_running:sum", expr=f"sum by (customer) ({of('pool_running')})"),
        Recording(record="customer:ebbtide_pool_wanted:sum", expr=f"sum by (customer) ({of('pool_wanted')})"),
        Recording(
            record="customer_pool:ebbtide_worker_hours:increase1d",
            expr=f"sum by (customer, pool) (increase({of('worker_hours_total')}[1d]))",
        ),
        Recording(
            record="customer_reason:ebbtide_budgets_open:count",
            expr=f"count by (customer, reason) ({reason} and on (customer, budget) ({opened}))",
        ),
        Recording(
            record="customer:ebbtide_reconcile_seconds:mean5m",
            expr=f"sum by (customer) ({spent}) / sum by (customer) ({reconciles})",
        ),
    )
