"""Load a stack's settings by name, from a file or from a config mapping, and report all faults at once.

Pulumi passes config values as text, objects and lists as JSON. Text stays text, even if it looks like a number: a
version is written "1.35".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ebbtide.settings.file.bases import Merged, merged
from ebbtide.settings.file.contents import STACKS as STACKS  # part of this module's interface
from ebbtide.settings.file.contents import FileReader, files_in, no_files
from ebbtide.settings.file.document import DEEPEST, MOST_BYTES, OURS, REGION, StackDocument, read_document
from ebbtide.settings.file.keys import DIGEST_KEY, REDIS_PASSWORD, SECRETS
from ebbtide.settings.file.problems import (
    SECRET,
    Caution,
    Finding,
    Location,
    Problem,
    Secret,
    StackInvalid,
    path_text,
    secret_of,
    value_at,
)
from ebbtide.settings.model import StackSettings
from ebbtide.settings.reading import Sections
from ebbtide.settings.sections.secrets import CHANGE_IT, command_of, doubtful_in, placeholder_faults, placeholders_in
from ebbtide.text.files import read_file

_READABLE = f"a readable file of at most {MOST_BYTES // 2**20} MiB"
_PREFIX, _SUFFIX = "Pulumi.", ".yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """A stack file with its bases, before validation. Its settings can be validated with other values."""

    stack: str
    file: str  # what messages call it
    reader: FileReader
    merged: Merged

    def settings(self, config: Mapping[str, object] | None = None) -> StackSettings:
        """Validate `config`, by default the merged values. Raises `StackInvalid`."""
        values = self.merged.config if config is None else config
        faults = list(self.merged.problems)
        if REDIS_PASSWORD in values and not isinstance(values[REDIS_PASSWORD], Secret):
            faults.append(_plain_password(self.merged))
        return _parse(values, stack=self.stack, merged=self.merged, faults=faults, reader=self.reader)

    def unset_secrets(self) -> list[str]:
        """Return the paths of the secrets that are placeholders."""
        return [path_text(at) for at in placeholders_in(self.merged.config)]

    def secret_cautions(self) -> list[Caution]:
        """Return a warning for each secret that is not set yet or perhaps not encrypted, with the command that sets
        it.
        """
        config = self.merged.config
        unset, doubtful = "a placeholder, which pulumi up refuses", "perhaps not encrypted: Pulumi writes another form"
        return [
            *(
                self._secret_caution("secret.placeholder", at, f"{unset}; set the value: {self._command(at)}")
                for at in placeholders_in(config)
            ),
            *(
                self._secret_caution(
                    "secret.perhaps-not-encrypted",
                    at,
                    f"{doubtful}. If it is the value itself: {self._command(at)}; {CHANGE_IT}",
                )
                for at in doubtful_in(config)
            ),
        ]

    def _secret_caution(self, code: str, at: Location, text: str) -> Caution:
        return Caution(code, f"{self.merged.source(at)}: {path_text(at)}", text)

    def _command(self, at: Location) -> str:
        return f"{command_of(at)} --stack {self.stack}"


def load_stack(stack: str, root: Path | None = None) -> StackSettings:
    """Load the stack of that name under `root` (default: the project's folder), or the stack file at that path.

    Raises `StackInvalid`.
    """
    return read_stack(stack, root).settings()


def read_stack(stack: str, root: Path | None = None) -> StackFile:
    """Read the stack file without validating it. Raises `StackInvalid` for an unreadable file."""
    path = stack_path(stack, root)
    shown = _shown(path)
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise StackInvalid([_missing(stack, shown, root)]) from None
    except UnicodeDecodeError:
        raise StackInvalid(
            [Problem(code="file.not-utf-8", file=shown, line=None, path="", found="other bytes", wanted="UTF-8 text")]
        ) from None
    except OSError as error:
        reason = error.strerror or "an error"
        raise StackInvalid(
            [Problem(code="file.unreadable", file=shown, line=None, path="", found=reason, wanted=_READABLE)]
        ) from None
    return file_of_text(text, stack=name_of(path), file=shown, reader=files_in(path.parent))


def stack_of_text(text: str, *, stack: str, file: str, reader: FileReader = no_files) -> StackSettings:
    """Return the settings of a stack file's text; messages call the file `file`. Raises `StackInvalid`."""
    return file_of_text(text, stack=stack, file=file, reader=reader).settings()


def file_of_text(text: str, *, stack: str, file: str, reader: FileReader) -> StackFile:
    return StackFile(stack=stack, file=file, reader=reader, merged=merged(read_document(text, file), file, reader))


def parse_stack(config: Mapping[str, object], *, stack: str, file: str, reader: FileReader = no_files) -> StackSettings:
    """Return the settings of a mapping as Pulumi passes it, with parsed values. Raises `StackInvalid`, without line
    numbers of the mapping.

    `ebbtide:redisPassword` may have any value, since Pulumi passes decrypted secrets; it is never read. A secret that
    is not set yet is refused.
    """
    expected, actual = f"at most {DEEPEST} levels", "a value nested too deeply"
    deep = [key for key, value in config.items() if _is_deep(value, DEEPEST)]
    if deep:
        raise StackInvalid(
            [
                Problem(code="file.too-deep", file=file, line=None, path=key, found=actual, wanted=expected)
                for key in deep
            ]
        )
    values = merged(StackDocument(config=dict(config)), file, reader, passed_by_pulumi=True)
    unset = [values.problem(finding) for finding in placeholder_faults(values.config)]
    return _parse(values.config, stack=stack, merged=values, faults=[*values.problems, *unset], reader=reader)


def stack_path(stack: str, root: Path | None = None) -> Path:
    """Return the path of a stack: a path unchanged, a name as a file in `stacks/`."""
    if "/" in stack or stack.endswith((".yaml", ".yml")):
        return Path(stack)
    return (root or project_root()) / STACKS / f"{_PREFIX}{stack}{_SUFFIX}"


def project_root() -> Path:
    """Return the nearest folder with a `Pulumi.yaml`, here or above; this folder if there is none."""
    here = Path.cwd()
    folder = next((folder for folder in (here, *here.parents) if (folder / "Pulumi.yaml").is_file()), here)
    return Path() if folder == here else folder


def stack_names(root: Path | None = None) -> tuple[str, ...]:
    """Return the names of the stacks in `stacks/`, sorted."""
    paths = ((root or project_root()) / STACKS).glob(f"{_PREFIX}*{_SUFFIX}")
    return tuple(sorted(name_of(path) for path in paths))


def name_of(path: Path) -> str:
    return path.stem.removeprefix(_PREFIX)


def _parse(
    config: Mapping[str, object],
    *,
    stack: str,
    merged: Merged,
    faults: Sequence[Problem],
    reader: FileReader,
) -> StackSettings:
    sections = Sections(config, reader)
    settings = sections.settings(stack)
    doubted = {problem.path for problem in faults}
    findings = [f for f in sections.findings if merged.complete or _stands_alone(f, config)]
    section_problems = [problem for f in findings if (problem := merged.problem(f)).path not in doubted]
    problems = [*faults, *section_problems]
    if problems or settings is None:
        first = merged.stack.file
        raise StackInvalid(
            sorted(problems, key=lambda each: (each.file != first, each.file, each.line or 0, each.path))
        )
    return settings


def _stands_alone(finding: Finding, config: Mapping[str, object]) -> bool:
    """True for a fault that the values of an unreadable file could not repair: a wrong value or an unknown key."""
    value = value_at(config, finding.at)
    return finding.code in ("key.unknown", "key.elsewhere") or (value is not None and not isinstance(value, Mapping))


def _is_deep(value: object, levels: int) -> bool:
    """True if a value has more levels. Deeper levels are not visited, since each takes a recursive call."""
    inner: Iterable[object] = ()
    if isinstance(value, Mapping):
        inner = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list | tuple):
        inner = cast("Sequence[object]", value)
    return levels == 0 or any(_is_deep(item, levels - 1) for item in inner)


