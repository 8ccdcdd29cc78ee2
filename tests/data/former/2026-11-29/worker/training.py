"""A job of an RQ worker's image: it counts to a number, and continues where it was."""

from ebbtide.jobs import checkpoint


def count(steps: int, store: str) -> int:
    with checkpoint(store, every="5m") as saved:
        state = saved.load(default={"step": 0})
        while state["step"] < steps:
            state["step"] += 1
            saved.offer(state)
    return state["step"]
