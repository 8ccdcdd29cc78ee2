"""Entry point of the demo's worker processes: `python -m ebbtide.demo.worker PARENT POD URL WORKER_CLASS QUEUE...`.

It stands in for a container: the host name is the pod's, the job's process dies with the worker's, and both end when
the demo has ended, even without a signal.
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
    base: Any = import_attribute(worker_class)
    contained: type[Worker] = type("ContainedWorker", (base,), {"setup_work_horse_signals": _contained(base)})
    worker = contained(
        list(queues),
        name=f"{pod}.{time.time():.0f}",
        connection=Redis.from_url(url),
        maintenance_interval=40,
        worker_ttl=60,
    )
    worker.work(logging_level="WARNING")


def _contained(base: Any) -> Any:
    def setup(self: Any) -> None:
        # RQ gives the job its own process group; back in the worker's, one kill reaches both, as in a container.
        os.setpgid(0, os.getppid())
        base.setup_work_horse_signals(self)

    return setup


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # the demo reports for its workers
    # The parent's id is an argument: read here, it might be the id of an orphan's new parent.
    threading.Thread(target=_die_with, args=(int(sys.argv[1]),), daemon=True).start()
    main(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:])
