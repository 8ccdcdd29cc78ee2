"""A cut text keeps its limit, is cut between lines, and says where the entire text is."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.pull_requests.__main__ import MARKER, main
from ebbtide.pull_requests.fitting import COMMENT, SUMMARY, append_summary, fitted, utf8, utf16

Size = Callable[[str], int]
REST = "**The rest is elsewhere.**"
LINES = st.sampled_from(
    ["plain", "", "```text", "```", "~~~~", "<details>", "</details>", "<details><summary>x", "🌊 tide"]
)


def test_a_text_that_fits_is_not_touched() -> None:
    assert fitted("🌊", 2, REST) == "🌊"


def test_characters_outside_the_first_plane_count_twice_as_github_may_count_them() -> None:
    assert fitted("🌊" * 40, 79, REST) == f"{REST}\n"


@given(st.lists(LINES, min_size=1, max_size=30), st.integers(70, 200), st.sampled_from([utf8, utf16]))
def test_a_cut_text_keeps_its_limit_and_whole_lines(lines: list[str], limit: int, size: Size) -> None:
    text = "\n".join(lines) + "\n" + "x" * 300

    cut = fitted(text, limit, REST, size)

    assert size(cut) <= limit
    assert cut.endswith(f"{REST}\n")
    kept = cut.removesuffix(f"{REST}\n").split("\n")
    shared = next((i for i, (a, b) in enumerate(zip(kept, lines, strict=False)) if a != b), min(len(kept), len(lines)))
    assert set(kept[shared:]) <= {"", "```", "~~~~", "</details>"}


@pytest.mark.parametrize(
    ("opened", "closed"),
    [
        ("```diff\n+ a", "```\n"),
        ("~~~~\n```\n+ a", "~~~~\n"),
        ("<details><summary>more</summary>\n\n- a", "</details>\n"),
        ("<details>\n<details>\n</details>\n- a", "</details>\n"),
        ("<details>\n```\n<details>\n</details>\n", "```\n</details>\n"),
        ("```\na\n```\n- a", ""),
    ],
)
def test_what_is_open_at_the_cut_is_closed_before_the_last_line(opened: str, closed: str) -> None:
    cut = fitted(f"{opened}\n{'x' * 500}\n", 200, REST)

    assert cut == f"{opened}\n{closed}\n{REST}\n"


def test_a_first_line_that_is_too_long_leaves_the_last_line_alone() -> None:
    assert fitted("x" * 500, 100, REST) == f"{REST}\n"


def test_a_comment_begins_with_the_marker_and_the_summary_has_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "preview.md").write_text("🌊 tide\n" * 20_000)
    run = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "acme/platform", "GITHUB_RUN_ID": "42"}

    assert main([str(tmp_path / "preview.md")], {**run, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}) == 0

    said = capsys.readouterr().out
    assert said.startswith(f"{MARKER}🌊 tide\n")
    assert utf16(said) <= COMMENT
    assert said.endswith("[the job's summary](https://github.com/acme/platform/actions/runs/42).\n")
    assert (tmp_path / "summary").read_text() == (tmp_path / "preview.md").read_text()


def test_a_full_summary_gets_no_line_more(tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    summary.write_text("x" * (SUMMARY - 10))

    append_summary(summary, "fits\n")
    append_summary(summary, "a line that is too long")

    assert summary.read_text() == "x" * (SUMMARY - 10) + "fits\n"


@pytest.mark.parametrize("text", [None, b"", b" \n", b"\xff"])
def test_a_file_that_says_nothing_is_refused(
    tmp_path: Path, text: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "preview.md").write_bytes(text)

    assert main([str(tmp_path / "preview.md")], {}) == 2
    assert "preview.md: " in capsys.readouterr().err
