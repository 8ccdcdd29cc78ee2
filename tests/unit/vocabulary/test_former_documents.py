"""Config documents that a former program wrote, and today's processes: images and documents are updated one by one."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import Document, dump, load
from ebbtide.vocabulary.exporter import ExporterConfig
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.paths import DATA

KINDS: dict[str, type[Document]] = {
    "config.json": ControllerConfig,
    "exporter.json": ExporterConfig,
    "workloads.json": WorkloadsConfig,
}
RECORDED = sorted((DATA / "former").glob("*/documents/*/*.json"))


def leaves(value: Any) -> Iterator[object]:
    """Yield the values of a JSON document without their keys, which a process may know by another name by now."""
    if isinstance(value, dict):
        value = [*cast("dict[str, Any]", value).values()]
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from leaves(item)
    else:
        yield value


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: "/".join(file.parts[-2:]))
def test_a_process_reads_the_document_of_a_former_program(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    kind = KINDS[file.name]

    former, understood = json.loads(text), json.loads(dump(load(kind, text)))

    for document in (former, understood):
        document.pop("schema", None)
    assert Counter(leaves(former)) <= Counter(leaves(understood))


def test_each_kind_of_document_was_recorded() -> None:
    assert {file.name for file in RECORDED} == KINDS.keys()
