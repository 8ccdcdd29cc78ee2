"""Parse a stack file into plain values with their lines. Only text that every YAML reader reads the same way is
accepted.

Refused, each with its line: scalars that depend on the version of YAML, repeated keys, anchors and merge keys, tags.
Possible secrets are not read: `secure:` values become `Secret`, and other namespaces are skipped.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from ebbtide.settings.file.problems import SECRET, Location, Problem, encrypted_secret, path_text, shortened
from ebbtide.settings.file.scalars import TEXT_TAG, differs, old_tag, read_1_2
from ebbtide.text.counts import number_of

OURS = "ebbtide:"
"""Namespace of Ebbtide's settings. Keys of other namespaces belong to Pulumi and its providers."""

REGION = "aws:region"
"""The only value of another namespace that is read. Messages do not show it."""

FOREIGN = ("aws:", "pulumi:")
"""Namespaces whose plain values are skipped; others may only hold secrets."""

PULUMI_KEYS = ("encryptionsalt", "encryptedkey", "secretsprovider")
"""Top-level keys besides `config` that `pulumi` writes."""

_ENVIRONMENT = (
    "an environment of Pulumi ESC is read from Pulumi's service, so check and preview would not see its values; write "
    "them here, or in a file that ebbtide:base names"
)

_CONFIG_ABOVE = "the first line of settings is config:, and all settings are indented below it"
_BELOW_CONFIG = "indent it, and all lines that belong to it, as the keys below config:"

MOST_BYTES = 2 * 2**20
"""Largest stack file. Its certificates may take half of it; 500 pools and as many services take a tenth."""

DEEPEST = 20
"""Maximum levels of nesting; a valid file has seven. More would reach Python's recursion limit."""

MOST_VALUES = 50_000
"""Maximum keys and values, a few seconds' work; 500 pools and as many services have 30,000."""

Lines: TypeAlias = Mapping[Location, int]


@dataclass(kw_only=True)
class StackDocument:
    """The parsed values and the problems. Values are str, int, float, bool, None, list, dict and `Secret`."""

    config: dict[str, object] = field(default_factory=dict[str, object])
    lines: dict[Location, int] = field(default_factory=dict[Location, int])
    problems: list[Problem] = field(default_factory=list[Problem])


def read_document(text: str, file: str, beside_config: Sequence[str] = PULUMI_KEYS) -> StackDocument:
    """Parse a stack file's text. Never raises for any text: all faults are in `problems`. `beside_config` are the
    further top-level keys that the file may have.
    """
    root = _root(text, file)
    return root if isinstance(root, StackDocument) else _Reader(file, beside_config).read(root)


def project_document(text: str, file: str) -> StackDocument:
    """Return the `config:` of Pulumi's project file as Pulumi passes it to a stack that does not have the keys.

    A key without a namespace is in the project's. A mapping describes its key; the key's value is the `default` or the
    `value`. Source: pulumi/pulumi, pkg/workspace/config.go and sdk/go/common/workspace/project.go.
    """
    if re.search(r"^[\"']?config\b", text, re.MULTILINE) is None:
        return StackDocument()
    root = _root(text, file)
    if isinstance(root, StackDocument):
        return root
    nodes = dict(_text_pairs(root))
    name, config = nodes.get("name"), nodes.get("config")
    if not isinstance(config, yaml.MappingNode):  # formerly the folder of the stack files
        return StackDocument()
    described_keys = cast("list[tuple[yaml.Node, yaml.Node]]", config.value)
    config.value = [
        (_with_namespace(key, str(name.value) if isinstance(name, yaml.ScalarNode) else ""), value)
        for key, described in described_keys
        if (value := _described_value(described)) is not None
    ]
    document = _Reader(file, tuple(nodes)).read(root)
    document.problems += [
        Problem(
            code="file.form",
            file=file,
            line=described.start_mark.line + 1,
            path=str(key.value),
            found=f"the key {shortened(unknown)!r}",
            wanted="a value, or a mapping with its value",
            example="{ value: { registry: mirror.example.com } }",
        )
        for key, described in described_keys
        for unknown, _ in _text_pairs(described)
        if unknown not in _DESCRIPTION
    ]
    return document


_DESCRIPTION = ("type", "items", "description", "default", "value", "secret")
"""Keys of a mapping that describes a key of the project's configuration; Pulumi refuses others."""


