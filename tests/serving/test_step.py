"""A step of load from 1.5 to 10 requests a second, for each kind of metric, as HPAs of EKS see it: every 15 s.

The stack file's own objects decide: ScaledObject or HPA, its behaviour, the route, and the scrape jobs of Prometheus
with their own intervals. A server does two requests at a time, half a second each, and takes 10 s to load: three of
them can do the work, and one of them gets behind by six requests a second. What it has taken it keeps.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from controllers.adapters.kube_api import Json
from ebbtide.demo.load import LoadAnswers, LoadStage, offer
from ebbtide.demo.model_server import RUNNING, WAITING, ModelServer
from tests.serving.support.monitored import monitored
from tests.serving.support.site import Serving
from tests.serving.support.stack import load_on, played, served, service
from tests.serving.support.steps import Measured, Watch, changes, is_gradual

pytestmark = [pytest.mark.serving, pytest.mark.timeout(900)]

SERVER = ModelServer(port=0, service=0.5, concurrency=2, loading=10)
QUIET, BUSY = LoadStage(seconds=12, rate=1.5), LoadStage(seconds=75, rate=10)
BY_SHARE = LoadStage(seconds=100, rate=10)  # of what is full at 100 %
BY_LATENCY = LoadStage(seconds=175, rate=10)  # it takes steps of startsWithin and two minutes
QUIET_AGAIN = LoadStage(seconds=460, rate=1.5)
ENOUGH, MOST = 3, 8  # pods
PORTS = "ports: { http: 8000, metrics: 9100 }"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    name: str
    metrics: str
    more: tuple[str, ...] = ()  # lines of the file
    server: ModelServer = SERVER
    busy: LoadStage = BUSY
    reaches: int = ENOUGH  # pods, while the load lasts

    @property
    def service(self) -> str:
        return f"step-{self.name.lower()}"

    @property
    def of_file(self) -> str:
        scale = f"scale: {{ metrics: {{ {self.metrics} }}, min: 1, max: {MOST} }}"
        return service(self.service, "longestRequest: 2m", "startsWithin: 15s", scale, *self.more)


IN_FLIGHT = Kind(name="inFlight", metrics="inFlight: 1.5")
OWN = '{workload="step-query"}'
# Those of a group are offered at once.
TOGETHER = (
    (
        # 20 MiB of an idle server, and one for each request.
        Kind(name="memory", metrics="memory: 70%", more=("memory: 40Mi",), server=replace(SERVER, holds=1)),
    ),
    (
        # A pod that is full asks for 1.6 times as many, and a new one counts as idle until its use is known.
        Kind(
            name="cpu",
            metrics="cpu: 80%",
            more=("cpu: 125m",),
            server=replace(SERVER, burns=0.04),
            busy=BY_SHARE,
            reaches=2,
        ),
        Kind(name="gpu", metrics="gpu: 60%", more=(PORTS, "hardware: gpu", "gpu: 1"), busy=BY_SHARE),
        Kind(name="queue", metrics="queue: { metric: model_requests_waiting, target: 2 }", more=(PORTS,)),
        Kind(name="throughput", metrics="inFlight: 1.5, throughput: 3"),
        Kind(name="latency", metrics="inFlight: 1.5, latency: 1500ms", busy=BY_LATENCY),
        Kind(
            name="query",
            metrics=f"query: {{ promql: 'sum({RUNNING}{OWN}) + sum({WAITING}{OWN})', target: 1.5 }}",
            more=(PORTS,),
        ),
    ),
)
BACK = replace(IN_FLIGHT, name="back")


@pytest.fixture(scope="module")
def every_15_s(serving: Serving) -> Generator[Serving]:
    """With the scrape jobs of a stack that has all of these services."""
    kinds = [IN_FLIGHT, BACK, *(kind for some in TOGETHER for kind in some)]
    with monitored(serving, *(kind.of_file for kind in kinds)), serving.hpa_every(15):
        yield serving


def stepped(serving: Serving, *kinds: Kind, after: Sequence[LoadStage] = ()) -> list[Measured]:
    """Each kind at once with the others, kept as files and pictures."""
    watches = [Watch(serving, kind.service) for kind in kinds]
    servers = {kind.service: kind.server for kind in kinds}

    async def all_of_them() -> list[LoadAnswers]:
        loads = [load_on(serving, kind.service, [QUIET, kind.busy, *after], timeout=150) for kind in kinds]
        return await asyncio.gather(*map(offer, loads))

    def own(one: Json, _: ModelServer) -> Json:
        return played(one, servers[one["metadata"]["name"]])

    with ExitStack() as stack:
        files = [kind.of_file for kind in kinds]
        begin = dict.fromkeys(servers, 1)
        stack.enter_context(served(serving, *files, replicas=begin, server=SERVER, autoscaled=True, played=own))
        for watch in watches:
            stack.enter_context(watch.looking())
        answers = asyncio.run(all_of_them())
    return [_kept(kind, its, watch) for kind, its, watch in zip(kinds, answers, watches, strict=True)]


def _kept(kind: Kind, answers: LoadAnswers, watch: Watch) -> Measured:
    measured = Measured(
        kind=kind.name,
        metrics=kind.metrics,
        answers=answers,
        seen=watch.seen,
        step_at=QUIET.seconds,
        busy=kind.busy.seconds,
        enough=ENOUGH,
    )
    measured.keep()
    return measured


def grew_gradually(measured: Measured, *, reaches: int = ENOUGH) -> None:
    assert (measured.answers.lost, measured.answers.reasons) == (0, {})
    assert reaches <= measured.most_ready <= measured.most_wanted <= MOST
    assert changes(measured.seen)
    assert [one for one in changes(measured.seen) if not is_gradual(one)] == []


def test_by_what_is_in_flight(every_15_s: Serving) -> None:
    (measured,) = stepped(every_15_s, IN_FLIGHT)

    grew_gradually(measured)


@pytest.mark.long
@pytest.mark.parametrize("kinds", TOGETHER, ids=lambda kinds: "-".join(kind.name for kind in kinds))
def test_by_each_kind_of_metric(every_15_s: Serving, kinds: Sequence[Kind]) -> None:
    for kind, measured in zip(kinds, stepped(every_15_s, *kinds), strict=True):
        grew_gradually(measured, reaches=kind.reaches)


@pytest.mark.long
def test_there_and_back_by_a_quarter_at_a_time(every_15_s: Serving) -> None:
    (measured,) = stepped(every_15_s, BACK, after=[QUIET_AGAIN])

    grew_gradually(measured)
    down = [one for one in changes(measured.seen) if one.after < one.before]
    assert len(down) >= 2
    assert down[0].at > QUIET.seconds + BUSY.seconds + 240  # five minutes below, but for what was in flight
    assert all(later.at - earlier.at > 110 for earlier, later in pairwise(down))
