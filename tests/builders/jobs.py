"""Worker classes and jobs that run in the worker processes of tests."""

import time
from types import FrameType
from typing import Any

from rq import Queue, Worker, get_current_job

from ebbtide.jobs.rq_worker import SafeWorker

POPPED, BEGUN, ENDED = "test:popped", "test:begun", "test:ended"
POP_WINDOW = 0.8  # seconds


class _SlowPop:
    """Stays for a while between the pop and the registration of a job, where a worker still says idle."""

    connection: Any

    def reorder_queues(self, reference_queue: Queue) -> None:
        self.connection.rpush(POPPED, reference_queue.name)
        time.sleep(POP_WINDOW)


class SlowPopSafeWorker(_SlowPop, SafeWorker):  # pyright: ignore[reportIncompatibleVariableOverride] - same object
    pass


class SlowPopStockWorker(_SlowPop, Worker):  # pyright: ignore[reportIncompatibleVariableOverride] - same object
    pass


class RudeWorker(SafeWorker):
    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        raise SystemExit(signum, frame)


class ImpatientSafeWorker(SafeWorker):
    result_patience = 3.0
    last_chance = 2


def job(seconds: float) -> None:
    current = get_current_job()
    assert current is not None
    current.connection.rpush(BEGUN, current.id)
    time.sleep(seconds)
    current.connection.rpush(ENDED, current.id)