def _with_namespace(key: yaml.Node, project: str) -> yaml.Node:
    if isinstance(key, yaml.ScalarNode) and ":" not in key.value:
        key.value = f"{project}:{key.value}"
    return key


def _described_value(node: yaml.Node) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return node
    described = dict(_text_pairs(node))
    return described.get("default", described.get("value"))


def _text_pairs(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
        yield from ((str(key.value), value) for key, value in pairs if isinstance(key, yaml.ScalarNode))


def _root(text: str, file: str) -> yaml.Node | StackDocument | None:
    """Return the text's root node, or a document with the problem that prevents it."""
    try:
        events: list[yaml.Event] = []
        odd = next(_odd_nodes(_collected(text, events), file), None)
        return StackDocument(problems=[odd]) if odd else _Composer(events).get_single_node()
    except yaml.reader.ReaderError as error:
        return StackDocument(problems=[_unprintable(error, text, file)])
    except yaml.YAMLError as error:
        return StackDocument(problems=[_unreadable(error, text, file)])


def nearest_line(lines: Lines, at: Location) -> int | None:
    """Return the line of the deepest existing part of a location: a missing key has its parent's line."""
    known_lines = (lines[at[:end]] for end in range(len(at), 0, -1) if at[:end] in lines)
    return next(known_lines, None)


def encrypted_values(text: str) -> dict[Location, str]:
    """Return the encrypted text of each `secure:` value of a valid file."""
    reader = _Reader("", PULUMI_KEYS)
    reader.read(cast("yaml.Node | None", yaml.compose(text, Loader=yaml.SafeLoader)))
    return reader.encrypted


class _Reader:
    """Walks the nodes once, collecting values, lines and problems."""

    def __init__(self, file: str, beside_config: Sequence[str]) -> None:
        self._file = file
        self._top_level = ("config", *beside_config)
        self._read = StackDocument()
        self.encrypted: dict[Location, str] = {}

    def read(self, root: yaml.Node | None) -> StackDocument:
        if not isinstance(root, yaml.MappingNode):
            self._problem(
                "file.form", (), root, wanted="a mapping with config:", found="something else" if root else "nothing"
            )
            return self._read
        config: yaml.Node | None = None
        settings_beside = False
        for key, node in self._entries(root, ()):
            if key == "config":
                config = node
            elif key not in self._top_level:
                settings_beside |= ":" in key
                self._problem(
                    "key.unknown",
                    (key,),
                    node,
                    wanted="a known key",
                    found=f"the key {shortened(key)!r}",
                    hint=self._hint_beside_config(key),
                )
        if not isinstance(config, yaml.MappingNode):
            actual = "nothing" if config is None else "something else"
            hint = _CONFIG_ABOVE if settings_beside else ""
            node = config or root
            self._problem("file.form", ("config",), node, wanted="a mapping of settings", found=actual, hint=hint)
            return self._read
        for key, node in self._entries(config, ()):
            self._read.lines[(key,)] = node.start_mark.line + 1
            if key == REGION and isinstance(node, yaml.ScalarNode):
                self._read.config[key] = str(node.value)
            else:
                ours = key.startswith(OURS) or ":" not in key
                self._read.config[key] = self._value(node, (key,)) if ours else _passed_by(key, node)
        return self._read

    def _hint_beside_config(self, key: str) -> str:
        if key == "environment":
            return _ENVIRONMENT
        return _BELOW_CONFIG if ":" in key else f"known here: {', '.join(self._top_level)}"

    def _value(self, node: yaml.Node, at: Location) -> object:
        self._read.lines.setdefault(at, node.start_mark.line + 1)
        if (secure := _secure_text(node)) is not None:
            self.encrypted[at] = secure
            return encrypted_secret(secure)
        if isinstance(node, yaml.MappingNode):
            return {key: self._value(inner, (*at, key)) for key, inner in self._entries(node, at)}
        if isinstance(node, yaml.SequenceNode):
            inner_nodes = cast("list[yaml.Node]", node.value)
            return [self._value(inner, (*at, index)) for index, inner in enumerate(inner_nodes)]
        return self._scalar(cast("yaml.ScalarNode", node), at)

    def _scalar(self, node: yaml.ScalarNode, at: Location) -> object:
        text = str(node.value)
        if node.style is not None or (node.tag == TEXT_TAG and old_tag(text) != TEXT_TAG):
            return text  # quoted, or tagged as text
        if node.tag != old_tag(text):
            self._problem("yaml.tag", at, node, wanted="a plain value", found="a tag", hint="remove the tag")
        elif differs(text):
            actual = f"{shortened(text)} without quotes, which YAML 1.1 and 1.2 read differently"
            self._problem(
                "yaml.ambiguous",
                at,
                node,
                wanted="a value with one meaning",
                found=actual,
                hint=f'quote it: "{shortened(text)}"',
            )
        return read_1_2(text)

    def _entries(self, mapping: yaml.MappingNode, at: Location) -> Iterator[tuple[str, yaml.Node]]:
        """Yield each key once, as text, with its value; report repeated and unreadable keys."""
        first_line: dict[str, int] = {}
        for key_node, value in cast("list[tuple[yaml.Node, yaml.Node]]", mapping.value):
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem("yaml.key", at, key_node, wanted="text as a key", found="a collection")
                continue
            key, line = str(key_node.value), key_node.start_mark.line + 1
            self._read.lines[(*at, key)] = line
            if key in first_line:
                actual = f"the key a second time, first in line {first_line[key]}"
                self._problem("key.twice", (*at, key), key_node, wanted="each key once", found=actual)
                continue
            first_line[key] = line
            no_text = read_1_2(key) is None or isinstance(read_1_2(key), float)
            if key_node.style is None and (no_text or differs(key)):
                why = "YAML does not read as text" if no_text else "YAML 1.1 and 1.2 read differently"
                actual = f"the key {shortened(key)} without quotes, which {why}"
                expected, hint = "a key with one meaning", f'quote it: "{shortened(key)}"'
                self._problem("yaml.ambiguous", (*at, key), key_node, wanted=expected, found=actual, hint=hint)
            yield key, value

    def _problem(
        self, code: str, at: Location, node: yaml.Node | None, *, wanted: str, found: str, hint: str = ""
    ) -> None:
        line = None if node is None else node.start_mark.line + 1
        self._read.problems.append(
            Problem(code=code, file=self._file, line=line, path=path_text(at), found=found, wanted=wanted, hint=hint)
        )


def _passed_by(key: str, node: yaml.Node) -> object:
    """Return a placeholder for a value of another namespace: a secret, or empty text for a plain value."""
    secure = _secure_text(node)
    if secure is not None:
        return encrypted_secret(secure)
    return SECRET if key.startswith(FOREIGN) else ""


def _secure_text(node: yaml.Node) -> str | None:
    """Return the text of a `secure:` value; None for any other node."""
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value) if isinstance(node, yaml.MappingNode) else []
    return str(pairs[0][1].value) if [key.value for key, _ in pairs] == ["secure"] else None


