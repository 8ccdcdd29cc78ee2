"""The page of the defaults: each choice on each trace, the choices of cross-validation, and their gain."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

BEFORE = "before"
SAME_WAIT_S, SAME_WAIT = 30.0, 0.10
"""A p95 wait counts as equal if it is longer by no more than the larger of these, as in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedChoice:
    """The product with one choice on one piece."""

    piece: str
    choice: str
    usd_of_bound: float
    node_hours_of_bound: float
    wait_p50_s: float
    wait_p95_s: float
    wait_p99_s: float
    interrupted: int
    evictions: int

    def as_dict(self) -> dict[str, str | float | int]:
        return asdict(self)

    @property
    def load(self) -> str:
        """Trace, scope and stack, without the week."""
        trace, scope, _, stack = self.piece.split(", ")
        return f"{trace}, {scope}, {stack}"


def best(played: Sequence[PlayedChoice]) -> str:
    """The choice with the fewest dollars, of those that do not lengthen the p95 wait on any piece."""
    before = {row.piece: row.wait_p95_s for row in played if row.choice == BEFORE}
    slower = {row.choice for row in played if not _same_wait(before[row.piece], row.wait_p95_s)}
    names = [name for name in dict.fromkeys(row.choice for row in played) if name not in slower]
    return min(names, key=lambda name: fmean(row.usd_of_bound for row in played if row.choice == name))


def _same_wait(before_s: float, after_s: float) -> bool:
    return after_s <= before_s + max(SAME_WAIT_S, SAME_WAIT * before_s)


def page(played: Sequence[PlayedChoice], settings: Mapping[str, str], command: str) -> str:
    return "\n".join([*_head(settings, command), *_by_load(played), *_held_out(played)]) + "\n"


def _head(settings: Mapping[str, str], command: str) -> Iterator[str]:
    yield "# Defaults and their measured gain"
    yield ""
    yield f"Written by `{command}`."
    yield ""
    yield (
        "Dollars on demand as a multiple of the [zero-wait bound](../explanation/bound.md), and the p95 wait: means "
        "over the weeks of each load. The product runs every time; only these settings differ, in seconds: the "
        "stabilization window of every pool (`stabilization`), the autoscaler's unneeded time by group, the delay "
        "after a group grew, the re-check of unremovable nodes; then how many are drained at a time, and the "
        "utilization above which a node stays. `before`: the product's first settings; `now`: its present ones."
    )
    yield ""
    yield "| choice | settings |"
    yield "|---|---|"
    for name, dials in settings.items():
        yield f"| {name} | {dials} |"
    yield ""


def _by_load(played: Sequence[PlayedChoice]) -> Iterator[str]:
    loads = list(dict.fromkeys(row.load for row in played))
    yield "## Each choice on each load"
    yield ""
    yield f"| choice | {' | '.join(loads)} | all pieces | p50, p95, p99 wait | evictions | interrupted |"
    yield "|" + "---|" * (len(loads) + 5)
    for name in dict.fromkeys(row.choice for row in played):
        rows = [row for row in played if row.choice == name]
        cells = [_cell([row for row in rows if row.load == load]) for load in loads]
        waits = [
            fmean(values)
            for values in zip(*((row.wait_p50_s, row.wait_p95_s, row.wait_p99_s) for row in rows), strict=True)
        ]
        counts = (sum(row.evictions for row in rows), sum(row.interrupted for row in rows))
        yield (
            f"| {name} | {' | '.join(cells)} | {fmean(row.usd_of_bound for row in rows):.3f} | "
            f"{', '.join(f'{wait:.0f} s' for wait in waits)} | {counts[0]} | {counts[1]} |"
        )
    yield ""


def _cell(played: Sequence[PlayedChoice]) -> str:
    return f"{fmean(row.usd_of_bound for row in played):.3f} ({fmean(row.wait_p95_s for row in played):.0f} s)"


def _held_out(played: Sequence[PlayedChoice]) -> Iterator[str]:
    yield "## Cross-validation"
    yield ""
    yield (
        "For each piece: the choice that is best on all others, and its effect on the held-out piece. "
        f"The best has the lowest cost, and on no piece a p95 wait longer by more than {SAME_WAIT_S:.0f} s and "
        f"{SAME_WAIT:.0%}."
    )
    yield ""
    yield "| held out | chosen on the others | dollars / bound before | with the choice | change | p95 before | with |"
    yield "|---|---|---|---|---|---|---|"
    by_choice = {(row.piece, row.choice): row for row in played}
    gains: list[float] = []
    for piece in dict.fromkeys(row.piece for row in played):
        chosen = best([row for row in played if row.piece != piece])
        before, after = by_choice[piece, BEFORE], by_choice[piece, chosen]
        gains.append(after.usd_of_bound / before.usd_of_bound - 1)
        yield (
            f"| {piece} | {chosen} | {before.usd_of_bound:.3f} | {after.usd_of_bound:.3f} | {100 * gains[-1]:+.1f} % | "
            f"{before.wait_p95_s:.0f} s | {after.wait_p95_s:.0f} s |"
        )
    yield ""
    yield (
        f"Chosen on all pieces: {best(played)}. On average over the held-out pieces the bill changes by "
        f"{100 * fmean(gains):+.1f} %; the worst changes by {100 * max(gains):+.1f} %."
    )
