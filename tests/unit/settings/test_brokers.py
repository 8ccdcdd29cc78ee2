"""Brokers of a stack file: rules between a broker and its pools, and the controller's document."""

import json
from pathlib import Path
from textwrap import dedent, indent

import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.capacity.pods import secrets_by_namespace
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.explain import explained
from ebbtide.settings.load import read_stack
from ebbtide.settings.sections.brokers import OWN_QUEUES
from ebbtide.settings.summary import summary
from ebbtide.vocabulary.controller_config import BrokerEndpoint, ControllerConfig, RedisEndpoint, SqsEndpoint
from ebbtide.vocabulary.documents import UnreadableConfig, dump, load
from tests.builders.settings import loaded, problem_of, shortest, stack_file

BROKER = """
    ebbtide:brokers:
      jobs:
        kind: rabbitmq
        url: amqps://mq.example.com/a%2Fb
        management: https://mq.example.com
        controller: { user: reader, secret: rabbit-reader }
        consumerTimeout: 13h
"""


def file_with(source: str = "kind: celery, broker: jobs, acks: late", pool: str = "longestJob: 12h") -> str:
    text = shortest(more=BROKER)
    return text.replace("queues: [train]", f"{source}, queues: [train]").replace("longestJob: 12h", pool)


def document(text: str, folder: Path) -> str:
    return dump(controller_config(loaded(text, folder), RedisEndpoint(host="redis"), years=[2026]))


def test_the_controller_gets_the_address_and_the_name_of_the_password(tmp_path: Path) -> None:
    config = load(ControllerConfig, document(file_with(), tmp_path))

    assert config.brokers == (
        BrokerEndpoint(
            name="jobs",
            host="mq.example.com",
            port=5671,
            vhost="a/b",
            tls=True,
            management="https://mq.example.com:443",
            username="reader",
            password_env="BROKER_JOBS_PASSWORD",
        ),
    )
    assert [(pool.source, pool.broker) for pool in config.pools] == [("celery", "jobs")]


def test_only_a_document_with_a_broker_is_refused_by_the_previous_release(tmp_path: Path) -> None:
    """The previous release reads schemas 3 and 4."""
    with_broker = json.loads(document(file_with(), tmp_path))
    without = json.loads(document(shortest(), tmp_path))

    assert (with_broker["schema"], without["schema"]) == (5, 4)
    assert "brokers" not in without
    assert all("broker" not in pool for pool in without["pools"])


def test_a_document_whose_pool_names_no_broker_is_refused(tmp_path: Path) -> None:
    content = json.loads(document(file_with(), tmp_path))
    content["brokers"][0]["name"] = "other"

    with pytest.raises(UnreadableConfig, match=r"unknown brokers: \['jobs'\]"):
        load(ControllerConfig, json.dumps(content))


@pytest.mark.parametrize("longest", ["13h", "14h"])
def test_a_broker_waits_longer_than_the_longest_job(longest: str, tmp_path: Path) -> None:
    told = problem_of(file_with(pool=f"longestJob: {longest}"), tmp_path)

    assert told.tells("broker.timeout-too-short", longest, "ebbtide:brokers.jobs", "13h")


def test_a_misspelt_broker_is_told_the_near_one(tmp_path: Path) -> None:
    told = problem_of(file_with(source="kind: celery, broker: job, acks: late"), tmp_path)

    assert told.tells("source.unknown-broker", "'job'", "did you mean jobs?")


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ("command: [celery, -A, app, worker, -P, solo, -Q, train]", "command"),
        ("command: [celery, -A, app, worker, --pool=solo, -Q, train]", "command"),
        ("env: { CELERY_WORKER_POOL: { value: solo } }", "env.CELERY_WORKER_POOL"),
    ],
)
def test_a_solo_pool_is_refused(keys: str, key: str, tmp_path: Path) -> None:
    assert problem_of(file_with(pool=f"longestJob: 12h, {keys}"), tmp_path).tells("broker.solo-pool", f"train.{key}:")


def test_a_pool_in_redis_may_run_solo_beside_a_broker(tmp_path: Path) -> None:
    command = "longestJob: 12h, command: [celery, -A, app, worker, -P, solo, -Q, train]"

    assert loaded(file_with(source="kind: celery, acks: late", pool=command), tmp_path).workers["train"].command


