"""What the client believes: of a real Prometheus with old samples or two clusters, and of others that answer."""

import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.adapters.server import Page, Server
from ebbtide.monitoring.client import Prometheus, Sample, UnknownAnswer
from ebbtide.monitoring.links import HttpLink
from tests.builders.control_plane import eventually
from tests.builders.monitoring.servers import Exposed, needs_prometheus, prometheus

pytestmark = pytest.mark.process

TOKEN = "geheim-token"
MINUTE = timedelta(minutes=1)


def now() -> datetime:
    return datetime.now(UTC)


def client(url: str, timeout: timedelta = timedelta(seconds=10)) -> Prometheus:
    return Prometheus(HttpLink(url, token=TOKEN, timeout=timeout), "acme", now)


def why(answer: object) -> str:
    assert isinstance(answer, UnknownAnswer), answer
    assert "\n" not in answer.why
    assert TOKEN not in answer.why
    return answer.why


# --- a real one -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def targets() -> dict[str, Exposed]:
    jobs = 'ebbtide_pool_jobs{pool="train",part="waiting"} 0\nebbtide_leader 1\n'
    return {"one": Exposed(jobs), "two": Exposed("ebbtide_leader 0\n")}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, targets: dict[str, Exposed]) -> Iterator[str]:
    jobs = {name: target.address for name, target in targets.items()}
    with prometheus(tmp_path_factory.mktemp("prometheus"), jobs) as found:
        asking = client(found)
        eventually(
            lambda: not isinstance(asking.ask(JOBS, stands_on=("pool_jobs", "leader")), UnknownAnswer), what="data"
        )
        yield found


JOBS = 'sum by (pool) (ebbtide_pool_jobs{customer="acme"})'


@needs_prometheus
def test_a_zero_that_was_measured_is_zero(url: str) -> None:
    assert client(url).ask(JOBS, stands_on=["pool_jobs"]) == (Sample(labels={"pool": "train"}, value=0.0),)


@needs_prometheus
@pytest.mark.parametrize(
    ("expression", "stands_on", "message"),
    [
        ("sum(ebbtide_pool_jbos)", "pool_jobs", "has nothing for sum(ebbtide_pool_jbos)"),
        (JOBS, "pool_jbos", "has nothing for max(timestamp(ebbtide_pool_jbos"),
        ("sum(", "pool_jobs", "HTTP 400: invalid parameter"),
    ],
)
def test_an_empty_answer_is_unknown_and_not_zero(url: str, expression: str, stands_on: str, message: str) -> None:
    assert message in why(client(url).ask(expression, stands_on=[stands_on]))


@needs_prometheus
def test_another_customer_is_not_there(url: str) -> None:
    theirs = Prometheus(HttpLink(url), "other", now)

    assert 'customer="other"' in why(theirs.ask(JOBS, stands_on=["pool_jobs"]))


@needs_prometheus
def test_what_is_asked_for_must_be_kept_for_so_long(url: str) -> None:
    answer = client(url).over(JOBS, now() - timedelta(days=30), now(), timedelta(hours=1))

    assert why(answer).endswith("keeps 15 d 0 h, and 30 d 0 h were requested")


@needs_prometheus
def test_two_leaders_of_one_customer_are_two_clusters(url: str, targets: dict[str, Exposed]) -> None:
    asking = client(url)
    targets["two"].text = "ebbtide_leader 1\n"
    try:
        eventually(
            lambda: isinstance(asking.ask(JOBS, stands_on=["pool_jobs"]), UnknownAnswer), what="the second leader"
        )
        assert "2 controllers of acme lead at once" in why(asking.ask(JOBS, stands_on=["pool_jobs"]))
    finally:
        targets["two"].text = "ebbtide_leader 0\n"
    eventually(
        lambda: not isinstance(asking.ask(JOBS, stands_on=["pool_jobs"]), UnknownAnswer), what="one leader again"
    )


