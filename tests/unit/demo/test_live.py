"""The entire live part of the demo: real Redis, real workers, the real loop."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.demo.embedded_redis import connect
from ebbtide.demo.live import LiveError, local_config, run_live
from tests.builders.controllers import budgets, config, pool_policy
from tests.builders.redis import DEADLINE, wait_until
from tests.paths import ROOT
from tests.processes import lives

pytestmark = pytest.mark.process

STACK = config(pool_policy(name="train", queues=("train",)), budgets=budgets("api"))


def test_only_the_edges_of_the_document_change() -> None:
    live = local_config(STACK, 7000)

    assert (live.redis.host, live.redis.port) == ("127.0.0.1", 7000)
    assert live.customer == STACK.customer
    assert live.hours == STACK.hours
    assert [pool.queues for pool in live.pools] == [("train",)]


def test_a_stack_without_pools_is_one_clear_line() -> None:
    with pytest.raises(LiveError, match="no worker pool"):
        local_config(config(), 7000)


@pytest.mark.redis
def test_from_no_worker_over_jobs_to_no_worker_and_every_job_is_done() -> None:
    said: list[str] = []

    result = run_live(STACK, said.append, jobs=8)

    assert (result.jobs_done, result.jobs_interrupted) == (8, 0)
    assert result.peak_workers == 4
    assert said[-2] == "0 workers again"
    assert result.facts()["jobs interrupted"] == "0"
    assert said[-1].startswith("a training has done ")
    assert result.training is not None
    assert (result.training.done, result.training.repeated, result.training.attempts) == (12, 0, 2)
    assert result.as_json()["reaction_max_ms"] == max(result.reaction_ms)


@pytest.mark.redis
def test_a_careless_controller_interrupts_jobs_and_the_records_show_it() -> None:
    result = run_live(STACK, lambda _line: None, jobs=8, unsafe=True)

    assert result.jobs_interrupted > 0
    assert result.jobs_done < 8
    assert "steps repeated" not in result.facts()


@pytest.mark.redis
@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="needs /proc to find processes by their environment"
)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_process_is_left_when_the_run_is_ended_in_the_middle(how: signal.Signals, tmp_path: Path) -> None:
    script = (
        "from ebbtide.demo.live import run_live\n"
        "from tests.builders.controllers import config, pool_policy\n"
        "try:\n"
        "    run_live(config(pool_policy()), lambda line: print(line, flush=True))\n"
        "except KeyboardInterrupt:\n"
        "    raise SystemExit(130)\n"
    )
    token = f"live-{os.getpid()}-{how.name}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EBBTIDE_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    said = tmp_path / "said"
    with said.open("wb") as output:
        live = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=output)
    try:
        wait_until(lambda: b"wants 2 workers" in said.read_bytes(), "the controller to want workers")
        redis = redis_pid(said.read_text())
        wait_until(lambda: len(processes_with(token)) >= 3, "a worker to start")

        live.send_signal(how)
        live.wait(DEADLINE)
    finally:
        live.kill()
        live.wait()

    assert live.returncode == (130 if how is signal.SIGINT else -how)
    wait_until(lambda: not processes_with(token), "the processes to end")
    if how is signal.SIGKILL:
        os.kill(redis, signal.SIGKILL)  # nobody was left to stop it; the workers end by themselves
    else:
        assert not lives(redis)


def redis_pid(said: str) -> int:
    """Redis writes its title over its environment, so it is asked instead."""
    port = int(said.splitlines()[0].rsplit(":", 1)[1])
    with connect(port) as client:
        return int(client.info("server")["process_id"])


def processes_with(token: str) -> list[int]:
    """The processes that inherited the token in their environment."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
