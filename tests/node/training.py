"""The training that runs in the workers' pods, where this file is mounted; and here, without interruption."""

import random
import time
from typing import Any

from rq import get_current_job

from ebbtide.jobs import checkpoint

STEPS = "test:steps:"  # + the job's id: each step that was done


def train(plan: dict[str, Any]) -> list[float]:
    """`steps` of a random walk, `pause` seconds each; every step depends on all before it, and on the generator."""
    generator, job = random.Random(7), get_current_job()
    with checkpoint(plan.get("store"), job=plan.get("job")) as saved:
        begin = {"step": 0, "weights": [0.0] * 8, "random": generator.getstate()}
        state: dict[str, Any] = saved.load(default=begin)
        version, numbers, spare = state["random"]
        generator.setstate((version, tuple(numbers), spare))
        for step in range(state["step"], plan["steps"]):
            time.sleep(plan["pause"])
            weights = [0.9 * weight + generator.gauss(0.0, 1.0) for weight in state["weights"]]
            if job is not None:
                job.connection.rpush(STEPS + job.id, step)
            state = {"step": step + 1, "weights": weights, "random": generator.getstate()}
            saved.offer(state, step=step + 1)
    return state["weights"]