def test_a_variable_that_the_login_of_workers_sets_is_refused(tmp_path: Path) -> None:
    own = "longestJob: 12h, env: { CELERY_BROKER_URL: { secret: mine, key: url } }"
    text = with_login(file_with(pool=own))

    refusal = problem_of(text, tmp_path)
    assert refusal.tells("env.ours", "env.CELERY_BROKER_URL", "take workers out of ebbtide:brokers.jobs")


def with_login(text: str) -> str:
    return text.replace(
        "consumerTimeout: 13h", "consumerTimeout: 13h\n      workers: { user: etl, secret: rabbit-etl }"
    )


OWN = "env: { CELERY_BROKER_URL: { secret: mine, key: url } }"
CONSUMER = "kind: consumer, broker: jobs"
NO_ADDRESS, NO_QUEUE = "broker.no-address workers.train.env", "broker.queue-must-exist workers.train.source.queues"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (file_with(), {NO_ADDRESS}),
        (with_login(file_with()), set[str]()),
        (file_with(pool=f"longestJob: 12h, min: 1, {OWN}"), set[str]()),
        (file_with(pool="longestJob: 12h, min: 1, command: [celery, -A, app, -b, x, worker, -Q, train]"), set[str]()),
        (file_with(pool="longestJob: 12h, min: 1, envFrom: [{ secret: mine }]"), set[str]()),
        (file_with(CONSUMER, f"longestJob: 12h, min: 1, {OWN}"), {NO_ADDRESS, NO_QUEUE}),
        (file_with("kind: celery, acks: late"), {"broker.unused brokers.jobs"}),
    ],
)
def test_a_pool_without_an_address_or_a_queue_and_a_broker_without_a_pool_are_warned_about(
    text: str, expected: set[str], tmp_path: Path
) -> None:
    cautions = warnings_of(loaded(text, tmp_path))

    assert {f"{it.code} {it.place}" for it in cautions if it.code.startswith("broker.")} == expected


def test_another_redis_than_the_broker_is_a_contradiction(tmp_path: Path) -> None:
    command = "longestJob: 12h, command: [celery, -A, app, -b, 'redis://ebbtide-redis:6379/0', worker, -Q, train]"
    [caution] = [
        it for it in warnings_of(loaded(file_with(pool=command), tmp_path)) if it.code == "command.other-redis"
    ]

    assert "broker jobs" in caution.text


def test_an_address_that_replaces_the_login_of_workers_is_a_contradiction(tmp_path: Path) -> None:
    command = "longestJob: 12h, command: [celery, -A, app, -b, 'amqp://guest:geheim@mq//', worker, -Q, train]"
    text = file_with(pool=command)
    texts = [
        [it.text for it in warnings_of(loaded(each, tmp_path)) if it.code == "command.other-redis"]
        for each in (with_login(text), text)
    ]

    assert texts == [["--broker replaces the address with the workers' login of broker jobs; leave it out"], []]


def test_check_shows_the_broker_of_a_queue(tmp_path: Path) -> None:
    assert any("queue train in jobs" in line for line in summary(loaded(file_with(), tmp_path)))


def test_defaults_of_redis_keys_are_not_shown_beside_a_broker(tmp_path: Path) -> None:
    shown = "\n".join(explained(read_stack(str(stack_file(file_with(), tmp_path))), "workers.train.source"))

    assert "broker: jobs" in shown
    assert "unackedKey" not in shown


def with_scan(source: str) -> str:
    """`scan` serves a queue with the same name as the queue of `train`."""
    other = BROKER.replace("ebbtide:brokers:", "").replace("jobs:", "other:")
    scan = f"    scan: {{ source: {{ {source}, queues: [train] }}, image: example.com/train:1, max: 4, cpu: 4, "
    text = file_with().replace("  ebbtide:brokers:", f"{scan}memory: 16Gi, longestJob: 12h }}\n  ebbtide:brokers:")
    return text + indent(dedent(other).strip("\n"), "    ") + "\n"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("kind: celery, acks: late, broker: jobs", "both pools would scale up"),
        ("kind: celery, acks: late", "workers' reports name only the queue"),
        ("kind: celery, acks: late, broker: other", "workers' reports name only the queue"),
    ],
)
def test_a_queues_name_belongs_to_one_pool_whichever_broker_holds_it(source: str, why: str, tmp_path: Path) -> None:
    assert problem_of(with_scan(source), tmp_path).tells("queue.shared", "workers.scan.source.queues[0]", why)


