"""Broken stack files from a seed: one fault each, put into a sound file, and what a message about it must name.

Two kinds. Faults of meaning change the values that a sound file holds, so they reach the program through Pulumi too.
Faults of writing change the text, and Pulumi gets as far as the program with few of them. Each fault is chosen so that
no reading of the file can be sound: a change that may leave a valid file, such as another name for a pool, is not made.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import yaml

from ebbtide.settings.file.problems import Location, path_text
from tests.builders.settings import SHORTEST
from tests.paths import STACK_FILES

CANARY = "hunter2canary"
"""Stands in every secret that is put in a wrong place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    fault: str
    base: str
    text: str | bytes
    config: Mapping[str, Any] | None = None  # what is left when a reader gets through; None for a fault of writing
    at: Location = ()  # where the fault is
    names: tuple[str, ...] = ()  # a message must hold one of these; () for a file of which nothing can be named

    def __str__(self) -> str:
        return f"{self.base}: {self.fault} at {path_text(self.at) or 'the text'}"


def bases() -> dict[str, str]:
    """Sound files, by name."""
    stacks = {name: (STACK_FILES / f"Pulumi.{name}.yaml").read_text() for name in ("demo", "example-berlin")}
    return {**stacks, "shortest": SHORTEST}


def sound_config(base: str) -> dict[str, Any]:
    """What stands below `config:` in a sound file."""
    return dict(yaml.safe_load(bases()[base])["config"])


