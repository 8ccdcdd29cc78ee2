"""The ledger of a closed month as a file of the repository: `stacks/ledger/<stack>/2026-11.json`.

The file has entries, each with a checksum over its canonical JSON that includes the checksum of the entry before. The
first entry is never rewritten. Late credits, or a bill that came later, are a second entry with the same ledger.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from ebbtide.files import MOST_OF_A_DOCUMENT, read_file, write_file
from ebbtide.ledger.month import Ledger, month_named
from ebbtide.settings.load import STACKS

SCHEMA = 1
FOLDER = "ledger"
_CONTENT = ("ledger", "bill", "difference")


class MonthFileInvalid(Exception):
    """A file is no ledger of a month, or was changed by hand. The message is one line."""


@dataclass(frozen=True, slots=True)
class MonthFile:
    stack: str
    month: str
    entries: tuple[Mapping[str, Any], ...]

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of the last entry. Raises `MonthFileInvalid`."""
        document = self.entries[-1]["ledger"]
        month = month_named(document["month"]["name"], document["month"]["zone"])
        try:
            return _ledgers().validate_python({**document, "month": month})
        except ValidationError as invalid:
            raise MonthFileInvalid(
                f"{self.month} of {self.stack}: wanted a ledger: {invalid.error_count()} faults"
            ) from None


def month_path(root: Path, stack: str, month: str) -> Path:
    return root / STACKS / FOLDER / stack / f"{month}.json"


def read_month_file(path: Path) -> MonthFile | None:
    """Read and check a file; None if there is none. Raises `MonthFileInvalid`."""
    try:
        document: Any = json.loads(read_file(path, MOST_OF_A_DOCUMENT))
        entries: list[dict[str, Any]] = document["entries"]
        previous = ""
        for entry in entries:
            if entry["previous"] != previous or entry["checksum"] != checksum(entry):
                raise MonthFileInvalid(
                    f"{path}: entry {entry['number']}: wanted the checksum of its content, found another: entries are "
                    "never changed (git log shows who did)"
                )
            previous = entry["checksum"]
        return MonthFile(document["stack"], document["month"], tuple(entries))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise MonthFileInvalid(f"{path}: wanted a file that ebbtide ledger --write made, found another") from None


def checksum(entry: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an entry's canonical JSON, without the checksum itself."""
    content = {name: value for name, value in entry.items() if name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def add_entry(path: Path, document: Mapping[str, Any], written: datetime) -> bool:
    """Add an entry with what `document` has of a ledger, a bill and their difference, unless the last one is equal.

    A correction without a bill keeps the bill. Raises `MonthFileInvalid` and `Unwritable`.
    """
    file = read_month_file(path)
    entries = list(file.entries) if file else []
    last: Mapping[str, Any] = entries[-1] if entries else {}
    content = {name: document.get(name, last.get(name)) for name in _CONTENT}
    if entries and content == {name: last.get(name) for name in _CONTENT}:
        return False
    entry: dict[str, Any] = {
        "number": len(entries) + 1,
        "written": written.isoformat(timespec="seconds"),
        "previous": last.get("checksum", ""),
        **content,
    }
    entries.append({**entry, "checksum": checksum(entry)})
    ledger = cast("Mapping[str, Any]", content["ledger"])
    whole = {"schema": SCHEMA, "stack": ledger["stack"], "month": ledger["month"]["name"], "entries": entries}
    write_file(path, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    return True


def month_files(root: Path, month: str = "") -> Iterator[MonthFile]:
    """Yield the files of a month, or the newest of each stack. Raises `MonthFileInvalid`."""
    for folder in sorted((root / STACKS / FOLDER).glob("*/")):
        paths = sorted(folder.glob("20[0-9][0-9]-[01][0-9].json"))
        chosen = [path for path in paths if path.stem == month] if month else paths[-1:]
        yield from (file for path in chosen if (file := read_month_file(path)) is not None)


@cache
def _ledgers() -> TypeAdapter[Ledger]:
    return TypeAdapter(Ledger)
