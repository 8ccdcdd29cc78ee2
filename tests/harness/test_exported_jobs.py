"""The documented command that prints RQ's finished jobs, run with a real Redis and real jobs."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis
from rq import Queue, SimpleWorker

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.lab.simulator.trace.traces import find_trace
from tests.paths import ROOT

pytestmark = pytest.mark.redis


def test_the_documented_command_prints_jobs_that_a_replay_reads(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "traces.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith('python -c "import json, redis, rq')]
    with EmbeddedRedis() as server, server.client() as client:
        _finish_jobs(client)
        _, option, code, _, name = shlex.split(line)
        code = code.replace("localhost:6379", f"{server.host}:{server.port}")
        printed = subprocess.run([sys.executable, option, code], capture_output=True, check=True).stdout

    path = tmp_path / name
    path.write_bytes(printed)
    trace = find_trace(path)

    assert sorted(job.queue for job in trace.jobs) == ["prep", "prep", "train"]
    assert trace.start is not None
    assert all(0 <= job.duration_s < 600 for job in trace.jobs)
    assert any("RQ drops a finished job after its result_ttl" in sentence for sentence in trace.assumptions)


def _finish_jobs(client: Redis) -> None:
    queues = [Queue(name, connection=client) for name in ("train", "prep")]
    for queue in (queues[0], queues[1], queues[1]):
        queue.enqueue(len, "abc")
    SimpleWorker(queues, connection=client).work(burst=True)
