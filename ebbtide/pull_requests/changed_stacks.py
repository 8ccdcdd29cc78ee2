"""The stacks that a change concerns, by the names of the changed files.

A changed `stacks/Pulumi.X.yaml` concerns X. A file next to it that stack files or their bases name, before or after
the change, concerns those stacks. Files that affect no stack (documents, tests, workflows) concern none, and every
other file concerns all: an unlisted file causes a needless preview, but never a missing one.

The working tree is compared with its merge base, so that later changes of the other branch do not count; `main` and
`main...`, the notation of a preview, are equal here.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from ebbtide.settings.file.bases import merged
from ebbtide.settings.file.contents import PROJECT, FileReader, files_in, real_path_of
from ebbtide.settings.file.document import read_document
from ebbtide.settings.load import MOST_BYTES, STACKS, name_of, stack_names, stack_path
from ebbtide.settings.reading import files_named
from ebbtide.text.files import read_file
from ebbtide.text.git import NoSuchRef, first_line, is_shallow, run_git

NOTHING = "0" * 40
"""GitHub's commit id before the first push of a branch."""

_HARMLESS = (
    ".ci/",
    ".github/",
    "benchmarks/",
    "docs/",
    "examples/",
    f"{STACKS}/ledger/",
    "tests/",
    "tools/control-plane/",
    "tools/docs/",
    "tools/karpenter/",
    "tools/mutants/",
    "tools/prometheus/",
    "tools/ray/",
    "tools/serving/",
    "tools/workflows/",
)
_HARMLESS_FILES = {".dockerignore", ".gitignore", "LICENSE", "Makefile"}
_STACK_FILE = re.compile(rf"{STACKS}/Pulumi\.[^/]+\.yaml")
# Pulumi's own rule for the name of a stack; the first character keeps a name from being read as an option.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class GitFailed(Exception):
    """The message says which ref or repository, and what to do."""


@dataclass(frozen=True, slots=True)
class ChangedStacks:
    stacks: tuple[str, ...]  # sorted
    cause: str  # a file that concerns all stacks; "" otherwise
    gone: tuple[str, ...]  # stacks whose file was deleted
    misnamed: tuple[str, ...]  # stacks with names that Pulumi refuses


def concerned(
    paths: Iterable[str], existing: Sequence[str], readers: Mapping[str, Collection[str]] | None = None
) -> ChangedStacks:
    """Return the stacks that changed files concern. `paths` are relative to the repository; `existing` stacks have a
    file.

    `readers`: the stacks that read a file, by its path.
    """
    named: set[str] = set()
    reading: set[str] = set()
    cause = ""
    for path in sorted(paths):
        if _STACK_FILE.fullmatch(path):
            named.add(name_of(Path(path)))
        elif readers and path in readers:
            reading |= set(readers[path])
        elif not cause and not _is_harmless(path):
            cause = path
    valid = {name for name in existing if _NAME.fullmatch(name)}
    candidates = set(existing) if cause else (named | reading) & set(existing)
    stacks, misnamed = candidates & valid, tuple(sorted(candidates - valid))
    return ChangedStacks(tuple(sorted(stacks)), cause, tuple(sorted(named - set(existing))), misnamed)


def changed_stacks(against: str | None, root: Path) -> ChangedStacks:
    """The concerned stacks; all stacks if there is no commit to compare with. Raises: `GitFailed`."""
    existing = stack_names(root)
    if against is None or against == NOTHING:
        return concerned(["nothing to compare with"], existing)
    base = _fork_point(against, root)
    paths = _changed_files(base, root)
    return concerned(paths, existing, _readers(paths, base, existing, root))


def commits_of_head(root: Path) -> frozenset[str]:
    """Return HEAD and all earlier commits. Raises `GitFailed` in a shallow clone too, which lacks some of them."""
    commits = frozenset(_git(root, "rev-list", "HEAD").split())
    if is_shallow(root):
        raise GitFailed("the clone is shallow: expected all commits (git fetch --unshallow, or fetch-depth: 0)")
    return commits


def _is_harmless(path: str) -> bool:
    alone = "/" not in path and path.endswith(".md")
    return alone or path.startswith(_HARMLESS) or path in _HARMLESS_FILES


