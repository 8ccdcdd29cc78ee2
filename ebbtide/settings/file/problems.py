"""Faults of a stack file: one record each, all reported together, and the errors that validators raise.

Secrets never reach a message: only scalars are quoted, `secure:` values are replaced before validation, and passwords
in URLs are masked.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias, cast

from pydantic_core import PydanticCustomError

from ebbtide import findings

Location: TypeAlias = tuple[str | int, ...]
"""Keys and list positions below `config:`, for example `("ebbtide:workers", "train", "max")`."""

NEAR = 0.75
"""Share of common letters above which a word counts as a typo of another; `charts` and `secrets` share 0.62."""

_LONGEST_QUOTE = 60
_LONGEST_LOOK = 1000  # longer text is not searched for a login: the search takes quadratic time
_CREDENTIALS = re.compile(r"(?<=://)\S*@|[^\s/@]+:\S*@(?!sha256:)")  # a login, but not an image's tag before its digest


PLACEHOLDER = "PLACEHOLDER"
"""Text of a `secure:` value that is set later, so that a stack file can be written before Pulumi's stack exists."""

_CIPHERTEXT = re.compile(r"[A-Za-z0-9+/=:_\r\n-]+")
"""Characters of an encrypted value: Base64, which may have line breaks; with a passphrase three parts between colons.
Source: pulumi/pulumi, sdk/go/common/resource/config/crypt.go.
"""

_NONCE, _TAG = 12, 16
"""Bytes that AES-256-GCM adds to a value. Source: as above. Pulumi Cloud encrypts on its
servers in a form that is not published; it is taken to be as long.
"""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """Stands for a `secure:` value. It has no content to leak, only facts that were found before the value was
    replaced.
    """

    token_fault: str = ""  # of the password as an ElastiCache token
    key_fault: str = ""  # of the digest key
    placeholder: bool = False  # the text is PLACEHOLDER
    encrypted: bool = True  # False for a text with characters that no encrypted value has
    doubtful: bool = False  # the text has such characters only, but not the form of an encrypted value

    def __repr__(self) -> str:
        return "(a placeholder)" if self.placeholder else "(a secret)"


SECRET = Secret()


def secret_of(text: str) -> Secret:
    """Return the `Secret` that replaces a `secure:` value or its decrypted value."""
    return Secret(placeholder=True) if text == PLACEHOLDER else SECRET


def encrypted_secret(text: str) -> Secret:
    """Return the `Secret` that replaces a `secure:` value of a file. On doubt, the text counts as encrypted."""
    if not _CIPHERTEXT.fullmatch(text):
        return Secret(encrypted=False)
    return secret_of(text) if text == PLACEHOLDER or _has_form(text) else Secret(doubtful=True)


def _has_form(text: str) -> bool:
    """True for the form of an encrypted value: Base64 of nonce and ciphertext, or `v1:NONCE:CIPHERTEXT`."""
    match [_bytes_in(part) for part in "".join(text.split()).removeprefix("v1:").split(":")]:
        case [nonce, sealed] if text.startswith("v1:"):
            return nonce == _NONCE and sealed >= _TAG
        case [whole] if not text.startswith("v1:"):
            return whole >= _NONCE + _TAG
        case _:
            return False


