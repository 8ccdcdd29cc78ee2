"""Names of instance types: those with known facts, since size and price of any other cannot be told."""

from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.prices import instance_type_names
from ebbtide.settings.wanted import wanted


def parse_instance_type(value: object) -> str:
    """The name of a type in the price tables."""
    names = instance_type_names()
    if isinstance(value, str) and value in names:
        return value
    near = _nearest(value) if isinstance(value, str) else ""
    raise wanted(
        "an instance type that the price tables know",
        example="m7i.4xlarge",
        hint=f"did you mean {near}?" if near else "",
    )


@lru_cache(maxsize=1000)
def _nearest(name: str) -> str:
    """Remembered: each look takes milliseconds, and a list may repeat one wrong name thousands of times."""
    return next(iter(get_close_matches(name, instance_type_names(), n=1)), "")


# An editor with an older schema must not refuse a type that was added since, so the schema does not list them.
InstanceTypeName: TypeAlias = Annotated[str, BeforeValidator(parse_instance_type), WithJsonSchema({"type": "string"})]
