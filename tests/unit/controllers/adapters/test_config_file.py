"""A config document that changes under the running process."""

from pathlib import Path

import pytest

from controllers.process import ConfigFile
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump, load
from tests.builders.controllers import config, pool_policy

BEFORE, AFTER = config(pool_policy()), config(pool_policy(max_workers=3))


def only_rq(text: str) -> ControllerConfig:
    given = load(ControllerConfig, text)
    if any(pool.source != "rq" for pool in given.pools):
        raise ValueError("only rq here")
    return given


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(dump(BEFORE))
    return path


def test_another_good_document_is_news_once(path: Path) -> None:
    file = ConfigFile(path, only_rq)
    path.write_text(dump(AFTER))

    assert [file.changed(), file.changed()] == [True, False]
    assert file.config == AFTER


def test_the_same_config_in_other_words_is_no_news(path: Path) -> None:
    file = ConfigFile(path, only_rq)
    path.write_text(dump(BEFORE) + "\n\n")

    assert not file.changed()


@pytest.mark.parametrize("bad", ["", "{", '{"schema": 99}', dump(config(pool_policy(source="huey"))), "\udcff"])
def test_a_bad_document_keeps_the_last_good_one_and_says_why(path: Path, bad: str) -> None:
    file = ConfigFile(path, only_rq)
    path.write_text(bad, errors="surrogateescape")

    assert not file.changed()
    assert file.config == BEFORE
    assert "following the last good one" in file.why


def test_a_document_that_is_gone_is_bad_until_it_is_back(path: Path) -> None:
    file = ConfigFile(path, only_rq)
    path.unlink()
    file.changed()
    assert "No such file" in file.why

    path.write_text(dump(BEFORE))
    assert not file.changed()
    assert file.why == ""


def test_a_start_on_a_bad_document_is_refused(path: Path) -> None:
    path.write_text("{")

    with pytest.raises(ValueError, match="wanted a JSON object"):
        ConfigFile(path, only_rq)
