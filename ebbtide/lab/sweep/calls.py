"""Many calls of one function: in this process, in other processes of this machine, or as tasks of a Ray cluster.

The function must be importable by name, and its arguments must be picklable. An exception, or the death of a process,
affects only its call. On a Ray cluster, Ray is responsible for retries, placement, spilling and display.
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

from ebbtide.text.one_line import collapsed, printable

Result = TypeVar("Result")
Call: TypeAlias = tuple[Any, ...]

RETRIES = 3
"""Retries of a Ray task whose worker or node is lost. An exception of the function is not retried."""
WAITING = 1_000
"""Tasks submitted at a time: more than the cluster's cores, and few enough for the driver's memory."""
SHARED_BYTES = 64 * 1024
"""Larger arguments of bytes are put into Ray's store once, instead of into each task."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The failure of a call, in one line. `error`: its exception; None if its process died."""

    why: str
    error: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ended(Generic[Result]):
    """A call that has ended: its number in the order of the calls, and its outcome."""

    number: int
    outcome: Result | Failed

    def result(self) -> Result:
        """Return the result. Raises the call's exception; RuntimeError if its process died."""
        if isinstance(self.outcome, Failed):
            raise self.outcome.error or RuntimeError(self.outcome.why)
        return self.outcome


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def ended(
    function: Callable[..., Result], calls: Sequence[Call], *, processes: int = 1, ray: Any = None
) -> Iterator[Ended[Result]]:
    """Yield every call as it ends. `ray`: the connected module; it replaces `processes`."""
    if ray is not None:
        return _on_ray(function, calls, ray)
    if processes == 1:
        return (Ended(number, _called(function, call)) for number, call in enumerate(calls))
    return _in_processes(function, calls, min(processes, max(1, len(calls))))


def results(function: Callable[..., Result], calls: Sequence[Call], *, processes: int = 1) -> list[Result]:
    """The results of all calls, in order. Raises the exception of the first call that failed."""
    in_order = sorted(ended(function, calls, processes=processes), key=lambda call: call.number)
    return [call.result() for call in in_order]


def _called(function: Callable[..., Result], call: Call) -> Result | Failed:
    try:
        return function(*call)
    except Exception as error:  # of any kind: the other calls go on
        return failed(error)


def failed(error: BaseException) -> Failed:
    text = printable(collapsed(error))
    return Failed(text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}", error)


def _in_processes(
    function: Callable[..., Result], calls: Sequence[Call], processes: int
) -> Generator[Ended[Result], None, None]:
    """The death of a process ends the pool: the calls that may have caused it then run one by one."""
    fresh = deque(range(len(calls)))
    suspects: deque[int] = deque()
    while fresh or suspects:
        one_by_one = bool(suspects)
        waiting = suspects if one_by_one else fresh
        lost: list[int] = []
        with _pool(1 if one_by_one else processes) as pool:
            running: dict[Future[Result], int] = {}
            while (waiting or running) and not lost:
                while waiting and len(running) < (1 if one_by_one else 2 * processes):
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
        if one_by_one:
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
    """Let Ctrl-C end a worker at once and silently, and end it with its parent process."""
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
            done, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
            for task in done:
                yield Ended(running.pop(task), _outcome(task, ray))
    finally:
        for task in running if ray.is_initialized() else ():  # otherwise `cancel` would start a cluster
            ray.cancel(task)


def _shared(argument: object, ray: Any, stored: dict[int, Any]) -> object:
    if not isinstance(argument, bytes) or len(argument) <= SHARED_BYTES:
        return argument
    if id(argument) not in stored:  # the calls keep the argument alive, so its id stays unique
        stored[id(argument)] = ray.put(argument)
    return stored[id(argument)]


def _outcome(task: Any, ray: Any) -> Any:
    errors: Any = import_module("ray.exceptions")
    try:
        return ray.get(task)
    except errors.RayTaskError as error:
        return failed(error.cause if isinstance(error.cause, BaseException) else error)
    except errors.RayError as error:
        return failed(error)
