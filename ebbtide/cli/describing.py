"""`ebbtide simulate --describe`: what a load is like, and a stack file made for it."""

from dataclasses import dataclass
from pathlib import Path

from ebbtide.advice.adapt import adapted_stack
from ebbtide.advice.describe import describe
from ebbtide.advice.description_text import as_json, as_text
from ebbtide.advice.suggest import NoSuggestion, suggested_stack
from ebbtide.cli.outputs import fail, finish, write
from ebbtide.settings import StackInvalid, load_stack
from ebbtide.settings.load import name_of, stack_path
from ebbtide.simulator.scene import ReplayError
from ebbtide.simulator.traces import Trace, TraceError, find_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """Where a suggested stack file goes, and the stack whose other lines it takes over."""

    file: Path | None
    like: str | None


def describe_load(trace: str, longest: float | None, wanted: Suggested, json_file: Path | None) -> None:
    """A load that no node runs is described all the same; only who asked for the file hears a "no"."""
    try:
        jobs = find_trace(trace)
    except TraceError as error:
        fail(str(error))
    stack, said = None, "A stack file made for this trace: --suggest FILE writes it."
    try:
        stack = _stack_for(jobs, longest, wanted)
    except NoSuggestion as refused:
        said = str(refused)
    if wanted.file is not None:
        if stack is None:
            fail(said)
        write(wanted.file, stack)
        said = f"{wanted.file}: a stack file made for this trace; put your own images and queues in."
    found = describe(jobs)
    finish(json_file, as_json(found, stack), "\n".join([as_text(found), "", said]))


def _stack_for(jobs: Trace, longest: float | None, wanted: Suggested) -> str:
    if wanted.like is None:
        name = "suggested" if wanted.file is None else name_of(wanted.file)
        return suggested_stack(jobs, name, max_job_s=longest)
    try:
        load_stack(wanted.like)  # tells what is wrong with it, and whether it is there
        path = stack_path(wanted.like)
        return adapted_stack(path.read_text(encoding="utf-8"), str(path), jobs, longest)
    except (StackInvalid, ReplayError) as error:
        fail(str(error))
