"""Checkpoints in a bucket: obstore's client against S3's API, as moto's own server imitates it."""

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from redis import Redis

from ebbtide.demo.embedded import free_port
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs import checkpoint
from ebbtide.jobs.checkpoints import StoreError, Superseded
from ebbtide.jobs.checkpoints.probe import probe
from ebbtide.jobs.checkpoints.stores import Store, open_store
from tests.aws.support.imitation import PYTHON
from tests.builders.redis import client, server, shared_server, wait_until
from tests.checkpoints.kills import MACHINE, PROCESS, SOFT, STEPS_PER_OFFER, kill_at_random
from tests.contracts.checkpoint_store import StoreContract

__all__ = ["client", "server", "shared_server"]

pytestmark = [pytest.mark.aws, pytest.mark.imitation]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    command = [PYTHON.with_name("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path_factory.mktemp("moto") / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: listens(port), "moto to listen")
        with urlopen(Request(f"http://127.0.0.1:{port}/checkpoints", method="PUT")):
            yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(autouse=True)
def _environment(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - used by every test
    given = {"AWS_ENDPOINT": s3, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "nobody", "AWS_REGION": "eu-central-1"}
    for name, value in (given | {"AWS_SECRET_ACCESS_KEY": "nothing"}).items():
        monkeypatch.setenv(name, value)


class TestBucket(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return open_store("s3://checkpoints/team")


def test_a_job_goes_on_from_a_bucket_and_an_older_attempt_publishes_nothing() -> None:
    with checkpoint("s3://checkpoints/jobs", job="a", every=0) as older:
        older.offer({"epoch": 1})
        with checkpoint("s3://checkpoints/jobs", job="a", every=0) as newer:
            assert newer.load() == {"epoch": 1}
            with pytest.raises(Superseded):
                older.offer({"epoch": 2})


def test_a_bucket_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(StoreError, match=r"^checkpoints in s3://checkpoint: cannot write: there is no such bucket"):
        probe(open_store("s3://checkpoint"))


def test_twenty_ends_of_workers_with_their_checkpoints_in_a_bucket_lose_nothing(
    server: EmbeddedRedis, client: Redis, tmp_path: Path
) -> None:
    outcome = kill_at_random(
        server,
        client,
        tmp_path,
        {SOFT: 2, PROCESS: 1, MACHINE: 1},
        kills=20,
        jobs=6,
        seed=3,
        store="s3://checkpoints/kills",
    )
    print(outcome)

    assert outcome.lost == []
    assert outcome.wrong == []
    assert outcome.repeated <= outcome.hard * STEPS_PER_OFFER
