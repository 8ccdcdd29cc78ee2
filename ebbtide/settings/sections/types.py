"""The units of the stack file, parsed once: all later code has durations as `timedelta` and memory in MiB.

Each type parses text and refuses everything else with a sentence about what is expected. A value in parsed form passes,
so that code can build settings without text. Plain numbers are Kubernetes quantities: `cpu: 2` is two cores (2000
millicores), never two millicores.
"""

import re
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, Strict, WithJsonSchema

from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.grammar import text, text_schema
from ebbtide.settings.sections.week import parse_intervals, parse_week
from ebbtide.text.durations import format_duration, latency_text, read_duration
from ebbtide.text.quantities import CPU_UNITS, MEBIBYTE, MEMORY_UNITS, cpu_text, memory_text, read_quantity
from ebbtide.vocabulary.windows import WeeklyInterval

ZONE_LETTERS = "abcdefgh"  # the network has a slot for each
MOST = 1_000_000
"""Maximum of any count: more is a mistake, which AWS would refuse in the middle of an `up`."""
LONGEST = timedelta(days=366)
NAME = r"^(?!ebbtide-)[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"
SHORT_NAME = r"^[a-z]([a-z0-9-]{0,22}[a-z0-9])?$"
IMAGE = r"^[A-Za-z0-9][A-Za-z0-9_.-]*(:[0-9]+)?(/[A-Za-z0-9_.-]+)*(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?$"

QUEUE = r"(?!-)\S{1,200}"
ZONE_ID = r"[a-z]{2,4}[0-9]-az[0-9]"
"""Id of a zone, the same in every account: use1-az1."""

ZONE_NUMBERS = "12345678"  # the network has a slot for each, too

_ZONE = f"[{ZONE_LETTERS}]"
_ONE_UNIT = re.compile(r"[0-9]{1,9}[smh]")  # `\d` would take the digits of every script
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


_SPELLED_UNIT = re.compile(r"(\d{1,9}) ?(h|m|s)(?:(?<=h)(?:ours?|rs?)|(?<=m)in(?:ute)?s?|(?<=s)ec(?:ond)?s?)?")


def parse_duration(value: object) -> timedelta:
    """Parse `90s`, `15m` or `12h`: one whole number and one unit."""
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise wanted("duration.negative", "a duration that is not negative", example="15m")
        return value
    duration = read_duration(value) if isinstance(value, str) and _ONE_UNIT.fullmatch(value) else None
    if duration is None:
        code, hint = _duration_fault(value)
        raise wanted(code, "a duration: a whole number and s, m or h", example="15m", hint=hint)
    if duration > LONGEST:
        raise wanted("duration.too-long", "a duration of at most a year, which is 8784h", example="15m")
    return duration


def _duration_fault(value: object) -> tuple[str, str]:
    """Return code and hint."""
    if isinstance(value, str) and value.startswith("-"):
        return "duration.negative", "a duration is never negative"
    if isinstance(value, int | float):
        return "duration.no-unit", "a plain number has no unit"
    if isinstance(value, str) and (days := re.fullmatch(r"(\d{1,4}) ?(?:d|days?)", value.lower())):
        hours = int(days[1]) * 24
        return "duration.days", "write days as hours" + (f": {hours}h" if timedelta(hours=hours) <= LONGEST else "")
    spelled = _SPELLED_UNIT.fullmatch(value.lower()) if isinstance(value, str) else None
    return "duration.form", f"write {spelled[1]}{spelled[2]}" if spelled else ""


def parse_positive_duration(value: object) -> timedelta:
    duration = parse_duration(value)
    if not duration:
        raise wanted("duration.zero", "a duration longer than zero", example="15m")
    return duration


def parse_latency(value: object) -> timedelta:
    """Parse `400ms` or `2s`."""
    milliseconds = re.fullmatch(r"([0-9]{1,9})ms", value) if isinstance(value, str) else None
    if milliseconds is None and not (isinstance(value, str) and _ONE_UNIT.fullmatch(value)):
        code, hint = _duration_fault(value)
        raise wanted(code, "a duration: a whole number and ms, s or m", example="400ms", hint=hint)
    duration = parse_duration(value) if milliseconds is None else timedelta(milliseconds=int(milliseconds[1]))
    if not duration:
        raise wanted("duration.zero", "a duration longer than zero", example="400ms")
    return duration


def parse_percent(value: object) -> float:
    """Parse `70%` or `0.1%`, above 0 and at most 100, as a number of percent."""
    match = re.fullmatch(r"([0-9]{1,3}(\.[0-9]{1,4})?)%", value) if isinstance(value, str) else None
    percents = 0.0 if match is None else float(match[1])
    if not 0 < percents <= 100:
        hint = "write the sign too, in quotes or without" if isinstance(value, int | float) else ""
        raise wanted("percent.form", "a share above 0% and up to 100%", example="70%", hint=hint)
    return percents


