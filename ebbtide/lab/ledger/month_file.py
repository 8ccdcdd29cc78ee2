"""The ledgers of closed months as files of the repository: `stacks/ledger/<stack>/2026-11.json`.

A file has entries, each with a checksum over its canonical JSON, which includes the previous entry's checksum. The
first entry is never rewritten. Late credits, or a bill that came later, become a second entry with the same ledger.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from ebbtide.lab.ledger.bill.difference import Difference
from ebbtide.lab.ledger.bill.lines import Part
from ebbtide.lab.ledger.month import Ledger, LedgerError
from ebbtide.settings.load import STACKS
from ebbtide.text.files import MOST_OF_A_DOCUMENT, read_file, write_file

SCHEMA = 1
FOLDER = "ledger"
Entry: TypeAlias = Mapping[str, Any]
_LEDGER, _DIFFERENCE = TypeAdapter(Ledger), TypeAdapter(Difference)


def month_path(root: Path, stack: str, month: str) -> Path:
    return root / STACKS / FOLDER / stack / f"{month}.json"


def month_paths(root: Path, month: str = "") -> Iterator[Path]:
    """Yield the files of a month, or the newest of each stack."""
    for folder in sorted((root / STACKS / FOLDER).glob("*/")):
        paths = sorted(folder.glob("20[0-9][0-9]-[01][0-9].json"))
        yield from [path for path in paths if path.stem == month] if month else paths[-1:]


def read_entries(path: Path) -> list[Entry]:
    """Read and check a file; a missing file has no entries. Raises `LedgerError`."""
    try:
        entries: list[Entry] = json.loads(read_file(path, MOST_OF_A_DOCUMENT))["entries"]
        before = [{"checksum": ""}, *entries]
        changed = [
            place
            for place, entry in enumerate(entries)
            if entry["previous"] != before[place]["checksum"] or entry["checksum"] != _checksum(entry)
        ]
        last = _LEDGER.validate_python(entries[-1]["ledger"])
    except FileNotFoundError:
        return []
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        content = (error.strerror if isinstance(error, OSError) else None) or "other content"
        raise LedgerError(f"{path}: wanted a file that ebbtide ledger --write made, found {content}") from None
    if changed:
        raise LedgerError(
            f"{path}: entry {changed[0] + 1}: wanted the checksum of its content, found another: entries are never "
            "changed (git log shows who did)"
        )
    if (month := f"{last.stack} {last.month.name}") != (wanted := f"{path.parent.name} {path.stem}"):
        raise LedgerError(f"{path}: wanted the ledger of {wanted}, found the ledger of {month}")
    return entries


def committed(path: Path) -> tuple[Ledger, Difference | None]:
    """Return the ledger of a file's last entry, and the bill beside it. Raises `LedgerError`.

    Differences of former releases lack the bill's sums, which the bill has.
    """
    *_, last = read_entries(path)
    ledger, bill = _LEDGER.validate_python(last["ledger"]), last["bill"]
    if bill is None:
        return ledger, None
    parts: Mapping[str, float] = bill["parts"]
    sums = {"nodes_usd": parts.get(Part.NODES, 0.0), "all_usd": sum(parts.values())}
    return ledger, _DIFFERENCE.validate_python({**sums, **last["difference"]})


def add_entry(path: Path, document: Mapping[str, Any], written: datetime) -> bool:
    """Add an entry with the ledger, the bill and their difference from `document`, unless the last entry has the same.

    Parts missing in `document` are kept from the last entry. Raises `LedgerError` and `Unwritable`.
    """
    entries = read_entries(path)
    last: Entry = entries[-1] if entries else {}
    content = {name: document.get(name, last.get(name)) for name in ("ledger", "bill", "difference")}
    if last and _LEDGER.validate_python(last["ledger"]) == _LEDGER.validate_python(content["ledger"]):
        content["ledger"] = last["ledger"]  # as it was written: a newer release may add fields
    if content.items() <= last.items():
        return False
    entry: Entry = {"written": written.isoformat(timespec="seconds"), "previous": last.get("checksum", ""), **content}
    entries.append({**entry, "checksum": _checksum(entry)})
    file = {"schema": SCHEMA, "stack": path.parent.name, "month": path.stem, "entries": entries}
    write_file(path, json.dumps(file, indent=2, ensure_ascii=False) + "\n")
    return True


def _checksum(entry: Entry) -> str:
    """Return the SHA-256 of an entry's canonical JSON, without the checksum itself."""
    content = {name: value for name, value in entry.items() if name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
