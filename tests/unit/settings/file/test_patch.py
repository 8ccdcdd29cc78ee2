"""Changes in a stack file's text replace one value and keep every other character."""

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from ebbtide.settings.file.document import read_document
from ebbtide.settings.file.problems import SECRET, Location
from ebbtide.settings.patch import Change, PatchInvalid, changes_json, changes_of, difference, patched
from tests.paths import STACK_FILES

FILE = "stacks/Pulumi.x.yaml"
TEXT = """\
# A first line.
config:
  ebbtide:services: # served
    chat:
      # how many
      scale: { min: 2, max: 8 } # by day
      resources:
        cpu: 500m # seen
        memory: 1Gi
      # after the resources
    embed: {}
  ebbtide:list:
    - name: a
      max: 1
    - { name: b }
"""
SERVICES = "ebbtide:services"


def change(*at: str | int, before: object, after: object) -> Change:
    return Change(at=at, before=before, after=after, reason="for a test")


def changed_text(*changes: Change, text: str = TEXT) -> str:
    return patched(text, FILE, changes)


@pytest.mark.parametrize(
    ("at", "before", "after", "old", "new"),
    [
        ((SERVICES, "chat", "scale", "max"), 8, 12, "max: 8 }", "max: 12 }"),
        ((SERVICES, "chat", "resources", "cpu"), "500m", "250m", "cpu: 500m # seen", "cpu: 250m # seen"),
        ((SERVICES, "chat", "scale", "floor"), None, "calendar", "max: 8 }", "max: 8, floor: calendar }"),
        (
            (SERVICES, "chat", "resources", "gpu"),
            None,
            1,
            "        memory: 1Gi\n",
            "        memory: 1Gi\n        gpu: 1\n",
        ),
        ((SERVICES, "embed", "scale", "max"), None, 3, "embed: {}", "embed: { scale: { max: 3 } }"),
        (
            (SERVICES, "chat", "metrics", "latency"),
            None,
            "300ms",
            "        memory: 1Gi\n",
            "        memory: 1Gi\n      metrics: { latency: 300ms }\n",
        ),
        ((SERVICES, "chat", "scale", "min"), 2, None, "{ min: 2, max: 8 }", "{ max: 8 }"),
        ((SERVICES, "chat", "scale", "max"), 8, None, "{ min: 2, max: 8 }", "{ min: 2 }"),
        ((SERVICES, "chat", "resources", "cpu"), "500m", None, "        cpu: 500m # seen\n", ""),
        (("ebbtide:list", 1, "name"), "b", None, "{ name: b }", "{}"),
        (("ebbtide:list", 0, "max"), 1, 2, "max: 1", "max: 2"),
        (("ebbtide:version",), None, "1.35", "{ name: b }\n", '{ name: b }\n  ebbtide:version: "1.35"\n'),
        ((SERVICES, "chat", "scale", "at"), None, "22:00", "max: 8 }", 'max: 8, at: "22:00" }'),
        ((SERVICES, "chat", "scale", "on"), None, [1, "a, b"], "max: 8 }", 'max: 8, "on": [1, "a, b"] }'),
    ],
)
def test_one_value_changes_and_nothing_else(at: Location, before: object, after: object, old: str, new: str) -> None:
    assert TEXT.count(old) == 1

    text = changed_text(change(*at, before=before, after=after))

    assert text == TEXT.replace(old, new)


def test_a_key_whose_last_sibling_is_deep_comes_after_all_of_it() -> None:
    text = changed_text(change(SERVICES, "third", "max", before=None, after=1))

    assert text == TEXT.replace("    embed: {}\n", "    embed: {}\n    third: { max: 1 }\n")


@pytest.mark.process
def test_a_file_without_a_last_newline_is_changed_too(tmp_path: Path) -> None:
    text = "config:\n  ebbtide:a: 1"

    result = changed_text(change("ebbtide:b", before=None, after=2), text=text)

    assert result == "config:\n  ebbtide:a: 1\n  ebbtide:b: 2"
    applied_by_git(text, result, tmp_path)