def _collected(text: str, events: list[yaml.Event]) -> Iterator[yaml.Event]:
    """Yield the events of a text and collect them, since parsing a second time takes as long again."""
    for event in cast("Iterator[yaml.Event]", yaml.parse(text, Loader=yaml.SafeLoader)):
        events.append(event)
        yield event


class _Composer(Composer, Resolver):
    """Builds nodes from collected events."""

    def __init__(self, events: Sequence[yaml.Event]) -> None:
        Composer.__init__(self)
        Resolver.__init__(self)
        self._events = deque(events)

    def check_event(self, *choices: type[yaml.Event]) -> bool:
        return bool(self._events) and isinstance(self._events[0], choices)

    def peek_event(self) -> yaml.Event:
        return self._events[0]

    def get_event(self) -> yaml.Event:
        return self._events.popleft()


def _odd_nodes(events: Iterable[yaml.Event], file: str) -> Iterator[Problem]:
    """Yield problems that must be found before nodes are built.

    Anchors and aliases: Pulumi would resolve them, and people who read the file would have to. Too many levels:
    building nodes is recursive.
    """
    path = _Path()
    for count, event in enumerate(events):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            expected, hint = "every value written out", "write the value where it is used"
            actual = "an anchor, an alias or a merge"
            yield Problem(
                code="yaml.anchor", file=file, line=line, path=path.path(), found=actual, wanted=expected, hint=hint
            )
        if count > MOST_VALUES:
            expected = f"at most {MOST_VALUES} keys and values"
            yield Problem(
                code="file.too-many-values", file=file, line=line, path=path.path(), found="more", wanted=expected
            )
        path.take(event)
        if path.depth > DEEPEST:
            actual = "a text nested too deeply"
            yield Problem(
                code="file.too-deep",
                file=file,
                line=line,
                path=path.path(),
                found=actual,
                wanted=f"at most {DEEPEST} levels",
            )


