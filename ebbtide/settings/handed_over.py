"""A stack's config as Pulumi hands it over: every value is a text, and objects and lists are JSON.

Text stays text, even where it could be a number: a version is written "1.35".
"""

import json
from collections.abc import Mapping
from typing import Any

from ebbtide.settings.document import OURS, REGION
from ebbtide.settings.load import parse_stack
from ebbtide.settings.model import StackSettings


def settings_of_texts(texts: Mapping[str, object], *, stack: str, file: str) -> StackSettings:
    """Only our keys and the region count: what else is there says how to reach the cloud, not what to build.

    Raises `StackInvalid`; `file` is what messages call the place that the texts are from.
    """
    ours = {key: value_of(text) for key, text in texts.items() if key.startswith(OURS)}
    region = {REGION: texts[REGION]} if REGION in texts else {}
    return parse_stack({**ours, **region}, stack=stack, file=file)


def value_of(text: object) -> Any:
    if not isinstance(text, str) or not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # a text of brackets alone ends in the second
        return text
