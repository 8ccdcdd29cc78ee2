"""The consumer of SQS of these tests: a payload is `name seconds`, and one named `fails` raises."""

import logging
import os

from doing import do

from ebbtide.jobs.sqs_worker import SqsWorker

logging.basicConfig(level=logging.WARNING)


def handle(payload: bytes) -> None:
    name, seconds = payload.split()
    do(name.decode(), float(seconds))
    if name == b"fails":
        raise RuntimeError("as asked")


if __name__ == "__main__":
    SqsWorker(os.environ.get("TEST_QUEUE", "train"), handle).run()