def _missing(stack: str, shown: str, root: Path | None) -> Problem:
    names = stack_names(root)
    hint = f"stacks here: {', '.join(names)}" if names else f"there are no stacks in {STACKS}/"
    return Problem(
        code="stack.unknown",
        file=shown,
        line=None,
        path="",
        found="no such file",
        wanted=f"the stack {stack!r}",
        hint=hint,
    )


def _plain_password(values: Merged) -> Problem:
    file, line = values.source((REDIS_PASSWORD,))
    return Problem(
        code="secret.in-the-clear",
        file=file,
        line=line,
        path=REDIS_PASSWORD,
        found="a value in the clear",
        wanted="a secure: value",
        hint="pulumi config set --secret ebbtide:redisPassword; and change the password, it has been in a file",
    )


def _shown(path: Path) -> str:
    """Return the path relative to the current folder, if it is below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def settings_of_texts(texts: Mapping[str, object], *, stack: str, file: str, reader: FileReader) -> StackSettings:
    """Return the settings of Pulumi's config values. Other namespaces configure providers and are ignored, except the
    region.

    Raises `StackInvalid`; messages call the source `file`.
    """
    ours = {key: value_of(text) for key, text in texts.items() if key.startswith(OURS)}
    region = {REGION: texts[REGION]} if REGION in texts else {}
    hidden: dict[str, object] = {DIGEST_KEY: SECRET} if DIGEST_KEY in texts else {}
    if SECRETS in texts:
        hidden[SECRETS] = encrypted(texts[SECRETS])
    return parse_stack({**ours, **region, **hidden}, stack=stack, file=file, reader=reader)


def encrypted(text: object) -> object:
    """Return the section of secrets with `Secret` in place of every text, from the form in which Pulumi passes it.

    Only text can be encrypted: other values are in the clear, and stay so that validation refuses them.
    """
    value = value_of(text)
    return secret_of(value) if isinstance(value, str) else _texts_hidden(value)


def _texts_hidden(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _texts_hidden(inner) for key, inner in cast("Mapping[str, object]", value).items()}
    return secret_of(value) if isinstance(value, str) else value


def value_of(text: object) -> Any:
    if not isinstance(text, str) or not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # text of many brackets raises RecursionError
        return text
