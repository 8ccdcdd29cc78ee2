"""What people write out of habit is answered with what Ebbtide reads."""

from pathlib import Path

import pytest

from ebbtide.settings.file.document import read_document
from ebbtide.settings.file.problems import StackInvalid
from ebbtide.settings.load import load_stack
from tests.paths import ROOT

DEMO = (ROOT / "stacks" / "Pulumi.demo.yaml").read_text(encoding="utf-8")


def refused(tmp_path: Path, before: str, after: str) -> str:
    assert before in DEMO
    path = tmp_path / "Pulumi.demo.yaml"
    path.write_text(DEMO.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(StackInvalid) as invalid:
        load_stack(str(path))
    return str(invalid.value)


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        ("us-east-1", "eu-central1", "did you mean eu-central-1?"),
        ("us-east-1", "EU-Central-1", "did you mean eu-central-1?"),
        ("memory: 55Gi", "memory: 48GB", "write 48G, or 48Gi, which is more"),
        ("memory: 55Gi", "memory: 512 MiB", "write 512Mi"),
        ("memory: 55Gi", "memory: 900kb", "write 900k, or 900Ki, which is more"),
        ("cpu: 15", "cpu: 15 cores", "write 15"),
        ("cpu: 15", "cpu: 500M", "write 500m"),
        ("longestJob: 168h", "longestJob: 7 days", "write days as hours: 168h"),
        ("longestJob: 168h", "longestJob: 90 minutes", "write 90m"),
        ("g6.2xlarge", "g6e.2xl", "did you mean g6e.2xlarge?"),
        ("g6.2xlarge", "g6e.xl", "did you mean g6e.xlarge?"),
        ("g6.2xlarge", "g6-2xlarge", "did you mean g6.2xlarge?"),
    ],
)
def test_a_value_of_another_notation_is_answered_with_ours(tmp_path: Path, before: str, after: str, hint: str) -> None:
    assert refused(tmp_path, before, after).splitlines()[0].endswith(f"; {hint}")


@pytest.mark.parametrize(
    ("before", "after"),
    [("us-east-1", "hunter2"), ("memory: 55Gi", "memory: lots"), ("longestJob: 168h", "longestJob: 5ms")],
)
def test_a_value_that_may_mean_anything_gets_no_guess(tmp_path: Path, before: str, after: str) -> None:
    assert refused(tmp_path, before, after).splitlines()[0].endswith(")")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("livenessProbe", "the key here is probes.liveness"),
        ("readinessProbe", "the key here is probes.readiness"),
        ("resources", "the keys here are cpu, memory and gpu, which are its requests; limits has its limits"),
        ("requests", "the keys here are cpu, memory and gpu, which are its requests; limits has its limits"),
        ("volumeMounts", "the key here is volumes, each with its path"),
        ("nodeSelector", "the key here is nodeGroup"),
        ("tolerations", "the key here is pod.tolerations"),
        ("maxReplicas", "the key here is max"),
    ],
)
def test_a_key_of_a_manifest_is_answered_with_ours(tmp_path: Path, key: str, hint: str) -> None:
    message = refused(tmp_path, "      longestJob: 168h", f"      longestJob: 168h\n      {key}: {{}}")

    assert message.splitlines()[0].endswith(f"found the key {key!r}; {hint}")


def test_limits_where_there_are_none_are_answered_with_the_keys_of_size(tmp_path: Path) -> None:
    ray = "  ebbtide:costs:\n"
    head = '  ebbtide:ray: { flow: { version: "2.60.0", image: a, head: { limits: {} } } }\n'

    assert "did you mean" not in refused(tmp_path, ray, head + ray)


SECOND_COLON = "one key and its value on a line: a second colon (a value with a colon and a space needs quotes)"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a:\n   b: 1\n  c: 2\n", 3, "an indentation of 3 spaces, as in line 2, or 0 spaces, as in line 1: 2 spaces"),
        ("a:\n  b: 1\n    c: 2\n", 3, "an indentation of 2 spaces, as in line 2: 4 spaces"),
        ("a:\n  b: 1\n\n  # note\n   c: 2\n", 5, "an indentation of 2 spaces, as in line 2: 3 spaces"),
        ("a:\n  - 1\n - 2\n", 3, "an indentation of 2 spaces, as in line 2, or 0 spaces, as in line 1: 1 space"),
        (
            "a:\n  b:\n    c: 1\n   d: 1\n",
            4,
            "an indentation of 4 spaces, as in line 3, or 2 spaces, as in line 2: 3 spaces",
        ),
        ("a:\n\tb: 1\n", 2, "spaces as indentation: a tab"),
        ('a:\n  "b: { c: 1, d: "e:1" }\n', 2, "YAML: expected <block end>, but found '<scalar>'"),
        ("a: 'b\n", 2, "YAML: unexpected end of stream"),
        ("a: b: c\n", 1, SECOND_COLON),
        ("a: 1\nb: c: d\n", 2, SECOND_COLON),
    ],
)
def test_a_wrong_layout_is_told_with_its_line_in_our_words(text: str, line: int, words: str) -> None:
    (problem,) = read_document(text, "Pulumi.acme.yaml").problems

    assert (problem.line, f"{problem.wanted}: {problem.found}") == (line, words)


@pytest.mark.parametrize("damage", ["\n", "  ", "\t", "- ", ": ", "{", "]", '"', "'", "|", "? ", "!", "# "])
def test_no_damage_to_the_layout_ends_in_a_crash(damage: str) -> None:
    starts = range(0, len(DEMO), 97)

    problems = [read_document(DEMO[:at] + damage + DEMO[at:], "Pulumi.acme.yaml").problems for at in starts]

    assert all("<" not in problem.wanted for found in problems for problem in found)
