"""The tags that a customer puts on every AWS resource, by the rules of the strictest service that gets them.

AWS itself would refuse a wrong tag too, but resource by resource and halfway through an update.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, TypeAlias, cast

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from ebbtide.settings.problems import show
from ebbtide.settings.wanted import together, wanted
from ebbtide.vocabulary.labels import PREFIX

MOST_TAGS = 39  # AWS takes 50; ours are six at most, and EKS and the drivers of Kubernetes add up to eight

# Beginnings of keys that are taken, and by whom. Case does not count: it does not to IAM either.
_BY_AWS: Mapping[str, str] = {"aws:": "AWS keeps that beginning for itself"}
_FOR_A_CUSTOMER: Mapping[str, str] = {**_BY_AWS, PREFIX: "Ebbtide sets tags of its own with that beginning"}

_CHARACTERS = "letters, digits, spaces or + - = . _ : / @"
_KEY = re.compile(r"[\w +\-=.:/@]{1,128}")
_VALUE = re.compile(r"[\w +\-=.:/@]{0,256}")


def parse_cost_tags(value: object) -> dict[str, str]:
    """The tags of a customer, which must leave ours alone."""
    return parse_tags(value, _FOR_A_CUSTOMER)


def parse_tags(value: object, taken: Mapping[str, str] = _BY_AWS) -> dict[str, str]:
    """All tags, or one error that holds every fault of them."""
    if not isinstance(value, Mapping):
        raise wanted("a mapping of tags to their values")
    tags = {str(key): text for key, text in cast("Mapping[object, object]", value).items()}
    if faults := [*_number_faults(len(tags)), *(fault for tag in tags.items() for fault in _faults(*tag, taken))]:
        raise together(faults)
    return cast("dict[str, str]", tags)


def _number_faults(number: int) -> Iterator[PydanticCustomError]:
    if number > MOST_TAGS:
        yield wanted(
            f"at most {MOST_TAGS} tags",
            found=str(number),
            hint="AWS takes 50 on a resource, and Ebbtide and Kubernetes add their own",
        )


def _faults(key: str, value: object, taken: Mapping[str, str]) -> Iterator[PydanticCustomError]:
    for start, why in taken.items():
        if key.lower().startswith(start):
            what, found = f"a tag key that does not begin with {start}", f"the key {show(key)}"
            yield wanted(what, found=found, hint=why, at=key)
    if _KEY.fullmatch(key) is None:
        what = f"a tag key of 1 to 128 {_CHARACTERS}"
        yield wanted(what, found=f"the key {show(key)}", hint=_length_hint(key, 128), at=key)
    if not isinstance(value, str):
        is_plain = isinstance(value, bool | int | float)
        yield wanted("text", found=show(value), hint="quote it" if is_plain else "", at=key)
    elif _VALUE.fullmatch(value) is None:
        what = f"a tag value of up to 256 {_CHARACTERS}"
        yield wanted(what, found=show(value), hint=_length_hint(value, 256), at=key)


def _length_hint(text: str, most: int) -> str:
    return f"it has {len(text)}" if len(text) > most else ""


# Letters of any alphabet pass, which editors and Python would write as different patterns: so what is refused is named.
_ASCII_ALLOWED = r"[^\u0000-\u001f!-*,;<>?\[-^`{-\u007f]"
_TAKEN = "|".join(re.sub("[a-z]", lambda c: f"[{c[0]}{c[0].upper()}]", re.escape(start)) for start in _FOR_A_CUSTOMER)
_SCHEMA = {
    "type": "object",
    "maxProperties": MOST_TAGS,
    "propertyNames": {"pattern": rf"^(?!{_TAKEN}){_ASCII_ALLOWED}{{1,128}}$"},
    "additionalProperties": {"type": "string", "pattern": f"^{_ASCII_ALLOWED}{{0,256}}$"},
}

CostTags: TypeAlias = Annotated[dict[str, str], BeforeValidator(parse_cost_tags), WithJsonSchema(_SCHEMA)]
