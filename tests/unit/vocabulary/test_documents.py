"""Dataclasses as config documents, in general."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace as Settings

import pytest

from ebbtide.vocabulary.documents import OMIT_DEFAULT, SETTING, Document, UnreadableConfig, dump, from_settings, load


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Night:
    lasting: timedelta = field(metadata={SETTING: "for_"})
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    name: str
    limit: int | None = None
    queues: frozenset[str] = field(metadata={SETTING: "source.queues"})
    nights: tuple[_Night, ...] = ()
    morning: _Night | None = None


HOUR = timedelta(hours=1)
POOL = Settings(
    limit=3,
    source=Settings(queues=("train", "mail")),
    nights=[Settings(for_=HOUR, workers=2)],
    morning=Settings(for_=2 * HOUR, workers=1),
)


def test_a_field_is_the_setting_with_its_name_or_the_one_that_it_names() -> None:
    assert from_settings(_Pool, POOL, name="train") == _Pool(
        name="train",
        limit=3,
        queues=frozenset({"train", "mail"}),
        nights=(_Night(lasting=HOUR, workers=2),),
        morning=_Night(lasting=2 * HOUR, workers=1),
    )


def test_what_is_calculated_is_not_copied() -> None:
    night = _Night(lasting=HOUR, workers=7)
    pool = from_settings(_Pool, POOL, name="train", limit=None, nights=[night], morning=None)

    assert (pool.limit, pool.nights, pool.morning) == (None, (night,), None)


@pytest.mark.parametrize("missing", ["limit", "nights"])
def test_a_field_without_a_setting_is_refused_though_it_has_a_default(missing: str) -> None:
    settings = Settings(**{name: value for name, value in vars(POOL).items() if name != missing})

    with pytest.raises(AttributeError, match=missing):
        from_settings(_Pool, settings, name="train")


@pytest.mark.parametrize(
    "wrong",
    [{"limit": "3"}, {"name": None}, {"queues": [1]}, {"nights": [Settings(for_=60, workers=2)]}, {"former": 1}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_value_of_another_type_and_one_without_a_field_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        from_settings(_Pool, POOL, **{"name": "train", **wrong})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queues(Document):
    queues: tuple[str, ...]


@pytest.mark.parametrize("queues", ['"train"', '["train", 1]', "null"])
def test_a_list_is_not_read_from_the_letters_of_a_text(queues: str) -> None:
    with pytest.raises(UnreadableConfig, match="malformed"):
        load(_Queues, f'{{"queues": {queues}}}')
