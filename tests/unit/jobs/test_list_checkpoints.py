"""Payloads with checkpoints, handled by the plain-list worker on a real Redis, in this process."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from ebbtide.jobs import checkpoint
from ebbtide.jobs.checkpoints import CheckpointError, Saved
from ebbtide.jobs.checkpoints.attempts import attempt_key
from ebbtide.jobs.checkpoints.environment import VARIABLE
from ebbtide.jobs.list_checkpoints import id_in
from ebbtide.jobs.list_worker import ListWorker

pytestmark = pytest.mark.redis

PAYLOAD = b'{"id": "a"}'
OWN = "train:processing:me"


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - used by every test
    before = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGINT)]
    yield
    for number, handler in before:
        signal.signal(number, handler)


class Training:
    """Six steps, each of which offers a checkpoint; `during` runs within each step."""

    def __init__(self, client: Redis, store: Path, during: Callable[[int, Saved], object]) -> None:
        self.steps: list[int] = []
        self._store = store
        self._during = during
        self.worker = ListWorker(client, "train", self._handle, name="me")

    def _handle(self, payload: bytes) -> None:
        del payload
        with checkpoint(self._store, every=0) as saved:
            for step in range(saved.load(default=0), 6):
                self.steps.append(step)
                self._during(step, saved)
                saved.offer(step + 1)
        self.worker._gate.closed = True

    def stop(self) -> None:
        self.worker._stop(signal.SIGTERM, None)


def run_training(
    client: Redis, store: Path, during: Callable[[Training, int, Saved], object] | None = None
) -> Training:
    training = Training(client, store, lambda step, saved: during and during(training, step, saved))
    training.worker.run()
    return training


def test_on_sigterm_a_payload_goes_back_to_the_head_and_is_resumed(client: Redis, tmp_path: Path) -> None:
    client.rpush("train", PAYLOAD, b"behind")

    first = run_training(client, tmp_path, lambda training, step, _: step == 2 and training.stop())

    assert first.steps == [0, 1, 2]
    assert client.lrange("train", 0, -1) == [PAYLOAD, b"behind"]
    assert client.lrange(OWN, 0, -1) == []
    assert run_training(client, tmp_path).steps == [3, 4, 5]
    assert client.lrange("train", 0, -1) == [b"behind"]
    assert client.llen("train:failed") == 0


def test_a_payload_that_was_given_to_another_worker_begins_nothing(client: Redis, tmp_path: Path) -> None:
    client.rpush("train", PAYLOAD)
    training = Training(client, tmp_path, lambda _step, _saved: None)

    def lost(payload: bytes) -> None:
        client.lmove(OWN, "train", "LEFT", "LEFT")
        training.worker._gate.closed = True
        training._handle(payload)

    training.worker._handle = lost
    training.worker.run()

    assert training.steps == []
    assert client.lrange("train", 0, -1) == [PAYLOAD]
    assert client.llen("train:failed") == 0
    assert client.exists(attempt_key("a")) == 0


def test_three_hard_ends_without_a_new_checkpoint_are_the_last(client: Redis, tmp_path: Path) -> None:
    client.hset(attempt_key("a"), mapping={"deaths": 2, "running": 7})
    client.rpush("train", PAYLOAD)
    training = Training(client, tmp_path, lambda _step, _saved: None)
    handle, errors = training.worker._handle, list[str]()

    def watched(payload: bytes) -> None:
        training.worker._gate.closed = True
        try:
            handle(payload)
        except CheckpointError as error:
            errors.append(str(error))
            raise

    training.worker._handle = watched
    training.worker.run()

    assert errors == ["job a ended hard 3 times without a new checkpoint: out of memory, or its data"]
    assert client.lrange("train:failed", 0, -1) == [PAYLOAD]


def test_a_checkpoint_clears_the_count(client: Redis, tmp_path: Path) -> None:
    client.hset(attempt_key("a"), "deaths", 2)
    client.rpush("train", PAYLOAD)

    run_training(client, tmp_path)

    told: dict[Any, Any] = client.hgetall(attempt_key("a"))
    assert (told[b"deaths"], told[b"step"], told[b"problem"]) == (b"0", b"6", b"")
    assert b"running" not in told


def test_no_payload_is_taken_while_the_store_is_unusable(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    section = {"store": str(tmp_path / "file"), "every": 1, "saveWithin": 1, "required": False, "openWithin": 1}
    monkeypatch.setenv(VARIABLE, json.dumps(section))
    client.rpush("train", PAYLOAD)
    training = Training(client, tmp_path, lambda _step, _saved: None)
    tried: list[str] = []

    def run(command: str) -> str:
        tried.append(command)
        training.stop()
        return "it cannot be used"

    monkeypatch.setattr("ebbtide.jobs.checkpoints.probe.run", run)
    training.worker.run()

    assert tried == ["probe"]
    assert client.lrange("train", 0, -1) == [PAYLOAD]


@pytest.mark.parametrize("payload", [b"plain", b"\xff", b"[1]", b"{}", b'{"id": ""}', b'{"id": null}'])
def test_a_payload_without_an_id_is_one_line(payload: bytes) -> None:
    with pytest.raises(CheckpointError, match="wanted a JSON object with one for its checkpoints"):
        id_in(payload)


@pytest.mark.parametrize(("payload", "found"), [(b'{"id": "4f1c", "lr": 1}', "4f1c"), (b'{"id": 7}', "7")])
def test_the_id_of_a_payload(payload: bytes, found: str) -> None:
    assert id_in(payload) == found
