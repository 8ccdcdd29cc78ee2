"""`python -m benchmarks.services`: the strategies of a service on each queue of a public trace of requests.

Each queue is a separate service, scaled so that its busiest window takes 80 % of `max`, with a pod that starts fast and
with one that starts slowly. `--page` writes docs/evidence/results-of-services.md.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ebbtide.lab.advice.describe_requests import RequestLoad, describe_requests
from ebbtide.lab.simulator.services.backtest import AIMED, KEPT, Backtest, Judged, Way
from ebbtide.lab.simulator.services.replay import ServiceOptions, replay_service, service_course
from ebbtide.lab.simulator.services.results import ServiceResult
from ebbtide.lab.simulator.services.strategies import ServiceStrategy
from ebbtide.lab.simulator.trace.counted import RequestTrace, find_requests
from ebbtide.lab.sweep.calls import results
from ebbtide.monitoring.forecast import DAYS_NEEDED
from ebbtide.settings import StackSettings
from ebbtide.settings.load import stack_of_text
from ebbtide.text.files import write_file

TRACE = "requests-servegen-m-small"
STARTS = ("90s", "10m")
SERVICE = "chat"
PLAYED_DAYS = 2
STACK = """\
config:
  aws:region: us-east-1
  ebbtide:customer: acme
  ebbtide:businessHours:
    timezone: America/New_York
    week: { mon-fri: "08:00-19:00" }
  ebbtide:monitoring: { prometheus: bundled }
  ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 } }
  ebbtide:redis: { kind: in-cluster }
  ebbtide:workers:
    unused:
      source: { kind: rq, queues: [unused] }
      image: registry.example.com/ml/worker:1
      max: 1
      cpu: 1
      memory: 1Gi
      longestJob: 1h
  ebbtide:services:
    chat:
      image: registry.example.com/ml/chat:1
      cpu: 3
      memory: 12Gi
      ports: { http: 8000 }
      port: http
      probes: { readiness: { http: /healthz, port: http } }
      requestTakes: 10s
      longestRequest: 120s
      slo: { p95: 30s, errors: 0.1% }
      scale: { metrics: { inFlight: 3 }, min: 1, max: 12 }
      startsWithin: STARTS
      route: { host: models.acme.internal, path: /chat }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    queue: str
    starts: str
    load: RequestLoad
    tested: Backtest
    results: dict[str, ServiceResult]
    seconds: float


def stack(starts: str) -> StackSettings:
    return stack_of_text(STACK.replace("STARTS", starts), stack="acme", file="Pulumi.acme.yaml")


def case_of(trace: RequestTrace, queue: str, starts: str, seed: int) -> Case:
    options = ServiceOptions(seed=seed, days=PLAYED_DAYS)
    course = service_course(stack(starts), SERVICE, trace.only(queue), options)
    replayed = replay_service(course, options)
    if replayed.tested is None:
        raise TypeError(f"{queue} has too little history")
    return Case(
        queue=queue,
        starts=starts,
        load=describe_requests(trace.only(queue)).loads[0],
        tested=replayed.tested,
        results={name: played.result for name, played in replayed.strategies.items()},
        seconds=replayed.replay_seconds,
    )


def _case(queue: str, starts: str, seed: int) -> Case:
    return case_of(find_requests(TRACE), queue, starts, seed)


def page(cases: Sequence[Case], seed: int) -> str:
    return "\n".join(_page(cases, seed)) + "\n"


