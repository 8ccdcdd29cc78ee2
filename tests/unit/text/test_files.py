"""Output that appears whole or not at all."""

import os
from pathlib import Path

import pytest

from ebbtide.text.files import Unwritable, read_file, write_directory, write_file

FILES = {"kubernetes/10-namespaces.yaml": "new\n", "graph.mmd": "new\n"}


def contents(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_a_new_directory_holds_exactly_the_files(tmp_path: Path) -> None:
    write_directory(tmp_path / "deep" / "out", FILES)

    assert contents(tmp_path) == {f"deep/out/{name}": text for name, text in FILES.items()}


def test_an_earlier_output_is_replaced_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_directory(tmp_path / "out", {"kubernetes/60-workloads.yaml": "old\n", "graph.mmd": "old\n"})

    write_directory(tmp_path / "out", FILES)

    assert contents(tmp_path) == {f"out/{name}": text for name, text in FILES.items()}


def test_somebody_elses_directory_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(Unwritable, match="thesis"):
        write_directory(tmp_path, FILES)

    assert contents(tmp_path) == {"thesis.tex": "years of work"}


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")

    with pytest.raises(Unwritable, match="wanted a directory, found a file"):
        write_directory(tmp_path / "out", FILES)


def test_a_failing_write_leaves_the_old_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_directory(tmp_path / "out", {"graph.mmd": "old\n"})
    monkeypatch.setattr(Path, "write_text", failing_on("graph.mmd", Path.write_text))

    with pytest.raises(Unwritable, match="No space left"):
        write_directory(tmp_path / "out", FILES)

    assert contents(tmp_path) == {"out/graph.mmd": "old\n"}


def test_a_failing_rename_puts_the_old_output_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_directory(tmp_path / "out", {"graph.mmd": "old\n"})
    monkeypatch.setattr(Path, "rename", failing_on("new", Path.rename))

    with pytest.raises(Unwritable, match="No space left"):
        write_directory(tmp_path / "out", FILES)

    assert contents(tmp_path) == {"out/graph.mmd": "old\n"}


def test_a_file_is_written_into_folders_that_are_made_for_it(tmp_path: Path) -> None:
    write_file(tmp_path / "deep" / "figures.json", "{}")

    assert contents(tmp_path) == {"deep/figures.json": "{}"}


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "figures.json", "old")
    monkeypatch.setattr(Path, "replace", failing_on(f".figures.json.{os.getpid()}.partial", Path.replace))

    with pytest.raises(Unwritable, match=r"figures\.json: cannot be written: No space left"):
        write_file(tmp_path / "figures.json", "new")

    assert contents(tmp_path) == {"figures.json": "old"}


def failing_on(name: str, real):  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType] - wraps a method
    """The method, failing as a full disk does for paths of this name."""

    def method(path: Path, *args: object, **kwargs: object) -> object:
        if path.name == name:
            raise OSError(28, "No space left on device")
        return real(path, *args, **kwargs)  # pyright: ignore[reportUnknownVariableType] - as above

    return method  # pyright: ignore[reportUnknownVariableType] - as above


def test_a_file_is_read_up_to_its_limit_and_one_without_an_end_is_refused(tmp_path: Path) -> None:
    exact = tmp_path / "exact"
    exact.write_bytes(b"x" * 2048)

    assert len(read_file(exact, 2048)) == 2048
    for path in (exact, Path("/dev/zero")):
        with pytest.raises(OSError, match="more than 1 KiB"):
            read_file(path, 1024)