def as_pulumi_passes(config: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Texts as they are, anything else as JSON; secrets in the clear, and the names of the keys that hold them."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    return texts, [key for key, text in texts.items() if '"secure"' in text]


def mutants(count: int, seed: int = 1) -> Iterator[Mutant]:
    """The same ones for the same seed: each base and each fault in turn, at a place by chance."""
    texts = bases()
    configs = {base: sound_config(base) for base in texts}
    turns = [(base, fault) for fault in (*MEANING, *WRITING) for base in texts]
    made = 0
    while made < count:
        for base, fault in turns:
            random = Random(f"{seed} {made} {base} {fault}")
            if fault in MEANING:
                mutant = _of_meaning(base, fault, configs[base], random)
            else:
                mutant = _of_writing(base, fault, texts[base], random)
            if mutant is not None and made < count:
                made += 1
                yield mutant


# --- faults of meaning ------------------------------------------------------------------------------------------------

_NAMES = ("ebbtide:nodeGroups", "ebbtide:workloads", "ebbtide:workers")
_FREE = ("tags",)  # their keys and values are the operator's own
_REQUIRED = {
    "ebbtide:customer", "ebbtide:businessHours", "ebbtide:workers", "timezone", "week", "source", "queues", "image",
    "max", "cpu", "memory", "longestJob", "category", "pool", "at", "for", "workers",
}  # fmt: skip
_REFERENCES = {
    "nodeGroup", "pool", "kind", "category", "country", "subdivision", "timezone", "zones", "instanceTypes", "version",
    "replicasOwner", "pricingAssumption",
}  # fmt: skip
_LOOK_ALIKES = str.maketrans("aeocpx0123456789", "аеосрх０１２３４５６７８９")  # noqa: RUF001 - the point of it

Change = Callable[[Location, Any, Random], Any]
_REMOVE = object()


def _places(value: object, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Every value below `config:` that is Ebbtide's, with its place; none below what is the operator's own."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, Mapping):
        items = list(cast("Mapping[str, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    for key, inner in items:
        if at or str(key).startswith("ebbtide:"):
            yield (*at, key), inner
            if key not in _FREE:
                yield from _places(inner, (*at, key))


def _wrong_type(at: Location, value: Any, random: Random) -> Any:
    if isinstance(value, Mapping | list):
        return random.choice((3.25, "text", True))
    return random.choice(({"a": 1}, [[1, 2]], {}))


def _unknown_key(at: Location, value: Any, random: Random) -> Any:
    if not isinstance(value, Mapping) or at[-1] in _FREE:
        return None
    return {**cast("Mapping[str, Any]", value), "surprise": random.choice((1, "text", None))}


def _misspelt_key(at: Location, value: Any, random: Random) -> Any:
    """Of a mapping whose keys are not names: one key with a letter too many."""
    if not isinstance(value, Mapping) or at[-1] in (*_NAMES, *_FREE, "expectedNodeHours") or not value:
        return None
    given = cast("Mapping[str, Any]", value)
    key = random.choice(list(given))
    place = random.randrange(len(key))
    return {(key[:place] + key[place] + key[place:] if name == key else name): it for name, it in given.items()}


def _removed_key(at: Location, value: Any, random: Random) -> Any:
    in_group = at[0] == "ebbtide:nodeGroups"
    in_morning = "morning" in at
    return (
        _REMOVE if at[-1] in _REQUIRED and not in_group and not in_morning and "expectedNodeHours" not in at else None
    )


def _swapped_interval(at: Location, value: Any, random: Random) -> Any:
    if "week" not in at or not isinstance(value, str) or "+1" in value or "," in value:
        return None
    start, end = value.split("-")
    return f"{end}-{start}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _negative(at: Location, value: Any, random: Random) -> Any:
    return -random.randint(1, 9) if _is_number(value) else None


def _huge(at: Location, value: Any, random: Random) -> Any:
    return 10 ** random.choice((12, 30, 400)) if _is_number(value) and "expectedNodeHours" not in at else None


def _wrong_unit(at: Location, value: Any, random: Random) -> Any:
    if at[-1] in ("cpu", "memory"):
        return random.choice(("4 cores", "16GB", "12x", "1e3Gi", "-4", ""))
    if at[-1] in ("longestJob", "stabilizationWindow", "closingGuard", "nodeStartup", "for"):
        return random.choice(("12", 12, "1d", "12 h", "-5m", "1h30m", "999999999h"))
    return None


def _control_character(at: Location, value: Any, random: Random) -> Any:
    if not isinstance(value, str) or not value or at[-2:-1] == ("tags",):
        return None
    place = random.randrange(len(value))
    return value[:place] + random.choice("\x00\x07\x1b\x7f\u200b\u202e\n") + value[place:]


def _look_alike(at: Location, value: Any, random: Random) -> Any:
    changed = value.translate(_LOOK_ALIKES) if isinstance(value, str) else value
    queue = "queues" in at or at[-1] == "url"  # a queue may be called anything
    return None if changed == value or queue else changed


def _deep(at: Location, value: Any, random: Random) -> Any:
    nested: Any = 1
    for _ in range(random.choice((3, 30, 90))):
        nested = [nested] if random.random() < 0.5 else {"a": nested}
    return nested


def _secret(at: Location, value: Any, random: Random) -> Any:
    return {"secure": CANARY}


def _unknown_reference(at: Location, value: Any, random: Random) -> Any:
    key = at[-2] if isinstance(at[-1], int) else at[-1]
    return (
        random.choice(("nowhere", "Nowhere/Atall", "9.99")) if key in _REFERENCES and isinstance(value, str) else None
    )


MEANING: dict[str, Change] = {
    "wrong type": _wrong_type,
    "unknown key": _unknown_key,
    "misspelt key": _misspelt_key,
    "required key removed": _removed_key,
    "swapped interval": _swapped_interval,
    "negative number": _negative,
    "huge number": _huge,
    "wrong unit": _wrong_unit,
    "control character": _control_character,
    "look-alike letters": _look_alike,
    "deep nesting": _deep,
    "secret in a wrong place": _secret,
    "unknown reference": _unknown_reference,
}


def _of_meaning(base: str, fault: str, config: Mapping[str, Any], random: Random) -> Mutant | None:
    places = list(_places(config))
    for at, value in random.sample(places, len(places)):
        changed = MEANING[fault](at, value, random)
        if changed is None or changed == value:
            continue
        broken = _changed(config, at, changed)
        names = tuple(str(part) for part in at[-2:] if not isinstance(part, int))
        return Mutant(fault=fault, base=base, text=_dumped(broken), config=broken, at=at, names=names)
    return None


def _changed(config: Mapping[str, Any], at: Location, value: Any) -> dict[str, Any]:
    broken: Any = deepcopy(config)
    owner = broken
    for part in at[:-1]:
        owner = owner[part]
    if value is _REMOVE:
        del owner[at[-1]]
    else:
        owner[at[-1]] = value
    return broken


class _Quoting(yaml.SafeDumper):
    """Quotes every text, so that the fault is the only one."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


_Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


def _dumped(config: Mapping[str, Any]) -> str:
    return str(yaml.dump({"config": config}, Dumper=_Quoting, sort_keys=False, allow_unicode=True, width=2**20))


# --- faults of writing ------------------------------------------------------------------------------------------------


def _some_line(lines: list[str], random: Random) -> int:
    """One that holds a key of Ebbtide's and its value."""
    return random.choice(
        [index for index, line in enumerate(lines) if ": " in line and not line.startswith(("#", "c"))]
    )


def _tab(text: str, random: Random) -> str:
    lines = text.splitlines()
    index = _some_line(lines, random)
    lines[index] = "\t" + lines[index].lstrip()
    return "\n".join(lines)


def _twice(text: str, random: Random) -> str:
    """A whole section again, so that it is the key alone that is wrong."""
    lines = text.splitlines()
    section = random.choice([line for line in lines if line.startswith("  ebbtide:")])
    return "\n".join([*lines, f"{section.split(': ')[0].rstrip(':')}: {{}}"])


def _anchor(text: str, random: Random) -> str:
    key = random.choice(("ebbtide:costs", "ebbtide:more"))
    return f"{text}\n  {key}: {{ tags: &a {{ x: y }}, more: *a }}\n"


def _bomb(text: str, random: Random) -> str:
    levels = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, random.randint(9, 40)))
    return f"{text.rstrip()}\n  a0: &a0 [x]\n{levels}"


def _raw_control(text: str, random: Random) -> str:
    lines = text.splitlines()
    lines[_some_line(lines, random)] += random.choice("\x00\x07\x1b\x7f\ufffe")
    return "\n".join(lines)


def _deep_text(text: str, random: Random) -> str:
    depth = random.choice((21, 60, 150, 350))  # deeper ones, which take longer, are in test_document
    opening, closing = random.choice((("[", "]"), ("{a: ", "}")))
    return f"{text.rstrip()}\n  ebbtide:surprise: {opening * depth}1{closing * depth}\n"


def _empty(text: str, random: Random) -> str:
    return random.choice(("", "\n", "# nothing\n", "---\n", "config:\n", "config: {}\n", "{}", "[]", "text", "42"))


def _binary(text: str, random: Random) -> bytes:
    return random.randbytes(random.randint(1, 400)) + b"\xff\xfe"


def _many_documents(text: str, random: Random) -> str:
    return f"{text}\n---\n{text}"


def _bare_ambiguity(text: str, random: Random) -> str:
    scalar = random.choice(("22:00", "NO", "2026-12-24", "012", "1_000", "y", "0b11", "1e3", "on"))
    return f"{text.rstrip()}\n  ebbtide:surprise: {scalar}\n"


def _tagged(text: str, random: Random) -> str:
    tag = random.choice(("!!python/object:os.system", "!!int", "!secret", "!!binary", "!!set"))
    return f"{text.rstrip()}\n  ebbtide:surprise: {tag} x\n"


def _unclosed(text: str, random: Random) -> str:
    return text.rstrip() + random.choice(
        ("\n  ebbtide:costs: { tags: ", '\n  ebbtide:costs: "', "\n  ebbtide:costs: [", "\n  : :")
    )


WRITING: dict[str, Callable[[str, Random], str | bytes]] = {
    "tab": _tab,
    "key twice": _twice,
    "anchor": _anchor,
    "bomb of aliases": _bomb,
    "raw control character": _raw_control,
    "deeply nested text": _deep_text,
    "nothing in it": _empty,
    "binary": _binary,
    "two documents": _many_documents,
    "bare scalar of two meanings": _bare_ambiguity,
    "tag": _tagged,
    "unclosed": _unclosed,
}


def _of_writing(base: str, fault: str, text: str, random: Random) -> Mutant:
    return Mutant(fault=fault, base=base, text=WRITING[fault](text, random))
