"""What runs in the worker processes of bursts: imported by each of them, so it must stay light.

What is compressed is time alone: RQ gives up a dead worker sooner. And between its pop and its registration each worker
lingers for a moment, so that a signal finds it there often.
"""

import socket
import time
from pathlib import Path
from typing import Any

from rq import Queue
from rq.job import Job

from ebbtide.jobs.rq_worker import SafeWorker
from tests.harness.real_jobs import _write

BELIEVED = 20  # seconds without a word until RQ takes a worker and its job for dead; left alone it waits for 90
LINGER = 0.2  # seconds between pop and registration


class HastyWorker(SafeWorker):
    """The product's worker class in a hurry."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # A pop blocks for the time to live less 15 s.
        options |= {"maintenance_interval": 2, "worker_ttl": BELIEVED, "job_monitoring_interval": 2}
        super().__init__(*arguments, **options)

    def get_heartbeat_ttl(self, job: Job) -> int:
        return min(BELIEVED, super().get_heartbeat_ttl(job))

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        super().heartbeat(min(BELIEVED, timeout or BELIEVED), pipeline)

    def reorder_queues(self, reference_queue: Queue) -> None:
        super().reorder_queues(reference_queue)
        time.sleep(LINGER)


def hold(ledger: str, number: int, gate: str) -> None:
    """A job that lasts until the gate is there, and is written down as any other."""
    _write(ledger, f"started {number} {socket.gethostname()}")
    while not Path(gate).exists():
        time.sleep(0.05)
    _write(ledger, f"finished {number} {socket.gethostname()}")
