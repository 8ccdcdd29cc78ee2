"""The command: what it refuses, and that it runs and stops."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from controllers.__main__ import main
from controllers.ports import Cluster
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import ControllerConfig, RedisEndpoint, dump
from tests.builders_controllers import NOON, config, pool_policy
from tests.builders_redis import endpoint, wait_until
from tests.fakes import FakeCluster, ManualClock


def written(tmp_path: Path, document: str) -> str:
    path = tmp_path / "config.json"
    path.write_text(document)
    return str(path)


def fake_cluster(settings: ControllerConfig) -> Cluster:
    cluster = FakeCluster(ManualClock(NOON))
    for pool in settings.pools:
        cluster.add_pool(pool.name)
    return cluster


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("not json", "wanted a JSON object"),
        ('{"schema": 9}', "schema 9"),
        ('{"schema": 2}', "incomplete"),
        (dump(config(pool_policy(source="celery"))), "a demand source other than rq"),
    ],
)
def test_a_bad_document_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: str, says: str
) -> None:
    assert main(["--config", written(tmp_path, document)], clusters={"fake": fake_cluster}) == 2

    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", "/nowhere.json"], clusters={}) == 2
    assert capsys.readouterr().err.startswith("controllers: --config /nowhere.json: cannot be read")


def test_a_cluster_adapter_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--config", written(tmp_path, dump(config()))], clusters={}) == 2
    assert capsys.readouterr().err == (
        "controllers: --cluster kubernetes: no such cluster adapter, this release has none yet\n"
    )


def test_a_missing_password_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = dump(config(redis=RedisEndpoint(host="redis", password_env="EBBTIDE_NO_SUCH_VARIABLE")))
    arguments = ["--config", written(tmp_path, document), "--cluster", "fake"]

    assert main(arguments, clusters={"fake": fake_cluster}) == 2
    assert "set the variable EBBTIDE_NO_SUCH_VARIABLE" in capsys.readouterr().err


@pytest.mark.redis
def test_it_scales_on_real_demand_and_stops_on_a_signal(
    tmp_path: Path, server: EmbeddedRedis, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters: list[FakeCluster] = []

    def kept(settings: ControllerConfig) -> Cluster:
        cluster = FakeCluster(ManualClock(NOON))
        cluster.add_pool("train")
        clusters.append(cluster)
        return cluster

    def stop_when_scaled() -> None:
        wait_until(lambda: clusters and clusters[0].replicas("train") == 2, "the growth")
        os.kill(os.getpid(), signal.SIGTERM)

    with server.client() as client:
        client.rpush("rq:queue:train", "one", "two")
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    document = written(tmp_path, dump(config(pool_policy(), redis=endpoint(server))))
    watcher = threading.Thread(target=stop_when_scaled)
    watcher.start()
    try:
        assert main(["--config", document, "--cluster", "kept"], clusters={"kept": kept}) == 0
    finally:
        watcher.join()
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])

    [line] = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["pool"], told["replicas"], told["outcome"]) == ("train", 2, "done")
