"""The Celery and plain-list scripts on a real Redis, for states that real workers only reach with patience."""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pytest
from redis import Redis

from controllers.adapters.backend import Backend
from controllers.adapters.celery_backend import CELERY
from controllers.adapters.list_backend import LIST
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import QUEUES_PER_CALL, RedisDemand, backend_of
from controllers.ports import Known, Reading, Unknown, Untrusted
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import CeleryKeys
from tests.builders.controllers import pool_policy
from tests.builders.redis import endpoint

pytestmark = pytest.mark.redis


@pytest.fixture
def reader(server: EmbeddedRedis) -> Iterator[Redis]:
    with connect(endpoint(server), {}) as connection:
        yield connection


def read(reader: Redis, backend: Backend, queue: str = "train") -> Reading:
    return RedisDemand(reader, backend, {"pool": [queue]}).read(["pool"])["pool"]


def known(reader: Redis, backend: Backend, queue: str = "train") -> Known:
    seen = read(reader, backend, queue)
    assert isinstance(seen, Known), seen
    return seen


def message(client: Redis, *, due_in: float | None = None, sent_ago: float | None = None, zone: int = 0) -> Any:
    """As kombu writes it; `due_in` seconds from now, in a time zone so many minutes east."""
    now = int(client.time()[0])
    eta = None
    if due_in is not None:
        eta = datetime.fromtimestamp(now + due_in + 0.25, timezone(timedelta(minutes=zone))).isoformat()
    headers: dict[str, object] = {
        "lang": "py",
        "id": "x",
        "shadow": None,
        "eta": eta,
        "argsrepr": '("eta": "2099-01-01")',
    }
    if sent_ago is not None:
        headers["ebbtide_sent"] = now - sent_ago
    return {"body": 'tricky "train", "train"]', "headers": headers}


def hand_out(
    client: Redis, exchange: str, key: str, *, ago: float = 0, tag: str = "tag", due_in: float | None = None
) -> None:
    now = int(client.time()[0])
    client.hset("unacked", tag, json.dumps([message(client, due_in=due_in), exchange, key]))
    client.zadd("unacked_index", {tag: now - ago})


def wait_in(client: Redis, *messages: Any, queue: str = "train") -> None:
    client.lpush(queue, *(json.dumps(each) for each in messages))


def bind(client: Redis, exchange: str, key: str, pattern: str, queue: str) -> None:
    client.sadd(f"_kombu.binding.{exchange}", "\x06\x16".join((key, pattern, queue)))


def report(client: Redis, host: str, state: str, patience: float = 3600, *, queue: str = "train", **more: Any) -> None:
    """Without `more`, as the release before wrote it."""
    client.sadd(f"ebbtide:workers:{queue}", host)
    fields: dict[Any, Any] = {"hostname": host, "state": state, "patience": patience, **more}
    client.hset(f"ebbtide:worker:{queue}:{host}", mapping=fields)


def read_pool(reader: Redis, *queues: str, **changes: Any) -> Reading:
    """With what its workers report beside its policy."""
    policy = pool_policy(source="celery", queues=queues or ("train",), **changes)
    backend = backend_of(policy.source, policy.celery, timedelta(minutes=5))
    return RedisDemand(reader, backend, {"pool": policy.queues}, {"pool": policy}).read(["pool"])["pool"]


def known_pool(reader: Redis, *queues: str, **changes: Any) -> Known:
    seen = read_pool(reader, *queues, **changes)
    assert isinstance(seen, Known), seen
    return seen


def test_celery_jobs_of_every_priority_wait(client: Redis, reader: Redis) -> None:
    for step in ("", "\x06\x163", "\x06\x166", "\x06\x169"):
        client.lpush(f"train{step}", "{}")

    assert known(reader, CELERY).waiting == 4


def test_celery_tasks_handed_out_count_for_their_own_queue(client: Redis, reader: Redis) -> None:
    hand_out(client, "", "train", tag="a")
    hand_out(client, "", "embed", tag="b")

    assert [known(reader, CELERY, queue).running for queue in ("train", "embed", "mail")] == [1, 1, 0]


