"""Pages with every part filled in, and ways to look at what a comment shows."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser

from markdown_it import MarkdownIt

from ebbtide.findings import Severity
from ebbtide.policies.rule import PolicyResult
from ebbtide.preview.document import (
    Amounts,
    ChangeKind,
    ComingNights,
    CostComparison,
    CostLine,
    CustomerPreview,
    Danger,
    FieldChange,
    OwnedRow,
    PreviewDocument,
    ResourceChange,
    Simulated,
    SimulatedService,
    SimulatedServices,
    StackVerdict,
    WindowRow,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def danger(
    what: str = "replaces node group flexible-a", severity: Severity = Severity.WARNING, fix: str = "add a group"
) -> Danger:
    return Danger(code="node-group-lost", severity=severity, text=what, impact="up to 20 nodes; 4 services", remedy=fix)


def change(name: str = "train", kind: ChangeKind = ChangeKind.UPDATE, fields: int = 1) -> ResourceChange:
    return ResourceChange(
        kind=kind,
        type="Deployment",
        name=name,
        component="train",
        fields=tuple(FieldChange(path=f"spec.replicas{n}", before="1", after="2") for n in range(fields)),
        reasons=("spec.selector",) if kind is ChangeKind.REPLACE else (),
    )


def policy(severity: Severity = Severity.WARNING, excepted: str = "", id_: str = "EB012") -> PolicyResult:
    return PolicyResult(
        code=id_,
        severity=severity,
        subjects=("Deployment api",),
        text="no budget",
        remedy="add one",
        source="EKS best practices, reliability",
        excepted=excepted,
    )


def cost() -> CostComparison:
    before, after = (
        Amounts(always=100, at_min=80, at_max=2000, at_usage=None),
        Amounts(always=150, at_min=120, at_max=2500, at_usage=None),
    )
    return CostComparison(
        lines=(CostLine(name="flexible", before=before, after=after, assumption="on-demand"),),
        before=before,
        after=after,
        open_hours=(200, 240),
        closed_hours=(530, 490),
        open_usd=(None, None),
        closed_usd=(None, None),
        prices_of=(date(2026, 10, 1),),
        confidence="list prices",
    )


def nights(rows: int = 10) -> ComingNights:
    starts = [NOON + timedelta(days=day) for day in range(rows)]
    return ComingNights(
        rows=tuple(
            WindowRow(opens=at, closes=at + timedelta(hours=12), local=f"{at:%a %d %b} 19:00 → 07:45 (Europe/Berlin)")
            for at in starts
        ),
        changes=("Fridays: the window opens at 17:00 instead of 19:00",),
    )


def served(name: str = "chat", note: str = "") -> SimulatedService:
    return SimulatedService(
        name=name,
        strategy=("hpa-only", "calendar-floor"),
        pod_hours=(351.2, 381.0),
        usd=(None, 77.0),
        p95_s=(0.2, 1.25),
        beyond_slo=(0.0438, 0.0438),
        lost=(None, 1200),
        note=note,
    )


def customer(stack: str = "demo", **changes: object) -> CustomerPreview:
    """A customer with something in each part."""
    full = CustomerPreview(
        stack=stack,
        verdict=StackVerdict.ATTENTION,
        counts={ChangeKind.CREATE: 0, ChangeKind.UPDATE: 1, ChangeKind.REPLACE: 0, ChangeKind.DELETE: 0},
        dangers=(danger(),),
        cost=cost(),
        nights=nights(),
        ownership=(OwnedRow(object="Deployment w/train", field="spec.replicas", owner="controller", initial="0"),),
        policies=(policy(),),
        simulated=Simulated(trace="small", node_hours=(10, 8), usd=(30, 24), p95_wait=(60, 61), days=7),
        simulated_services=SimulatedServices(trace="requests", days=7, trace_days=14, services=(served(),)),
        changes=(change(),),
    )
    return replace(full, **changes)  # pyright: ignore[reportArgumentType] - the caller's fields


def document(*customers: CustomerPreview, against: str = "main") -> PreviewDocument:
    return PreviewDocument(against=against, customers=customers)


def fifty(dangers_each: int = 8) -> PreviewDocument:
    """Customers of their own, with dangers of their own and more changes than any comment holds."""
    return document(
        *[
            customer(
                f"customer-{n:02}",
                dangers=tuple(
                    danger(f"replaces node group pool-{n:02}-{k} of customer-{n:02}") for k in range(dangers_each)
                ),
                changes=tuple(change(f"service-{n:02}-{k}", fields=4) for k in range(60)),
            )
            for n in range(50)
        ]
    )


class Seen(HTMLParser):
    """What a browser shows of a comment: its words, its tags, and which words are folded away."""

    def __init__(self, comment: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.comments: list[str] = []
        self.links: list[str] = []
        self.cells: list[str] = []
        self._shown: list[tuple[str, bool]] = []
        self._folds = 0
        self._in_cell = False
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(comment))

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        self._folds += tag == "details"
        if tag in {"td", "th"}:
            self._in_cell = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._folds -= tag == "details"
        self._in_cell = self._in_cell and tag not in {"td", "th"}

    def handle_data(self, data: str) -> None:
        self._shown.append((data, bool(self._folds)))
        if self._in_cell:
            self.cells[-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    @property
    def words(self) -> str:
        return "".join(text for text, _ in self._shown)

    @property
    def unfolded(self) -> str:
        return "".join(text for text, folded in self._shown if not folded)
