"""The section of exceptions from policies: resource, reason and last day.

An exception ends by itself. A stack file stays valid after that day, since an `up` in an emergency must not fail
because of it: `check` warns, and the policy counts again.
"""

from collections.abc import Sequence
from datetime import date
from importlib.resources import files
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from ebbtide.settings.file.problems import show, value_at, wanted
from ebbtide.settings.sections.checked import Settings, whole_list
from ebbtide.settings.sections.types import DateText
from ebbtide.text.pages import page_command

POLICY_IDS = tuple(files("ebbtide.settings.sections").joinpath("policy_ids.txt").read_text(encoding="utf-8").split())
"""All rules of `ebbtide.policies`, which this package may not import: `make schema` writes their ids to the file."""

_REASON_EXAMPLE = "the vendor's licence binds it to one copy"


def _policy(value: object) -> str:
    if not isinstance(value, str) or value not in POLICY_IDS:
        expected = f"a policy from {POLICY_IDS[0]} to {POLICY_IDS[-1]}"
        raise wanted(
            "exception.policy", expected, example="EB019", hint=f"{page_command('policies#the-rules')} lists them"
        )
    return value


def stated(expected: str, example: str, code: str = "exception.form") -> BeforeValidator:
    """Accept a text on one line."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise wanted(code, expected, example=example)
        return value.strip()

    return BeforeValidator(parse)


TEXT = WithJsonSchema({"type": "string", "minLength": 1})
PolicyId: TypeAlias = Annotated[
    str, BeforeValidator(_policy), WithJsonSchema({"type": "string", "enum": list(POLICY_IDS)})
]


class PolicyException(Settings):
    """A temporary exception from a policy for one resource."""

    policy: PolicyId = Field(description="id of the policy", examples=["EB019"])
    resource: Annotated[str, stated("the name of a resource, as the preview shows it", "api"), TEXT] = Field(
        description="name of the resource as in the preview: api, ebbtide/api or Deployment ebbtide/api",
        examples=["api"],
    )
    reason: Annotated[str, stated("the reason, which the preview shows", _REASON_EXAMPLE), TEXT] = Field(
        description="reason, which the preview shows", examples=[_REASON_EXAMPLE]
    )
    until: DateText = Field(description="last day of the exception, in UTC", examples=['"2027-01-31"'])


def _each_once(exceptions: Sequence[object]) -> None:
    pairs = [(value_at(entry, ("policy",)), value_at(entry, ("resource",))) for entry in exceptions]
    twice = next((pair for index, pair in enumerate(pairs) if None not in pair and pair in pairs[:index]), None)
    if twice is not None:
        actual = f"{show(twice[0])} for {show(twice[1])} twice"
        raise wanted(
            "exception.twice",
            "one exception for each policy and resource",
            found=actual,
            hint="keep the one that counts",
        )


class ExceptionSettings(Settings):
    """The section, which is a list."""

    exceptions: Annotated[tuple[PolicyException, ...], whole_list(_each_once)] = Field(
        default=(),
        description="exceptions from policies for single resources, each with a reason and a last day",
        examples=['[{ policy: EB019, resource: api, reason: "…", until: "2027-01-31" }]'],
    )


def ended(exception: PolicyException, today: date) -> bool:
    return exception.until < today
