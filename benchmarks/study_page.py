"""The page of the study: the product's saving relative to the attainable one, and all strategies."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

Row = Mapping[str, Any]
Figures = Mapping[str, Any]

PRODUCT, FLEET, BOUND = "fixed-flexible", "fixed-fleet", "zero-wait-bound"
_SCOPES = {"all": "jobs of every length", "8h": "jobs up to 8 h"}


def page(rows: Sequence[Row], command: str, assumed: Mapping[str, Sequence[str]]) -> str:
    """`assumed`: the assumptions of each trace."""
    return "\n".join([*_head(rows, command), *_goals(rows), *_why(rows), *_assumed(assumed), *_tables(rows)]) + "\n"


def _assumed(assumed: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "## What is assumed of the traces"
    yield ""
    for trace, sentences in assumed.items():
        yield f"- **{trace}**: {' '.join(_sentence(words) for words in sentences) or 'nothing.'}"
    yield ""
    yield "What every replay assumes is listed below its table on the terminal and in the report."
    yield ""


def _sentence(words: str) -> str:
    return words if words.endswith(".") else f"{words}."


def _head(rows: Sequence[Row], command: str) -> Iterator[str]:
    dates = sorted({row["price_date"] for row in rows})
    services = sorted({row["case"].get("services_of") or "" for row in rows})
    stack = f", beside the services of the stack `{services[0]}`" if services[0] else ", without any services"
    hours = (
        ", and with that start shifted"
        if services[0]
        else " (without services nothing depends on the time of day, and another start gives the same figures)"
    )
    yield "# Results with services" if services[0] else "# Results: strategies and traces"
    yield ""
    yield f"Written by `{command}`; list prices of {' and '.join(dates)}."
    yield ""
    yield (
        "Each trace is replayed on the pools and groups that `ebbtide simulate --describe TRACE --suggest FILE` "
        f"suggests for it{stack}; with its busiest 12 hours on business hours{hours}. Savings are dollars against "
        "`fixed-fleet`, the smallest fixed fleet that is as good as `fixed-flexible` for each pool: the p95 wait is no "
        "longer, and no more jobs are unfinished. *Attainable* is what the [zero-wait bound](../explanation/bound.md) "
        "would save against it. *On demand*: no commitments. *With the plan*: the whole fixed fleet and the product's "
        "minimum nodes are committed, and the bound commits with hindsight."
    )
    yield ""


def _goals(rows: Sequence[Row]) -> Iterator[str]:
    yield "## The product and what is attainable"
    yield ""
    yield (
        "| trace | jobs | start | attainable, on demand | saving | share | attainable, with the plan | saving | share "
        "| p95 wait (fleet) | node-hours / bound | interrupted | coverage |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        figures = summary(row)
        yield (
            "| "
            + " | ".join(
                [
                    row["case"]["trace"],
                    row["case"]["scope"],
                    f"{row['case']['shift_h']:+d} h, seed {row['case']['seed']}",
                    _percent(figures["attainable_on_demand"]),
                    _percent(figures["saving_on_demand"]),
                    _percent(figures["share_on_demand"]),
                    _percent(figures["attainable"]),
                    _percent(figures["saving"]),
                    _percent(figures["share"]),
                    f"{figures['wait_p95_s']:.0f} s ({figures['fleet_p95_s']:.0f} s)",
                    f"{figures['node_hours_of_bound']:.2f}",
                    f"{figures['interrupted']}",
                    _percent(figures["coverage"]),
                ]
            )
            + " |"
        )
    yield ""


def summary(row: Row) -> dict[str, Any]:
    """The product's figures in one case, relative to its fleet and its bound."""
    product, fleet, bound = (row["strategies"][name] for name in (PRODUCT, FLEET, BOUND))

    def against_fleet(result: Figures, dollars: str) -> float:
        return 1 - result[dollars] / fleet[dollars]

    figures: dict[str, Any] = {
        "wait_p95_s": product["wait_p95_s"],
        "fleet_p95_s": fleet["wait_p95_s"],
        "node_hours_of_bound": product["node_hours"] / bound["node_hours"],
        "interrupted": product["jobs_interrupted"],
        "coverage": row["coverage"]["jobs"],
    }
    for suffix, dollars in (("_on_demand", "usd_on_demand"), ("", "usd")):
        attainable, saving = against_fleet(bound, dollars), against_fleet(product, dollars)
        share = saving / attainable if attainable > 0 else 1.0
        figures |= {f"attainable{suffix}": attainable, f"saving{suffix}": saving, f"share{suffix}": share}
    return figures