def test_secrets_of_the_stack_are_where_controller_and_workers_read_them(tmp_path: Path) -> None:
    password = "{ password: { secure: AAABBB } }"
    secrets = f"  ebbtide:secrets: {{ rabbit-etl: {password}, rabbit-reader: {password} }}"
    text = with_login(file_with()) + secrets + "\n  ebbtide:digestKey: { secure: AAABBB }\n"
    places = secrets_by_namespace(loaded(text, tmp_path))

    assert (places["ebbtide"], places["ebbtide-workers"]) == ({"rabbit-reader"}, {"rabbit-etl"})


def test_a_secret_of_the_stack_has_the_password(tmp_path: Path) -> None:
    secrets = (
        "  ebbtide:secrets: { rabbit-etl: { url: { secure: AAABBB } } }\n  ebbtide:digestKey: { secure: AAABBB }\n"
    )

    told = problem_of(with_login(file_with()) + secrets, tmp_path)
    assert told.tells("secret.key-unknown", "ebbtide:brokers.jobs.workers.secret", "'password'")


def file_on_sqs(pool: str = "longestJob: 11h", source: str = "kind: celery, acks: late, queues: [train]") -> str:
    text = shortest(more="\n    ebbtide:brokers: { aws: { kind: sqs } }\n")
    return text.replace("queues: [train]", f"broker: aws, {source}").replace("longestJob: 12h", pool)


def test_the_controller_gets_the_region_of_the_queues(tmp_path: Path) -> None:
    text = document(file_on_sqs(), tmp_path)
    config = load(ControllerConfig, text)

    assert (json.loads(text)["schema"], config.brokers) == (5, ())
    assert config.sqs == (SqsEndpoint(name="aws", region="us-east-1"),)
    assert [pool.broker for pool in config.pools] == ["aws"]


@pytest.mark.parametrize(
    ("pool", "source", "code", "words"),
    [
        ("longestJob: 12h", "kind: celery, acks: late, queues: [a]", "broker.longer-than-visibility", ["12h", "11h"]),
        ("longestJob: 13h", "kind: consumer, queues: [a]", "broker.longer-than-visibility", ["13h", "less than 12h"]),
        ("longestJob: 1h", "kind: celery, acks: late, queues: [b, a.fifo]", "broker.one-message-group", ["a.fifo"]),
        ("longestJob: 1h", "kind: consumer, queues: [a.b]", "broker.sqs-queue", ["'a.b'", "80 letters"]),
        ("longestJob: 1h", f"kind: consumer, queues: [{'a' * 81}]", "broker.sqs-queue", ["80 letters"]),
        ("longestJob: 1h", "kind: sqs, queues: [a]", "choice.planned", ["kind: consumer", "ebbtide:brokers"]),
        ("longestJob: 1h", "kind: rq, queues: [a]", "source.broker-kind", ["'aws'"]),
        ("longestJob: 1h", "kind: celery, queues: [a]", "acks.not-late", ["late"]),
        ("longestJob: 1h", "kind: celery, acks: early, queues: [a]", "choice.planned", ["'early'"]),
        ("longestJob: 1h", "kind: celery, acks: late, queues: [a], keyPrefix: ml", "source.key-beside-broker", ["ml"]),
        ("longestJob: 1h", "kind: celery, acks: late, queues: [celery_delayed_3]", "source.own-queue", ["delays"]),
        (
            "longestJob: 1h, safeStop: true, checkpoints: { store: 's3://a-b-c', every: 5m, saveWithin: 90s }",
            "kind: celery, acks: late, queues: [a]",
            "checkpoints.broker",
            ["checkpoints"],
        ),
        (
            "longestJob: 1h, env: { CELERY_BROKER_URL: { value: a } }",
            "kind: celery, acks: late, queues: [a]",
            "env.ours",
            ["CELERY_BROKER_URL"],
        ),
    ],
)
def test_a_pool_on_sqs_is_refused(pool: str, source: str, code: str, words: list[str], tmp_path: Path) -> None:
    assert problem_of(file_on_sqs(pool, source), tmp_path).tells(code, *words)