def _bytes_in(text: str) -> int:
    """Return the length of what is written in Base64; 0 for any other text."""
    try:
        return len(b64decode(text, altchars=b"-_" if set(text) & {"-", "_"} else None, validate=True))
    except binascii.Error:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault in the settings, before its file and line are known."""

    code: str
    at: Location
    wanted: str
    found: str
    example: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(findings.Finding):
    """A fault in a file, for which the file is refused. Unknown parts are left out of its text.

    `code` identifies the fault as `subject.fault`.
    """

    severity: findings.Severity = field(init=False, default=findings.Severity.BLOCKING)
    text: str = field(init=False)
    remedy: str = field(init=False)
    place: str = field(init=False)
    file: str
    line: int | None
    path: str
    found: str
    wanted: str
    example: str = ""
    hint: str = ""

    def __post_init__(self) -> None:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        example = f" (for example {self.example})" if self.example else ""
        object.__setattr__(self, "text", f"wanted {self.wanted}, found {self.found}{example}")
        object.__setattr__(self, "remedy", self.hint)
        object.__setattr__(self, "place", f"{where}: {self.path}" if self.path else where)


class Caution(findings.Finding):
    """A warning about a valid stack. `path` is a key without the namespace; `blocks`: the preview refuses the stack."""

    __slots__ = ()

    def __init__(self, code: str, path: str, text: str, *, blocks: bool = False) -> None:
        severity = findings.Severity.BLOCKING if blocks else findings.Severity.WARNING
        super().__init__(code=code, severity=severity, text=text, place=path)

    @property
    def blocks(self) -> bool:
        return self.severity is findings.Severity.BLOCKING


class StackInvalid(Exception):
    """The stack file is invalid. `problems` holds every fault; the text has one line for each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def show(value: object) -> str:
    """Return a value for a message: scalars shortened, collections by kind, secrets never."""
    if isinstance(value, Secret):
        return repr(value)
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value)
    if len(text) > _LONGEST_LOOK:
        return f"{len(text)} characters"
    text = shortened(without_login(text))
    return repr(text) if isinstance(value, str) else text


def without_login(text: str) -> str:
    """Return the text with logins masked, as in URLs."""
    return _CREDENTIALS.sub("…@", text)


def shortened(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def path_text(at: Sequence[str | int]) -> str:
    """Return a location as text: `ebbtide:workers.train.source.queues[0]`."""
    text = ""
    for part in at:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{shortened(part)}" if text else shortened(part)
    return text


def value_at(root: object, at: Location) -> object:
    """Return the value at a location, or None if it does not exist."""
    for part in at:
        if isinstance(root, Mapping):
            root = cast("Mapping[str | int, object]", root).get(part)
        elif isinstance(root, list | tuple) and isinstance(part, int) and part < len(cast("Sequence[object]", root)):
            root = cast("Sequence[object]", root)[part]
        else:
            return None
    return root


def secrets_in(value: object, at: Location = ()) -> Iterator[tuple[Location, Secret]]:
    """Yield each `secure:` value in a value, with its location."""
    if isinstance(value, Secret):
        yield at, value
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[str | int, object]", value).items():
            yield from secrets_in(inner, (*at, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(cast("Sequence[object]", value)):
            yield from secrets_in(inner, (*at, index))


def _plain(word: str) -> str:
    """Return the word without case, hyphens and the namespace, for comparison."""
    return re.sub(r"[-_]", "", word.removeprefix("ebbtide:")).lower()


def unknown_name(at: Location, expected: str, name: str, known_names: Sequence[str]) -> Finding:
    return Finding(code="name.unknown", at=at, wanted=expected, found=repr(name), hint=did_you_mean(name, known_names))


def did_you_mean(word: str, known_words: Sequence[str]) -> str:
    """Return a hint with the nearest known word, or with all if none is near."""
    return near_word(word, known_words) or (f"known here: {', '.join(known_words)}" if known_words else "")


def near_word(word: str, known_words: Sequence[str]) -> str:
    """Return a hint with the nearest known word; empty if none is near."""
    plain = {_plain(name): name for name in known_words}
    near = get_close_matches(_plain(word), plain, n=1, cutoff=NEAR)
    return f"did you mean {plain[near[0]]}?" if near else ""


WANTED = "wanted"
"""Error type with a complete sentence; all other types are pydantic's own and are translated."""


def wanted(
    code: str, expected: str, *, found: str = "", example: str = "", hint: str = "", at: str | Location = ""
) -> PydanticCustomError:
    """Return a validator's error. `code` is stable when the text changes. `at` is a key below the field that has the
    fault.

    `found` is for faults that are not in a single value.
    """
    return _error(
        {
            "code": code,
            "wanted": expected,
            "found": found,
            "example": example,
            "hint": hint,
            "at": (at,) if isinstance(at, str) and at else tuple(at),
        }
    )


def all_of(faults: Sequence[PydanticCustomError]) -> PydanticCustomError:
    """Combine several faults of one value into one error, since a validator can raise only one."""
    first, *further_faults = [dict(fault.context or {}) for fault in faults]
    return _error({**first, "also": further_faults})


def _error(context: dict[str, Any]) -> PydanticCustomError:
    return PydanticCustomError(WANTED, "{wanted}", context)
