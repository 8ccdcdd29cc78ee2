"""What a load is like, and a stack file made for it: what `ebbtide simulate --describe` shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.advice.adapt import adapted_stack
from ebbtide.advice.describe import describe
from ebbtide.advice.describe_requests import RequestDescription, describe_requests, requests_json, requests_text
from ebbtide.advice.description_text import as_json, as_text
from ebbtide.advice.suggest import NoSuggestion, suggested_stack
from ebbtide.settings import load_stack
from ebbtide.settings.load import name_of, stack_path
from ebbtide.simulator.services.served import SimulatedService
from ebbtide.simulator.trace.counted import find_requests
from ebbtide.simulator.trace.traces import Trace, TraceError, find_trace


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedLoad:
    document: Any  # for JSON
    text: str
    stack: str | None  # a stack file; None where no node of AWS runs the load, `refusal` says why
    refusal: str


def described_load(
    trace: str,
    longest_s: float | None,
    file: Path | None,
    like: str | None,
    served_by: SimulatedService | None = None,
) -> DescribedLoad:
    """`file` is where the stack file will go, `like` the stack whose other lines it takes over.

    Of requests per window first what they are like, and what one pod of `served_by` bears.

    A load that no node runs is described all the same. Raises `TraceError`, and `StackInvalid` and `ReplayError` for a
    stack that cannot be adapted.
    """
    jobs = find_trace(trace)
    requests = _requests_of(trace, jobs, served_by)
    stack, refusal = None, ""
    note = "A stack file made for this trace: --suggest FILE writes it."
    try:
        stack = _stack_for(jobs, longest_s, file, like)
        if file is not None:
            note = f"{file}: a stack file made for this trace; replace its images and queues with your own."
    except NoSuggestion as refused:
        refusal = note = str(refused)
    found = describe(jobs)
    text = "\n".join([as_text(found), "", note])
    document = as_json(found, stack)
    if requests is not None:
        text = "\n".join([requests_text(requests), "", "As work for queues:", text])
        document = {**document, "requests": requests_json(requests)}
    return DescribedLoad(document=document, text=text, stack=stack, refusal=refusal)


def _requests_of(trace: str, jobs: Trace, served_by: SimulatedService | None) -> RequestDescription | None:
    if jobs.counted:
        return describe_requests(find_requests(trace), served_by)
    if served_by is not None:
        raise TraceError(
            f"trace {jobs.name}: wanted requests per window with --service, found jobs (for example "
            "requests-servegen-m-small)"
        )
    return None


def _stack_for(jobs: Trace, longest_s: float | None, file: Path | None, like: str | None) -> str:
    if like is None:
        return suggested_stack(jobs, "suggested" if file is None else name_of(file), max_job_s=longest_s)
    load_stack(like)  # names what is wrong with it, and whether it exists
    path = stack_path(like)
    return adapted_stack(path.read_text(encoding="utf-8"), str(path), jobs, longest_s)