def test_celery_exchanges_are_followed_to_their_queues(client: Redis, reader: Redis) -> None:
    bind(client, "ml", "gpu.big", "", "train")
    bind(client, "ml", "cpu", "", "embed")
    hand_out(client, "ml", "gpu.big")

    assert [known(reader, CELERY, queue).running for queue in ("train", "embed")] == [1, 0]


def test_celery_task_of_an_unknown_exchange_counts_for_every_queue(client: Redis, reader: Redis) -> None:
    hand_out(client, "gone", "some.key")

    assert [known(reader, CELERY, queue).running for queue in ("train", "embed")] == [1, 1]


def test_celery_names_that_json_escapes_are_read(client: Redis, reader: Redis) -> None:
    hand_out(client, "", "züge")

    assert known(reader, CELERY, "züge").running == 1


def test_celery_tasks_too_many_to_look_at_may_raise_and_not_lower(client: Redis, reader: Redis) -> None:
    for number in range(1001):
        hand_out(client, "", "mail", tag=str(number))
    wait_in(client, *(message(client) for _ in range(5)))
    report(client, "a", "busy", held=1, active=1)

    seen = read(reader, CELERY)

    assert isinstance(seen, Untrusted)
    assert "1001 messages are unacknowledged" in seen.why
    assert (seen.seen.waiting, seen.seen.running) == (5, 1)
    client.hdel("unacked", "0")
    assert isinstance(read(reader, CELERY), Known)


def test_celery_worker_of_several_queues_counts_once_in_a_pool(client: Redis, reader: Redis) -> None:
    queues = ("train", "embed", "mail", "score")
    for queue in queues:
        report(client, "a", "busy", queue=queue)
        report(client, "b", "busy", queue=queue, held=1, active=1)
        report(client, "c", "idle", queue=queue, held=0, active=0)
    hand_out(client, "", "mail", tag="a")
    hand_out(client, "gone", "some.key", tag="b")

    seen = known_pool(reader, *queues)

    assert (seen.running, seen.idle) == (2, {"c"})
    assert [known(reader, CELERY, queue).running for queue in queues] == [2, 2, 2, 2]


def test_celery_pools_of_several_queues_are_read_in_chunks(client: Redis, reader: Redis) -> None:
    pools = {f"p{number}": (f"q{number}", f"r{number}") for number in range(QUEUES_PER_CALL)}
    for number in range(QUEUES_PER_CALL):
        wait_in(client, *(message(client) for _ in range(number % 3 + 1)), queue=f"r{number}")
    source = RedisDemand(reader, CELERY, pools)

    readings = source.read([*pools])

    assert [cast("Known", readings[f"p{number}"]).waiting for number in range(QUEUES_PER_CALL)] == [
        number % 3 + 1 for number in range(QUEUES_PER_CALL)
    ]
    assert source.calls == 2


def test_celery_tasks_that_a_worker_holds_for_later_ask_for_no_other(client: Redis, reader: Redis) -> None:
    for number in range(30):
        hand_out(client, "", "train", tag=str(number), due_in=300)
    report(client, "a", "busy", held=30, active=0)
    assert (known(reader, CELERY).running, known(reader, CELERY).idle) == (0, frozenset())

    hand_out(client, "", "train", tag="now")
    report(client, "b", "busy", held=1, active=1)
    assert known(reader, CELERY).running == 1


def test_celery_tasks_that_have_become_due_wait_for_the_worker_that_holds_them(client: Redis, reader: Redis) -> None:
    for number in range(10):
        hand_out(client, "", "train", tag=str(number), due_in=-5)
    report(client, "a", "busy", held=10, active=1)
    assert known(reader, CELERY).running == 1

    for number in range(4):  # of a worker that reports nothing
        hand_out(client, "", "train", tag=f"other {number}")
    assert known(reader, CELERY).in_flight == 5