def _readers(paths: Sequence[str], base: str, existing: Sequence[str], root: Path) -> dict[str, set[str]]:
    """The stacks that read each changed file next to the stack files; an invalid stack file may read any."""
    other_files = [path for path in paths if path.startswith(f"{STACKS}/") and not _STACK_FILE.fullmatch(path)]
    if not other_files:
        return {}
    readers: dict[str, set[str]] = {}
    unsure: set[str] = set()

    def add(stacks: Iterable[tuple[str, str | None]], reader: FileReader) -> None:
        for stack, text in stacks:
            files = _files_of(text, reader, root)
            if files is None:
                unsure.add(stack)
            for file in files or ():
                readers.setdefault(file, set()).add(stack)

    now = dict(_texts(existing, root))
    add(now.items(), files_in(root / STACKS))
    former = _files_at(base, root)
    changed = {name_of(Path(path)): path for path in filter(_STACK_FILE.fullmatch, paths)}
    add(_former_texts(changed, base, root), former)
    if not readers.keys() >= {*other_files}:  # a base may have named the file before
        add(((stack, text) for stack, text in now.items() if stack not in changed), former)
    return {path: readers[path] | unsure for path in other_files if path in readers}


def _texts(stacks: Iterable[str], root: Path) -> Iterator[tuple[str, str | None]]:
    """The current text of each stack file; None if it cannot be read."""
    for stack in stacks:
        try:
            yield stack, read_file(stack_path(stack, root), MOST_BYTES).decode()
        except (OSError, UnicodeDecodeError):
            yield stack, None


def _former_texts(changed: Mapping[str, str], base: str, root: Path) -> Iterator[tuple[str, str | None]]:
    """The former text of each changed stack file that existed."""
    for stack, path in changed.items():
        if _git(root, "ls-tree", "--name-only", base, "--", path):
            yield stack, _git(root, "show", f"{base}:./{path}")


def _files_at(commit: str, root: Path) -> FileReader:
    """A reader of the commit's files next to the stack files."""

    @cache
    def read(path: str) -> bytes:
        try:
            return _git(root, "show", f"{commit}:./{posixpath.normpath(f'{STACKS}/{path}')}").encode()
        except GitFailed:
            raise FileNotFoundError(path) from None

    return read


def _files_of(text: str | None, reader: FileReader, root: Path) -> set[str] | None:
    """Paths in the repository of the bases of a stack file, of the files that they name, and of the targets of links;
    None if they are unknown.
    """
    if text is None:
        return None
    paths: list[str] = []

    def read(path: str) -> bytes:
        paths.append(path)
        return reader(path)

    values = merged(read_document(text, ""), "", read)
    if values.problems:
        return None
    home = (root / STACKS).resolve()
    files: set[str] = set()
    for path in (*paths, *files_named(values.config)):
        if path == PROJECT:
            continue
        real = real_path_of(home / path)
        files.add(f"{STACKS}/{PurePosixPath(path)}")
        if real.is_relative_to(home):
            files.add(f"{STACKS}/{real.relative_to(home).as_posix()}")
    return files


def _changed_files(base: str, root: Path) -> list[str]:
    # Without renames: a moved file counts as deleted and created.
    changed = _git(root, "diff", "--name-only", "--no-renames", "--relative", "-z", base, "--")
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in f"{changed}{untracked}".split("\0") if path]


def _fork_point(against: str, root: Path) -> str:
    _git(root, "rev-parse", "--git-dir")  # fails with git's own message if there is no readable repository
    ref = f"{against.removesuffix('...')}^{{commit}}"
    try:
        commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", ref).strip()
    except GitFailed:
        raise GitFailed(f"--against {against}: no such branch, tag or commit here (for example origin/main)") from None
    try:
        return _git(root, "merge-base", commit, "HEAD").strip()
    except GitFailed:
        deepen = "the clone is shallow: git fetch --unshallow, or fetch-depth: 0"
        advice = deepen if is_shallow(root) else "unrelated histories"
        raise GitFailed(f"--against {against}: no commit in common with HEAD ({advice})") from None


def _git(root: Path, *arguments: str) -> str:
    try:
        done = run_git(root, *arguments)
    except NoSuchRef as error:
        raise GitFailed(str(error)) from None
    if done.returncode != 0:
        raise GitFailed(f"git {arguments[0]}: {first_line(done.stderr)}")
    return done.stdout
