"""The golden files by path, and how each is made.

All are made as on one day of 2026: which holidays a stack lists follows from the year.
"""

from collections.abc import Callable, Mapping
from functools import partial

from tests.golden.clock import stopped
from tests.golden.commands import changing, clusters, estimating, money, operating, reviewing, stack_files, surfaces
from tests.golden.commands.case import Case
from tests.golden.estimates import CHANGES, JOBS, REQUESTS, change_document, jobs_document, requests_document
from tests.golden.stacks import SEEDS, WHOLE, stack_lines, whole_stack
from tests.golden.words import words

COMMANDS: Mapping[str, Case] = {
    **surfaces.CASES,
    **stack_files.CASES,
    **reviewing.CASES,
    **changing.CASES,
    **estimating.CASES,
    **money.CASES,
    **clusters.CASES,
    **operating.CASES,
}
_LONG = {  # they play or record for more than half a second
    *("advise/mornings", "advise/savings", "advise/targets", "advise/variants", "idle/everything"),
    *("ledger/bill", "ledger/committed-badly", "ledger/month", "ledger/poor-recordings", "ledger/savings"),
    *("prices/shown", "probe/ray", "render/demo", "render/every-key"),
    *("simulate/assumed", "simulate/compared", "simulate/jobs", "simulate/service", "sweep/best"),
}


def made(name: str) -> str:
    """The content of a golden file as the code makes it."""
    with stopped():
        return {**QUICK, **LONG, **SLOW}[name]()


QUICK: Mapping[str, Callable[[], str]] = {
    "words.txt": words,
    "policy-pack.txt": surfaces.policy_pack,
    "init.txt": surfaces.repository,
    "comment.txt": surfaces.comment,
    **{
        f"commands/{name}.txt": case.text
        for name, case in COMMANDS.items()
        if name not in _LONG | changing.CASES.keys()
    },
    **{f"stacks/{name}.txt": partial(whole_stack, name) for name in WHOLE},
}
LONG: Mapping[str, Callable[[], str]] = {
    f"commands/{name}.txt": case.text for name, case in COMMANDS.items() if name in _LONG
}
SLOW: Mapping[str, Callable[[], str]] = {
    **{f"commands/{name}.txt": case.text for name, case in changing.CASES.items()},
    **{f"generated/{seed:02}.txt": partial(stack_lines, seed) for seed in SEEDS},
    **{f"simulate/{trace}.json": partial(jobs_document, trace) for trace in JOBS},
    **{f"simulate/{trace}.json": partial(requests_document, trace) for trace in REQUESTS},
    **{f"preview/{name}.json": partial(change_document, name) for name in CHANGES},
}
