"""The golden files by path, and how each is made."""

from collections.abc import Callable, Mapping
from functools import partial

from tests.golden.estimates import CHANGES, JOBS, REQUESTS, change_document, jobs_document, requests_document
from tests.golden.stacks import SEEDS, WHOLE, stack_lines, whole_stack
from tests.golden.words import words

QUICK: Mapping[str, Callable[[], str]] = {
    "words.txt": words,
    **{f"stacks/{name}.txt": partial(whole_stack, name) for name in WHOLE},
}
SLOW: Mapping[str, Callable[[], str]] = {
    **{f"generated/{seed:02}.txt": partial(stack_lines, seed) for seed in SEEDS},
    **{f"simulate/{trace}.json": partial(jobs_document, trace) for trace in JOBS},
    **{f"simulate/{trace}.json": partial(requests_document, trace) for trace in REQUESTS},
    **{f"preview/{name}.json": partial(change_document, name) for name in CHANGES},
}
