"""Reaction and memory of the controller's process with a real RabbitMQ, Redis for the reports, and an API server.

`broker_reaction`: from a published message to the raised replicas in a watch, at one round a second; with
`_notified` the producer also writes the key of `ebbtide.jobs.published`. Messages come at random instants of a round.
`broker_memory`: resident memory of the process with a broker and without.
"""

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import amqp
from control_plane.plane.driver import ControlPlane

from benchmarks.control_plane_process import controller, until
from benchmarks.live import ReplicaWatch, deploy, latency, new_config, new_pool, prepare, reconciles
from benchmarks.measure import Figures
from controllers.adapters.kube_api import KubeApi
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.jobs.published import Published
from tests.backends.rabbitmq.server import PASSWORD, Rabbit

ARRIVALS = 60
ROUND = 1.0  # seconds
SETTLING = 10.0  # seconds of a process without a broker


def measured() -> dict[str, Figures]:
    with EmbeddedRedis() as server, Rabbit() as rabbit, ControlPlane(with_nodes=False) as plane:
        rabbit.add_reader()
        prepare(plane.api)
        os.environ["RABBIT"] = PASSWORD  # of the controller's process
        notification = Published(server.client)
        pools = {"polled": lambda: None, "notified": notification.publish}
        for name in pools:
            deploy(plane.api, name, replicas=0)
            rabbit.declare(name)
        policies = [replace(new_pool(name, max_workers=ARRIVALS), source="celery", broker="jobs") for name in pools]
        config = replace(new_config(server, policies), brokers=(rabbit.endpoint(),))
        figures: dict[str, Figures] = {}
        with controller(plane, config, kubeconfig=plane.kubeconfig) as process:
            until(lambda: reconciles(process), "the first report")
            for name, notify in pools.items():
                figures[f"broker_reaction_{name}"] = latency(_arrivals(rabbit, plane.api, name, notify))
            with_broker = process.resident_mib()
        alone = new_config(server, [new_pool(name, max_workers=ARRIVALS) for name in pools])
        with controller(plane, alone, kubeconfig=plane.kubeconfig) as process:
            until(lambda: reconciles(process), "the first report")
            time.sleep(SETTLING)
            without = process.resident_mib()
        memory: Figures = {"rss_mib": round(with_broker, 1), "rss_mib_without": round(without, 1), "n": 1}
        return {**figures, "broker_memory": memory}


def _arrivals(rabbit: Rabbit, api: KubeApi, queue: str, notify: Callable[[], None]) -> list[float]:
    """Publish one message after the other; return the milliseconds until the replicas follow."""
    latencies: list[float] = []
    address = f"{rabbit.host}:{rabbit.port}"
    with cast("Any", amqp.Connection)(address) as connection, ReplicaWatch(api) as watch:
        channel = connection.channel()
        for number in range(1, ARRIVALS + 1):
            time.sleep(random.uniform(ROUND, 2 * ROUND))
            began = time.monotonic()
            channel.basic_publish(amqp.Message("job"), routing_key=queue)
            notify()
            latencies.append((watch.wait(queue, number) - began) * 1000)
    return latencies