def parse_positive_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise wanted("number.not-positive", f"a number above 0 and up to {MOST}", example="3")
    return float(value)


def parse_cpu(value: object) -> int:
    """Parse a Kubernetes CPU quantity in millicores, exact: `2`, `0.5` or `500m`."""
    millicores = read_quantity(value, CPU_UNITS)
    if millicores is None or millicores <= 0 or millicores != int(millicores):
        expected = "a CPU quantity above zero, in cores or millicores"
        raise wanted("cpu.form", expected, example="2 or 500m", hint=_cpu_hint(value))
    if millicores > MOST * 1000:
        raise wanted("cpu.too-large", f"a CPU quantity of at most {MOST} cores", example="2 or 500m")
    return int(millicores)


def parse_memory(value: object) -> int:
    """Parse a Kubernetes memory quantity in MiB, rounded up so that a pod never gets less than requested."""
    size = read_quantity(value, MEMORY_UNITS)
    if size is None or size <= 0:
        raise wanted("memory.form", "a memory quantity above zero", example="8Gi or 512Mi", hint=_memory_hint(value))
    if size > 1024 * MEMORY_UNITS["Ti"]:
        raise wanted("memory.too-large", "a memory quantity of at most 1024Ti", example="8Gi or 512Mi")
    if size < MEBIBYTE:
        raise wanted(
            "memory.too-small",
            "a memory quantity of at least 1Mi",
            example="8Gi",
            hint="without a unit it counts bytes",
        )
    return int((size / MEBIBYTE).to_integral_value(ROUND_CEILING))


def _memory_hint(value: object) -> str:
    """Units as people write them: GB, GiB, gb, or a space before the unit."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kmgt])(i?)b?", str(value).lower())
    if match is None or not float(match[1]):
        return ""
    amount, unit = match[1], match[2].upper()
    binary = f"{amount}{unit}i"
    return f"write {binary}" if match[3] else f"write {amount}{unit.replace('K', 'k')}, or {binary}, which is more"


def _cpu_hint(value: object) -> str:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(m|mcpu|millicores?|v?cpus?|cores?)", str(value).lower())
    if match is None or not float(match[1]):
        return ""
    return f"write {match[1]}m" if match[2].startswith("m") else f"write {match[1]}"


def parse_clock(value: object) -> str:
    """Accept a local time of day, kept as text: `02:00`."""
    if not isinstance(value, str) or _CLOCK.fullmatch(value) is None:
        raise wanted("clock.form", 'a local time of day from "00:00" to "23:59"', example='"02:00"')
    return value


def parse_date(value: object) -> date:
    """Accept a date as text only: a number would be read as seconds since 1970."""
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) and len(value) == 10 else _no_date()
    except ValueError:
        return _no_date()


def _no_date() -> date:
    raise wanted("date.form", "a date of the calendar, year-month-day", example='"2026-12-24"')


def parse_wall_time(value: object) -> datetime:
    """Accept a date and time in the stack's zone. The result has no zone."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    matches = isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}", value)
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) and matches else _no_wall_time()
    except ValueError:
        return _no_wall_time()


def _no_wall_time() -> datetime:
    expected = "a date and a local time of the stack's own zone, year-month-dayThour:minute"
    raise wanted("wall-time.form", expected, example='"2026-11-27T09:00"')


def parse_zone(value: object) -> str:
    """Accept the letter of an availability zone, or its id."""
    if not isinstance(value, str) or re.fullmatch(f"{_ZONE}|{ZONE_ID}", value) is None:
        expected = "the letter of a zone, from a to h, or its id, such as use1-az1"
        raise wanted("zone.letter", expected, example="a", hint=_zone_hint(value))
    return value


def _zone_hint(value: object) -> str:
    match = re.fullmatch(rf"([a-z]{{2}}(-[a-z]+)+-\d)?({_ZONE})", value.lower()) if isinstance(value, str) else None
    if match is None:
        return ""
    return f"did you mean {match[3]}?" + (" the region comes from aws:region" if match[1] else "")


def parse_queue(value: object) -> str:
    """Accept a queue's name. White space would be split by worker command lines, and invisible characters are mistakes.

    A leading hyphen would be an option of the worker: `--burst` serves another queue and exits.
    """
    if not isinstance(value, str) or re.fullmatch(QUEUE, value) is None or not value.isprintable():
        expected = "the name of a queue, without white space, invisible characters and a hyphen at its start"
        raise wanted("queue.form", expected, example="train")
    return value


def parse_word(value: object) -> str:
    """Accept one word of a command line, as text only: YAML would change the form of a number."""
    if not isinstance(value, str) or not value:
        raise wanted("command.word", "one word of a command, as text", example='"--queues"')
    return value


