"""Commands for the review of a change: its preview in three formats, and the stacks that a workflow takes."""

from collections.abc import Mapping
from dataclasses import replace

from ebbtide.findings import Severity
from ebbtide.preview.document import ChangeKind, PreviewDocument, StackVerdict
from ebbtide.preview.groups import change_groups, cost_total
from tests.builders import preview as page
from tests.builders.settings import shortest
from tests.golden.commands.case import Case, Stage, replaced, returns
from tests.golden.commands.stack_files import NODES

_WINDOWS = {
    "stacks/Pulumi.acme.yaml": shortest(more="ebbtide:rollout: { wave: canary }"),
    "stacks/Pulumi.far.yaml": shortest().replace("Europe/Berlin", "Asia/Tokyo").replace("acme", "far"),
    "stacks/Pulumi.rest.yaml": shortest().replace("Europe/Berlin", "America/New_York").replace("acme", "rest"),
}


def _page() -> PreviewDocument:
    """A stack with something in each part, a blocked one, and one that cannot be read."""
    lines = (*page.cost().lines, replace(page.cost().lines[0], name="gpu", estimated=True))
    full = page.customer(
        dangers=(page.danger(), page.danger("deletes the claim data-db-0", Severity.BLOCKING, "")),
        cost=replace(page.cost(), lines=lines),
        policies=(page.policy(), page.policy(Severity.BLOCKING, id_="EB001"), page.policy(excepted="until 2027")),
        changes=tuple(page.change(f"{kind}-1", kind, fields=2) for kind in ChangeKind),
    )
    blocked = page.customer("blocked", verdict=StackVerdict.BLOCKED, cost=None, nights=None, simulated=None)
    same = page.customer("same", verdict=StackVerdict.SAFE, dangers=(), policies=(), changes=(), ownership=())
    customers = (full, blocked, same, replace(same, stack="equal"))
    return PreviewDocument(
        against="main",
        customers=customers,
        notes=("the working copy has changes that are not committed",),
        problems=("stacks/Pulumi.broken.yaml:3: ebbtide:customer: wanted a name",),
        groups=change_groups(customers),
        total=cost_total(customers),
    )


def _showing(document: PreviewDocument) -> Stage:
    return replaced({"ebbtide.cli.preview.preview": returns(document)})


_FORMATS = ("text", "text --full", "markdown", "markdown --full")
CASES: Mapping[str, Case] = {
    "preview/page": Case(
        lines=[f"preview demo --format {form}" for form in _FORMATS],
        json=["preview demo --format json"],
        stage=_showing(_page()),
    ),
    "preview/new": Case(
        lines=["preview acme", "preview strange", "preview", "preview acme --days 3"],
        files={"stacks/Pulumi.acme.yaml": shortest(more=NODES)},
        widths=(80,),
    ),
    "preview/nothing": Case(
        lines=["preview same", "preview same --format markdown"],
        stage=_showing(
            page.document(
                page.customer("same", verdict=StackVerdict.SAFE, dangers=(), policies=(), changes=(), ownership=())
            )
        ),
    ),
    "changed/all": Case(
        lines=[
            "changed --all",
            "changed acme --all",
            "changed strange --all",
            "changed",
            "changed --all --waves",
            "changed --all --waves --during-business-hours",
            "changed --all --retry",
        ],
        files=_WINDOWS,
    ),
}
