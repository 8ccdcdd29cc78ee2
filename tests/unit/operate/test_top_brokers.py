"""`ebbtide top` of pools whose queues do not show how long jobs wait: lists, message brokers. Unknown is not zero."""

from dataclasses import replace
from typing import Any

from controllers.ports import Known
from ebbtide.monitoring.client import Sample, UnknownAnswer
from ebbtide.monitoring.rules import Metrics
from ebbtide.operate.top.facts import TopFacts, queries
from ebbtide.operate.top.view import TopView, top_view
from ebbtide.vocabulary.documents import encoded
from tests.builders.components import BROKER, controller_config, pool_policy
from tests.unit.operate.raw_objects import NOW
from tests.unit.operate.test_status import POOL


def view(reading: Known) -> TopView:
    """The pool `etl` in a broker and `train` in Redis, both with this reading; in Prometheus `train` had no waits."""
    pools = (replace(pool_policy("etl"), source="celery", broker="jobs"), pool_policy("train"))
    rows = [{**POOL, "name": pool.name, "reading": encoded(reading)} for pool in pools]
    measured: dict[str, Any] = dict.fromkeys(queries(Metrics("acme")), UnknownAnswer("none")) | {
        "waits": [Sample(labels={"pool": "train"}, value=0.0), Sample(labels={"pool": "etl"}, value=-1.0)]
    }
    facts = TopFacts(
        now=NOW,
        config=replace(controller_config(), pools=pools, brokers=(BROKER,)),
        status={"report": {"pools": rows}},
        measured=measured,
    )
    return top_view(facts, "acme", lambda _: None)


def test_waits_that_a_queue_does_not_show_are_unknown_with_one_line_that_says_why() -> None:
    seen = view(Known(waiting=0, in_transit=0, running=2))
    etl, train = seen.pools

    assert (etl.waiting, etl.running, etl.wait_p95, train.wait_p95) == (0, 2, None, 0)
    assert [line for line in seen.notes if line.startswith("waits of")] == [
        "waits of etl: unknown; lists, message brokers, and Celery without our hooks do not show how long jobs wait"
    ]


def test_the_wait_of_the_first_job_is_unknown_too() -> None:
    seen = view(Known(waiting=7, in_transit=0, running=2))

    assert [pool.oldest_wait for pool in seen.pools] == [None, None]
    assert [line.split(":")[0] for line in seen.notes if line.startswith("waits of")] == ["waits of etl, train"]