class _Path:
    """The keys above the current node, from parser events only."""

    def __init__(self) -> None:
        self._keys: list[str | None] = []  # the key being read in each open collection; None between two, "" in lists
        self._is_mapping: list[bool] = []

    @property
    def depth(self) -> int:
        return len(self._keys)

    def path(self) -> str:
        """Return the first keys below `config:`; the line leads to deeper ones."""
        return path_text([key for key in self._keys[1:5] if key])

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            self._keys.pop()
            self._is_mapping.pop()
            self._end_of_node()
        elif isinstance(event, yaml.CollectionStartEvent):
            mapping = isinstance(event, yaml.MappingStartEvent)
            self._keys.append(None if mapping else "")
            self._is_mapping.append(mapping)
        elif isinstance(event, yaml.ScalarEvent) and self._keys and self._keys[-1] is None:
            self._keys[-1] = str(event.value)
        elif isinstance(event, yaml.NodeEvent):
            self._end_of_node()

    def _end_of_node(self) -> None:
        """After a value comes a key. After a key that is a collection comes its value, which gets no name."""
        if self._keys and self._is_mapping[-1]:
            self._keys[-1] = "" if self._keys[-1] is None else None


def _unprintable(error: yaml.reader.ReaderError, text: str, file: str) -> Problem:
    """PyYAML reports the character's index, not its line. The character itself is not shown."""
    line = text.count("\n", 0, error.position) + 1
    actual, expected = f"the character U+{ord(text[error.position]):04X}", "text without control characters"
    return Problem(code="yaml.control-character", file=file, line=line, path="", found=actual, wanted=expected)


def _unreadable(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """Report the line and what to write there, but never the surrounding text, which may be a secret."""
    reason, expected, line = "text that is not YAML", "YAML", None
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        reason = re.sub(r"'(?!<[a-z ]+>')[^']{2,}'", "…", error.problem or reason).removeprefix("found ")
        expected, reason = _layout(error, text.splitlines()) or (expected, reason)
    return Problem(code="yaml.form", file=file, line=line, path="", found=reason, wanted=expected)


def _layout(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> tuple[str, str] | None:
    """The wanted and the found layout, for PyYAML's words about indentation; None for other errors."""
    problem, mark = error.problem or "", error.problem_mark
    if mark is None or mark.line >= len(lines):
        return None
    if problem.startswith("found character '\\t'"):
        return "spaces as indentation", "a tab"
    is_mapping_in_value = problem == "mapping values are not allowed here"
    if not _fits(lines, mark.line) and (is_mapping_in_value or problem.startswith("expected <block end>")):
        return f"an indentation of {_fitting(lines, mark.line)}", number_of(_indentation(lines[mark.line]), "space")
    if is_mapping_in_value:
        return "one key and its value on a line", "a second colon (a value with a colon and a space needs quotes)"
    return None


def _fits(lines: Sequence[str], line: int) -> bool:
    blocks, own = _open_blocks(lines, line), _indentation(lines[line])
    begins_a_block = own > max(blocks, default=own) and _content(lines[blocks[max(blocks)]]).endswith(":")
    return not blocks or own in blocks or begins_a_block


def _fitting(lines: Sequence[str], line: int) -> str:
    """Name the nearest indentations of blocks that a line may continue, each with a line that has it."""
    blocks, found = _open_blocks(lines, line), _indentation(lines[line])
    deeper, less = [n for n in blocks if n >= found], [n for n in blocks if n < found]
    near = [*([min(deeper)] if deeper else []), *([max(less)] if less else [])]
    return ", or ".join(f"{number_of(spaces, 'space')}, as in line {blocks[spaces] + 1}" for spaces in near)


def _open_blocks(lines: Sequence[str], line: int) -> dict[int, int]:
    """The indentations above a line that decrease towards the beginning, each with its nearest line."""
    blocks: dict[int, int] = {}
    for at in range(line - 1, -1, -1):
        if _content(lines[at]) and _indentation(lines[at]) < min(blocks, default=len(lines[at])):
            blocks[_indentation(lines[at])] = at
    return blocks


def _content(line: str) -> str:
    return line.split("#")[0].strip()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
