"""The last month beside a running one: from its file, or else from Prometheus, which may lack a part of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ebbtide.lab.ledger.month import LEAST_RECORDED, Amount, LedgerError, Month, NodeHours, add_amount
from ebbtide.lab.ledger.month_file import committed, month_path, refuse_cut
from ebbtide.lab.ledger.paid import recorded_of
from ebbtide.lab.ledger.rates import rates_of
from ebbtide.lab.ledger.reading import RecordedNodes
from ebbtide.lab.ledger.sheets import NO_GROUP, UNTYPED
from ebbtide.settings.model import StackSettings
from ebbtide.text.counts import count, percent
from ebbtide.text.durations import HOUR_S, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthBefore:
    """`amounts` are recorded node-hours and dollars by group. `unchecked`: why its file was not compared."""

    month: Month
    amounts: Mapping[str, Amount]
    recorded_share: float
    unchecked: str = ""

    @property
    def notes(self) -> list[str]:
        part = f"Last month: {_recorded_text(self)}. Gaps of last month are in no figure."
        return [*([part] if self.recorded_share < 1 else []), *filter(None, [self.unchecked])]


def month_before(
    root: Path, settings: StackSettings, month: Month, read: Callable[[], RecordedNodes]
) -> MonthBefore | str:
    """Return the month, or why it is not known. A month of which less than a half was recorded is no comparison.

    `read` returns its nodes from Prometheus; it is not called for a month in a file.
    """
    path = month_path(root, settings.stack, month.name)
    try:
        unchecked = refuse_cut(path, root)
        before = _of_file(path, unchecked) if path.exists() else _of_recording(read(), settings, month)
    except LedgerError as error:
        return str(error)
    if before.recorded_share >= LEAST_RECORDED:
        return before
    return f"{_recorded_text(before)}, wanted {percent(LEAST_RECORDED)}"


def _of_file(path: Path, unchecked: str) -> MonthBefore:
    ledger, _ = committed(path)
    return MonthBefore(
        month=ledger.month,
        amounts=by_group(ledger.paid),
        recorded_share=ledger.recorded_share,
        unchecked=unchecked,
    )


def _of_recording(recording: RecordedNodes, settings: StackSettings, month: Month) -> MonthBefore:
    seen = recorded_of(month, recording, rates_of(settings, recording), month.end)
    missing = sum(end - begin for begin, end in seen.gaps) / HOUR_S
    return MonthBefore(month=month, amounts=by_group(seen.rows), recorded_share=1 - missing / month.hours)


def by_group(rows: Iterable[NodeHours]) -> dict[str, Amount]:
    """Return node-hours and dollars by group, as sheets name it."""
    sums: dict[str, Amount] = {}
    for row in rows:
        add_amount(sums.setdefault((row.group or NO_GROUP) if row.is_priced else UNTYPED, Amount()), row)
    return sums


def _recorded_text(before: MonthBefore) -> str:
    hours = before.month.hours
    recorded = duration(before.recorded_share * hours * HOUR_S)
    return f"{recorded} of the {count(hours)} hours of {before.month.name} were recorded"
