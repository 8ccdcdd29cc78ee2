"""A sweep's results as Parquet, in a folder or a bucket (`s3://…`): a small file for each replay, one file at the end.

Files are written atomically: in a folder by renaming, in a bucket as objects. So a sweep that is interrupted loses only
the active replays. Each replay's file is named by its key. A row is one strategy of one replay; a failed replay is one
row with its error, and the next run tries it again.

A folder belongs to one sweep at a time. All its files have the same release and code digest, so figures of different
code are never mixed.
"""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from ebbtide.lab.sweep.calls import Failed
from ebbtide.lab.sweep.objective import FIGURES
from ebbtide.lab.sweep.task import ReplayFigures, SweepTask
from ebbtide.text.one_line import collapsed, printable

pa: Any = import_module("pyarrow")  # has no types
pq: Any = import_module("pyarrow.parquet")
fs: Any = import_module("pyarrow.fs")

SCHEMA = 1
_ABOUT = b"ebbtide.sweep"
_PART, _WHOLE = "part-", "all-"
_COLUMNS: Any = pa.schema(
    [
        *((name, pa.string()) for name in ("key", "customer", "stack", "trace", "setting")),
        ("seed", pa.int64()),
        *((name, pa.string()) for name in ("strategy", "error", "overload")),
        *((name, pa.int64()) for name in ("days", "jobs")),
        *((name, pa.float64()) for name in ("coverage", "cpu_s")),
        *((name, pa.float64()) for name in FIGURES),
    ]
)


class ResultStoreError(ValueError):
    """The storage cannot be used. The message is one line."""


class ResultStore:
    """`release` and `code` are recorded in each file, and must be the same in all files of the folder."""

    def __init__(self, place: str, release: str, code: str) -> None:
        self.place = place
        self._about = {"schema": SCHEMA, "release": release, "code": code}
        try:
            uri = place if "://" in place else str(Path(place).absolute())
            self._files, self._root = fs.FileSystem.from_uri(uri)
        except (OSError, ValueError) as error:
            raise ResultStoreError(
                f"--results {place}: wanted a folder or s3://BUCKET/FOLDER, found another place ({_message(error)})"
            ) from error

    def refuse_others(self, *, resume: bool) -> None:
        """Refuse results of other code, and any results without `resume`. Raises `ResultStoreError`."""
        names = self._names()
        for about in sorted({json.dumps(self._about_of(name), sort_keys=True) for name in names}):
            self._refuse(json.loads(about))
        if names and not resume:
            raise ResultStoreError(
                f"--results {self.place}: wanted an empty folder, found results in it; --resume continues them"
            )

    def try_writing(self) -> None:
        """Check that results can be written, before hours of replays. Raises `ResultStoreError`."""
        with self._storage_errors("written"):
            if self._is_local:
                self._files.create_dir(self._root, recursive=True)
            self._write("probe", pa.table({"probe": [0]}))
            self._files.delete_file(f"{self._root}/probe.parquet")

    def _refuse(self, about: Mapping[str, Any]) -> None:
        if about == self._about:
            return
        origin = (
            f"those of {about['release']} (code {about['code']}, schema {about['schema']})"
            if about
            else "Parquet of another origin"
        )
        raise ResultStoreError(
            f"--results {self.place}: wanted results of {self._about['release']} (code {self._about['code']}, schema "
            f"{SCHEMA}), found {origin}: figures of different code do not belong together, so name another folder"
        )

    def add(self, task: SweepTask, outcome: ReplayFigures | Failed) -> None:
        with self._storage_errors("written"):
            self._write(f"{_PART}{task.key}", pa.Table.from_pylist(list(_rows(task, outcome)), schema=_COLUMNS))

    def rows(self, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """All rows, in no particular order."""
        with self._storage_errors("read"):
            tables = [self._read(name, columns) for name in self._names()]
        return [row for table in tables for row in table.to_pylist()]

    def done(self) -> set[str]:
        """The keys of the replays that succeeded."""
        return {row["key"] for row in self.rows(["key", "error"]) if row["error"] is None}

    def gather(self) -> None:
        """Write all replays that succeeded into one sorted file. If it is interrupted, each row is still in a file."""
        names = self._names()
        with self._storage_errors("written"):
            tables = {name: self._read(name, None) for name in names}
            succeeded = {name: table for name, table in tables.items() if table["error"].null_count == len(table)}
            if len(succeeded) < 2:
                return
            order = [(name, "ascending") for name in ("customer", "trace", "setting", "seed", "strategy")]
            rows = {(row["key"], row["strategy"]): row for table in succeeded.values() for row in table.to_pylist()}
            gathered = pa.Table.from_pylist(list(rows.values()), schema=_COLUMNS).sort_by(order)
            name = f"{_WHOLE}{len({key for key, _ in rows})}"
            self._write(name, gathered)
            for other in succeeded:
                if other != f"{name}.parquet":
                    self._files.delete_file(f"{self._root}/{other}")

    @property
    def _is_local(self) -> bool:
        return isinstance(self._files, fs.LocalFileSystem)

    def _names(self) -> list[str]:
        with self._storage_errors("read"):
            infos = self._files.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        return sorted(
            info.base_name
            for info in infos
            if info.base_name.endswith(".parquet") and not info.base_name.startswith(".")
        )

    def _about_of(self, name: str) -> dict[str, Any]:
        with self._storage_errors("read"):
            schema: Any = pq.read_schema(f"{self._root}/{name}", filesystem=self._files)
        return json.loads(cast("dict[bytes, bytes]", schema.metadata or {}).get(_ABOUT, b"{}"))

    def _read(self, name: str, columns: Sequence[str] | None) -> Any:
        return pq.read_table(f"{self._root}/{name}", columns=columns, filesystem=self._files)

    def _write(self, name: str, table: Any) -> None:
        about = {_ABOUT: json.dumps(self._about, sort_keys=True).encode()}
        buffer = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(about), buffer)
        path = f"{self._root}/{name}.parquet"
        partial = f"{self._root}/.{name}.partial" if self._is_local else path
        with self._files.open_output_stream(partial) as out:
            out.write(buffer.getvalue())
        if partial != path:
            self._files.move(partial, path)

    @contextmanager
    def _storage_errors(self, operation: str) -> Generator[None]:
        """Convert errors of the storage into a `ResultStoreError`."""
        try:
            yield
        except (OSError, pa.ArrowInvalid) as error:
            raise ResultStoreError(f"--results {self.place}: cannot be {operation}: {_message(error)}") from error


def _message(error: BaseException) -> str:
    """The error in one line of at most 300 characters."""
    text = printable(collapsed(error))
    return text if len(text) <= 300 else f"{text[:300]}…"


def _rows(task: SweepTask, outcome: ReplayFigures | Failed) -> Iterator[dict[str, Any]]:
    common: dict[str, Any] = {
        "key": task.key,
        "customer": task.customer,
        "stack": task.settings.stack,
        "trace": task.trace,
        "setting": task.setting,
        "seed": task.seed,
    }
    if isinstance(outcome, Failed):
        yield common | {"strategy": "", "error": outcome.why}
        return
    common |= {name: getattr(outcome, name) for name in ("overload", "days", "jobs", "coverage", "cpu_s")}
    for strategy, figures in outcome.strategies.items():
        yield common | {"strategy": strategy, **figures}


def rows_of(rows: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> list[Mapping[str, Any]]:
    """The rows of these replays, one for each strategy."""
    replays = set(keys)
    return list({(row["key"], row["strategy"]): row for row in rows if row["key"] in replays}.values())
