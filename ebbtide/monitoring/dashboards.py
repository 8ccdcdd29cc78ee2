"""Grafana dashboards for one stack, as values, and as the documents that Grafana imports.

Each selects its metrics by customer. In Grafana, the variable `datasource` selects the Prometheus to query.
Grafana's own library writes the documents, for Grafana 11.6. Its versions begin with an epoch: the version that a
package index calls newest is for an older Grafana.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from grafana_foundation_sdk.builders import common as shared
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import prometheus, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import DataSourceRef, GridPos

from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import Metrics

_WIDE, _HIGH = 12, 8  # two panels in a row of Grafana's 24 columns
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_STACKED = common.StackingMode.NORMAL
_LIST, _BELOW = common.LegendDisplayMode.LIST, common.LegendPlacement.BOTTOM
_LARGEST_FIRST = common.SortOrder.DESCENDING


class Unit(StrEnum):
    """Grafana's own words."""

    COUNT = "short"
    SECONDS = "s"
    BYTES = "bytes"
    DOLLARS = "currencyUSD"
    SHARE = "percentunit"
    PERCENT = "percent"


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str  # {{label}} for the value of a label


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """`stacked`: areas whose sum means something."""

    title: str
    queries: Sequence[Query]
    unit: Unit = Unit.COUNT
    stacked: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    name: str  # of its file, and in its uid
    title: str
    panels: Sequence[Panel]


def dashboards(customer: str) -> tuple[Dashboard, ...]:
    of = Metrics(customer)
    return (_day(of), _queues(of), _services(of), _nodes(of), _money(of))


def _by(of: Metrics, label: str, series: Recorded) -> str:
    return f"sum by ({label}) ({series.of(of.customer)})"


def _sum(of: Metrics, series: Recorded) -> str:
    return f"sum({series.of(of.customer)})"


def _used_and_paid(of: Metrics, used: Recorded, requested: Recorded, paid: Recorded) -> tuple[Query, ...]:
    return (
        Query(_sum(of, paid), "paid for"),
        Query(_sum(of, requested), "requested"),
        Query(_sum(of, used), "used"),
    )


_NODES_BY_GROUP = "Nodes by group"


def _day(of: Metrics) -> Dashboard:
    return Dashboard(
        name="day",
        title="Day and night",
        panels=(
            Panel(title=_NODES_BY_GROUP, queries=[Query(_by(of, "group", Recorded.NODES), "{{group}}")], stacked=True),
            Panel(
                title="Disruption window and open budgets",
                queries=[
                    Query(of.highest("window_open"), "window open"),
                    Query(_by(of, "reason", Recorded.BUDGETS_OPEN), "open: {{reason}}"),
                ],
                about="By day, only budgets that the stack file keeps open are open.",
            ),
            Panel(
                title="Workers",
                queries=[
                    Query(Recorded.WORKERS_RUNNING.of(of.customer), "running"),
                    Query(Recorded.WORKERS_WANTED.of(of.customer), "wanted"),
                ],
            ),
            Panel(title="Jobs", queries=[Query(_by(of, "part", Recorded.JOBS), "{{part}}")], stacked=True),
            Panel(
                title="Dollars an hour, at list price",
                queries=[Query(_by(of, "group", Recorded.DOLLARS), "{{group}}")],
                unit=Unit.DOLLARS,
                stacked=True,
            ),
            Panel(
                title="Evictions in the last hour",
                queries=[Query(_by(of, "workload", Recorded.EVICTIONS), "{{workload}}")],
            ),
        ),
    )