_DURATION_SCHEMA = text_schema(r"^\d{1,9}[smh]$")
_DURATION_TEXT = PlainSerializer(format_duration, return_type=str, when_used="json")
_CPU_TEXT = {"type": "string", "pattern": r"^\d+(\.\d+)?m?$"}
_INTERVALS = {"type": "string", "pattern": r"^\s*\d\d:\d\d-\d\d:\d\d(\+1)?(\s*,\s*\d\d:\d\d-\d\d:\d\d(\+1)?)*\s*$"}
_DAY = "(mon|tue|wed|thu|fri|sat|sun)"
_WEEK_SCHEMA = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"pattern": rf"^{_DAY}(-{_DAY})?(\s*,\s*{_DAY}(-{_DAY})?)*$"},
    "additionalProperties": {"anyOf": [_INTERVALS, {"type": "array", "minItems": 1, "items": _INTERVALS}]},
}

Duration: TypeAlias = Annotated[timedelta, BeforeValidator(parse_duration), _DURATION_SCHEMA, _DURATION_TEXT]
PositiveDuration: TypeAlias = Annotated[
    timedelta, BeforeValidator(parse_positive_duration), _DURATION_SCHEMA, _DURATION_TEXT
]
Latency: TypeAlias = Annotated[
    timedelta,
    BeforeValidator(parse_latency),
    text_schema(r"^\d{1,9}(ms|[smh])$"),
    PlainSerializer(latency_text, return_type=str, when_used="json"),
]
Percent: TypeAlias = Annotated[
    float,
    BeforeValidator(parse_percent),
    text_schema(r"^\d{1,3}(\.\d{1,4})?%$"),
    PlainSerializer(lambda percents: f"{percents:g}%", return_type=str, when_used="json"),
]
PositiveNumber: TypeAlias = Annotated[
    float, BeforeValidator(parse_positive_number), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})
]
Millicores: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_cpu),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, _CPU_TEXT]}),
    PlainSerializer(cpu_text, return_type=str, when_used="json"),
]
Mebibytes: TypeAlias = Annotated[
    int,
    BeforeValidator(parse_memory),
    text_schema(r"^\d+(\.\d+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$"),
    PlainSerializer(memory_text, return_type=str, when_used="json"),
]
IntervalsText: TypeAlias = Annotated[
    tuple[tuple[int, int], ...],
    BeforeValidator(parse_intervals),
    WithJsonSchema({"anyOf": [_INTERVALS, {"type": "array", "minItems": 1, "items": _INTERVALS}]}),
]
WeekText: TypeAlias = Annotated[tuple[WeeklyInterval, ...], BeforeValidator(parse_week), WithJsonSchema(_WEEK_SCHEMA)]
ClockText: TypeAlias = Annotated[str, BeforeValidator(parse_clock), text_schema(r"^([01]\d|2[0-3]):[0-5]\d$")]
DateText: TypeAlias = Annotated[date, BeforeValidator(parse_date), text_schema(r"^\d{4}-\d{2}-\d{2}$")]
WallTimeText: TypeAlias = Annotated[
    datetime,
    BeforeValidator(parse_wall_time),
    text_schema(r"^\d{4}-\d{2}-\d{2}T([01]\d|2[0-3]):[0-5]\d$"),
    PlainSerializer(lambda at: f"{at:%Y-%m-%dT%H:%M}", return_type=str, when_used="json"),
]
Image: TypeAlias = Annotated[
    str, *text(IMAGE, "image.form", "a container image", "registry.example.com/ml/train:1.4.2")
]
"""A name with a tag, a digest or both."""
Queue: TypeAlias = Annotated[str, BeforeValidator(parse_queue), text_schema(f"^{QUEUE}$")]
Word: TypeAlias = Annotated[str, BeforeValidator(parse_word), WithJsonSchema({"type": "string", "minLength": 1})]
Zone: TypeAlias = Annotated[str, BeforeValidator(parse_zone), text_schema(f"^({_ZONE}|{ZONE_ID})$")]
ShortName: TypeAlias = Annotated[
    str, *text(SHORT_NAME, "name.form", "a name of lower-case letters, digits and hyphens, at most 24 long", "acme")
]
"""A name that becomes part of AWS names, some of which are limited to 63 or 64 characters."""
Name: TypeAlias = Annotated[
    str,
    *text(
        NAME,
        "name.form",
        "a name of lower-case letters, digits and hyphens, at most 40 long, not beginning with ebbtide-",
        "train-large",
    ),
]
"""A name that Kubernetes and AWS both accept: it is part of labels and resource names."""
Count: TypeAlias = Annotated[int, Strict(), Field(ge=0, le=MOST)]
Positive: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=MOST)]


RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180),
    *(365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""Source: Amazon CloudWatch Logs API reference, PutRetentionPolicy, retentionInDays."""


def parse_retention_days(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value in RETENTION_DAYS:
        return value
    expected = f"a number of days that CloudWatch takes: {', '.join(map(str, RETENTION_DAYS))}"
    raise wanted("log-retention.days", expected, example="90", hint=_hint(value))


def _hint(value: object) -> str:
    """Suggest the next longer time: deleted logs cannot be restored."""
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
