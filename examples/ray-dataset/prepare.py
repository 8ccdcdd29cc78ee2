"""A data set prepared by Ray, as a job of a queue: texts out of files, a vector for each, near copies dropped.

    queue.enqueue("prepare.prepare", "/data/raw", "/data/prepared")

Each file is one chain of three tasks: two need a CPU, the one between them a GPU, so Ray's demand brings CPU and GPU
pods apart. A finished file is never done again: the checkpoint says which are, and each is written whole or not at all.
"""

import json
import math
import os
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from ebbtide.jobs import checkpoint
from ebbtide.jobs.ray_driver import ray_cluster

AT_ONCE = 8  # files in flight: the driver's demand on Ray, and what an interruption repeats at most
SHORTEST = 20  # characters of a text that is worth keeping
NEAR = 0.95  # cosine from which two texts count as one
SIZE = 64  # numbers of a vector

Row = dict[str, Any]


def prepare(source: str, target: str) -> dict[str, int]:
    Path(target).mkdir(parents=True, exist_ok=True)
    with checkpoint(every="5m") as saved, ray_cluster() as ray:
        state = saved.load(default={"kept": {}})
        extract_texts = ray.remote(num_cpus=1)(extract)
        embed_texts = ray.remote(num_cpus=0, num_gpus=1)(embed)
        keep_texts = ray.remote(num_cpus=1)(keep)
        waiting = sorted(path.name for path in Path(source).iterdir() if path.name not in state["kept"])
        running: dict[Any, str] = {}
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                name = waiting.pop(0)
                texts = extract_texts.remote(str(Path(source, name)))
                running[keep_texts.remote(embed_texts.remote(texts), str(Path(target, name)))] = name
            ended, _ = ray.wait(list(running), timeout=1.0)  # not longer: a worker told to stop waits for the offer
            for task in ended:
                state["kept"][running.pop(task)] = ray.get(task)
            saved.offer(state)
        return state["kept"]


def extract(path: str) -> list[str]:
    texts = (line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines())
    return [text for text in texts if len(text) >= SHORTEST]


def embed(texts: list[str]) -> list[Row]:
    return [{"text": text, "vector": model()(text), "gpu": os.environ.get("CUDA_VISIBLE_DEVICES")} for text in texts]


@cache
def model() -> "Model":
    """Loaded once for each process: Ray keeps it for the next file."""
    return Model()


class Model:
    """Stands for yours: words counted by their checksum, on a CPU."""

    def __call__(self, text: str) -> list[float]:
        counts = [0.0] * SIZE
        for word in text.lower().split():
            counts[zlib.crc32(word.encode()) % SIZE] += 1.0
        length = math.hypot(*counts)
        return [count / length for count in counts]


def keep(rows: list[Row], target: str) -> int:
    kept: list[Row] = []
    for row in rows:
        if all(cosine(row["vector"], other["vector"]) < NEAR for other in kept):
            kept.append(row)
    half = Path(f"{target}.half")
    half.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    half.replace(target)
    return len(kept)


def cosine(one: list[float], other: list[float]) -> float:
    """Of vectors of length 1."""
    return sum(a * b for a, b in zip(one, other, strict=True))
