"""`ebbtide why pool` of a pool whose queues are in a message broker, on readings of the controller's rules."""

from dataclasses import replace
from typing import Any, cast

import pytest

from controllers.adapters.broker_rules import RABBITMQ, Answer, BrokerRules, Count, Missing, Reports
from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.ports import ObservedPod, ObservedPool, PodPhase, Unknown
from controllers.reconciling import Expectations
from controllers.scaler.workers.reconcile import PoolReconciler
from ebbtide.operate.why.pools_and_budgets import explain_pool
from ebbtide.vocabulary.documents import encoded
from tests.builders.brokers import report, reports
from tests.builders.components import BROKER, controller_config, pool_policy
from tests.builders.controllers import NOON

DEPLOYMENT = "/apis/apps/v1/namespaces/ebbtide-workers/deployments/train"
EMPTY = Count(ready=0, consumers=1, listed=0, unacked=0)


class Cluster:
    def get(self, path: str, **_: str) -> dict[str, Any]:
        if path == DEPLOYMENT:
            return {"spec": {"replicas": 1}}
        raise ApiError(404, "no")


def text(*answers: Answer, rabbit: bool = True, workers: Reports | None = None, reconnects: bool = False) -> str:
    """Return the lines after these answers of the broker, which are 5 seconds apart."""
    pool = replace(pool_policy(), source="celery", broker="jobs")
    config = replace(controller_config(), pools=(pool,), brokers=(BROKER,) if rabbit else ())
    rules, reconciler = BrokerRules("train", RABBITMQ), PoolReconciler(pool, config, Expectations())
    observed = ObservedPool(replicas=1, existing=1, pods=(ObservedPod(name="a", phase=PodPhase.RUNNING),))
    row: object = None
    for number, answer in enumerate(answers):
        link = f"link {number if reconnects else 0}"
        reading = rules.look(5.0 * number, link, {"train": answer}, workers or reports(report(beat=str(number))))
        row = encoded(reconciler.reconcile(NOON, observed, reading).report)
    return "\n".join(explain_pool(cast("KubeApi", Cluster()), config, "train", {"report": {"pools": [row]}}))


def test_a_known_reading_has_its_counts_and_its_idle_pods() -> None:
    found = text(replace(EMPTY, ready=7, listed=7, unacked=2))

    assert "Its queues (train): 7 waiting, 2 in transit; reading known." in found
    assert "Broker jobs counts waiting messages and those that workers hold." in found
    assert "Its pods that are proven idle: none." in found
    assert "One without a report (EBBTIDE_REDIS_URL, hooks) counts as busy." in found
    assert "rabbitmqctl" not in found


@pytest.mark.parametrize(("rabbit", "times"), [(True, ["for 10 s."]), (False, ["for 60 s;", "zero for 120 s."])])
def test_the_times_that_prove_a_pod_idle_are_those_of_the_kind(rabbit: bool, times: list[str]) -> None:
    assert all(time in text(EMPTY, rabbit=rabbit) for time in times)


@pytest.mark.parametrize(("rabbit", "told"), [(True, "the pool falls only to zero"), (False, "the pool only grows.")])
def test_without_reports_the_pools_limit_is_named(rabbit: bool, told: str) -> None:
    found = text(EMPTY, workers=reports(served=False), rabbit=rabbit)

    assert told in found
    assert "proven idle" not in found


def test_an_unknown_reading_has_its_reason_and_the_rights_that_the_user_needs() -> None:
    found = text(Unknown("the management API answered 401"))

    assert "Its queues (train): -; reading unknown." in found
    assert "Note: demand unknown, holding: the management API answered 401." in found
    commands = 'rabbitmqctl set_user_tags reader management; rabbitmqctl set_permissions -p prod reader "" "" ""'
    assert f"If the broker refuses its user, correct it: {commands}" in found
    assert "proven idle" not in found
    assert "rabbitmqctl" not in text(Unknown("throttled"), rabbit=False)


def test_an_untrusted_reading_says_when_it_is_trusted_again() -> None:
    found = text(EMPTY, EMPTY, reconnects=True)

    assert "reading untrusted" in found
    assert found.count("the broker restarted, or the connection to it was lost") == 1
    assert "when all known hosts report idle, or after 10 min." in found


def test_a_queue_that_no_worker_created_is_named_with_its_remedy() -> None:
    found = text(*[Missing()] * 13, workers=reports(served=False))

    assert "the broker has no queue train" in found
    assert "other queues must be created, as durable" in found
    assert "These queues were never used" not in found
