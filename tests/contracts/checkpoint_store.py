"""What every store of checkpoints promises. One body: for a folder, and for a bucket's real client against an API."""

from pathlib import Path
from uuid import uuid4

import pytest

from ebbtide.jobs.checkpoints.probe import probe
from ebbtide.jobs.checkpoints.stores import Store


class StoreContract:
    """Whoever derives from it gives a fixture `store`."""

    @pytest.fixture
    def folder(self) -> str:
        """A folder of its own for each test: a bucket is shared."""
        return f"job-{uuid4().hex}"

    def test_what_is_written_is_read(self, store: Store, folder: str, tmp_path: Path) -> None:
        store.write(f"{folder}/a", b"one")
        store.fetch(f"{folder}/a", tmp_path / "copy")

        assert store.read(f"{folder}/a") == b"one"
        assert (tmp_path / "copy").read_bytes() == b"one"
        assert store.size(f"{folder}/a") == 3

    def test_a_file_is_stored_whole(self, store: Store, folder: str, tmp_path: Path) -> None:
        content = bytes(range(256)) * 80_000  # 20 MB: more than one part of an upload
        (tmp_path / "state").write_bytes(content)

        store.write(f"{folder}/a", tmp_path / "state")

        assert store.read(f"{folder}/a") == content

    def test_names_are_sorted_and_of_one_folder(self, store: Store, folder: str) -> None:
        for name in ("b", "a", "c"):
            store.write(f"{folder}/{name}", b"")
        store.write(f"{folder}-2/d", b"")

        assert store.names(folder) == [f"{folder}/a", f"{folder}/b", f"{folder}/c"]

    def test_a_folder_that_is_not_there_is_empty(self, store: Store, folder: str) -> None:
        assert store.names(folder) == []
        assert store.size(f"{folder}/a") is None

    def test_of_two_that_create_a_name_the_first_wins(self, store: Store, folder: str) -> None:
        assert store.create(f"{folder}/a", b"first")
        assert not store.create(f"{folder}/a", b"second")
        assert store.read(f"{folder}/a") == b"first"

    def test_writing_replaces(self, store: Store, folder: str) -> None:
        store.write(f"{folder}/a", b"first")
        store.write(f"{folder}/a", b"second")

        assert store.read(f"{folder}/a") == b"second"

    def test_deleting_passes_over_what_is_not_there(self, store: Store, folder: str) -> None:
        store.write(f"{folder}/a", b"")

        store.delete([f"{folder}/a", f"{folder}/b"])

        assert store.names(folder) == []

    def test_it_bears_the_probe_and_nothing_is_left(self, store: Store) -> None:
        probe(store)

        assert store.names(".probe") == []
