"""The plain-list worker of these tests: a payload is `name seconds`."""

import os

from doing import do
from keeping import keep
from redis import Redis

from ebbtide.jobs.list_worker import ListWorker

connection = Redis.from_url(os.environ["TEST_REDIS"])


def handle(payload: bytes) -> None:
    name, seconds = payload.split()
    work = keep if "TEST_KEEP" in os.environ else do
    work(name.decode(), float(seconds))


def name_of(payload: bytes) -> str:
    return payload.split()[0].decode()


if __name__ == "__main__":
    ListWorker(connection, "train", handle, name=os.environ.get("TEST_NAME"), job_id=name_of).run()
