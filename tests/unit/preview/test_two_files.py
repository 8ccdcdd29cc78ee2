"""A file now and at a git ref, both rendered as in a preview."""

from pathlib import Path

import pytest

from ebbtide.preview.changes import changes_between
from ebbtide.preview.sides import side_now
from tests.builders.sides import Repository, with_max

pytestmark = pytest.mark.process


def test_what_the_file_says_otherwise_is_what_changes(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit()
    repository.write(with_max(9))

    changes = changes_between(repository.at("HEAD").resources, side_now("acme", tmp_path).resources)

    assert [(change.name, [field.after for field in change.fields]) for change in changes] == [
        ("controller-config", ["9"])
    ]


def test_a_renamed_stack_changes_in_nothing(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit()
    repository.git("mv", "stacks/Pulumi.acme.yaml", "stacks/Pulumi.renamed.yaml")

    before, after = repository.at("HEAD", "renamed"), side_now("renamed", tmp_path)

    assert len(before.resources) == len(after.resources) > 100
    assert changes_between(before.resources, after.resources) == ()