def _queues(of: Metrics) -> Dashboard:
    return Dashboard(
        name="queues",
        title="Queues and workers",
        panels=(
            Panel(title="Jobs waiting", queries=[Query(of.highest("pool_jobs", "pool", part="waiting"), "{{pool}}")]),
            Panel(title="Jobs running", queries=[Query(of.highest("pool_jobs", "pool", part="running"), "{{pool}}")]),
            Panel(
                title="Oldest wait",
                queries=[
                    Query(of.highest("pool_oldest_wait_seconds", "pool"), "{{pool}}"),
                    Query(Recorded.WAITS.of(of.customer), "{{pool}}, p95 of the last hour"),
                ],
                unit=Unit.SECONDS,
            ),
            Panel(
                title="Workers running and wanted",
                queries=[
                    Query(of.highest("pool_running", "pool"), "{{pool}} running"),
                    Query(of.highest("pool_wanted", "pool"), "{{pool}} wanted"),
                ],
            ),
            Panel(
                title="Workers that do not work",
                queries=[
                    Query(of.highest("pool_pending", "pool"), "{{pool}} pending"),
                    Query(of.highest("pool_failing", "pool"), "{{pool}} failing"),
                    Query(of.highest("pool_unreachable", "pool"), "{{pool}} out of reach"),
                ],
            ),
            Panel(
                title="Why each pool gets what it gets",
                queries=[Query(of.highest("pool_reason", "pool", "reason"), "{{pool}}: {{reason}}")],
            ),
            Panel(
                title="Since the queues were last known",
                queries=[Query(of.highest("pool_reading_age_seconds", "pool"), "{{pool}}")],
                unit=Unit.SECONDS,
            ),
        ),
    )


def _services(of: Metrics) -> Dashboard:
    def by_variant(record: Recorded, more: str = "") -> Query:
        return Query(record.of(of.customer), f"{{{{service}}}} {{{{variant}}}}{more}")

    return Dashboard(
        name="serving",
        title="Services",
        panels=(
            Panel(title="Requests in flight", queries=[by_variant(Recorded.IN_FLIGHT)]),
            Panel(
                title="Pods",
                queries=[
                    by_variant(Recorded.PODS),
                    by_variant(Recorded.PODS_WANTED, ", wanted"),
                    by_variant(Recorded.PODS_AT_MOST, ", at most"),
                    by_variant(Recorded.FORECAST_PODS, ", forecast"),
                ],
            ),
            Panel(
                title="Time to answer, 5 minutes",
                queries=[by_variant(Recorded.P95_LATENCY, ", p95"), by_variant(Recorded.MEDIAN_LATENCY, ", median")],
                unit=Unit.SECONDS,
                about="Only answers of pods: requests that timed out or were turned away are left out.",
            ),
            Panel(title="Answers a second", queries=[by_variant(Recorded.THROUGHPUT)]),
            Panel(
                title="Requests a second without a good answer",
                queries=[
                    by_variant(Recorded.FAILING, " failed"),
                    by_variant(Recorded.TURNED_AWAY, " turned away"),
                    Query(Recorded.NO_POD.of(of.customer), "no pod was ready"),
                ],
            ),
            Panel(
                title="Error budget: how many times too fast it is used up",
                queries=[Query(Recorded.BURN.of(of.customer), "{{service}}")],
                about="Over the last hour. At 1, the budget for 30 days lasts 30 days.",
            ),
            Panel(title="How busy GPUs are", queries=[by_variant(Recorded.GPU_BUSY)], unit=Unit.PERCENT),
        ),
    )


def _nodes(of: Metrics) -> Dashboard:
    return Dashboard(
        name="nodes",
        title="Nodes and reasons",
        panels=(
            Panel(title=_NODES_BY_GROUP, queries=[Query(_by(of, "group", Recorded.NODES), "{{group}}")], stacked=True),
            Panel(
                title="Nodes that the autoscaler cannot remove",
                queries=[Query(_by(of, "reason", Recorded.UNREMOVABLE), "{{reason}}")],
                stacked=True,
            ),
            Panel(
                title="CPU cores",
                queries=_used_and_paid(of, Recorded.USED_CPU, Recorded.REQUESTED_CPU, Recorded.PAID_CPU),
            ),
            Panel(
                title="Memory",
                queries=_used_and_paid(of, Recorded.USED_MEMORY, Recorded.REQUESTED_MEMORY, Recorded.PAID_MEMORY),
                unit=Unit.BYTES,
            ),
            Panel(
                title="GPUs",
                queries=_used_and_paid(of, Recorded.USED_GPUS, Recorded.REQUESTED_GPUS, Recorded.PAID_GPUS),
            ),
            Panel(
                title="Pods without a node",
                queries=[Query(of.highest("pods_pending", "workload"), "{{workload}}")],
            ),
            Panel(
                title="CPU used of what was requested",
                queries=[
                    Query(
                        f"{_by(of, 'workload', Recorded.USED_CPU)} / {_by(of, 'workload', Recorded.REQUESTED_CPU)}",
                        "{{workload}}",
                    )
                ],
                unit=Unit.SHARE,
            ),
            Panel(
                title="Memory used of what was requested",
                queries=[
                    Query(
                        f"{_by(of, 'workload', Recorded.USED_MEMORY)} / "
                        f"{_by(of, 'workload', Recorded.REQUESTED_MEMORY)}",
                        "{{workload}}",
                    )
                ],
                unit=Unit.SHARE,
            ),
        ),
    )


