"""Stores that need no server. `tests/aws/test_checkpoint_bucket.py` tests the bucket's against S3's API."""

from pathlib import Path

import pytest

from ebbtide.jobs.checkpoints.errors import StoreError
from ebbtide.jobs.checkpoints.probe import probe
from ebbtide.jobs.checkpoints.stores import FolderStore, Store, open_store
from tests.contracts.checkpoint_store import StoreContract


class TestFolder(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FolderStore(tmp_path / "checkpoints")


class TestMemory(StoreContract):
    """obstore's own store without a server: the client's half of a bucket."""

    @pytest.fixture
    def store(self) -> Store:
        return open_store("memory:///")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreError, match=r"^checkpoints in .*/file: cannot write: Not a directory$"):
        FolderStore(tmp_path / "file").create("job/a", b"")


def test_nothing_of_a_write_that_fails_is_seen(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)

    with pytest.raises(StoreError, match="cannot write: No such file"):
        store.write("job/a", tmp_path / "missing")

    assert store.names("job") == []
    assert list((tmp_path / "job").iterdir()) == []


def test_a_full_disk_is_one_line() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")

    with pytest.raises(StoreError, match="cannot write"):
        FolderStore(Path("/dev")).write("full/a", b"a")


def test_an_address_that_no_client_knows_is_one_line() -> None:
    with pytest.raises(StoreError, match=r"^checkpoints in nowhere://bucket: cannot open: "):
        open_store("nowhere://bucket")


class ReplacingStore(FolderStore):
    def create(self, name: str, content: bytes) -> bool:
        self.write(name, content)
        return True


def test_the_probe_refuses_a_store_that_replaces_what_exists(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="two attempts of one job could not be told apart"):
        probe(ReplacingStore(tmp_path))


class ForgettingStore(FolderStore):
    def read(self, name: str) -> bytes:
        return super().read(name)[1:]


def test_the_probe_reads_what_it_wrote(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="what was written is not what is read"):
        probe(ForgettingStore(tmp_path))
