"""Merge a stack file with its bases: `ebbtide:base: bases/production.yaml`, or a list of files.

A base has the form of a stack file, and may have bases itself. Bases come first, in the order of the list, each after
its own bases; the stack file comes last. Mappings merge, other values replace, and null removes. A base that several
files name counts once, at its first place, so that it never overrides a file that builds on it.

Pulumi passes the `config:` of its project file as if the keys were in the stack file, and never merges within a key.
Bases are read through the reader of `files:`, so the rules for their paths are the same.

Trap: Pulumi passes a null at the top level as empty text, and sorts the keys of mappings.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple, TypeGuard, cast

from ebbtide.settings.file.contents import PROJECT, FileReader, text_of
from ebbtide.settings.file.document import (
    MOST_BYTES,
    OURS,
    Lines,
    StackDocument,
    nearest_line,
    project_document,
    read_document,
)
from ebbtide.settings.file.keys import BASE, CUSTOMER, DIGEST_KEY, EXCEPTIONS, KEYS, REDIS_PASSWORD, SECRETS
from ebbtide.settings.file.problems import (
    Finding,
    Location,
    Problem,
    did_you_mean,
    path_text,
    secrets_in,
    show,
    value_at,
)

MOST_LEVELS = 5
"""Maximum levels of bases below a stack file."""

OF_ONE_STACK = (CUSTOMER, SECRETS, DIGEST_KEY, REDIS_PASSWORD, EXCEPTIONS)
"""Keys that a base must not have."""

_EXAMPLE = "bases/production.yaml"


class ValueSource(NamedTuple):
    """File and line of a value."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Values of one file."""

    file: str  # its name in messages
    config: Mapping[str, object]
    lines: Lines

    def source(self, at: Location) -> ValueSource:
        return ValueSource(self.file, nearest_line(self.lines, at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The values of a stack from its file, its bases and the project."""

    config: Mapping[str, object]
    layers: Sequence[Layer]  # by precedence; the last one is the stack file
    below: Mapping[str, object]  # the values of the bases only
    project: Mapping[str, object]  # the keys that the project sets and the stack file does not
    problems: Sequence[Problem]
    complete: bool  # False if keys may be missing, since a file cannot be read

    @property
    def stack(self) -> Layer:
        return self.layers[-1]

    def owner(self, at: Location) -> Layer:
        """Return the file that an existing value comes from."""
        owners = (layer for layer in reversed(self.layers) if value_at(layer.config, at) is not None)
        return next(owners, self.stack)

    def source(self, at: Location) -> ValueSource:
        """Return the file and line of an existing value."""
        return self.owner(at).source(at)

    @property
    def _start(self) -> int | None:
        """Return the line for a section that the stack file lacks: the line of its bases, or of its first value."""
        lines = self.stack.lines
        return lines.get((BASE,), min(lines.values(), default=None))

    def problem(self, finding: Finding) -> Problem:
        """Return the finding with the file and line of its value. A missing key is reported in the stack file."""
        at, hint = finding.at, finding.hint
        ends = (end for end in range(len(at), 0, -1) if value_at(self.config, at[:end]) is not None)
        existing = at[: next(ends, 0)]
        owner = self.owner(existing)
        missing = existing != at and isinstance(value_at(self.config, existing), Mapping)
        if missing and existing and owner is not self.stack:
            hint = "; ".join(filter(None, (hint, f"{path_text(existing)} is in {owner.source(existing)}")))
        file, line = (self.stack if missing else owner).source(at)
        return Problem(
            code=finding.code,
            file=file,
            line=self._start if line is None and missing else line,
            path=path_text(at),
            found=finding.found,
            wanted=finding.wanted,
            example=finding.example,
            hint=hint,
        )


def merged(document: StackDocument, file: str, reader: FileReader, *, passed_by_pulumi: bool = False) -> Merged:
    """Return the values of a stack file with the values of the project and of the bases. Values that Pulumi passes
    already include those of the project.
    """
    project = _project(file, reader)
    own = Layer(file=file, config=document.config, lines=document.lines)
    known: dict[str, object] = {}
    problems = list(document.problems)
    if not passed_by_pulumi:
        problems += project.problems
        known = {key: value for key, value in project.config.items() if key not in own.config}
    shared = Layer(file=_named(file, PROJECT), config=project.config, lines=project.lines)
    top = {**known, **own.config}
    if BASE not in top:
        return Merged(
            config=top,
            layers=(*([replace(shared, config=known)] if known else []), own),
            below={},
            project=known,
            problems=problems,
            complete=bool(top) or not problems,
        )
    bases = _Bases(file, reader)
    bases.add(top[BASE], own if BASE in own.config else shared, ())
    below: dict[str, object] = {}
    for base in bases.layers.values():
        below = merge(below, base.config)
        problems += _in_both(base, shared)
    below.pop(BASE, None)
    problems += bases.problems
    if bases.complete:
        problems += _removing_nothing(own, below)
    config = merge(below, _with_nulls(top))
    config.pop(BASE, None)
    layers = (*bases.layers.values(), replace(shared, config=known), own)
    return Merged(config=config, layers=layers, below=below, project=known, problems=problems, complete=bases.complete)


def merge(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Merge without changing either: mappings merge, other values of `above` replace, and None removes."""
    values = dict(below)
    for key, value in above.items():
        if value is None:
            values.pop(key, None)
        elif is_mapping(value):
            values[key] = merge(_entries(values.get(key)), value)
        else:
            values[key] = value
    return values


def override(below: object, wanted: object) -> object:
    """Return the value that results in `wanted` when merged above `below`."""
    if not is_mapping(below) or not is_mapping(wanted):
        return wanted
    removed = dict.fromkeys(key for key in below if key not in wanted)
    return {**{key: override(below.get(key), value) for key, value in wanted.items()}, **removed}


class _Bases:
    """Reads bases and collects them by path, in the order in which they are merged."""

    def __init__(self, stack_file: str, reader: FileReader) -> None:
        self._stack_file = stack_file
        self._reader = reader
        self.layers: dict[str, Layer] = {}
        self.problems: list[Problem] = []
        self.complete = True

    def add(self, value: object, named_by: Layer, chain: tuple[str, ...]) -> None:
        """Add the bases that a file names. `chain` has the bases that lead to the file, and the file itself."""
        paths = cast("list[object]", value) if isinstance(value, list) else [value]
        for index, path in enumerate(paths):
            at: Location = (BASE, index) if isinstance(value, list) else (BASE,)
            if not isinstance(path, str) or not path:
                wanted = "the path of a base, or a list of paths"
                self._refuse(named_by, "base.form", at, wanted, show(path or None), example=_EXAMPLE)
            else:
                self._add(str(PurePosixPath(path)), named_by, at, chain)

    def _add(self, path: str, named_by: Layer, at: Location, chain: tuple[str, ...]) -> None:
        if path in chain:
            circle = " → ".join((*chain[chain.index(path) :], path))
            self._refuse(named_by, "base.cycle", at, "a base that does not build on itself", circle)
            return
        if path in self.layers:
            return
        if len(chain) == MOST_LEVELS:
            self._refuse(named_by, "base.levels", at, f"at most {MOST_LEVELS} levels of bases", "one more")
            return
        text = text_of(self._reader, path, MOST_BYTES)
        if not isinstance(text, str):
            fault = text.finding(at, path, _EXAMPLE)
            self._refuse(named_by, fault.code, at, fault.wanted, fault.found, example=fault.example)
            return
        file = _named(self._stack_file, path)
        document = _base_document(text, file)
        self.problems += document.problems
        self.complete = self.complete and (bool(document.config) or not document.problems)
        refused = list(_refused(document, file))
        self.problems += refused
        refused_keys = {problem.path for problem in refused}
        config = {key: value for key, value in document.config.items() if path_text((key,)) not in refused_keys}
        layer = Layer(file=file, config=config, lines=document.lines)
        if BASE in config:
            self.add(config[BASE], layer, (*chain, path))
        self.layers[path] = layer

    def _refuse(self, layer: Layer, code: str, at: Location, wanted: str, found: str, *, example: str = "") -> None:
        self.complete = False
        self.problems.append(_problem(layer, code, at, wanted=wanted, found=found, example=example))


def _refused(document: StackDocument, file: str) -> Iterator[Problem]:
    """Yield a problem for each key that a base must not have, and for each encrypted value."""
    layer = Layer(file=file, config=document.config, lines=document.lines)
    for key, value in document.config.items():
        if key in OF_ONE_STACK or (":" in key and not key.startswith(OURS)):
            wanted = "an ebbtide: key that several customers can share"
            hint = "write it in the stack file"
            yield _problem(layer, "base.key", (key,), wanted=wanted, found="a key of one stack", hint=hint)
            continue
        for at, _ in secrets_in(value, (key,)):
            found, hint = "an encrypted value, which only one stack can decrypt", "write it in the stack file"
            yield _problem(layer, "base.secret", at, wanted="values in the clear", found=found, hint=hint)


def _in_both(base: Layer, project: Layer) -> Iterator[Problem]:
    """Yield a problem for each key of the base that the project sets too."""
    for key in base.config:
        if key in project.config and key != BASE:
            source = project.source((key,))
            wanted = f"a key that {source.file} does not set"
            hint = "Pulumi would replace the base's whole key; keep one of the two"
            yield _problem(base, "base.in-project", (key,), wanted=wanted, found=f"the key in {source}", hint=hint)


def _removing_nothing(stack: Layer, below: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a problem for each null that removes nothing, since its key may be misspelt."""
    for at in _nulls((), _with_nulls(stack.config)):
        if value_at(below, at) is None and at[0] != BASE:
            near = did_you_mean(str(at[-1]), list(_entries(value_at(below, at[:-1]))))
            wanted, found = "a key that a base has, to remove it by null", "no such key in the bases"
            yield _problem(stack, "base.nothing-to-remove", at, wanted=wanted, found=found, hint=near)


def _nulls(at: Location, value: Mapping[str, object]) -> Iterator[Location]:
    for key, inner in value.items():
        if inner is None:
            yield (*at, key)
        yield from _nulls((*at, key), _entries(inner))


def _with_nulls(config: Mapping[str, object]) -> dict[str, object]:
    """Return the config with None for empty texts of known keys. An unknown key keeps a text, so that it is refused."""
    return {
        key: (None if key in KEYS else "") if value is None or value == "" else value for key, value in config.items()
    }


def _project(file: str, reader: FileReader) -> StackDocument:
    try:
        text = reader(PROJECT).decode("utf-8")
    except (OSError, UnicodeDecodeError):  # no project; Pulumi itself refuses a file that cannot be read
        return StackDocument()
    return _project_document(text, _named(file, PROJECT))


@lru_cache(maxsize=8)
def _project_document(text: str, file: str) -> StackDocument:
    """Cached, since all stacks have the same project file."""
    return project_document(text, file)


@lru_cache(maxsize=32)
def _base_document(text: str, file: str) -> StackDocument:
    """Cached, since many stacks have the same bases."""
    return read_document(text, file, ())


def _named(stack_file: str, path: str) -> str:
    """Return the name that messages have for a file; `path` starts in the stack file's folder."""
    folder = PurePosixPath(stack_file).parent
    return str(folder.parent / PurePosixPath(path).name if path == PROJECT else folder / path)


def _problem(
    layer: Layer, code: str, at: Location, *, wanted: str, found: str, example: str = "", hint: str = ""
) -> Problem:
    file, line = layer.source(at)
    path = path_text(at)
    return Problem(code=code, file=file, line=line, path=path, found=found, wanted=wanted, example=example, hint=hint)


def is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _entries(value: object) -> Mapping[str, object]:
    """Return a mapping; any other value has no entries."""
    return value if is_mapping(value) else {}
