"""Rules about a list as a whole. They look at it as it was written, so that they are told beside its bad entries."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from ebbtide.settings.checked import with_faults
from ebbtide.settings.wanted import wanted


def whole_list(rule: Callable[[Sequence[object]], None]) -> WrapValidator:
    """Applies `rule` to the list, whatever its entries are; the type of what is not a list has its own fault."""

    def check(given: Any, read: ValidatorFunctionWrapHandler) -> Any:
        fault = _fault(rule, given)
        try:
            items = read(given)
        except ValidationError as error:
            raise with_faults(error, [fault] if fault else [], given) from None
        if fault:
            raise fault
        return items

    return WrapValidator(check)


def each_once(what: str, example: str) -> WrapValidator:
    """Refuses a list of texts that holds one of them twice."""

    def rule(items: Sequence[object]) -> None:
        texts = [item for item in items if isinstance(item, str)]
        twice = next((text for index, text in enumerate(texts) if text in texts[:index]), None)
        if twice is not None:
            raise wanted(f"each {what} once", found=f"{twice!r} twice", example=example)

    return whole_list(rule)


def _fault(rule: Callable[[Sequence[object]], None], given: object) -> PydanticCustomError | None:
    if not isinstance(given, list | tuple):
        return None
    try:
        rule(cast("Sequence[object]", given))
    except PydanticCustomError as fault:
        return fault
    return None
