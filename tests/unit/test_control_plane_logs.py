"""Folders for logs of tests whose ids are long."""

from pathlib import Path

from tests.control_plane.support.logs import folder_of


def test_a_test_with_a_long_id_has_a_folder_of_its_own(tmp_path: Path) -> None:
    ids = [f"adopted/test_rules.py::test_rule[{'{app: ü}, ' * 60}{number}]" for number in range(2)]

    for each in ids:
        (tmp_path / folder_of(each)).mkdir()

    assert len(list(tmp_path.iterdir())) == 2


def test_a_short_id_is_readable() -> None:
    assert folder_of("test_scale.py::test_it[a b]") == "test_scale.py-test_it-a-b-"
