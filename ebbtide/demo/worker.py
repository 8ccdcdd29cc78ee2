"""The entry of one worker process of the demo: `python -m ebbtide.demo.worker PARENT POD URL WORKER_CLASS QUEUE...`.

It stands in for a container: the host name is the pod's, the job's process dies with the worker's, and the whole ends
when the demo is gone, even if nobody could tell it.
"""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from redis import Redis
from rq import Worker
from rq.utils import import_attribute

PARENT_CHECK = 0.5  # seconds


def main(pod: str, url: str, worker_class: str, queues: Sequence[str]) -> None:
    socket.gethostname = lambda: pod
    chosen: Any = import_attribute(worker_class)
    contained: type[Worker] = type("ContainedWorker", (chosen,), {"setup_work_horse_signals": _contained(chosen)})
    worker = contained(
        list(queues),
        name=f"{pod}.{time.time():.0f}",
        connection=Redis.from_url(url),
        maintenance_interval=40,
        worker_ttl=60,
    )
    worker.work(logging_level="WARNING")


def _contained(chosen: Any) -> Any:
    def setup(self: Any) -> None:
        # RQ gives the job a process group of its own; back in the worker's, one kill reaches both, as in a container.
        os.setpgid(0, os.getppid())
        chosen.setup_work_horse_signals(self)

    return setup


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # the demo speaks for its workers
    # The parent's id is handed over: asked for here, it might be that of whoever adopted an orphan.
    threading.Thread(target=_die_with, args=(int(sys.argv[1]),), daemon=True).start()
    main(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
