"""One function called many times: in this process, in others of this machine, or as tasks of a Ray cluster.

The function is importable by its name, and its arguments can be pickled: nothing else has to be the same wherever it
runs. What it raises belongs to that call alone, and so does the end of a process that it brings down. On Ray retries,
placement, spilling and what is shown of it are Ray's.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

from ebbtide.settings.file.problems import one_line

Result = TypeVar("Result")
Call: TypeAlias = tuple[Any, ...]

RETRIES = 3
"""Of a Ray task whose worker or node is gone. What the function raises it would raise again, so that is told."""
WAITING = 1_000
"""Tasks that Ray knows of at a time: more than its cores, and few enough for the driver's memory."""
SHARED_BYTES = 64 * 1024
"""An argument of bytes above this is put into Ray's store once, instead of into each task."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Of one call, in one line. `error`: what it raised; None where its process died."""

    why: str
    error: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ended(Generic[Result]):
    """A call that is over: its place in the order asked for, and what came of it."""

    number: int
    found: Result | Failed

    def result(self) -> Result:
        """Raises what the call raised; RuntimeError if its process died."""
        if isinstance(self.found, Failed):
            raise self.found.error or RuntimeError(self.found.why)
        return self.found


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ended(
    function: Callable[..., Result], calls: Sequence[Call], *, processes: int = 1, ray: Any = None
) -> Iterator[Ended[Result]]:
    """Every call, as it ends. `ray`: the connected module, and then `processes` says nothing."""
    if ray is not None:
        return _on_ray(function, calls, ray)
    if processes == 1:
        return (Ended(number, _called(function, call)) for number, call in enumerate(calls))
    return _in_processes(function, calls, min(processes, max(1, len(calls))))


def results(function: Callable[..., Result], calls: Sequence[Call], *, processes: int = 1) -> list[Result]:
    """What every call gave, in the order asked for. Raises what the first that failed raised."""
    found = sorted(ended(function, calls, processes=processes), key=lambda each: each.number)
    return [each.result() for each in found]


def _called(function: Callable[..., Result], call: Call) -> Result | Failed:
    try:
        return function(*call)
    except Exception as error:  # whatever it is, the other calls are not to suffer from it
        return failed(error)


def failed(error: BaseException) -> Failed:
    text = one_line(" ".join(str(error).split()))
    return Failed(text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}", error)


def _in_processes(
    function: Callable[..., Result], calls: Sequence[Call], processes: int
) -> Generator[Ended[Result], None, None]:
    """A process that dies takes the pool with it: those that may have killed it are then run one by one."""
    fresh = deque(range(len(calls)))
    suspects: deque[int] = deque()
    while fresh or suspects:
        alone = bool(suspects)
        waiting = suspects if alone else fresh
        lost: list[int] = []
        with _pool(1 if alone else processes) as pool:
            running: dict[Future[Result], int] = {}
            while (waiting or running) and not lost:
                while waiting and len(running) < (1 if alone else 2 * processes):
                    try:
                        running[pool.submit(function, *calls[waiting[0]])] = waiting[0]
                    except BrokenProcessPool:
                        break
                    waiting.popleft()
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number, error = running.pop(future), future.exception()
                    if isinstance(error, BrokenProcessPool):
                        lost.append(number)
                    else:
                        yield Ended(number, future.result() if error is None else failed(error))
            lost += running.values()
        if alone:
            yield from (Ended(number, Failed("its process died: killed, or out of memory")) for number in lost)
        else:
            suspects.extend(sorted(lost))


@contextmanager
def _pool(processes: int) -> Generator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_begin)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Ctrl-C ends a worker at once and in silence; and none outlives the process that it works for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _on_ray(function: Callable[..., Result], calls: Sequence[Call], ray: Any) -> Generator[Ended[Result], None, None]:
    remote = ray.remote(max_retries=RETRIES)(function)
    stored: dict[int, Any] = {}
    running: dict[Any, int] = {}
    waiting = iter(enumerate(calls))
    try:
        while True:
            for number, call in islice(waiting, WAITING - len(running)):
                running[remote.remote(*(_shared(argument, ray, stored) for argument in call))] = number
            if not running:
                return
            ray.wait(list(running), num_returns=1)
            over, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
            for task in over:
                yield Ended(running.pop(task), _of_ray(task, ray))
    finally:
        for task in running if ray.is_initialized() else ():  # else Ray would begin a cluster here, to cancel there
            ray.cancel(task)


def _shared(argument: object, ray: Any, stored: dict[int, Any]) -> object:
    if not isinstance(argument, bytes) or len(argument) <= SHARED_BYTES:
        return argument
    if id(argument) not in stored:  # the calls keep it alive
        stored[id(argument)] = ray.put(argument)
    return stored[id(argument)]


def _of_ray(task: Any, ray: Any) -> Any:
    errors: Any = import_module("ray.exceptions")
    try:
        return ray.get(task)
    except errors.RayTaskError as error:
        return failed(error.cause if isinstance(error.cause, BaseException) else error)
    except errors.RayError as error:
        return failed(error)
