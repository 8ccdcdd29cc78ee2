"""The program of a list worker's image. The third payload stops it, as Kubernetes would."""

import json
import os
import signal

from ebbtide.jobs.checkpoints import checkpoint
from ebbtide.jobs.list_worker import ListWorker
from redis import Redis

connection = Redis(host=os.environ["REDIS_HOST"], port=int(os.environ["REDIS_PORT"]))


def handle(payload: bytes) -> None:
    number: int = json.loads(payload)["number"]
    with checkpoint() as saved:
        state = saved.load(default={"seen": []})
        state["seen"].append(number)
        saved.offer(state)
    connection.rpush("done", number)
    if number == 3:
        os.kill(os.getpid(), signal.SIGTERM)


ListWorker(connection, "images", handle).run()
