"""The controller's reading of SQS, by its own calls: late counts, zeros, throttling. Workers are the test's."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from controllers.adapters.broker_demand import BrokerDemand
from controllers.adapters.broker_rules import Report, Reports
from controllers.adapters.sqs_broker import SqsBroker
from controllers.ports import Known, Reading, Unknown, Untrusted
from ebbtide.vocabulary.controller_config import SqsEndpoint
from tests.backends.sqs.moto_server import REGION, Moto
from tests.backends.sqs.proxy import Proxy
from tests.builders.controllers import pool_policy

pytestmark = pytest.mark.backends

QUEUE = POOL = "train"
LATEST = 60.0  # seconds by which a count may be late
STARTUP = timedelta(minutes=5)


class Scene:
    """One pool, read once a second of a clock that only the test moves."""

    def __init__(self, moto: Moto, proxy: Callable[[Callable[[], float]], Proxy]) -> None:
        self.moto, self.now = moto, 0.0
        self.proxy = proxy(lambda: self.now)
        self.pools: Mapping[str, object] = {
            POOL: pool_policy(name=POOL, queues=(QUEUE,), source="celery", broker="aws")
        }
        self.calls, self.served = 0, False
        self.workers: dict[str, Report] = {}
        self.receipts: dict[str, str] = {}
        self.broker = SqsBroker(SqsEndpoint(name="aws", region=REGION), STARTUP)
        self.demand = BrokerDemand(self.broker, cast("Any", self), monotonic=lambda: self.now)

    def read(self) -> Mapping[str, Reports]:
        """Take the place of the reader of reports."""
        workers = [replace(report, beat=str(self.now)) for report in self.workers.values()]
        served = frozenset({QUEUE} if self.served else ())
        return {POOL: Reports(workers=workers, served=served, identity="redis", size=1)}

    def start(self, pod: str) -> None:
        self.served = True
        self.workers[pod] = Report(worker=pod, host=pod, queues=frozenset({QUEUE}), idle=True)

    def take(self, pod: str) -> bool:
        """The worker receives a message; False if the queue has none."""
        url = self.moto.url_of(QUEUE)
        answer = self.moto.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=1)
        messages = cast("list[dict[str, str]]", answer.get("Messages") or [])
        for message in messages:
            self.receipts[pod] = message["ReceiptHandle"]
            last = self.workers[pod]
            self.workers[pod] = replace(last, idle=False, active=1, held=1, received=last.received + 1)
        return bool(messages)

    def complete(self, pod: str) -> None:
        self.moto.call("DeleteMessage", QueueUrl=self.moto.url_of(QUEUE), ReceiptHandle=self.receipts.pop(pod))
        self.workers[pod] = replace(self.workers[pod], idle=True, active=0, held=0)

    def look(self) -> Reading:
        self.now += 1.0
        self.demand.poll()
        reading = self.demand.read([POOL])[POOL]
        busy = {pod for pod, report in self.workers.items() if not report.idle}
        seen = reading.seen if isinstance(reading, Untrusted) else reading
        if isinstance(seen, Known):
            assert not seen.idle & busy
            assert seen.running + seen.in_transit >= len(busy)
        return reading

    def pass_time(self, seconds: float) -> list[Reading]:
        return [self.look() for _ in range(int(seconds))]


@pytest.fixture
def scene(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    for name, value in moto.variables().items():
        monkeypatch.setenv(name, value)
    moto.delete_all()
    moto.create(QUEUE, timeout=3600)
    started: list[Proxy] = []

    def proxy(clock: Callable[[], float]) -> Proxy:
        started.append(Proxy(moto.port, clock).__enter__())
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", started[0].url)
        return started[0]

    try:
        yield Scene(moto, proxy)
    finally:
        for one in started:
            one.__exit__(None, None, None)


def known(reading: Reading) -> Known:
    assert isinstance(reading, Known), reading
    return reading


def why(reading: Reading) -> str:
    assert isinstance(reading, Unknown), reading
    return reading.why


def test_visible_messages_wait_and_received_ones_run(scene: Scene) -> None:
    for _ in range(3):
        scene.moto.send(QUEUE, "job")
    assert (known(scene.look()).waiting, scene.proxy.asked) == (3, ["GetQueueUrl", "GetQueueAttributes"])

    scene.start("a")
    scene.take("a")
    reading = known(scene.look())

    assert (reading.waiting, reading.running, reading.in_transit) == (2, 1, 0)
    assert scene.proxy.asked[2:] == ["GetQueueAttributes"]


@pytest.mark.parametrize(("delay", "waiting"), [(300, 1), (301, 0)])
def test_delayed_messages_wait_if_their_queue_delays_no_longer_than_a_node_needs(
    delay: int, waiting: int, scene: Scene
) -> None:
    scene.moto.create("later", DelaySeconds=str(delay))
    scene.moto.send("later", "job")

    _, answers = scene.broker.ask(["later"])

    assert getattr(answers["later"], "ready", None) == waiting


def test_with_counts_that_are_a_minute_late_a_worker_is_idle_only_after_two_minutes_of_zeros(scene: Scene) -> None:
    scene.start("a")
    scene.pass_time(70)
    scene.proxy.lag = LATEST
    scene.moto.send(QUEUE, "job")
    scene.take("a")
    while_running = [known(reading) for reading in scene.pass_time(90)]
    scene.complete("a")
    ended = scene.now
    after = [(scene.now, known(scene.look())) for _ in range(240)]

    assert all(reading.running >= 1 and not reading.idle for reading in while_running)
    since = next(at for at, reading in after if reading.idle == frozenset({"a"}))
    assert since - ended >= LATEST + 120 - 2
    assert all(reading.in_flight == 0 for at, reading in after if at >= since)


def test_zeros_while_a_job_runs_name_no_idle_pod(scene: Scene) -> None:
    scene.start("a")
    scene.start("b")
    scene.moto.send(QUEUE, "job")
    scene.take("a")
    scene.proxy.fault = "zeros"

    readings = [known(reading) for reading in scene.pass_time(300)]

    assert {reading.running for reading in readings[10:]} == {1}
    assert all("a" not in reading.idle for reading in readings)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("throttled", "queue train: SQS refused, RequestThrottled: Rate exceeded"),
        ("denied", "the controller's role needs sqs:GetQueueAttributes"),
        ("down", "queue train: SQS refused, 503: Service Unavailable"),
        ("negative", "queue train: SQS gives no number for ApproximateNumberOfMessages"),
        ("incomplete", "queue train: SQS gives no number for ApproximateNumberOfMessagesNotVisible"),
        ("html", "queue train: SQS gives no number"),
        ("silent", "broker aws did not answer within 1 s"),
    ],
)
def test_a_bad_answer_is_unknown_until_the_next_good_one(fault: str, words: str, scene: Scene) -> None:
    scene.moto.send(QUEUE, "job")
    known(scene.look())
    scene.proxy.fault = fault
    assert words in why(scene.look())

    scene.proxy.fault = ""

    assert known(scene.look()).waiting == 1


def test_an_address_that_is_no_address_is_unknown(scene: Scene) -> None:
    scene.proxy.fault = "html"

    assert why(scene.look()) == "queue train: SQS gives no address"


def test_after_one_silence_a_round_asks_for_no_further_queue(scene: Scene) -> None:
    scene.proxy.fault = "silent"

    _, answers = scene.broker.ask(["a", "b", "c"])

    assert len(scene.proxy.asked) == 1
    assert all(isinstance(answer, Unknown) for answer in answers.values())


def test_a_queue_that_nobody_created_is_empty_and_one_that_vanished_is_unknown(scene: Scene) -> None:
    scene.moto.delete_all()
    reading = scene.look()
    assert isinstance(reading, Untrusted)  # no worker has reported yet
    assert (reading.seen.in_flight, reading.seen.seen_before) == (0, False)
    assert "no queue train" in reading.seen.warning

    scene.moto.create(QUEUE)
    scene.start("a")
    assert known(scene.look()).seen_before
    scene.moto.delete_all()

    assert "queue train is not in the broker" in why(scene.look())


def test_a_controller_without_credentials_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")

    assert "no AWS credentials" in why(scene.look())


def test_no_sequence_of_late_wrong_or_missing_counts_names_a_busy_pod_idle(scene: Scene) -> None:
    """`Scene.look` compares each reading with what is true."""
    chance = random.Random(59)
    pods: Sequence[str] = ("a", "b", "c")
    for pod in pods:
        scene.start(pod)
    idle = 0
    for _ in range(600):
        if chance.random() < 0.02:
            scene.proxy.fault = chance.choice(["", "", "zeros", "throttled", "denied", "negative", "html"])
        if chance.random() < 0.01:
            scene.proxy.lag = chance.choice([0.0, 20.0, LATEST])
        if chance.random() < 0.01:
            scene.moto.send(QUEUE, "job")
        for pod in pods:
            if pod in scene.receipts:
                if chance.random() < 0.02:
                    scene.complete(pod)
            elif chance.random() < 0.1:
                scene.take(pod)
        idle += isinstance(reading := scene.look(), Known) and bool(reading.idle)

    assert idle > 0
