"""What a job does: it says that it has begun and ended, in Redis, or in a file that no outage can hide."""

import os
import time

from redis import Redis


def do(name: str, seconds: float) -> None:
    ledger = os.environ.get("TEST_LEDGER")
    if ledger:
        from tests.harness.real_jobs import work

        work(ledger, int(name), seconds)
        return
    with Redis.from_url(os.environ["TEST_REDIS"]) as client:
        client.rpush("test:begun", name)
        time.sleep(seconds)
        client.rpush("test:ended", name)