@needs_prometheus
def test_an_old_sample_is_no_answer_though_prometheus_gives_it(url: str, targets: dict[str, Exposed]) -> None:
    """A sample with a time of its own is given for five minutes, whatever becomes of its target."""
    old = int((now() - 3 * MINUTE).timestamp() * 1000)
    targets["two"].text = f"ebbtide_leader 0\nebbtide_pool_floor 4 {old}\n"
    asking = client(url)
    expression = 'ebbtide_pool_floor{customer="acme"}'
    try:
        eventually(lambda: not isinstance(asking.ask(expression, stands_on=()), UnknownAnswer), what="the old sample")
        assert "ebbtide_pool_floor is 3 min" in why(asking.ask(expression, stands_on=["pool_floor"]))
    finally:
        targets["two"].text = "ebbtide_leader 0\n"


@needs_prometheus
@pytest.mark.parametrize("ahead", [-2.5 * MINUTE, 2.5 * MINUTE], ids=["behind", "ahead"])
def test_a_clock_that_is_not_ours_is_not_believed(url: str, ahead: timedelta) -> None:
    elsewhere = Prometheus(HttpLink(url), "acme", lambda: now() + ahead)

    assert "its clock and ours are 2 min" in why(elsewhere.ask(JOBS, stands_on=["pool_jobs"]))


# --- others -----------------------------------------------------------------------------------------------------------


def answering(page: Page) -> str:
    """The address of a server that answers every question so."""
    pages = {f"/api/v1/{path}": lambda: page for path in ("query", "query_range", "status/runtimeinfo")}
    return f"http://127.0.0.1:{Server('127.0.0.1', 0, pages).server_port}"


def found(*results: object, **more: object) -> Page:
    return 200, "application/json", json.dumps({"status": "success", "data": {"result": results}, **more})


def sample(value: object) -> dict[str, Any]:
    return {"metric": {}, "value": [0, str(value)]}


ONE, TORN = sample(1), dict[str, Any](metric={})


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (found(ONE, warnings=["store eu-1 is away"]), "the answer is partial: store eu-1 is away"),
        (found(ONE, isPartial=True), "the answer is partial"),
        (found(TORN), "the answer is not from Prometheus"),
        (found(sample("NaN")), "has nothing for up"),
        (found(sample("many")), "the answer is not from Prometheus"),
        ((200, "text/html", "<html>Log in</html>"), "the answer is not from Prometheus"),
        ((200, "application/json", "[]"), "the answer is not from Prometheus"),
        ((200, "application/json", '{"status": "error", "error": "a\\nb"}'), "a b"),
        ((401, "text/plain", TOKEN), "HTTP 401: the token is refused or missing"),
        ((503, "text/plain", "no"), "HTTP 503"),
        ((302, "text/plain", ""), "HTTP 302"),
    ],
)
def test_an_incomplete_answer_of_prometheus_is_unknown(page: Page, message: str) -> None:
    assert message in why(client(answering(page)).ask("up", stands_on=()))


def test_a_prometheus_that_is_away_or_does_not_answer_is_unknown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert "timed out" in why(client(address, timeout=timedelta(milliseconds=200)).ask("up", stands_on=()))
    assert "refused" in why(client(address).ask("up", stands_on=()))


@pytest.mark.parametrize(
    ("newest", "message"),
    [
        (4_102_444_800, "in the future"),
        (1e30, "not from Prometheus"),
        ("+Inf", "not from Prometheus"),
    ],
)
def test_a_series_with_an_impossible_time_is_unknown(newest: object, message: str) -> None:
    page = found(sample(newest))

    assert message in why(client(answering(page)).ask("up", stands_on=["leader"]))


@pytest.mark.parametrize(
    "url", ["prometheus:9090", "http://", "ftp://here", "http://me:geheim@here", "http://here?a=b"]
)
def test_what_is_no_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="wanted the address of a Prometheus") as refused:
        HttpLink(url)
    assert "geheim" not in str(refused.value)
