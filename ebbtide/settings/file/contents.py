"""Files that a stack file refers to: `files: { logging.yaml: { file: conf/logging.yaml } }`.

Each reference is replaced by the file's text before validation, so all later code sees text only. Paths start at the
stack file's folder and stay within it, so that a folder holds the entire stack. Links are resolved before the check,
since they may lead outside.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias, cast

from ebbtide.settings.file.document import MOST_BYTES
from ebbtide.settings.file.entries import named_entries, pod_entries
from ebbtide.settings.file.problems import Finding, Location, show, value_at
from ebbtide.text.files import read_file

_MOST_OF_A_CONFIG_MAP = 2**20
"""Limit of a file for pods: the size of a ConfigMap. Source: Kubernetes, ValidateConfigMap."""

FileReader: TypeAlias = Callable[[str], bytes]
"""Reads the file at a path from the stack file's folder. Raises OSError."""

PROJECT = "../Pulumi.yaml"
"""The only path outside the folder that a reader accepts: Pulumi's project file, for a stack file in `stacks/`."""

STACKS = "stacks"

_EXAMPLE = "conf/logging.yaml"
_INSIDE = "a file in the stack file's folder or below it"


class Outside(OSError):
    """The path leads out of the folder."""


@dataclass(frozen=True, slots=True)
class FileFault:
    code: str
    found: str
    wanted: str

    def finding(self, at: Location, path: str, example: str) -> Finding:
        actual = f"{show(path)}: {self.found}"
        return Finding(code=self.code, at=at, wanted=self.wanted, found=actual, example=example)


_OUTSIDE = FileFault("file.outside", "a path that leads out of it", _INSIDE)


def files_in(folder: Path) -> FileReader:
    """Return a reader of files for a stack file in this folder."""

    def read(path: str) -> bytes:
        home = folder.resolve()
        if path == PROJECT:
            if home.name != STACKS:
                raise FileNotFoundError(path)
            return read_file(home.parent / "Pulumi.yaml", MOST_BYTES)
        real_path = real_path_of(home / path)
        if not real_path.is_relative_to(home):
            raise Outside
        if real_path.exists() and not real_path.is_file() and not real_path.is_dir():  # reading a pipe would wait
            raise OSError(errno.EINVAL, "not a regular file")
        return read_file(real_path, MOST_BYTES)

    return read


def real_path_of(path: Path) -> Path:
    """Return the path with all links resolved. A loop of links stays unresolved, so that reading the file fails."""
    return Path(os.path.realpath(path))


def no_files(path: str) -> bytes:
    """Reader for a stack file without a folder."""
    raise FileNotFoundError(path)


def with_files(config: Mapping[str, object], read: FileReader) -> tuple[dict[str, Any], list[Finding]]:
    """Return the config with each reference replaced by the file's text, and findings for unreadable files."""
    findings: list[Finding] = []
    replaced: dict[Location, str] = {}
    for at, path in _named_files(config):
        text = text_of(read, path, _MOST_OF_A_CONFIG_MAP)
        if isinstance(text, str):
            replaced[at] = text
        else:
            findings.append(text.finding((*at, "file"), path, _EXAMPLE))
            replaced[at] = ""  # so that the entry has this one fault
    return cast("dict[str, Any]", _replaced(config, (), replaced)) if replaced else dict(config), findings


def _named_files(config: Mapping[str, object]) -> Iterator[tuple[Location, str]]:
    """Yield the location of each reference and its path."""
    for pod in pod_entries(config):
        for volume, settings in named_entries(value_at(pod.value, ("volumes",))):
            for file, value in named_entries(value_at(settings, ("files",))):
                path = value_at(value, ("file",))
                if isinstance(path, str) and list(cast("Mapping[str, object]", value)) == ["file"]:
                    yield (*pod.at, "volumes", volume, "files", file), path


def text_of(read: FileReader, path: str, most_bytes: int) -> str | FileFault:
    """Return the text of a file in the stack file's folder, or the reason why it cannot be used."""
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        return _OUTSIDE
    try:
        data = read(path)
        if len(data) > most_bytes:
            raise OSError(errno.EFBIG, f"more than {most_bytes // 2**20} MiB")
        return data.decode("utf-8")
    except Outside:
        return _OUTSIDE
    except FileNotFoundError:
        return FileFault("file.missing", "no such file", _INSIDE)
    except UnicodeDecodeError:
        return FileFault("file.not-utf-8", "other bytes", "UTF-8 text")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "an error"
        return FileFault("file.unreadable", reason, f"a readable file of at most {most_bytes // 2**20} MiB")


def _replaced(value: object, at: Location, texts: Mapping[Location, str]) -> object:
    if at in texts:
        return texts[at]
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return {key: _replaced(inner, (*at, key), texts) for key, inner in mapping.items()}
    return value
