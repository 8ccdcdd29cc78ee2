"""The consumer of RabbitMQ of these tests: a payload is `name seconds`."""

import logging
import os

from doing import do

from ebbtide.jobs import amqp_worker

logging.basicConfig(level=logging.DEBUG)  # py-amqp then logs each connection
amqp_worker.HEARTBEAT = int(os.environ.get("TEST_HEARTBEAT", amqp_worker.HEARTBEAT))


def handle(payload: bytes) -> None:
    name, seconds = payload.split()
    do(name.decode(), float(seconds))


if __name__ == "__main__":
    amqp_worker.AmqpWorker("train", handle).run()