@pytest.mark.parametrize("hold", [{}, {"held": 2, "active": 0}])
def test_celery_delayed_tasks_that_no_report_explains_keep_one_worker(
    client: Redis, reader: Redis, hold: dict[str, int]
) -> None:
    for number in range(3):
        hand_out(client, "", "train", tag=str(number), due_in=300)
    if hold:
        report(client, "a", "busy", held=hold["held"], active=hold["active"])

    assert known(reader, CELERY).in_flight == 1


@pytest.mark.parametrize("ago", [0, 60])
def test_celery_task_that_a_worker_took_before_its_report_is_in_transit(
    client: Redis, reader: Redis, ago: float
) -> None:
    """The holder of a delayed task is not idle, and has nothing to do with the task that the other one just took."""
    hand_out(client, "", "train", tag="later", due_in=300, ago=60)
    report(client, "a", "busy", held=1, active=0)
    report(client, "b", "idle", held=0, active=0)
    assert (known(reader, CELERY).in_transit, known(reader, CELERY).running) == (0, 0)

    hand_out(client, "", "train", tag="now", ago=ago)

    seen = known(reader, CELERY)
    assert (seen.in_transit, seen.running) == ((1, 0) if ago == 0 else (0, 1))  # no report is a minute old


def test_celery_worker_of_other_queues_too_explains_no_task_of_the_pool(client: Redis, reader: Redis) -> None:
    for number in range(5):
        hand_out(client, "", "mail", tag=str(number))
    report(client, "a", "busy", held=5, active=1, queues="train mail")
    report(client, "b", "idle", held=0, active=0, queues="train")
    hand_out(client, "", "train", tag="now")

    assert known(reader, CELERY).in_transit == 1


@pytest.mark.parametrize("held", ["1.5", "inf", "-3", "many"])
def test_celery_report_whose_number_is_none_hides_no_task(client: Redis, reader: Redis, held: str) -> None:
    hand_out(client, "", "train")
    report(client, "a", "busy", held=held, active=0)

    assert known(reader, CELERY).in_flight == 1


def test_celery_pool_of_several_queues_has_the_oldest_wait_and_was_seen_where_one_was(
    client: Redis, reader: Redis
) -> None:
    never = known_pool(reader, "train", "mail")
    wait_in(client, message(client), queue="old")  # of a sender without the hooks
    wait_in(client, message(client, sent_ago=10), queue="train")
    wait_in(client, message(client, sent_ago=3600), queue="mail")

    seen = known_pool(reader, "old", "train", "mail")

    assert (never.seen_before, seen.seen_before) == (False, True)
    assert seen.oldest_wait is not None
    assert seen.oldest_wait >= timedelta(seconds=3600)


def test_celery_large_messages_are_not_all_read(client: Redis, reader: Redis) -> None:
    for _ in range(30):
        wait_in(client, {**message(client, due_in=3600), "body": "x" * 200_000})

    assert 15 <= known_pool(reader).waiting <= 25  # two megabytes of messages are looked at


def test_celery_odd_values_make_no_other_pool_unreadable(client: Redis, reader: Redis) -> None:
    odd = message(client)
    odd["headers"] |= {"eta": f"{'9' * 400}-01-01T00:00:00+00:00", "ebbtide_sent": 10**300}
    wait_in(client, odd)
    client.set("_kombu.binding.ml", "no set")
    hand_out(client, "ml", "gpu")
    client.hset("unacked", "binary", b"\xff\x00")

    seen = RedisDemand(reader, CELERY, {"a": ["train"], "b": ["mail"]}).read(["a", "b"])

    assert all(isinstance(reading, Unknown) and "_kombu.binding.ml" in reading.why for reading in seen.values())
    client.delete("_kombu.binding.ml")
    assert known_pool(reader).in_flight == 3


@pytest.mark.parametrize(
    "told", ["[" * 2000 + "]" * 2000, '{"concurrency": 1' + "0" * 400 + "}", '{"concurrency": NaN}']
)
def test_celery_settings_that_no_application_has_say_nothing(client: Redis, reader: Redis, told: str) -> None:
    client.set("ebbtide:celery:train", told)
    report(client, "a", "idle", settings=told)

    assert known_pool(reader).warning == ""


