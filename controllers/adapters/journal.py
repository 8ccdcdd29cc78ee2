"""Tells what happens as one JSON object per line."""

import json
from datetime import datetime
from typing import Any, TextIO

from controllers.ports import Action, Mark, Outcome, Scale, SetBudget, TurnReport


class LineJournal:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def turned(self, report: TurnReport) -> None:
        pass

    def acted(self, at: datetime, action: Action, outcome: Outcome) -> None:
        self._write(at, {"event": "acted", **_described(action), "reason": action.reason, "outcome": outcome.value})

    def noted(self, at: datetime, subject: str, message: str) -> None:
        self._write(at, {"event": "noted", "subject": subject, "message": message})

    def _write(self, at: datetime, record: dict[str, Any]) -> None:
        self._stream.write(json.dumps({"at": at.isoformat(timespec="milliseconds"), **record}) + "\n")
        self._stream.flush()


def _described(action: Action) -> dict[str, Any]:
    match action:
        case Scale():
            return {"pool": action.pool, "replicas": action.replicas}
        case Mark():
            return {"pool": action.pool, "pod": action.pod, "idle": action.idle}
        case SetBudget():
            return {"budget": action.budget, "maxUnavailable": action.max_unavailable}
