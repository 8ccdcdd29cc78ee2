"""Dataclasses as config documents, in general."""

import json
from dataclasses import dataclass, field

from ebbtide.vocabulary.documents import OMIT_DEFAULT, Document, dump, load


@dataclass(frozen=True, slots=True, kw_only=True)
class _Config(Document):
    name: str
    growth_limit: int | None = field(default=None, metadata=OMIT_DEFAULT)


def test_a_field_that_omits_its_default_is_written_only_with_another_value() -> None:
    assert json.loads(dump(_Config(name="train"))) == {"name": "train"}
    assert json.loads(dump(_Config(name="train", growth_limit=2))) == {"name": "train", "growthLimit": 2}


def test_a_field_that_was_omitted_is_read_as_its_default() -> None:
    config = _Config(name="train")

    assert load(_Config, dump(config)) == config