def test_celery_delayed_tasks_that_a_worker_of_the_release_before_holds_keep_it(client: Redis, reader: Redis) -> None:
    for number in range(30):
        hand_out(client, "", "train", tag=str(number), due_in=300)
    report(client, "a", "busy")

    assert (known(reader, CELERY).running, known(reader, CELERY).idle) == (1, frozenset())


@pytest.mark.parametrize("zone", [0, 120, -570, 345])
def test_celery_delayed_tasks_in_the_list_wait_until_a_node_could_start(
    client: Redis, reader: Redis, zone: int
) -> None:
    for due_in in (-40, 0, 290, 310, 3600, 86_400 * 40):
        wait_in(client, message(client, due_in=due_in, zone=zone))

    assert known_pool(reader).waiting == 3


def test_celery_task_with_an_unknown_time_waits_now(client: Redis, reader: Redis) -> None:
    for eta in ("2099-01-01T00:00:00", "tomorrow", 5, "2099-01-01T00:00:00.5Z"):
        late = message(client)
        late["headers"]["eta"] = eta
        wait_in(client, late)

    assert known_pool(reader).waiting == 3  # all but the last


def test_celery_list_is_looked_at_up_to_a_bound_and_the_rest_waits_now(client: Redis, reader: Redis) -> None:
    wait_in(client, *(message(client, due_in=3600) for _ in range(1100)))
    assert known_pool(reader).waiting == 100

    for _ in range(100):
        client.rpush("train", json.dumps(message(client)))  # at the head: a hundred that are not delayed
    assert known_pool(reader).waiting == 1200


def test_celery_delayed_task_has_waited_since_it_was_due(client: Redis, reader: Redis) -> None:
    wait_in(client, message(client, due_in=7200, sent_ago=90_000), message(client, due_in=-30, sent_ago=90_000))

    age = known_pool(reader).oldest_wait

    assert age is not None
    assert timedelta(seconds=25) <= age < timedelta(seconds=45)


@pytest.mark.parametrize("star", [r"[^\.]+", r".*?[^\.]"], ids=["kombu 5.7", "kombu before"])
def test_celery_topics_are_matched_as_kombu_matches_them(client: Redis, reader: Redis, star: str) -> None:
    topics = {"gpu": "ml.gpu.#", "one": "ml.*", "dash": "ml.g-x.*", "all": "#", "plain": "ml.gpu.train"}
    for queue, topic in topics.items():
        words = [{"*": star, "#": ".*?"}.get(word, re.escape(word)) for word in topic.split(".")]
        bind(client, "ml", topic, "^" + r"\.".join(words) + "$", queue)
    keys = {"a": "ml.gpu.train", "b": "ml.g-x.y", "c": "ml.cpu", "d": "other"}
    for tag, key in keys.items():
        hand_out(client, "ml", key, tag=tag)

    running = {queue: known(reader, CELERY, queue).running for queue in topics}

    wide = star.startswith(".*")  # there * matches a dot as well
    assert running == {"gpu": 1, "one": 3 if wide else 1, "dash": 1, "all": 4, "plain": 1}


def test_celery_task_that_no_binding_of_its_exchange_matches_belongs_to_every_queue(
    client: Redis, reader: Redis
) -> None:
    bind(client, "ml", "ml.gpu.*", r"^ml\.gpu\.[^\.]+$", "train")
    hand_out(client, "ml", "ml.cpu.big")

    assert [known(reader, CELERY, queue).running for queue in ("train", "embed")] == [1, 1]


def test_celery_task_whose_key_is_another_queues_name_follows_its_exchange(client: Redis, reader: Redis) -> None:
    bind(client, "ml", "train", "", "train-gpu")
    hand_out(client, "ml", "train")

    assert [known(reader, CELERY, queue).running for queue in ("train-gpu", "train")] == [1, 0]


