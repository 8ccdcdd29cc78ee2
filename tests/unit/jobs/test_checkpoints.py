"""What a job sees of its checkpoints, in a folder."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from threading import Timer
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.jobs import checkpoint
from ebbtide.jobs.checkpoints import (
    CannotLoad,
    CannotSave,
    CheckpointError,
    Codec,
    Paused,
    Saved,
    StoreError,
    Superseded,
    running,
)
from ebbtide.jobs.checkpoints.environment import VARIABLE
from ebbtide.jobs.checkpoints.stored import StoredCheckpoints, folder_of, remove_expired
from ebbtide.jobs.checkpoints.stores import FolderStore
from tests.counts import examples


class Job:
    """A running job as a worker describes it."""

    def __init__(self) -> None:
        self.id = "a"
        self.stopping = False
        self.told: dict[str, str | int] = {}

    def claim(self, at_least: int) -> int:
        return at_least + 1

    def opened(self, checkpoints: StoredCheckpoints) -> None:
        self.stored = checkpoints

    def note(self, progress: Mapping[str, str | int]) -> None:
        self.told |= progress


class Failing(FolderStore):
    """Fails on request."""

    fails = False

    def write(self, name: str, content: bytes | Path) -> None:
        if self.fails:
            raise StoreError(self.address, "cannot write: the bucket is away")
        super().write(name, content)


@pytest.fixture
def here() -> Iterator[Job]:
    job = Job()
    running.begin(job)
    yield job
    running.end()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def newest(store: Path, suffix: str, job: str = "a") -> Path:
    return sorted((store / job).glob(f"*.{suffix}"))[-1]


def test_a_job_resumes_at_its_checkpoint(store: Path) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        assert saved.load(default={"epoch": 0}) == {"epoch": 0}
        saved.offer({"epoch": 1})
        saved.offer({"epoch": 2})

    with checkpoint(store, job="a") as saved:
        assert saved.load(default={"epoch": 0}) == {"epoch": 2}
        assert saved.attempt == 2


def test_jobs_do_not_see_each_other(store: Path) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer(1)

    with checkpoint(store, job="b") as saved:
        assert saved.load() is None


@pytest.mark.parametrize("state", [{"a": [1, 2.5, None, "x"]}, 7, "text", b"\x00\xff", b""])
def test_json_and_bytes_are_restored_unchanged(store: Path, state: object) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer(state)

    with checkpoint(store, job="a") as saved:
        assert saved.load() == state


def test_a_folder_comes_back_as_a_copy(store: Path, tmp_path: Path) -> None:
    made = tmp_path / "model"
    (made / "layers").mkdir(parents=True)
    (made / "layers" / "1.bin").write_bytes(b"weights")
    (made / "empty").mkdir()
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer(made)

    with checkpoint(store, job="a") as saved:
        copy: Path = saved.load()
        assert copy != made
        assert (copy / "layers" / "1.bin").read_bytes() == b"weights"
        assert (copy / "empty").is_dir()


def test_another_codec_is_given_by_the_job(store: Path) -> None:
    def dump(state: object, path: Path) -> None:
        path.write_text(str(state).upper())

    upper = Codec("upper", dump, lambda path: path.read_text().lower())
    with checkpoint(store, job="a", every=0, codec=upper) as saved:
        saved.offer("weights")

    assert newest(store, "data").read_text() == "WEIGHTS"
    with checkpoint(store, job="a", codec=upper) as saved:
        assert saved.load() == "weights"
    with checkpoint(store, job="a") as saved, pytest.raises(CannotLoad, match="written with codec 'upper'"):
        saved.load()


def test_an_offer_saves_when_it_is_due(store: Path) -> None:
    now = 0.0
    with checkpoint(store, job="a", every="5m", clock=lambda: now) as saved:
        assert saved.offer(1)  # the first shows at once what is wrong
        now = 299.0
        assert not saved.offer(2)
        now = 300.0
        assert saved.offer(3)
        now = 599.0
        assert not saved.offer(4)


def test_on_sigterm_it_saves_and_pauses(store: Path, here: Job) -> None:
    with checkpoint(store, every=3600) as saved:
        saved.offer({"epoch": 6}, step=6)
        here.stopping = True
        assert saved.stopping
        with pytest.raises(Paused, match="job a was saved at step 7") as raised:
            saved.offer({"epoch": 7}, step=7)
    assert not isinstance(raised.value, Exception)  # a loop that skips bad batches would swallow it

    here.stopping = False
    with checkpoint(store) as saved:
        assert saved.load() == {"epoch": 7}
    assert here.told["step"] == 7


def test_only_the_last_checkpoints_are_kept(store: Path) -> None:
    with checkpoint(store, job="a", every=0, keep=2) as saved:
        for epoch in range(9):
            saved.offer(epoch)

    names = sorted(path.name for path in (store / "a").iterdir())
    assert [name for name in names if name.endswith(".json")] == [
        "0000000001-0000000008.json",
        "0000000001-0000000009.json",
    ]
    assert len(names) == 5  # and their data, and the attempt


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_checkpoint_is_passed_over_with_one_line(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer("older")
        saved.offer("newer")
    newest(store, "data").write_bytes(b'"nexer"')

    with checkpoint(store, job="a") as saved:
        assert saved.load() == "older"
    assert "another checksum" in caplog.text


DAMAGES: dict[str, Callable[[Path], object]] = {
    "0 bytes": lambda store: newest(store, "data").write_bytes(b""),
    "its data is missing": lambda store: newest(store, "data").unlink(),
    "it is empty": lambda store: newest(store, "json").write_bytes(b""),
    "not a checkpoint's header": lambda store: newest(store, "json").write_bytes(b'{"job":'),
    "is not a checkpoint's header": lambda store: newest(store, "json").write_bytes(b'{"job": "a"}'),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_whatever_is_half_there_is_never_loaded(store: Path, caplog: pytest.LogCaptureFixture, said: str) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer("older")
        saved.offer("newer")

    DAMAGES[said](store)

    with checkpoint(store, job="a") as saved:
        assert saved.load() == "older"
    assert said in caplog.text


def test_where_none_is_intact_the_job_fails_instead_of_beginning_again(store: Path) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer(1)
    newest(store, "data").write_bytes(b"")

    with checkpoint(store, job="a") as saved, pytest.raises(CannotLoad, match="none of its 1 checkpoints"):
        saved.load()


def test_data_without_a_header_is_nothing_and_goes(store: Path) -> None:
    (store / "a").mkdir(parents=True)
    left = store / "a" / "0000000001-0000000004.data"
    left.write_bytes(b"9")  # a machine went between the data and the header
    (store / "a" / "0000000001.attempt").touch()

    with checkpoint(store, job="a", every=0) as saved:
        assert saved.load(default=0) == 0
        saved.save(1)

    assert not left.exists()


def test_a_codec_that_cannot_load_is_one_line(store: Path) -> None:
    def fail(path: Path) -> None:
        raise OSError(f"cannot read {path.name}\nand more")

    with checkpoint(store, job="a", every=0, codec=Codec("mine", lambda _, path: path.touch(), fail)) as saved:
        saved.offer(1)
        with pytest.raises(CannotLoad, match=r"^job a: codec 'mine' cannot load its checkpoint: cannot read state$"):
            saved.load()


def renamed(state: dict[str, int], version: int) -> dict[str, int]:
    assert version == 1
    return {"step": state["epoch"]}


def test_a_version_that_is_not_the_jobs_needs_a_migration(store: Path) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer({"epoch": 3})

    with (
        checkpoint(store, job="a", version=2) as saved,
        pytest.raises(CannotLoad, match="version 1 and the job wants 2"),
    ):
        saved.load()
    with checkpoint(store, job="a", version=2, migrate=renamed) as saved:
        assert saved.load() == {"step": 3}


# --- what cannot be saved ---------------------------------------------------------------------------------------------


def test_a_state_that_json_cannot_hold_is_one_line_and_the_former_stays(store: Path) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer({"epoch": 1})
        with pytest.raises(CannotSave, match=r"^the state cannot be written as JSON \(Object of type set") as raised:
            saved.offer({"epoch": {2}})
        assert "\n" not in str(raised.value)

    with checkpoint(store, job="a") as saved:
        assert saved.load() == {"epoch": 1}


def test_while_the_store_is_away_the_job_goes_on(store: Path, here: Job, caplog: pytest.LogCaptureFixture) -> None:
    away = Failing(store)
    with checkpoint(away, every=0) as saved:
        saved.offer(1)
        away.fails = True

        assert not saved.offer(2)

        assert "step 2 is not saved: checkpoints in" in caplog.text
        assert "the bucket is away" in str(here.told["problem"])
        away.fails = False
        assert saved.offer(3)
        assert here.told["problem"] == ""
        assert saved.load() == 3


def test_a_full_disk_below_the_scratch_folder_is_one_line_and_the_job_goes_on(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def full(state: object, path: Path) -> None:
        del state
        path.symlink_to("/dev/full")
        path.write_bytes(b"more than fits")

    with checkpoint(store, job="a", every=0) as saved:
        saved.offer({"epoch": 1})
    with checkpoint(store, job="a", every=0, codec=Codec("full", full, Path.read_bytes)) as saved:
        assert not saved.offer({"epoch": 2})
        assert "No space left on device" in caplog.text
    with checkpoint(store, job="a") as saved:
        assert saved.load() == {"epoch": 1}


def test_on_sigterm_while_the_store_is_away_it_goes_on_until_it_can_save(store: Path, here: Job) -> None:
    away = Failing(store)
    with checkpoint(away, every=0) as saved:
        away.fails = True
        here.stopping = True
        assert not saved.offer(1)
        away.fails = False
        with pytest.raises(Paused):
            saved.offer(2)


def test_a_job_that_begins_while_the_store_is_away_waits(
    store: Path, here: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ebbtide.jobs.checkpoints.saved.PAUSE", 0.01)
    store.write_text("in the way")
    Timer(0.1, store.unlink).start()

    with checkpoint(store, every=0) as saved:
        assert saved.load(default=1) == 1

    assert caplog.text.count("job a waits") == 1
    assert here.stored.address


def test_on_sigterm_before_it_began_a_job_goes_back_unchanged(store: Path, here: Job) -> None:
    store.write_text("in the way")
    here.stopping = True

    with pytest.raises(Paused, match="has not begun"), checkpoint(store):
        pass


def test_outside_a_worker_nothing_waits(store: Path) -> None:
    store.write_text("in the way")

    with pytest.raises(StoreError, match="Not a directory"), checkpoint(store, job="a"):
        pass


# --- two attempts -----------------------------------------------------------------------------------------------------


def test_an_older_attempt_publishes_nothing_once_a_newer_one_began(store: Path) -> None:
    with checkpoint(store, job="a", every=0) as older:
        older.offer("old 1")
        with checkpoint(store, job="a", every=0) as newer:
            with pytest.raises(Superseded):
                older.offer("old 2")
            assert newer.load() == "old 1"
            newer.save("new")
        with pytest.raises(Superseded):
            older.offer("old 3")

    with checkpoint(store, job="a") as saved:
        assert saved.load() == "new"


def test_a_clock_that_is_behind_changes_nothing(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer("before")

    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) - timedelta(days=900)  # pyright: ignore[reportReturnType] - of this class

    monkeypatch.setattr("ebbtide.jobs.checkpoints.saved.datetime", Behind)
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer("after")

    with checkpoint(store, job="a") as saved:
        assert saved.load() == "after"


def test_of_two_attempts_that_begin_at_once_each_has_its_own_number(store: Path) -> None:
    stored = StoredCheckpoints(FolderStore(store), "a")

    assert stored.claim(1)
    assert not stored.claim(1)
    with checkpoint(store, job="a") as saved:
        assert saved.attempt == 2


def test_the_number_exceeds_what_the_store_knows_if_redis_forgot(store: Path, here: Job) -> None:
    (store / "a").mkdir(parents=True)
    (store / "a" / "0000000007.attempt").touch()
    asked: list[int] = []

    def claim(at_least: int) -> int:
        asked.append(at_least)
        return max(1, at_least + 1) if len(asked) > 1 else 7

    here.claim = claim  # pyright: ignore[reportAttributeAccessIssue]
    with checkpoint(store) as saved:
        assert saved.attempt == 8
    assert asked == [7, 7]


@settings(max_examples=examples(60), deadline=None)
@given(plan=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12))
def test_whatever_attempts_do_the_newest_that_published_wins(
    tmp_path_factory: pytest.TempPathFactory, plan: list[tuple[int, bool]]
) -> None:
    """Three attempts of one job, opened in order, offer in any order."""
    store = tmp_path_factory.mktemp("store")
    opened: list[Saved] = []
    expected: list[int] | None = None
    with ExitStack() as stack:
        for number, (who, opens) in enumerate(plan):
            if opens or not opened:
                opened.append(stack.enter_context(checkpoint(store, job="a", every=0)))
            attempt = opened[min(who, len(opened) - 1)]
            state = [attempt.attempt, number]
            if attempt is opened[-1]:
                attempt.save(state)
                expected = state
            else:
                with pytest.raises(Superseded):
                    attempt.save(state)
    with checkpoint(store, job="a") as saved:
        assert saved.load() == expected


# --- the end ----------------------------------------------------------------------------------------------------------


def test_checkpoints_go_when_the_result_has_lived_its_time_and_not_before(store: Path) -> None:
    where = FolderStore(store)
    for job in ("a", "b"):
        with checkpoint(where, job=job, every=0) as saved:
            saved.offer(1)
    StoredCheckpoints(where, "a").done(until=500.0)

    assert remove_expired(where, 499.0) == []
    assert remove_expired(where, 501.0) == ["a"]

    assert where.names("a") == []
    assert where.names("b") != []
    assert where.names(".done") == []


def test_a_job_that_was_started_again_keeps_its_checkpoints(store: Path) -> None:
    where = FolderStore(store)
    with checkpoint(where, job="a", every=0) as saved:
        saved.offer(1)
    StoredCheckpoints(where, "a").done(until=500.0)
    with checkpoint(where, job="a") as saved:
        pass

    assert remove_expired(where, 501.0) == []
    assert where.names("a") != []


# --- what is given ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", ["../../etc", ".done", "a/b", "ä b", "..", "x" * 200])
def test_any_id_has_its_own_folder(store: Path, job: str) -> None:
    with checkpoint(store, job=job, every=0) as saved:
        saved.offer(1)

    assert [path.name for path in store.iterdir()] == [folder_of(job)]
    assert not folder_of(job).startswith(".")


def test_the_pools_section_gives_store_and_interval(store: Path, monkeypatch: pytest.MonkeyPatch, here: Job) -> None:
    section = {"store": str(store), "every": 60, "saveWithin": 90, "required": False, "openWithin": 600}
    monkeypatch.setenv(VARIABLE, json.dumps(section))
    now = 0.0
    with checkpoint(clock=lambda: now) as saved:
        saved.offer(1)
        now = 59.0
        assert not saved.offer(2)
        now = 60.0
        assert saved.offer(3)
    assert here.stored.address == f"{store}/a"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "found '{', wanted store, every, saveWithin, required, openWithin"),
        ('{"store": 1, "every": 1, "saveWithin": 1, "required": true, "openWithin": 1}', "wanted store, for example"),
    ],
)
def test_a_section_that_cannot_be_read_is_one_line(
    monkeypatch: pytest.MonkeyPatch, here: Job, text: str, said: str
) -> None:
    assert here.id
    monkeypatch.setenv(VARIABLE, text)

    with pytest.raises(CheckpointError) as raised, checkpoint():
        pass
    assert said in str(raised.value)


def test_no_store_and_no_job_are_one_line_each(store: Path) -> None:
    with pytest.raises(CheckpointError, match="no store for checkpoints"), checkpoint(job="a"):
        pass
    with pytest.raises(CheckpointError, match="no job to keep checkpoints for"), checkpoint(store):
        pass
    with (
        pytest.raises(ValueError, match="every: found '5 minutes', wanted a duration"),
        checkpoint(store, job="a", every="5 minutes"),
    ):
        pass


def test_each_save_is_a_line(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ebbtide.checkpoints")
    with checkpoint(store, job="a", every=0) as saved:
        saved.offer({"epoch": 1}, step=12)

    assert "job a: step 12 saved, 12 bytes in" in caplog.text