def test_every_value_that_changed_since_is_told_and_nothing_is_changed() -> None:
    with pytest.raises(PatchInvalid) as raised:
        changed_text(
            change(SERVICES, "chat", "scale", "min", before=2, after=3),
            change(SERVICES, "chat", "scale", "max", before=10, after=12),
            change(SERVICES, "gone", "scale", "max", before=1, after=2),
        )

    made_for = "which the advice was made for, found"
    assert raised.value.lines == (
        f"{FILE}:6: {SERVICES}.chat.scale.max: wanted 10, {made_for} 8; ask for the advice again",
        f"{FILE}:4: {SERVICES}.gone.scale.max: wanted 1, {made_for} no such key; ask for the advice again",
    )


def test_an_item_that_a_list_lacks_is_told() -> None:
    with pytest.raises(PatchInvalid, match=r"ebbtide:list\[7\].*no such key"):
        changed_text(change("ebbtide:list", 7, before=None, after={"name": "c"}))


def test_what_cannot_be_exchanged_in_the_text_is_refused() -> None:
    text = "config:\n  ebbtide:a: |\n    long\n    text\n  ebbtide:b: 1\n"

    with pytest.raises(PatchInvalid, match="change them by hand"):
        changed_text(change("ebbtide:a", before="long\ntext\n", after="short"), text=text)


def test_an_unsound_file_is_refused_with_its_faults() -> None:
    with pytest.raises(PatchInvalid, match=r"Pulumi\.x\.yaml:2"):
        changed_text(change("a", before=1, after=2), text="config:\n  a: *b\n")


@pytest.mark.process
def test_the_difference_is_a_patch_that_git_applies(tmp_path: Path) -> None:
    after = changed_text(
        change(SERVICES, "chat", "scale", "max", before=8, after=12),
        change("ebbtide:list", 0, "name", before="a", after="c"),
    )

    applied_by_git(TEXT, after, tmp_path)
    assert difference(TEXT, TEXT, FILE) == ""


def applied_by_git(before: str, after: str, folder: Path) -> None:
    git = shutil.which("git")
    assert git is not None
    (folder / "stacks").mkdir()
    (folder / FILE).write_text(before, encoding="utf-8")
    subprocess.run([git, "init", "-q"], cwd=folder, check=True)
    subprocess.run([git, "apply"], cwd=folder, input=difference(before, after, FILE), text=True, check=True)
    assert (folder / FILE).read_text(encoding="utf-8") == after


def test_changes_survive_json() -> None:
    some = [change("a", 0, "b", before=None, after={"c": ["d", 1.5]})]

    assert changes_of({"changes": changes_json(some)}, "x.json") == some


@pytest.mark.parametrize(
    "document",
    ["{}", "[]", "null", '{"changes": "a"}', '{"changes": [{"at": [], "before": 1, "after": 2}]}', '{"changes": [1]}'],
)
def test_a_document_that_is_no_advice_is_refused_in_one_line(document: str) -> None:
    with pytest.raises(PatchInvalid, match=r"x\.json: .*wanted"):
        changes_of(json.loads(document), "x.json")


@pytest.mark.parametrize("path", sorted(STACK_FILES.glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_in_a_shipped_stack_any_value_can_be_exchanged_taken_away_and_put_back(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    config = read_document(text, FILE).config
    for at, value in random.Random(7).sample(list(_leaves(config, ())), 3):
        changed = patched(text, FILE, [change(*at, before=value, after="x: y")])
        back = patched(changed, FILE, [change(*at, before="x: y", after=value)])

        assert _comments(changed) == _comments(back) == _comments(text)
        assert read_document(back, FILE).config == config
        if isinstance(at[-1], str):
            less = patched(text, FILE, [change(*at, before=value, after=None)])
            again = patched(less, FILE, [change(*at, before=None, after=value)])
            assert read_document(again, FILE).config == config


def _leaves(value: object, at: Location) -> Iterator[tuple[Location, object]]:
    entries: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        entries = list(cast("dict[str | int, object]", value).items())
    elif isinstance(value, list):
        entries = list(enumerate(cast("list[object]", value)))
    elif at[0] != "aws:region" and value is not SECRET:
        yield at, value
    for key, inner in entries:
        yield from _leaves(inner, (*at, key))


def _comments(text: str) -> list[str]:
    return [line.split("#", 1)[1] for line in text.splitlines() if "#" in line]
