"""Translate pydantic's errors into findings: expected value, actual value, example, hint."""

from collections.abc import Mapping
from typing import Any, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from ebbtide.settings.file.keys import KEYS
from ebbtide.settings.file.not_here import in_kubernetes, not_here
from ebbtide.settings.file.problems import WANTED, Finding, Location, did_you_mean, show, value_at
from ebbtide.settings.sections.checked import Settings

_PLAIN_TYPES = {
    "string_type": ("type.text", "text"),
    "int_type": ("type.whole-number", "a whole number"),
    "int_from_float": ("type.whole-number", "a whole number"),
    "float_type": ("type.number", "a number"),
    "finite_number": ("type.finite-number", "a finite number"),
    "bool_type": ("type.boolean", "true or false"),
    "dict_type": ("type.mapping", "a mapping"),
    "model_type": ("type.mapping", "a mapping"),
    "tuple_type": ("type.list", "a list"),
    "too_short": ("list.empty", "at least one entry"),
}
"""Code and expected value by pydantic's error type."""


def findings_of(error: ValidationError, model: type[BaseModel], raw: object, at: Location) -> list[Finding]:
    """Return all faults that pydantic found in `raw`, which is at `at` in the file, for `model`."""
    all_details = [single for details in error.errors(include_url=False) for single in _apart(details)]
    return [_finding(details, model, raw, at) for details in all_details if not _is_consequence(details)]


def _is_consequence(details: ErrorDetails) -> bool:
    """True for errors that follow from another fault: a list without valid entries, a default from a bad field."""
    return details["type"] == "default_factory_not_called" or (
        details["type"] == "too_short" and bool(details["input"])
    )


def _apart(details: ErrorDetails) -> list[ErrorDetails]:
    """Return one record per fault of a validator that reported several."""
    also = cast("list[dict[str, Any]]", details.get("ctx", {}).get("also", []))
    apart = [details]
    for context in also:
        another = details.copy()
        another["ctx"] = context
        apart.append(another)
    return apart


def _finding(details: ErrorDetails, model: type[BaseModel], raw: object, at: Location) -> Finding:
    context = cast("Mapping[str, Any]", details.get("ctx", {}))
    inner: Location = tuple(part for part in details["loc"] if part != "[key]")
    if details["type"] == WANTED and context["at"]:
        inner = (*inner, *context["at"])
    value = value_at(raw, inner)
    field = _field_at(model, inner)
    example = " or ".join(str(example) for example in (field.examples or ())) if field else ""
    if details["type"] == WANTED:
        return Finding(
            code=context["code"],
            at=at + inner,
            wanted=context["wanted"],
            found=context["found"] or show(value),
            example=context["example"] or example,
            hint=context["hint"],
        )
    if details["type"] == "missing":
        expected = f"this key ({field.description})" if field and field.description else "this key"
        return Finding(code="key.missing", at=at + inner, wanted=expected, found="nothing", example=example)
    if details["type"] == "extra_forbidden":
        return _unknown_key(model, inner, at)
    code, expected = _code_and_wanted(details, context)
    hint = _hint(details, value)
    return Finding(code=code, at=at + inner, wanted=expected, found=show(value), example=example, hint=hint)


def _unknown_key(model: type[BaseModel], inner: Location, at: Location) -> Finding:
    """The value is not shown: the value of a mistyped key may be a password."""
    key = str(inner[-1])
    owner = _model_at(model, inner[:-1])
    keys = [] if owner is None else [field.alias or name for name, field in owner.model_fields.items()]
    instead = owner.instead_of if owner is not None and issubclass(owner, Settings) else {}
    hint = instead.get(key) or in_kubernetes(key, keys) or not_here(key) or did_you_mean(key, keys)
    if key in KEYS:
        hint = "sections are directly below config:, so indent it, and all lines that belong to it, less"
    return Finding(
        code="key.elsewhere" if key in instead else "key.unknown",
        at=at + inner,
        wanted="a known key",
        found=f"the key {key!r}",
        hint=hint,
    )


def _code_and_wanted(details: ErrorDetails, context: Mapping[str, Any]) -> tuple[str, str]:
    match details["type"]:
        case "greater_than_equal":
            return "number.too-small", f"a number of at least {context['ge']}"
        case "greater_than":
            return "number.too-small", f"a number above {context['gt']:g}"
        case "less_than_equal":
            return "number.too-large", f"a number of at most {context['le']}"
        case "enum":
            return "choice.unknown", f"one of {str(context['expected']).replace(' or ', ', ')}"
        case "string_pattern_mismatch":
            return "text.form", f"text of the form {context['pattern']}"
        case other:
            return _PLAIN_TYPES.get(other, ("value.refused", details["msg"]))


def _hint(details: ErrorDetails, value: object) -> str:
    if value is None and _PLAIN_TYPES.get(details["type"], ("", ""))[0] == "type.mapping":
        return "indent the lines that belong to it further"
    if details["type"] == "string_type" and isinstance(value, bool | int | float):
        return "quote it"
    if details["type"] == "int_type" and isinstance(value, str) and value.isdecimal():
        return "write it without quotes"
    if details["type"] == "enum":
        expected = str(cast("Mapping[str, Any]", details.get("ctx", {}))["expected"])
        words = expected.replace("'", "").replace(" or ", ", ").split(", ")
        hint = did_you_mean(str(value), words)
        return hint if hint.startswith("did") else not_here(str(value))
    return ""


def _field_at(model: type[BaseModel], inner: Location) -> FieldInfo | None:
    """Return the field of a location, through lists and mappings; None for the model itself."""
    field: FieldInfo | None = None
    owner: type[BaseModel] | None = model
    is_name = False  # of an entry in a mapping of models
    for part in inner:
        if owner is None or not isinstance(part, str):
            continue
        if is_name:
            is_name = False
            continue
        field = next((f for name, f in owner.model_fields.items() if (f.alias or name) == part), None)
        if field is None:
            return None
        owner = _model_inside(field.annotation)
        is_name = _holds_mapping(field.annotation)
    return field


def _holds_mapping(annotation: object) -> bool:
    """True for `dict[…]`, also as part of a union."""
    return get_origin(annotation) is dict or any(get_origin(inner) is dict for inner in get_args(annotation))


def _model_at(model: type[BaseModel], inner: Location) -> type[BaseModel] | None:
    if not inner:
        return model
    field = _field_at(model, inner)
    return None if field is None else _model_inside(field.annotation)


def _model_inside(annotation: object) -> type[BaseModel] | None:
    """Return the model in `Model`, `tuple[Model, ...]` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_inside(inner)) is not None), None)
