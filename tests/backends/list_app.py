"""The plain-list worker of these tests: a payload is `name seconds`."""

import os
import time

from redis import Redis

from ebbtide.jobs.list_worker import ListWorker

connection = Redis.from_url(os.environ["TEST_REDIS"])


def handle(payload: bytes) -> None:
    name, seconds = payload.split()
    connection.rpush("test:begun", name)
    time.sleep(float(seconds))
    connection.rpush("test:ended", name)


if __name__ == "__main__":
    ListWorker(connection, "train", handle, name=os.environ.get("TEST_NAME")).run()
