"""Workers whose role allows what a pool's role allows, and nothing else."""

import json
from collections.abc import Iterator

import pytest

from ebbtide.settings.sections.pods.aws import QUEUE_ACTIONS, QueueAccess
from tests.backends.frameworks import QUEUE
from tests.backends.sqs.conftest import EMPTY, SqsScene, end
from tests.backends.sqs.proxy import Proxy
from tests.backends.sqs.test_consumer import CONSUMER
from tests.builders.redis import wait_until

pytestmark = pytest.mark.backends


@pytest.fixture
def proxy(scene: SqsScene) -> Iterator[Proxy]:
    with Proxy(scene.moto.port) as strict:
        strict.allowed = QUEUE_ACTIONS[QueueAccess.BOTH]
        yield strict


def options(scene: SqsScene) -> str:
    queue = {QUEUE: {"url": scene.moto.url_of(QUEUE)}}
    return json.dumps({"predefined_queues": queue, "wait_time_seconds": 1})


def test_celery_with_predefined_queues_needs_no_other_right(scene: SqsScene, proxy: Proxy) -> None:
    worker = scene.worker(TEST_OPTIONS=options(scene), AWS_ENDPOINT_URL_SQS=proxy.url)
    scene.enqueue(("a", 3.0))
    wait_until(lambda: scene.ended("a"), "the task")
    wait_until(lambda: scene.counts() == EMPTY, "the acknowledgement")
    end(worker)

    assert "ChangeMessageVisibilityBatch" in proxy.asked or "ChangeMessageVisibility" in proxy.asked
    assert not proxy.denied


def test_celery_without_them_is_refused(scene: SqsScene, proxy: Proxy) -> None:
    worker = scene.start(AWS_ENDPOINT_URL_SQS=proxy.url)

    wait_until(lambda: "ListQueues" in proxy.denied, "the worker to list queues")
    worker.kill()


@pytest.mark.parametrize("framework", [CONSUMER], ids=["consumer"], indirect=True)
def test_a_consumer_needs_no_other_right(scene: SqsScene, proxy: Proxy) -> None:
    worker = scene.worker(AWS_ENDPOINT_URL_SQS=proxy.url)
    scene.moto.send(QUEUE, "a 3")
    wait_until(lambda: scene.ended("a"), "the message")
    wait_until(lambda: scene.counts() == EMPTY, "the deletion")
    end(worker)

    assert not proxy.denied
