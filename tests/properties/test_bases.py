"""Laws of the merge, and stacks that are split into bases at random: they are the stacks that they were."""

from collections.abc import Mapping
from copy import deepcopy
from random import Random
from typing import Any, TypeGuard, cast

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.settings import StackSettings
from ebbtide.settings.file.bases import OF_ONE_STACK, merge, override
from ebbtide.settings.file.contents import FileReader, no_files
from ebbtide.settings.file.document import OURS, read_document
from ebbtide.settings.load import file_of_text, settings_of_texts, stack_of_text
from ebbtide.settings.patch import Change, exchanged, patched
from tests.builders.based import pulumi_texts
from tests.builders.generated import stack_text, text_of
from tests.counts import examples

STACK = "stacks/Pulumi.acme.yaml"
BASES = ("bases/first.yaml", "bases/second.yaml")
SPLITS = range(examples(40))

KEYS = st.sampled_from("abc")
LEAVES = st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2)


def mappings(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    inner = st.recursive(leaves, lambda below: st.dictionaries(KEYS, below, max_size=3), max_leaves=8)
    return st.dictionaries(KEYS, inner, max_size=3)


VALUES = mappings(LEAVES)
WITH_NULLS = mappings(LEAVES | st.none())


def is_mapping(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def shuffled(value: Any, random: Random) -> Any:
    if not is_mapping(value):
        return value
    entries = [(key, shuffled(inner, random)) for key, inner in value.items()]
    return dict(random.sample(entries, len(entries)))


def nulls(value: Any) -> bool:
    return value is None or (is_mapping(value) and any(map(nulls, value.values())))


@given(VALUES, WITH_NULLS)
def test_a_merge_changes_neither_side_and_leaves_no_null(below: dict[str, Any], above: dict[str, Any]) -> None:
    sides = deepcopy((below, above))

    assert not nulls(merge(below, above))
    assert (below, above) == sides


@given(VALUES, WITH_NULLS)
def test_merging_a_second_time_changes_nothing(below: dict[str, Any], above: dict[str, Any]) -> None:
    assert merge(merge(below, above), above) == merge(below, above)


@given(VALUES, WITH_NULLS, st.randoms(use_true_random=False))
def test_a_merge_depends_on_no_order_of_keys(below: dict[str, Any], above: dict[str, Any], random: Random) -> None:
    assert merge(shuffled(below, random), shuffled(above, random)) == merge(below, above)


@given(VALUES)
def test_nothing_above_or_below_changes_nothing(values: dict[str, Any]) -> None:
    assert merge(values, {}) == merge({}, values) == values


@given(VALUES, VALUES)
def test_an_override_gives_the_wanted_values(below: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert merge(below, cast("dict[str, Any]", override(below, wanted))) == wanted


class Split:
    """A stack's values at random in a stack file and two bases, of which the later ones override the former."""

    def __init__(self, config: Mapping[str, Any], random: Random) -> None:
        self._random = random
        self.layers: tuple[dict[str, Any], ...] = ({}, {}, {"ebbtide:base": list(BASES)})
        for key, value in config.items():
            shared = key.startswith(OURS) and key not in OF_ONE_STACK
            self._put((key,), value, self.layers if shared else self.layers[2:])
        self.text = text_of(self.layers[2])

    def _put(self, at: tuple[str, ...], value: Any, layers: tuple[dict[str, Any], ...]) -> None:
        if is_mapping(value) and value and self._random.random() < 0.8:
            for key, inner in value.items():
                self._put((*at, key), inner, layers)
            if len(layers) > 1 and self._random.random() < 0.2:
                self._set(layers[0], (*at, "removed-above"), {"by": "null"})
                self._set(layers[self._random.randrange(1, len(layers))], (*at, "removed-above"), None)
            return
        owner = self._random.randrange(len(layers))
        self._set(layers[owner], at, value)
        if owner and not is_mapping(value) and self._random.random() < 0.3:
            self._set(layers[self._random.randrange(owner)], at, self._random.choice(["other", 3, ["a"], {"b": 1}]))

    def _set(self, layer: dict[str, Any], at: tuple[str, ...], value: Any) -> None:
        for key in at[:-1]:
            layer = layer.setdefault(key, {})
        layer[at[-1]] = value

    def reader(self, path: str) -> bytes:
        if path not in BASES:
            raise FileNotFoundError(path)
        return text_of(self.layers[BASES.index(path)]).encode()

    def settings(self, text: str = "") -> StackSettings:
        return stack_of_text(text or self.text, stack="acme", file=STACK, reader=self.reader)

    def as_pulumi_passes(self) -> StackSettings:
        texts = pulumi_texts(self.layers[2])
        return settings_of_texts(texts, stack="acme", file=STACK, reader=self.reader)


def split_stack(seed: int) -> tuple[dict[str, Any], Split]:
    config = yaml.safe_load(stack_text(seed))["config"]
    return config, Split(config, Random(seed))


def test_a_split_stack_has_the_settings_of_the_whole_one_in_every_reader() -> None:
    for seed in SPLITS:
        config, split = split_stack(seed)
        whole = stack_of_text(text_of(config), stack="acme", file=STACK)

        assert split.settings() == whole, seed
        assert split.as_pulumi_passes() == whole, seed


def leaves(at: tuple[str | int, ...], value: Any) -> list[tuple[tuple[str | int, ...], Any]]:
    items = enumerate(cast("list[Any]", value)) if isinstance(value, list) else ()
    inner = value.items() if is_mapping(value) else items
    found = [leaf for key, item in inner for leaf in leaves((*at, key), item)]
    return found or [(at, value)]


def test_a_patch_changes_one_value_of_a_split_stack_and_no_base() -> None:
    for seed in SPLITS:
        config, split = split_stack(seed)
        random = Random(seed)
        at, before = random.choice([leaf for leaf in leaves((), config) if str(leaf[0][0]).startswith(OURS)])
        after = random.choice(["other", 7, {"a": 1}, ["b"]])

        changed = patched(split.text, STACK, [Change(at=at, before=before, after=after, reason="")], split.reader)
        back = patched(changed, STACK, [Change(at=at, before=after, after=before, reason="")], split.reader)

        assert read_document(changed, STACK).problems == []
        assert split.settings(back) == split.settings(), seed


def values_of(text: str, reader: FileReader = no_files) -> Mapping[str, object]:
    return file_of_text(text, stack="acme", file=STACK, reader=reader).merged.config


def test_a_patch_removes_an_entry_of_a_base() -> None:
    for seed in SPLITS:
        config, split = split_stack(seed)
        pools = config.get("ebbtide:workers", {})
        if len(pools) < 2:
            continue
        name, pool = Random(seed).choice(list(pools.items()))
        changes = [Change(at=("ebbtide:workers", name), before=pool, after=None, reason="")]

        changed = patched(split.text, STACK, changes, split.reader)
        rest = text_of(exchanged(config, ("ebbtide:workers", name), None))

        assert values_of(changed, split.reader) == values_of(rest), seed