@pytest.mark.parametrize(
    ("pool", "source"),
    [
        ("longestJob: 11h, max: 1", "kind: celery, acks: late, queues: [a.fifo]"),
        ("longestJob: 11h", "kind: consumer, queues: [a.fifo]"),  # producers choose the message groups
        ("longestJob: 11h, env: { CELERY_BROKER_URL: { value: a } }", "kind: consumer, queues: [a]"),
        ("longestJob: 11h, command: [celery, -A, app, worker, -P, solo]", "kind: celery, acks: late, queues: [a]"),
    ],
)
def test_a_pool_on_sqs_is_accepted(pool: str, source: str, tmp_path: Path) -> None:
    text = file_on_sqs(pool, source)
    if "max: 1" in pool:
        text = text.replace("max: 4, ", "")

    assert loaded(text, tmp_path).pools_on_sqs


def test_a_consumer_without_a_broker_is_told_the_broker_of_the_file(tmp_path: Path) -> None:
    text = file_on_sqs(source="kind: consumer, queues: [a]").replace("broker: aws, ", "")

    assert problem_of(text, tmp_path).tells("source.no-broker", "train.source.broker:", "(for example broker: aws)")


def test_two_pools_on_one_queue_of_sqs_are_refused(tmp_path: Path) -> None:
    pools = file_on_sqs().splitlines(keepends=True)
    index = next(number for number, line in enumerate(pools) if line.startswith("    train:"))
    pools.insert(index, pools[index].replace("train:", "other:", 1))

    assert problem_of("".join(pools), tmp_path).tells("queue.shared", "'train'")


def test_on_an_existing_cluster_the_file_states_the_region_of_sqs(tmp_path: Path) -> None:
    text = file_on_sqs() + "  ebbtide:cluster: { kind: existing, context: onprem }\n"

    assert problem_of(text, tmp_path).tells("broker.sqs-region", "ebbtide:brokers.aws", "aws:region")
    assert loaded(text + "  aws:region: eu-central-1\n", tmp_path).stated_region == "eu-central-1"


def test_a_pool_on_sqs_is_not_named_default_since_its_account_has_its_name(tmp_path: Path) -> None:
    named = file_on_sqs().replace("    train:", "    default:")

    assert problem_of(named, tmp_path).tells("account.default", "'default'")
    assert loaded(named.replace("max: 4,", "max: 4, serviceAccount: mine,"), tmp_path).pools_on_sqs


@pytest.mark.parametrize("queue", ["mail.reply.process", "pidbox", "celery", "celeryevents", "amqp.etl"])
def test_a_teams_queue_is_not_taken_for_one_of_celery(queue: str) -> None:
    assert OWN_QUEUES.fullmatch(queue) is None


EXISTING = "  ebbtide:cluster: { kind: existing, context: onprem }\n  aws:region: eu-central-1\n"
NO_RIGHTS = {"broker.no-rights workers.train.serviceAccount"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (file_on_sqs() + EXISTING, NO_RIGHTS),
        (file_on_sqs("longestJob: 11h, env: { LOG_LEVEL: { value: info } }") + EXISTING, NO_RIGHTS),
        (file_on_sqs("longestJob: 11h, env: { AWS_PROFILE: { value: etl } }") + EXISTING, set[str]()),
        (file_on_sqs("longestJob: 11h, envFrom: [{ secret: mine }]") + EXISTING, set[str]()),
        (file_on_sqs("longestJob: 11h, serviceAccount: mine") + EXISTING, set[str]()),
        (file_on_sqs(), set[str]()),
    ],
)
def test_pods_on_sqs_without_rights_are_warned_about(text: str, expected: set[str], tmp_path: Path) -> None:
    cautions = warnings_of(loaded(text, tmp_path))

    assert {f"{it.code} {it.place}" for it in cautions if it.code.startswith("broker.")} == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (file_on_sqs(source="kind: celery, acks: late, queues: [a, b]"), "a second task"),
        (file_on_sqs(source="kind: consumer, queues: [a, b]"), "one queue each"),
        (file_with("kind: celery, broker: jobs, acks: late").replace("queues: [train]", "queues: [a, b]"), ""),
        (shortest().replace("queues: [train]", "queues: [a, b]"), "missing from all of them"),
    ],
)
def test_several_queues_are_warned_about_where_they_do_harm(text: str, reason: str, tmp_path: Path) -> None:
    [*texts] = [it.text for it in warnings_of(loaded(text, tmp_path)) if it.code == "source.several-queues"]

    assert len(texts) == (1 if reason else 0)
    assert all(reason in text for text in texts)
