"""A resource that is paid for but unused."""

from dataclasses import dataclass
from datetime import date, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFinding:
    """`evidence` is one sentence. `usd` are dollars a month, None without a price; `since` is None if unknown."""

    kind: str
    name: str
    evidence: str
    usd: float | None
    since: datetime | None
    owner: str = ""
    expires: date | None = None
