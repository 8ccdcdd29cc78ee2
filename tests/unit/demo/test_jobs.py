"""The training that the demo interrupts: its figures are the recorded ones."""

import pytest
from redis import Redis

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.demo.jobs import STEPS, STEPS_DONE, Training, read_training, run_interrupted
from ebbtide.demo.live import SAFE_WORKER

pytestmark = pytest.mark.redis


def test_another_worker_resumes_at_the_step_after_the_last_one(server: EmbeddedRedis, client: Redis) -> None:
    said: list[str] = []

    training = run_interrupted(client, f"redis://{server.host}:{server.port}", SAFE_WORKER, said.append)

    lines = [tuple(map(int, line.split())) for line in client.lrange(STEPS_DONE, 0, -1)]  # pyright: ignore - of bytes
    before = [step for attempt, step in lines if attempt == 1]
    after = [step for attempt, step in lines if attempt != 1]
    assert before + after == list(range(1, STEPS + 1))
    assert STEPS // 2 <= len(before) < STEPS
    assert training == Training(steps=STEPS, done=STEPS, repeated=0, first_of_second=len(before) + 1, attempts=2)
    (line,) = said
    assert line.endswith(f" of {STEPS} steps: its worker gets SIGTERM")


def test_a_step_that_was_done_again_is_counted(client: Redis) -> None:
    client.rpush(STEPS_DONE, "1 1", "1 2", "1 3", "3 2", "3 3", "3 4")

    training = read_training(client, steps=4)

    assert training == Training(steps=4, done=4, repeated=2, first_of_second=2, attempts=2)
    assert training.facts() == {
        "interrupted training": "resumed at step 2, 4 of 4 steps done in 2 attempts",
        "steps repeated": "2",
    }


def test_a_training_without_interruption_says_so(client: Redis) -> None:
    client.rpush(STEPS_DONE, "1 1", "1 2")

    assert read_training(client, steps=2).facts()["interrupted training"].startswith("was not interrupted, 2 of 2 ")
