"""Damaged files from a seed: sound ones with a few changes each, of their bytes or of the values that they hold.

Unlike the mutants of `builders_mutants`, nothing is known of them: many are still sound. All that is asked of a reader
is one of two ends: it reads the file, or it says in words what is wrong.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, cast

import yaml

_TOKENS = [
    *["\x00", "\ufeff", "\x1b[2J", "\u202e", "\t", "\r", "\r\n", "\n", "---\n", "...\n", "#", '"', "'", "|", ">", "%"],
    *["[", "]", "{", "}", ",", ":", "- ", "? ", "&a ", "*a", "<<: *a\n", "!!python/object:os.system ", "!!binary "],
    *["nan", "NaN", "inf", "-Infinity", "-1", "0", "1e400", "1e-400", "5e-324", "9" * 400, "1_000", "0x1F", "1.5.2"],
    *["null", "true", "~", "2026-12-24", "22:00", "\u0661\u0662", "\u00e9", "\U0001f600", "\ud7ff", "a" * 300],
]
_MOST_BYTES = 2**20
_VALUES: list[Callable[[Random], Any]] = [
    lambda _: None,
    lambda _: True,
    lambda _: "",
    lambda _: [],
    lambda _: {},
    lambda _: -1,
    lambda _: 0,
    lambda random: random.choice((1e308, -1e308, 5e-324, 0.1, 2.5)),
    lambda random: 10 ** random.choice((3, 9, 18, 30, 300)),
    lambda random: random.choice((float("nan"), float("inf"), float("-inf"))),
    lambda random: random.choice(_TOKENS),
    lambda random: "x" * random.choice((1, 64, 5_000, 100_000)),
    lambda random: ["a"] * random.choice((1, 50, 3_000)),
    lambda random: {f"k{number}": number for number in range(random.choice((1, 50, 3_000)))},
    lambda random: _nested(random.choice((3, 19, 30, 200))),
    lambda random: random.choice(("0001-01-01", "9999-12-31", "1900-02-29", "2026-11-22T00:00:00+14:00")),
]


def damaged(sound: bytes, random: Random, values: Callable[[bytes], Any] | None, dump: Callable[[Any], str]) -> bytes:
    """One to four changes. `values` reads the file's values, so that they can be changed too; None: it has none."""
    data = sound
    if values is not None and random.random() < 0.5:
        root = values(data)
        for _ in range(random.randint(1, 3)):
            root = _other_value(root, random)
        data = dump(root).encode("utf-8", "surrogatepass")
        if random.random() < 0.7:
            return data
    for _ in range(random.randint(1, 4)):
        data = random.choice(_OF_BYTES)(data, random)
    return data


def as_yaml(value: Any) -> str:
    return str(yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True))


def as_json(value: Any) -> str:
    return json.dumps(value)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# --- values -----------------------------------------------------------------------------------------------------------


def _other_value(root: Any, random: Random) -> Any:
    """A value replaced, removed, doubled or exchanged with another, or a key with another name."""
    places = list(_places(root, ()))
    if not places:
        return random.choice(_VALUES)(random)
    at = random.choice(places)
    owner = _at(root, at[:-1])
    what = random.randrange(6)
    if what <= 2:
        owner[at[-1]] = random.choice(_VALUES)(random)
    elif what == 3:
        del owner[at[-1]]
    elif what == 4:
        owner[at[-1]] = _at(root, random.choice(places))
        return json.loads(as_json(root)) if _is_plain(root) else {}
    elif isinstance(owner, dict):
        cast("dict[Any, Any]", owner)[random.choice((str(at[-1]) + "x", "x" * 300, "", "ebbtide:x", "0"))] = owner[
            at[-1]
        ]
    else:
        times = random.choice((1, 30, 3_000))
        room = _MOST_BYTES // (1 + len(as_json(owner[at[-1]])))  # else three such changes would not fit any memory
        cast("list[Any]", owner).extend([owner[at[-1]]] * min(times, room))
    return root


def _is_plain(root: Any) -> bool:
    """Whether it can be written: one that was put into itself cannot."""
    try:
        json.dumps(root)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _places(value: Any, at: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if len(at) > 12:
        return
    items: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        items = list(cast("Mapping[Any, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))[:50]
    for key, inner in items:
        yield (*at, key)
        yield from _places(inner, (*at, key))


def _at(root: Any, at: tuple[Any, ...]) -> Any:
    for part in at:
        root = root[part]
    return root


# --- bytes ------------------------------------------------------------------------------------------------------------


def _slice(data: bytes, random: Random, most: int = 60) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.randint(1, most))


def _times(piece: bytes, times: int) -> bytes:
    return piece * min(times, _MOST_BYTES // (1 + len(piece)))


def _other_byte(data: bytes, random: Random) -> bytes:
    start, _ = _slice(data, random)
    return data[:start] + random.randbytes(1) + data[start + 1 :]


def _without(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:start] + data[end:]


def _cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _repeated(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random)
    return data[:start] + _times(data[start:end], random.choice((2, 20, 2_000, 20_000))) + data[end:]


def _with_token(data: bytes, random: Random) -> bytes:
    start, _ = _slice(data, random)
    times = random.choice((1, 1, 1, 2, 30, 20_000))
    return data[:start] + _times(random.choice(_TOKENS).encode(), times) + data[start:]


def _other_token(data: bytes, random: Random) -> bytes:
    start, end = _slice(data, random, 8)
    return data[:start] + random.choice(_TOKENS).encode() + data[end:]


def _other_lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _line_again(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    again = _times(lines[at] + b"\n", random.choice((2, 20, 5_000)))
    return b"\n".join([*lines[:at], again + lines[at], *lines[at + 1 :]])


def _encoded(data: bytes, random: Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return random.choice((text.encode("utf-16"), text.encode("utf-8-sig"), text.replace("\n", "\r\n").encode(), b""))


_OF_BYTES: list[Callable[[bytes, Random], bytes]] = [
    *[_other_byte, _without, _cut, _repeated, _with_token, _with_token, _other_token, _other_token],
    *[_other_lines, _line_again, _encoded],
]