def _why(rows: Sequence[Row]) -> Iterator[str]:
    """One sentence per trace and scope: the missed goals with their figures, and properties of the load."""
    yield "## Goals"
    yield ""
    yield (
        "Wanted, as the median over starts and seeds, on demand: 90 % of attainable, 40 % under the fixed fleet "
        "where 45 % is attainable, node-hours at most 1.15 times the bound's, 95 % of the jobs covered, no job "
        "interrupted."
    )
    yield ""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["case"]["trace"], row["case"]["scope"]), []).append(row)
    for (trace, scope), cases in groups.items():
        yield f"- **{trace}, {_SCOPES[scope]}**: {_verdict(cases)}"
    yield ""


def _verdict(rows: Sequence[Row]) -> str:
    summaries = [summary(row) for row in rows]
    middle = {key: median(figures[key] for figures in summaries) for key in summaries[0]}
    missed: list[str] = []
    if middle["share_on_demand"] < 0.90:
        missed.append(
            f"{_percent(middle['share_on_demand'])} of attainable, {_points(0.90, middle['share_on_demand'])}"
        )
    if middle["attainable_on_demand"] >= 0.45 and middle["saving_on_demand"] < 0.40:
        missed.append(f"{_percent(middle['saving_on_demand'])} saved, {_points(0.40, middle['saving_on_demand'])}")
    if middle["node_hours_of_bound"] > 1.15:
        missed.append(f"node-hours {middle['node_hours_of_bound']:.2f} times the bound's")
    if middle["coverage"] < 0.95:
        missed.append(f"{_percent(middle['coverage'])} of the jobs covered")
    if max(figures["interrupted"] for figures in summaries):
        missed.append("jobs interrupted")
    row = rows[0]
    beyond = row["strategies"][PRODUCT]["node_hours"] - row["strategies"][BOUND]["node_hours"]
    load = (
        f"{_percent(row['work_share_over_24h'])} of its work is in jobs over 24 h and "
        f"{_percent(row['work_share_over_8h'])} in jobs over 8 h; "
        f"{_percent(middle['attainable_on_demand'])} is attainable. Half of the jobs last at most "
        f"{row['median_job_s']:,.0f} s; {row['launches']:,} nodes were started, and for each of them "
        f"{60 * beyond / max(1, row['launches']):.1f} minutes of nodes are paid for beyond the bound."
    )
    return f"{'missed: ' + '; '.join(missed) if missed else 'all reached'}. {load}"


def _points(goal: float, reached: float) -> str:
    return f"{100 * (goal - reached):.0f} points too few"


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    yield "## All strategies"
    for row in rows:
        yield from _table(row)


def _table(row: Row) -> Iterator[str]:
    case = row["case"]
    yield ""
    yield (
        f"### {case['trace']}, {_SCOPES[case['scope']]}, {row['days']} days from {row['start']} "
        f"({case['shift_h']:+d} h), seed {case['seed']}"
    )
    yield ""
    yield f"{row['jobs']:,} jobs, {_percent(row['coverage']['jobs'])} of those in the trace."
    yield ""
    yield (
        "| strategy | node-hours | / bound | $ on demand | saving | $ with the plan | saving | $ with spot "
        "| p50 | p95 | p99 | unfinished | interrupted | lost work | evictions, disruption window / business hours |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    fleet, bound = row["strategies"][FLEET], row["strategies"][BOUND]
    for name, result in row["strategies"].items():
        spot = result["usd_with_spot"]
        yield (
            "| "
            + " | ".join(
                [
                    name,
                    f"{result['node_hours']:,.0f}",
                    f"{result['node_hours'] / bound['node_hours']:.2f}",
                    f"{result['usd_on_demand']:,.0f}",
                    _percent(1 - result["usd_on_demand"] / fleet["usd_on_demand"]),
                    f"{result['usd']:,.0f}",
                    _percent(1 - result["usd"] / fleet["usd"]),
                    "-" if spot is None else f"{spot:,.0f}",
                    *(f"{result[key]:.0f} s" for key in ("wait_p50_s", "wait_p95_s", "wait_p99_s")),
                    f"{result['jobs_unfinished']:,}",
                    f"{result['jobs_interrupted']:,}",
                    f"{result['lost_work_s'] / 3600:,.0f} h",
                    f"{result['evictions_in_window']:,} / {result['evictions_in_business_hours']:,}",
                ]
            )
            + " |"
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