def _page(cases: Sequence[Case], seed: int) -> Iterator[str]:
    yield "# Results: autoscaling of services"
    yield ""
    yield f"Written by `python -m benchmarks.services --page docs/evidence/results-of-services.md`, seed {seed}."
    yield ""
    yield (
        f"Each queue of `{TRACE}` is a service of its own: counts by ten minutes are the trace's, times one constant "
        "so that the busiest window takes 80 % of `max`. **What one request takes (10 s, log-normal), that a pod works "
        "on three at a time, and when requests come within a window (drawn by `iat_cv`) are assumptions.** 1 to 12 "
        "pods, 3 in flight for each, SLO: p95 within 30 s. A pod starts in 90 s or in ten minutes, after two minutes "
        "for its node where one has to come. For one service: `ebbtide simulate STACK --service NAME --trace FILE`, "
        "and `ebbtide advise floors` with the same options. Left out is `requests-azure2023-code`: 58 minutes have no "
        "week, and nothing to judge by."
    )
    yield ""
    yield "## Is a forecast offered?"
    yield ""
    yield (
        f"Tuned on days {DAYS_NEEDED + 1} to 7 so that {AIMED:.1%} of the requests find capacity, judged on days 8 to "
        "14: requests kept, and pod-hours; of the forecast the margin, too. *In hindsight*: the cheapest constant "
        f"headroom that keeps {KEPT:.1%} on the judged days. *Day*: correlation with the day before. A forecast is "
        "offered where it keeps as many and costs at least 1 % less than headroom and the calendar's floor in "
        "hindsight. Minutes are interpolated, which flatters all."
    )
    yield ""
    yield (
        "| queue | day | cv | starts | autoscaler alone | calendar's floor | headroom | forecast "
        "| headroom in hindsight | offered |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for case in cases:
        yield _verdict_row(case)
    yield ""
    yield from _offers(cases)
    yield ""
    for starts in STARTS:
        started = [case for case in cases if case.starts == starts]
        if started:
            yield from _played(started, starts)


def _offers(cases: Sequence[Case]) -> Iterator[str]:
    offered = [case for case in cases if case.tested.offered]
    names = ", ".join(f"{case.queue} ({case.starts})" for case in offered) or "none"
    yield f"Offered in {len(offered)} of {len(cases)} cases: {names}."
    refused = [case for case in cases if not case.tested.offered]
    missed = sum(not case.tested.tuned[Way.FORECAST].keeps for case in refused)
    yield (
        f"Each of these keeps {KEPT:.1%} on the days that it was not tuned on, and costs less than the best constant "
        "headroom there: that is what an offer is, and no days are left that had no say in it. "
        f"Of the other {len(refused)} a forecast keeps less than that in {missed}, and costs more than "
        f"a rival in hindsight in {len(refused) - missed}: they are refused."
    )


def _verdict_row(case: Case) -> str:
    tuned, day = case.tested.tuned, case.load.like_the_day_before
    cells = [
        case.queue,
        "-" if day is None else f"{day:.2f}",
        f"{case.load.between:.1f}",
        case.starts,
        *(_judged(tuned[way]) for way in (Way.REACTIVE, Way.CALENDAR, Way.HEADROOM)),
        f"{_judged(tuned[Way.FORECAST])} ({tuned[Way.FORECAST].number:g})",
        _judged(case.tested.equal[Way.HEADROOM]),
        "**yes**" if case.tested.offered else "no",
    ]
    return f"| {' | '.join(cells)} |"


def _judged(judged: Judged | None) -> str:
    return "none does" if judged is None else f"{judged.kept_requests:.1%}, {judged.pod_hours:,.0f}"


def _played(cases: Sequence[Case], starts: str) -> Iterator[str]:
    yield f"## Played, with a pod that starts in {starts}"
    yield ""
    yield f"The last {PLAYED_DAYS} days, request by request."
    yield "*Beyond*: requests answered later than 30 s, or not at all. *Lost*: not within 120 s, or no pod was ready."
    yield ""
    yield "| queue | strategy | pod-hours | dollars | p50 | p95 | p99 | beyond | lost | of | pods |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for case in cases:
        for name, result in case.results.items():
            yield (
                f"| {case.queue} | {name} | {result.pod_hours:,.0f} | {result.usd or 0:,.0f} | {result.p50_s:.1f} s "
                f"| {result.p95_s:.1f} s | {result.p99_s:.1f} s | {result.beyond_slo:.2%} | {result.lost:,} "
                f"| {result.sent:,} | {result.least_pods} to {result.most_pods} |"
            )
    yield ""
    yield "All queues together:"
    yield ""
    yield "| strategy | pod-hours | dollars | beyond | lost | of |"
    yield "|---|---|---|---|---|---|"
    for name in ServiceStrategy:
        played = [case.results[name.value] for case in cases if name.value in case.results]
        sent = sum(result.sent for result in played)
        beyond = sum(result.beyond_slo * result.sent for result in played) / max(1, sent)
        hours, usd = sum(result.pod_hours for result in played), sum(result.usd or 0 for result in played)
        lost = sum(result.lost for result in played)
        yield f"| {name.value} | {hours:,.0f} | {usd:,.0f} | {beyond:.2%} | {lost:,} | {sent:,} |"
    yield ""


def main(arguments: Sequence[str]) -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.services")
    options.add_argument("--page", type=Path)
    options.add_argument("--queue", action="append")
    options.add_argument("--starts", action="append", choices=STARTS)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=2)
    chosen = options.parse_args(arguments)
    queues = chosen.queue or list(find_requests(TRACE).queues)
    calls = [(queue, starts, chosen.seed) for starts in chosen.starts or STARTS for queue in queues]
    cases = results(_case, calls, processes=chosen.workers)
    for case in cases:
        print(f"{case.queue:<22}{case.starts:>5}  {case.seconds:5.1f} s  {case.tested.reason}", flush=True)
    text = page(cases, chosen.seed)
    if chosen.page is not None:
        write_file(chosen.page, text)


if __name__ == "__main__":
    main(sys.argv[1:])
