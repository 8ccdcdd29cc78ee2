"""Base of every settings model: an invalid field does not hide the faults of others.

Pydantic runs a model's own validators only if all fields are valid: with a misspelt key an entry would not report that
its `min` is above its `max`. Here a rule names the fields that it needs, and runs as soon as those are valid.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from ebbtide.settings.file.problems import WANTED, wanted


class Check(NamedTuple):
    """A rule that takes the values of `fields`, in that order, and raises `wanted` if they contradict each other."""

    fields: tuple[str, ...]
    rule: Callable[..., None]
    refused: str = ""
    """The field whose presence the rule refuses. Its value may be invalid: a repaired one would be refused, too."""


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True)

    instead_of: ClassVar[dict[str, str]] = {}
    """Keys that are refused with a better hint than "unknown": planned keys, and keys that belong elsewhere."""

    checks: ClassVar[tuple[Check, ...]] = ()
    """Rules between fields."""

    one_of: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of keys of which a file may have only one: the other follows from it."""

    @model_validator(mode="wrap")
    @classmethod
    def _every_fault(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            instance = handler(value)
        except ValidationError as error:
            valid = readable(cls, value)
            refused = list(_refused(cls, valid, value))
            faults = [*_both_given(cls.one_of, value), *_failing(cls.checks, valid), *(fault for _, fault in refused)]
            raise with_faults(error, faults, value, instead_of={key for key, _ in refused}) from None
        faults = [*_both_given(cls.one_of, value), *_failing(cls.checks, vars(instance))]
        if faults:
            raise ValidationError.from_exception_data(cls.__name__, [_new(fault, value) for fault in faults])
        return instance


def with_faults(
    error: ValidationError, faults: Sequence[PydanticCustomError], value: object, instead_of: Collection[str] = ()
) -> ValidationError:
    """Return the error with further faults of the same value, which replace those of the keys `instead_of`."""
    errors = error.errors(include_url=False)
    old = [_again(details) for details in errors if details["loc"][:1] not in {(key,) for key in instead_of}]
    return ValidationError.from_exception_data(error.title, [*old, *(_new(fault, value) for fault in faults)])


def readable(model: type[BaseModel], value: object) -> dict[str, Any]:
    """Return the valid fields, each parsed separately, by their Python names.

    A missing key has its default; a list has its valid entries.
    """
    if not isinstance(value, Mapping):
        return {}
    values = cast("Mapping[str, object]", value)
    parsed: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        if key not in values:
            if not field.is_required():
                parsed[name] = field.get_default(call_default_factory=True, validated_data=parsed)
            continue
        try:
            parsed[name] = _reader(model, name).validate_python(values[key], by_alias=True, by_name=False)
        except ValidationError:
            if get_origin(field.annotation) is tuple and isinstance(values[key], list):
                parsed[name] = tuple(readable_items(model, name, values[key]).values())
    return parsed


def readable_items(model: type[BaseModel], name: str, value: object) -> dict[int, Any]:
    """Return the valid entries of a list by position; `name` is the field that holds the list."""
    parsed: dict[int, Any] = {}
    for index, item in enumerate(cast("list[object]", value) if isinstance(value, list) else ()):
        try:
            parsed[index] = _item_reader(model, name).validate_python(item, by_alias=True, by_name=False)
        except ValidationError:
            continue
    return parsed


@cache
def _reader(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    return TypeAdapter(model.model_fields[name].rebuild_annotation())


@cache
def _item_reader(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    return TypeAdapter(get_args(model.model_fields[name].annotation)[0])


def _failing(checks: Sequence[Check], fields: Mapping[str, Any]) -> list[PydanticCustomError]:
    faults: list[PydanticCustomError] = []
    for check in checks:
        if all(name in fields for name in check.fields):
            try:
                check.rule(*(fields[name] for name in check.fields))
            except PydanticCustomError as fault:
                faults.append(fault)
    return faults


def _refused(
    model: type[BaseModel], valid: Mapping[str, Any], value: object
) -> Iterator[tuple[str, PydanticCustomError]]:
    """Yield invalid keys that a check refuses with any value."""
    values: Mapping[str, object] = cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
    for check in cast("type[Settings]", model).checks:
        key = model.model_fields[check.refused].alias or check.refused if check.refused else ""
        if key in values and check.refused not in valid:
            for fault in _failing([check], {**valid, check.refused: values[key]}):
                yield key, fault


def _both_given(pairs: Sequence[tuple[str, str]], value: object) -> list[PydanticCustomError]:
    keys: Mapping[object, object] = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {}
    return [
        wanted("keys.not-both", f"{first} or {second}, not both: one follows from the other", at=first)
        for first, second in pairs
        if first in keys and second in keys
    ]


def _new(fault: PydanticCustomError, value: object) -> InitErrorDetails:
    return InitErrorDetails(type=fault, loc=(), input=value)


def _again(details: ErrorDetails) -> InitErrorDetails:
    """Return an error in the form that pydantic accepts. Only Ebbtide's own type must be rebuilt."""
    context = details.get("ctx", {})
    kind = PydanticCustomError(WANTED, "{wanted}", context) if details["type"] == WANTED else details["type"]
    return InitErrorDetails(type=kind, loc=details["loc"], input=details["input"], ctx=context)


def _min_within_max(least: int, most: int) -> None:
    if least > most:
        raise wanted("min.above-max", f"at most max, which is {most}", example=str(most), at="min")


MIN_WITHIN_MAX = Check(("min", "max"), _min_within_max)


def whole_list(rule: Callable[[Sequence[object]], None]) -> WrapValidator:
    """Apply `rule` to a list even if entries are invalid. A value that is not a list has its own fault."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        fault = _fault(rule, value)
        try:
            items = handler(value)
        except ValidationError as error:
            raise with_faults(error, [fault] if fault else [], value) from None
        if fault:
            raise fault
        return items

    return WrapValidator(check)


def each_once(noun: str, example: str) -> WrapValidator:
    """Refuse repeated texts or numbers in a list."""

    def rule(items: Sequence[object]) -> None:
        plain = [item for item in items if isinstance(item, str | int)]
        twice = next((item for index, item in enumerate(plain) if item in plain[:index]), None)
        if twice is not None:
            raise wanted("list.twice", f"each {noun} once", found=f"{twice!r} twice", example=example)

    return whole_list(rule)


def _fault(rule: Callable[[Sequence[object]], None], value: object) -> PydanticCustomError | None:
    if not isinstance(value, list | tuple):
        return None
    try:
        rule(cast("Sequence[object]", value))
    except PydanticCustomError as fault:
        return fault
    return None
