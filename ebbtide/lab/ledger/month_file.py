"""The ledgers of closed months as files of the repository: `stacks/ledger/<stack>/2026-11.json`.

A file has entries, each with a checksum over its canonical JSON, which includes the previous entry's checksum. The
first entry is never rewritten. Late credits, or a bill that came later, become a second entry with the same ledger.
A chain of checksums does not know how many entries it had: git does, so a file begins with the entries of each commit.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter

from ebbtide.lab.ledger.bill.bill import nodes_usd_of
from ebbtide.lab.ledger.bill.difference import Difference
from ebbtide.lab.ledger.month import Ledger, LedgerError
from ebbtide.settings.load import STACKS
from ebbtide.text.counts import number_of
from ebbtide.text.files import MOST_OF_A_DOCUMENT, read_file, write_file
from ebbtide.text.git import NoSuchRef, first_line, in_repository, is_shallow, run_git
from ebbtide.text.one_line import collapsed

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


def refuse_cut(path: Path, root: Path) -> str:
    """Compare a file, which may be missing, with its earlier commits. Return why that is not possible; "" if it is.

    Raises `LedgerError` if the file lacks an entry that a commit has, or has another one in its place.
    """
    name = path.relative_to(root).as_posix()
    try:
        if not in_repository(root):
            raise NoSuchRef("this is no git repository")
        commits = _answer(root, "log", "--format=%h", "--", name).split()
        versions, unread = _versions(root, name, commits)
        shallow = is_shallow(root)
    except NoSuchRef as error:
        return f"Not compared with earlier commits of the month's file: {error}."
    now = _checksums(path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "")
    if missing := [(then, commit) for commit, then in versions.items() if now[: len(then)] != then]:
        then, commit = max(missing, key=lambda version: len(version[0]))
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(now, then, strict=False)))
        raise LedgerError(
            f"{path}: wanted the entries of commit {commit} ({len(then)}), found {kept} of them: "
            f"git checkout {commit} -- {name}"
        )
    if unread:
        return (
            f"Not compared with {number_of(len(unread), 'commit')} of the month's file: {next(iter(unread.values()))}."
        )
    if not commits and path.is_file():
        return "Not compared with earlier commits of the month's file: no commit has it."
    return "Compared with few commits of the month's file: the clone is shallow." if shallow else ""


def _versions(root: Path, name: str, commits: Sequence[str]) -> tuple[Mapping[str, list[str]], Mapping[str, str]]:
    """Return the checksums in each commit that has the file, and the commits that git cannot read, with the reason."""
    versions: dict[str, list[str]] = {}
    unread: dict[str, str] = {}
    for commit in commits:
        try:
            if _answer(root, "ls-tree", "--name-only", commit, "--", name):  # a commit may also delete the file
                versions[commit] = _checksums(_answer(root, "show", f"{commit}:./{name}"))
        except NoSuchRef as error:
            unread[commit] = str(error)
    return versions, unread


def _answer(root: Path, *arguments: str) -> str:
    """Return what git prints. Raises `NoSuchRef` if git fails: a partial clone lacks files, a damaged one objects."""
    done = run_git(root, *arguments)
    if done.returncode:
        raise NoSuchRef(collapsed(f"git {arguments[0]} failed: {first_line(done.stderr)}"))
    return done.stdout


def _checksums(text: str) -> list[str]:
    """Return the checksums of a file's entries, without those after damage."""
    with suppress(ValueError, LookupError, TypeError):
        return [entry["checksum"] for entry in json.loads(text)["entries"]]
    return []


def committed(path: Path) -> tuple[Ledger, Difference | None]:
    """Return the ledger of a file's last entry, and the bill beside it. Raises `LedgerError`.

    Differences of former releases lack the bill's sums, which the bill has.
    """
    *_, last = read_entries(path)
    ledger, bill = _LEDGER.validate_python(last["ledger"]), last["bill"]
    if bill is None:
        return ledger, None
    parts: Mapping[str, float] = bill["parts"]
    sums = {"nodes_usd": nodes_usd_of(parts), "all_usd": sum(parts.values())}
    return ledger, _DIFFERENCE.validate_python({**sums, **last["difference"]})


def written_bill(path: Path) -> Mapping[str, Any]:
    """Return the bill and the difference of a file's last entry; empty without them. Raises `LedgerError`."""
    entries = read_entries(path)
    last: Entry = entries[-1] if entries else {}
    return {name: last[name] for name in ("bill", "difference") if last.get(name) is not None}


def add_entry(path: Path, document: Mapping[str, Any], written: datetime) -> bool:
    """Add an entry with the ledger, the bill and their difference from `document`, unless the last entry has the same.

    Parts missing in `document` are kept from the last entry. Raises `LedgerError` and `Unwritable`.
    """
    entries = read_entries(path)
    last: Entry = entries[-1] if entries else {}
    content = {name: document.get(name, last.get(name)) for name in ("ledger", "bill", "difference")}
    if last and _LEDGER.validate_python(last["ledger"]) == _LEDGER.validate_python(content["ledger"]):
        content["ledger"] = last["ledger"]  # as it was written: a newer release may add fields
    for name in ("bill", "difference"):
        if _repeats(content[name], last.get(name)):
            content[name] = last[name]
    if content.items() <= last.items():
        return False
    entry: Entry = {"written": written.isoformat(timespec="seconds"), "previous": last.get("checksum", ""), **content}
    entries.append({**entry, "checksum": _checksum(entry)})
    file = {"schema": SCHEMA, "stack": path.parent.name, "month": path.stem, "entries": entries}
    write_file(path, json.dumps(file, indent=2, ensure_ascii=False) + "\n")
    return True


def _repeats(document: Entry | None, last: Entry | None) -> bool:
    """Return True if a document has each value of the last one: a newer release may add fields."""
    if not document or not last:
        return False
    return all(document.get(name) == value for name, value in last.items())


def _checksum(entry: Entry) -> str:
    """Return the SHA-256 of an entry's canonical JSON, without the checksum itself."""
    content = {name: value for name, value in entry.items() if name != "checksum"}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