KEYS = CeleryKeys(prefix="a'b]]:", separator="::", priorities=(1, 5), unacked="taken", unacked_index="taken_index")
SETTINGS = {
    "global_keyprefix": "",
    "sep": "\x06\x16",
    "priority_steps": [0, 3, 6, 9],
    "unacked_key": "unacked",
    "unacked_index_key": "unacked_index",
    "visibility_timeout": 7200.0,
    "acks_late": True,
    "prefetch": 1,
    "concurrency": 1,
}


def test_celery_keys_of_other_names_are_read(client: Redis, reader: Redis) -> None:
    client.lpush("a'b]]:train::1", json.dumps(message(client)))
    client.lpush("a'b]]:train::5", json.dumps(message(client)))
    client.hset("a'b]]:taken", "x", json.dumps([message(client), "ml", "gpu.big"]))
    client.zadd("a'b]]:taken_index", {"x": int(client.time()[0]) - 90})
    client.sadd("a'b]]:_kombu.binding.ml", "gpu.big::::train", "cpu::::embed")
    report(client, "a", "idle", patience=60, held=0, active=0)

    seen = known_pool(reader, celery=KEYS)

    assert (seen.waiting, seen.running, seen.stale) == (2, 0, 1)
    assert known_pool(reader, "embed", celery=KEYS).in_flight == 0
    assert backend_of("celery", KEYS).wakes(("train",)) == ("a'b]]:train", "a'b]]:taken")


@pytest.mark.parametrize(
    ("setting", "value", "advice"),
    [
        ("global_keyprefix", "ml:", 'keyPrefix: "ml:"'),
        ("sep", ":", 'separator: ":"'),
        ("priority_steps", [0, 5], "priorities: [0, 5]"),
        ("unacked_key", "taken", 'unackedKey: "taken"'),
        ("unacked_index_key", "index", 'unackedIndexKey: "index"'),
    ],
)
def test_celery_settings_that_differ_from_the_file_make_a_reading_untrusted(
    client: Redis, reader: Redis, setting: str, value: object, advice: str
) -> None:
    report(client, "a", "idle", settings=json.dumps(SETTINGS), held=0, active=0)
    assert (known_pool(reader).warning, known_pool(reader).idle) == ("", {"a"})

    report(client, "b", "idle", settings=json.dumps(SETTINGS | {setting: value}), held=0, active=0)
    wait_in(client, message(client))
    seen = read_pool(reader)

    assert isinstance(seen, Untrusted)
    assert advice in seen.why
    assert seen.seen.waiting == 1


def test_celery_settings_are_remembered_while_no_worker_reports(client: Redis, reader: Redis) -> None:
    client.set("ebbtide:celery:train", json.dumps(SETTINGS | {"sep": ":"}))
    assert isinstance(read_pool(reader), Untrusted)

    report(client, "a", "idle", settings=json.dumps(SETTINGS), held=0, active=0)
    assert known_pool(reader).warning == ""


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"visibility_timeout": 3600.0}, "visibility_timeout is 1 h, and longestJob is 2 h"),
        ({"concurrency": 8}, "runs 8 tasks at once, and the pool counts 1 per worker"),
        ({"acks_late": False}, "task_acks_late is off"),
        ({"prefetch": 4}, "worker_prefetch_multiplier is 4"),
        ({"acks_early": ["app.mail", "app.bill"]}, "app.mail, app.bill acknowledge early"),
        ({"ack_emulation": False}, "ack_emulation is off"),
        ({"cancels_on_loss": True}, "worker_cancel_long_running_tasks_on_connection_loss is on"),
        ({"time_limit": 7201}, "longestJob is 2 h: a worker that stops is killed"),
        ({"reads_elsewhere": True}, "another broker (broker_read_url)"),
        ({"results_stay": True}, "forever (result_expires)"),
        ({"consumer_timeout": 7200}, "request a consumer timeout of 2 h, and longestJob is 2 h"),
        ({"group": "tini -g", "pool": "prefork"}, "tini -g passes SIGTERM on to the process of a running task"),
        ({"purge": True}, "--purge, which deletes the waiting tasks"),
        ({"beat": True}, "--beat: each sends the schedule"),
        ({"pool": "gevent"}, "--pool gevent was tried"),
        ({"queues": ["mail", "train"]}, "serves mail, train, and the pool counts train"),
        ({"signals": {"SIGTERM": "cold"}, "remapped": "SIGQUIT"}, "cancels its job (REMAP_SIGTERM=SIGQUIT)"),
    ],
)
def test_celery_settings_that_lose_or_repeat_work_are_a_warning(
    client: Redis, reader: Redis, told: dict[str, object], said: str
) -> None:
    report(client, "a", "idle", settings=json.dumps(SETTINGS | told), held=0, active=0)

    assert said in known_pool(reader).warning


