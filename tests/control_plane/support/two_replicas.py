"""Two controller processes with one config: the leader is killed, cut off or frozen, and the other has to act.

What the other does is made visible by a job that is enqueued after the failure: one more replica is wanted then. No
node takes the pods, so the pool only ever grows, and whoever lowers it is caught.
"""

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from itertools import count
from pathlib import Path

from control_plane.plane.driver import ControlPlane

from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER
from tests.builders.control_plane import Fresh, eventually
from tests.builders.operation import Process, Scene, make_scene
from tests.harness.api_proxy import ApiFault, ApiProxy

QUICK = "tests.control_plane.support.quick_controller"
"""The module that runs the controller with a Lease of few seconds."""

Pick = Callable[[str, str], bool]  # method and path of a request


def _none(_method: str, _path: str) -> bool:
    return False


def _all(_method: str, _path: str) -> bool:
    return True


class Cause(StrEnum):
    KILLED = "killed"
    CUT_OFF = "cut off"
    FROZEN = "frozen"


class Gate(ApiProxy):
    """A way to the API server on which requests are held back, and let through late: what was sent still arrives."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.url, str(plane.configuration().ssl_ca_cert))
        self._pick: Pick = _none
        self._opened = threading.Event()
        self._late: dict[int, str] = {}  # by thread
        self.held: list[str] = []
        self.late_answers: list[tuple[str, int]] = []  # what the server said to a request that had been held back

    def hold(self, pick: Pick) -> None:
        self._opened.clear()
        self._pick = pick

    def cut_off(self) -> None:
        """Nothing gets through any more, and nobody says so."""
        self.hold(_all)
        self.cut()

    def release(self) -> None:
        self._pick = _none
        self._opened.set()

    def verdict(self, method: str, path: str) -> ApiFault:
        if self._pick(method, path):
            request = f"{method} {path.partition('?')[0]}"
            self._late[threading.get_ident()] = request
            self.held.append(request)
            self._opened.wait()
        return super().verdict(method, path)

    def answered(self, method: str, path: str, status: int) -> None:  # noqa: ARG002 - a held request is told by its thread
        if request := self._late.pop(threading.get_ident(), ""):
            self.late_answers.append((request, status))


@contextmanager
def gate_to(plane: ControlPlane) -> Generator[Gate]:
    with Gate(plane) as gate:
        try:
            yield gate
        finally:
            gate.release()


def kubeconfig_through(proxy: ApiProxy, scene: Scene, name: str) -> Path:
    """The controller's account and token, by way of a proxy."""
    document = json.loads(scene.plane.kubeconfig_as(scene.apps, CONTROLLER).read_text())
    document["clusters"][0]["cluster"] = {"server": proxy.url}
    file = scene.folder / f"kubeconfig-{name}"
    file.write_text(json.dumps(document))
    return file


class Pair:
    """A leader and a standby, in a scene and before a Redis of their own; started, and not waited for."""

    def __init__(self, scene: Scene, cause: Cause, stack: ExitStack, *, module: str = "controllers") -> None:
        self.scene, self.cause, self._stack, self._module = scene, cause, stack, module
        self._numbers = count(1)
        self.gates: dict[str, Gate] = {}  # of a pair that can be cut off
        self._processes: dict[str, Process] = {}
        self.jobs = 0
        self.start()
        self.start()

    def start(self) -> None:
        name, how = f"{self.cause.name.lower()}-{next(self._numbers)}", {"module": self._module}
        if self.cause is Cause.CUT_OFF:
            gate = self.gates[name] = self._stack.enter_context(gate_to(self.scene.plane))
            how |= {"kubeconfig": kubeconfig_through(gate, self.scene, name)}
        self._processes[name] = self._stack.enter_context(self.scene.process(name, **how))

    def wait_until_both_know(self) -> None:
        """Who leads, and as the Lease has it."""

        def agree() -> bool:
            told = [process.status().get("leader", {}) for process in self._processes.values()]
            names = {leader.get("identity") for leader in told}
            return sum(bool(leader.get("held")) for leader in told) == 1 and names == {self.scene.lease_holder()}

        eventually(agree, what=f"one leader that both know ({self.cause})", patience=60)

    def hand_over(self, patience: float) -> float:
        """Break the leader and mend it; how many seconds later the other had acted, at most `patience`."""
        leader = self.scene.lease_holder()
        began = time.monotonic()
        self._break(leader)
        self.jobs += 1
        self.scene.enqueue(f"job-{self.jobs}")
        what = f"the other to act after the leader was {self.cause}"
        eventually(lambda: self.scene.replicas() == self.jobs, what=what, patience=patience)
        took = time.monotonic() - began
        assert self.scene.lease_holder() != leader
        self._mend(leader)
        self.wait_until_both_know()
        assert self.scene.replicas() == self.jobs, "a late write of the former leader lowered the pool"
        return took

    def freeze(self, name: str) -> None:
        os.kill(self._processes[name].pid, signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        os.kill(self._processes[name].pid, signal.SIGCONT)

    def outcomes(self, name: str, key: str) -> list[tuple[int, str]]:
        """What that process asked for, oldest first, by the key of an action: its value, and what became of it."""
        lines = self._processes[name].log.read_text().splitlines()
        told = [json.loads(line) for line in lines if line.startswith("{")]
        return [(line[key], line["outcome"]) for line in told if line["event"] == "acted" and key in line]

    def _break(self, name: str) -> None:
        if self.cause is Cause.KILLED:
            self._processes.pop(name).kill()
        elif self.cause is Cause.FROZEN:
            self.freeze(name)
        else:
            self.gates[name].cut_off()

    def _mend(self, name: str) -> None:
        if self.cause is Cause.KILLED:
            self.start()
        elif self.cause is Cause.FROZEN:
            self.thaw(name)
        else:
            self.gates[name].release()


def scenes(plane: ControlPlane, fresh: Fresh, folder: Path, stack: ExitStack, number: int) -> Iterator[Scene]:
    """Each with namespaces, a folder and a Redis of its own, and room for as many replicas as there are hand-overs."""
    for place in range(number):
        own = folder / str(place)
        own.mkdir()
        scene = make_scene(plane, fresh, stack.enter_context(EmbeddedRedis()), own)
        scene.write(dump(scene.config(most=1000)))
        yield scene


def hand_overs(pairs: Sequence[Pair], times: int, patience: float) -> dict[Cause, list[float]]:
    """So many for each pair, all pairs at the same time; the seconds that each took."""

    def run_all(pair: Pair) -> list[float]:
        pair.wait_until_both_know()
        return [pair.hand_over(patience) for _ in range(times)]

    with ThreadPoolExecutor(len(pairs)) as pool:
        runs = [pool.submit(run_all, pair) for pair in pairs]
        return {pair.cause: run.result() for pair, run in zip(pairs, runs, strict=True)}


def spread(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    p50, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
    return f"{len(ordered)} hand-overs: p50 {p50:.1f} s, p99 {p99:.1f} s, max {ordered[-1]:.1f} s"
