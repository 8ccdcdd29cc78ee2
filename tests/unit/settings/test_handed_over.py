"""Config as Pulumi passes it gives the same settings as the file."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.settings import StackInvalid, load_stack
from ebbtide.settings.file.contents import files_in, no_files
from ebbtide.settings.load import settings_of_texts, value_of
from tests.builders.mutants import as_pulumi_passes
from tests.paths import DATA, ROOT, STACK_FILES

LABELLING = ROOT / "examples" / "labelling-platform" / "Pulumi.labelling.yaml"


def texts(name: str) -> dict[str, str]:
    return texts_of(STACK_FILES / f"Pulumi.{name}.yaml")


def texts_of(path: Path) -> dict[str, str]:
    read: dict[str, Any] = yaml.safe_load(path.read_text().replace("PLACEHOLDER", "v1:Zm9v:YmFy"))
    return as_pulumi_passes(read["config"])[0]


@pytest.mark.parametrize("name", ["demo", "example-berlin"])
def test_the_texts_of_a_file_are_the_settings_of_the_file(name: str) -> None:
    foreign = {"aws:profile": "somebody's", "pulumi:tags": "{"}

    assert settings_of_texts({**texts(name), **foreign}, stack=name, file="config", reader=no_files) == load_stack(
        name, DATA
    )


def test_files_of_a_stack_are_read_in_its_folder() -> None:
    reader = files_in(LABELLING.parent)

    settings = settings_of_texts(texts_of(LABELLING), stack="labelling", file="config", reader=reader)

    assert settings.all_workloads == load_stack(str(LABELLING)).all_workloads


def test_a_fault_names_where_the_texts_are_from() -> None:
    with pytest.raises(StackInvalid, match="config of demo: ebbtide:workers"):
        settings_of_texts(
            {**texts("demo"), "ebbtide:workers": "3"}, stack="demo", file="config of demo", reader=no_files
        )


@pytest.mark.parametrize("text", ["1.35", "true", "{", "[" * 100_000, ""])
def test_what_is_no_object_stays_a_text(text: str) -> None:
    assert value_of(text) == text