def test_celery_visibility_timeout_in_a_report_of_the_release_before_is_compared(client: Redis, reader: Redis) -> None:
    report(client, "a", "idle", patience=3600)

    assert "visibility_timeout is 1 h" in known_pool(reader).warning
    assert known_pool(reader, longest_job=timedelta(hours=1)).warning == ""


@pytest.mark.parametrize(
    "text",
    [
        *("not JSON", "[1]", '{"visibility_timeout": "1h", "concurrency": null}'),
        '{"queues": "train", "signals": [], "acks_early": 1, "pool": {}, "time_limit": 1e308, "purge": 2}',
        json.dumps({"queues": ["train"], "signals": {"SIGTERM": "warm", "SIGQUIT": "cold"}, "pool": "prefork"}),
        json.dumps({"group": "tini -g", "pool": "threads", "consumer_timeout": 7201}),
    ],
)
def test_celery_settings_that_cannot_be_read_say_nothing(client: Redis, reader: Redis, text: str) -> None:
    report(client, "a", "idle", settings=text)

    assert known_pool(reader).warning == ""


def test_celery_task_past_its_workers_patience_is_stale_and_others_run(client: Redis, reader: Redis) -> None:
    report(client, "a", "idle", patience=60)
    hand_out(client, "", "train", tag="old", ago=90)
    hand_out(client, "", "train", tag="new", ago=30)

    assert (known(reader, CELERY).running, known(reader, CELERY).stale) == (1, 1)


def test_celery_worker_that_says_busy_holds_a_task_whatever_the_broker_shows(client: Redis, reader: Redis) -> None:
    report(client, "a", "busy")
    report(client, "b", "idle")

    seen = known(reader, CELERY)

    assert (seen.running, seen.idle, seen.names_idle) == (1, {"b"}, True)


def test_celery_message_without_our_stamp_has_no_age(client: Redis, reader: Redis) -> None:
    client.lpush("train", json.dumps({"headers": {"id": "x"}}))
    assert known(reader, CELERY).oldest_wait is None

    client.rpush("train", json.dumps({"headers": {"ebbtide_sent": int(client.time()[0]) - 30}}))
    age = known(reader, CELERY).oldest_wait
    assert age is not None
    assert timedelta(seconds=30) <= age < timedelta(seconds=45)


def test_list_entries_of_a_consumer_without_heartbeat_are_stale(client: Redis, reader: Redis) -> None:
    client.sadd("train:consumers", "a", "b", "c")
    client.set("train:consumer:a", "pod-a")
    client.set("train:consumer:b", "pod-b")
    for consumer in ("a", "c"):
        client.rpush(f"train:processing:{consumer}", "job")

    seen = known(reader, LIST)

    assert (seen.running, seen.stale, seen.idle, seen.names_idle) == (1, 1, {"pod-b"}, True)


def test_list_with_a_shared_processing_list_names_nobody(client: Redis, reader: Redis) -> None:
    client.sadd("train:consumers", "a")
    client.set("train:consumer:a", "pod-a")
    client.rpush("train:processing", "job")

    assert (known(reader, LIST).running, known(reader, LIST).names_idle) == (1, False)


@pytest.mark.parametrize("backend", [CELERY, LIST], ids=lambda backend: backend.kind)
def test_key_of_another_kind_makes_that_queue_unknown(client: Redis, reader: Redis, backend: Backend) -> None:
    client.set("train", "not a list")

    seen = read(reader, backend)

    assert isinstance(seen, Unknown)
    assert "train" in seen.why
