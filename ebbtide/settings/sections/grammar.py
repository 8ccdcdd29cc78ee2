"""The grammar of fields: the form of a text, and rules between the keys of one model, as values.

A rule names keys as the file has them. What needs more than a comparison is a function in a `Check`.
"""

import re
from collections.abc import Callable, Mapping
from keyword import iskeyword

from pydantic import BeforeValidator, WithJsonSchema
from pydantic.alias_generators import to_snake

from ebbtide.settings.file.not_here import not_here
from ebbtide.settings.file.problems import near_word, wanted
from ebbtide.settings.sections.checked import Check


def text(
    pattern: str, code: str, expected: str, example: str, *, hint: str = "", unless: str = ""
) -> tuple[BeforeValidator, WithJsonSchema]:
    """Accept text that matches the entire `pattern`, except for text that matches the entire `unless`, which the JSON
    Schema leaves out.
    """

    def parse(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value) or (unless and re.fullmatch(unless, value)):
            raise wanted(code, expected, example=example, hint=hint)
        return value

    return BeforeValidator(parse), text_schema(pattern)


def text_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


def choice(*values: str, planned: Mapping[str, str]) -> tuple[BeforeValidator, WithJsonSchema]:
    """Accept `values`, and explain why a `planned` one is refused: it would have no effect."""

    def parse(value: object) -> object:
        if isinstance(value, str) and value in planned:
            raise wanted("choice.planned", " or ".join(values), example=values[0], hint=planned[value])
        if not isinstance(value, str) or value not in values:
            raise wanted(
                "choice.unknown",
                " or ".join(values),
                example=values[0],
                hint=near_word(str(value), values) or not_here(str(value)),
            )
        return value

    return BeforeValidator(parse), WithJsonSchema({"type": "string", "enum": list(values)})


def only_with(key: str, other: str, *kinds: object, code: str, expected: str = "", example: str = "") -> Check:
    """Refuse `key` if `other` has none of the `kinds`; without kinds, if `other` is not given."""

    def rule(value: object, beside: object) -> None:
        if value is None or (beside in kinds if kinds else beside is not None):
            return
        words = f"no {key} with {other} {beside}" if kinds else f"{key} only with {other}"
        instead = f"{other}: {kinds[0]}" if kinds else ""
        raise wanted(code, expected or words, example=example or instead, at=key)

    check = check_of(rule, key, other)
    return check._replace(refused=check.fields[0])


def needed_with(key: str, other: str, kind: object, code: str, expected: str, example: str, *, hint: str = "") -> Check:
    """Require `key` if `other` is `kind`."""

    def rule(value: object, beside: object) -> None:
        if value is None and beside == kind:
            raise wanted(code, expected, example=example, hint=hint, at=key)

    return check_of(rule, key, other)


def not_both(first: str, second: str, code: str, expected: str, *, found: str = "both", example: str = "") -> Check:
    """Refuse `second` beside `first`."""

    def rule(one: object, other: object) -> None:
        if one is not None and other is not None:
            raise wanted(code, expected, found=found, example=example, at=second)

    return check_of(rule, first, second)


def exactly_one(*keys: str, of: str, example: str) -> Check:
    """Require one of the `keys`, which decide the kind `of` something."""

    def rule(*values: object) -> None:
        present = [key for key, value in zip(keys, values, strict=True) if value is not None]
        if len(present) != 1:
            found = " and ".join(present) or "none of them"
            raise wanted("kind.exactly-one", f"exactly one of {', '.join(keys)} for {of}", found=found, example=example)

    return check_of(rule, *keys)


def check_of(rule: Callable[..., None], *keys: str) -> Check:
    """Return a check of the keys' fields. The field of a key that is a word of Python ends with `_`."""
    return Check(tuple(f"{to_snake(key)}_" if iskeyword(key) else to_snake(key) for key in keys), rule)
