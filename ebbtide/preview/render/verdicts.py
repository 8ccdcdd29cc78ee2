"""The beginning of a page and of each customer's part: verdicts, remarks and findings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ebbtide.findings import Severity
from ebbtide.preview.document import CustomerPreview, PreviewDocument, StackVerdict
from ebbtide.preview.render.blocks import Block, Finding, Frame, Line, Remark, Title, Tone
from ebbtide.preview.render.words import changes_text, verdict_text

TONES = {StackVerdict.BLOCKED: Tone.BLOCKING, StackVerdict.ATTENTION: Tone.WARNING, StackVerdict.SAFE: Tone.SAFE}
"""The worst comes first."""

_WORST_FIRST = (Tone.BLOCKING, Tone.WARNING, Tone.NOTE)


def top(document: PreviewDocument) -> Iterator[Block]:
    """The verdict, what is compared with what, and remarks about the whole page."""
    verdicts = {customer.verdict for customer in document.customers}
    worst = next((verdict for verdict in TONES if verdict in verdicts), StackVerdict.SAFE)
    yield Title(_headline(document), TONES[worst])
    yield Line(compared(document), Tone.ASIDE)
    yield from (Remark(note, Tone.ASIDE) for note in document.notes)
    yield from problems(document.problems)


def _headline(document: PreviewDocument) -> str:
    """The verdict of all customers, the worst first: "1 blocked, 2 need attention, 40 safe"."""
    if len(document.customers) == 1:
        customer = document.customers[0]
        return f"{customer.stack}: {verdict_text(customer)}, {changes_text(customer)}"
    verdicts = Counter(customer.verdict for customer in document.customers)
    words = {StackVerdict.ATTENTION: "need attention" if verdicts[StackVerdict.ATTENTION] != 1 else "needs attention"}
    parts = [f"{verdicts[verdict]} {words.get(verdict, verdict)}" for verdict in TONES if verdicts[verdict]]
    return f"{len(document.customers)} customers: {', '.join(parts)}" if parts else "no customer to preview"


def compared(document: PreviewDocument) -> str:
    if document.against:
        return f"compared with {document.against}"
    if any(customer.new for customer in document.customers):
        return "compared with no earlier state, so everything is new (--against GIT_REF compares)"
    return "the files are not compared (--against GIT_REF compares)"


def problems(lines: Iterable[str]) -> Iterator[Block]:
    return (Remark(line, Tone.WARNING) for line in lines)


def frame_of(customer: CustomerPreview, body: Iterable[Block]) -> Frame:
    verdict = customer.verdict
    return Frame(customer.stack, verdict, TONES[verdict], changes_text(customer), tuple(body))


def findings_of(customer: CustomerPreview) -> list[Finding]:
    """Return the findings that are never folded, the worst first: dangers, and blocking policies without exception."""
    dangers = [_finding(danger.severity, danger.text, danger.impact, danger.remedy) for danger in customer.dangers]
    blocking = [
        _finding(result.severity, f"policy {result.code}, {result.resource}: {result.text}", "", result.remedy)
        for result in customer.policies
        if result.severity is Severity.BLOCKING and not result.excepted
    ]
    return _worst_first([*dict.fromkeys(dangers), *blocking])


def shared_findings(customers: Iterable[CustomerPreview]) -> list[Finding]:
    """Each finding once with all stacks that share it: a code change is reported once instead of fifty times."""
    stacks: dict[Finding, list[str]] = {}
    for customer in customers:
        for finding in findings_of(customer):
            stacks.setdefault(finding, []).append(customer.stack)
    return _worst_first(replace(finding, names=tuple(names)) for finding, names in stacks.items())


def _finding(severity: Severity, what: str, impact: str, fix: str) -> Finding:
    advice = (impact and f"impact: {impact}", fix and f"→ {fix}")
    return Finding(tone=Tone(str(severity)), what=what, advice=tuple(filter(None, advice)))


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _WORST_FIRST.index(finding.tone))


def no_danger(customers: Sequence[CustomerPreview]) -> str:
    blind = any(customer.incomplete for customer in customers)
    return "No danger found in what could be read." if blind else "No danger found."
