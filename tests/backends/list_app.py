"""The plain-list worker of these tests: a payload is `name seconds`."""

import os

from doing import do
from redis import Redis

from ebbtide.jobs.list_worker import ListWorker

connection = Redis.from_url(os.environ["TEST_REDIS"])


def handle(payload: bytes) -> None:
    name, seconds = payload.split()
    do(name.decode(), float(seconds))


if __name__ == "__main__":
    ListWorker(connection, "train", handle, name=os.environ.get("TEST_NAME")).run()
