"""Convert a state to a file and back. JSON, bytes and folders are built in; anything else needs your own codec.

Pickle is never the default: loading one runs its code, and a bucket is easier to write to than an image.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from ebbtide.jobs.checkpoints.errors import CannotLoad, CannotSave


@dataclass(frozen=True, slots=True)
class Codec:
    """`dump(state, path)` writes a file that does not exist yet; `load(path)` reads it back."""

    name: str
    dump: Callable[[Any, Path], object]
    load: Callable[[Path], Any]


def _dump_json(state: object, path: Path) -> None:
    try:
        text = json.dumps(state, allow_nan=True)
    except (TypeError, ValueError) as error:
        hint = "wanted what JSON can hold, bytes or the Path of a folder; for anything else give checkpoint() a codec"
        raise CannotSave(f"the state cannot be written as JSON ({error}): {hint}") from None
    path.write_text(text, encoding="utf-8")


def _dump_folder(folder: Path, path: Path) -> None:
    if not folder.is_dir():
        raise CannotSave(f"the state is a path, and there is no folder {folder}")
    with ZipFile(path, "w", strict_timestamps=False) as archive:  # not compressed: weights hardly shrink
        for inside in sorted(folder.rglob("*")):
            archive.write(inside, inside.relative_to(folder))


def _load_folder(path: Path) -> Path:
    """Extract into a new folder next to the file. `zipfile` keeps files inside whose names would lead out of it."""
    folder = path.with_name("folder")
    folder.mkdir()
    with ZipFile(path) as archive:
        archive.extractall(folder)
    return folder


JSON = Codec("json", _dump_json, lambda path: json.loads(path.read_text(encoding="utf-8")))
BYTES = Codec("bytes", lambda state, path: path.write_bytes(state), Path.read_bytes)
FOLDER = Codec("folder", _dump_folder, _load_folder)
_BUILT_IN = {codec.name: codec for codec in (JSON, BYTES, FOLDER)}


def codec_for(state: object) -> Codec:
    if isinstance(state, bytes | bytearray | memoryview):
        return BYTES
    return FOLDER if isinstance(state, Path) else JSON


def codec_named(name: str, custom: Codec | None) -> Codec:
    if custom is not None and custom.name == name:
        return custom
    if name not in _BUILT_IN:
        configured = f"checkpoint() has {custom.name!r}" if custom else "checkpoint() has none"
        raise CannotLoad(f"the checkpoint was written with codec {name!r}, and {configured}")
    return _BUILT_IN[name]
