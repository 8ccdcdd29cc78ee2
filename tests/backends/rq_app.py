"""The jobs of these tests, run by RQ's workers."""

import os
import time

from redis import Redis


def job(name: str, seconds: float) -> None:
    with Redis.from_url(os.environ["TEST_REDIS"]) as client:
        client.rpush("test:begun", name)
        time.sleep(seconds)
        client.rpush("test:ended", name)
