"""For how long CloudWatch keeps a log group's events: it takes only certain numbers of days."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.settings.wanted import wanted

RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180),
    *(365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""Source: Amazon CloudWatch Logs API reference, PutRetentionPolicy, retentionInDays."""


def parse_retention_days(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value in RETENTION_DAYS:
        return value
    what = f"a number of days that CloudWatch takes: {', '.join(map(str, RETENTION_DAYS))}"
    raise wanted(what, example="90", hint=_hint(value))


def _hint(value: object) -> str:
    """The next longer time: logs that are gone do not come back."""
    if isinstance(value, str) and value.isdecimal():
        return "write it without quotes"
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return ""
    longer = next((days for days in RETENTION_DAYS if days >= value), None)
    return f"did you mean {longer}?" if longer else ""


RetentionDays: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_retention_days),
    WithJsonSchema({"type": "integer", "enum": list(RETENTION_DAYS)}),
]