def _money(of: Metrics) -> Dashboard:
    dollars = _sum(of, Recorded.DOLLARS)
    return Dashboard(
        name="money",
        title="Money",
        panels=(
            Panel(
                title="Dollars an hour, at list price",
                queries=[Query(_by(of, "group", Recorded.DOLLARS), "{{group}}")],
                unit=Unit.DOLLARS,
                stacked=True,
                about="Groups with an instance type that has no known price are left out.",
            ),
            Panel(
                title="Dollars an hour for CPU that nobody requested",
                queries=[
                    Query(
                        f"{dollars} * (1 - {_sum(of, Recorded.REQUESTED_CPU)} / {_sum(of, Recorded.PAID_CPU)})",
                        "not requested",
                    )
                ],
                unit=Unit.DOLLARS,
                about="Counts only CPU: a node whose memory or GPUs are all requested is not free.",
            ),
            Panel(
                title="CPU requested and used of what is paid for",
                queries=[
                    Query(f"{_sum(of, Recorded.REQUESTED_CPU)} / {_sum(of, Recorded.PAID_CPU)}", "requested"),
                    Query(f"{_sum(of, Recorded.USED_CPU)} / {_sum(of, Recorded.PAID_CPU)}", "used"),
                ],
                unit=Unit.SHARE,
            ),
            Panel(
                title="CPU requested by category",
                queries=[Query(_by(of, "category", Recorded.REQUESTED_CPU), "{{category}}")],
                stacked=True,
            ),
        ),
    )


def document_of(dashboard: Dashboard, customer: str, timezone: str) -> dict[str, Any]:
    """Return the dashboard in Grafana's import format. A missing sample is a gap."""
    builder = (
        build.Dashboard(f"Ebbtide {customer}: {dashboard.title}")
        .uid(f"ebbtide-{customer}-{dashboard.name}")
        .tags(["ebbtide", customer])
        .timezone(timezone)
        .time("now-24h", "now")
        .refresh("1m")
        .editable()
        .with_variable(build.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for place, panel in enumerate(dashboard.panels):
        builder = builder.with_panel(_panel(place, panel))
    return cast("dict[str, Any]", json.loads(JSONEncoder(sort_keys=True).encode(builder.build())))


def _panel(place: int, panel: Panel) -> timeseries.Panel:
    drawn = (
        timeseries.Panel()
        .id(place + 1)
        .title(panel.title)
        .description(panel.about)
        .datasource(_SOURCE)
        .grid_pos(GridPos(x=place % 2 * _WIDE, y=place // 2 * _HIGH, w=_WIDE, h=_HIGH))
        .unit(panel.unit.value)
        .min(0)
        .draw_style(common.GraphDrawStyle.LINE)
        .line_interpolation(common.LineInterpolation.STEP_AFTER)
        .line_width(1)
        .fill_opacity(60 if panel.stacked else 0)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(span_nulls=False)
        .stacking(shared.StackingConfig().mode(_STACKED if panel.stacked else common.StackingMode.NONE).group("A"))
        .legend(shared.VizLegendOptions().show_legend(show_legend=True).display_mode(_LIST).placement(_BELOW))
        .tooltip(shared.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(_LARGEST_FIRST))
    )
    for number, query in enumerate(panel.queries):
        target = prometheus.Dataquery().ref_id(chr(ord("A") + number)).expr(query.expr).legend_format(query.legend)
        drawn = drawn.with_target(target.datasource(_SOURCE))
    return drawn
