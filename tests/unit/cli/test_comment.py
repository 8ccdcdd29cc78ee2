"""`ebbtide comment`: what it says and writes, and that the token never shows."""

from collections.abc import Generator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from tests.unit.pull_requests.github_stand_in import REPO, SOMEBODY, TOKEN, US, FastClock, Hub, Trouble, github

GOOD = {"--repo": REPO, "--pr": "7", "--file": "preview.md"}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Hub]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ebbtide.cli.comment.SystemClock", FastClock)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN + "\n")
    Path("preview.md").write_text("**safe**\n")
    with github() as standing_in:
        yield standing_in


def comment(hub: Hub, **changes: str) -> Result:
    options = {**GOOD, "--api": hub.url, **{f"--{name}": value for name, value in changes.items()}}
    return CliRunner().invoke(app, ["comment", *[word for option in options.items() for word in option]])


def test_the_file_becomes_the_comment_and_then_changes_it(hub: Hub) -> None:
    first = comment(hub)
    Path("preview.md").write_text("**blocked**\n")
    second = comment(hub)

    url = f"https://github.com/{REPO}/pull/7#issuecomment-101"
    assert first.output == f"{REPO}#7: comment created {url}\n"
    assert second.output == f"{REPO}#7: comment edited {url}\n"
    assert hub.bodies() == ["<!-- ebbtide:preview -->\n**blocked**\n"]


def test_comments_with_different_keys_live_side_by_side(hub: Hub) -> None:
    comment(hub)
    comment(hub, marker="drift")

    assert [body.partition("\n")[0] for body in hub.bodies()] == ["<!-- ebbtide:preview -->", "<!-- ebbtide:drift -->"]


def test_further_comments_with_the_marker_are_told_of(hub: Hub) -> None:
    for author in (US, SOMEBODY, US):
        hub.comment("<!-- ebbtide:preview -->\nold", author)

    said = comment(hub).output

    assert "2 comments carry the marker preview: the first is used, 103 left alone" in said
    assert "1 with the marker preview written by others: left alone" in said


def test_a_preview_that_is_too_long_is_cut_and_says_where_the_rest_is(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("preview.md").write_text("a line of the preview\n" * 5_000)
    run = {"STEP_SUMMARY": "summary.md", "SERVER_URL": "https://github.com", "REPOSITORY": REPO, "RUN_ID": "9"}
    for name, value in run.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)

    assert comment(hub).exit_code == 0

    [body] = hub.bodies()
    assert 65_400 < len(body) <= 65_536
    assert body.endswith(f"All of it is in [the job's summary](https://github.com/{REPO}/actions/runs/9).\n")
    assert Path("summary.md").read_text() == Path("preview.md").read_text()


def test_the_summary_keeps_what_was_there_and_its_limit(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("said before\n" * 100)
    Path("preview.md").write_text("a line of the préview\n" * 60_000)

    comment(hub)

    summary = Path("summary.md").read_bytes()
    assert 1_048_400 < len(summary) <= 1_048_576
    assert summary.startswith(b"said before\n" * 100 + b"a line")
    assert summary.endswith(b"All of it is in the file that the job wrote.\n")


def test_the_summary_is_written_even_if_the_comment_is_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    hub.troubles.append(Trouble(method="GET", status=403, message="Resource not accessible by integration"))

    refused = comment(hub)

    assert (refused.exit_code, len(refused.output.splitlines())) == (1, 1)
    assert "403, the token may not: give the job `pull-requests: write`" in refused.output
    assert Path("summary.md").read_text() == "**safe**\n"


def test_a_summary_that_cannot_be_written_does_not_cost_the_comment(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "no/such/folder/summary.md")

    assert "GITHUB_STEP_SUMMARY: not written: No such file" in comment(hub).output
    assert len(hub.bodies()) == 1


def test_all_faults_are_told_at_once_and_nothing_is_asked(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")

    wrong = comment(hub, repo="acme", pr="0", file="none.md", marker="a--b", api="http://example.com")

    assert wrong.exit_code == 2
    assert [line.split(":")[0].split(" ")[0] for line in wrong.output.splitlines()] == [
        "--repo", "--pr", "--marker", "--api", "GITHUB_TOKEN", "--file"
    ]  # fmt: skip
    assert hub.asked == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("repo", "acme/.."),
        ("repo", "acme/platform/issues/1"),
        ("repo", "acme/plat form"),
        ("marker", "preview -->"),
        ("marker", "a" * 65),
        ("api", "ftp://api.github.com"),
        ("api", "https://user:word@api.github.com"),
        ("api", "http://127.0.0.1.example.com"),
        ("api", "https://[::1"),
        ("api", "https://api..github.com"),
        ("api", "https://api.github.com/a b"),
        ("file", "."),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(hub: Hub, option: str, value: str) -> None:
    wrong = comment(hub, **{option: value})

    assert (wrong.exit_code, len(wrong.output.splitlines())) == (2, 1)
    assert wrong.output.startswith(f"--{option}")
    assert hub.asked == []


@pytest.mark.parametrize(("content", "words"), [(b"", "empty"), (b"  \n", "empty"), (b"\xff\xfe", "UTF-8")])
def test_a_file_without_a_text_is_refused(hub: Hub, content: bytes, words: str) -> None:
    Path("preview.md").write_bytes(content)

    wrong = comment(hub)

    assert wrong.exit_code == 2
    assert words in wrong.output


@pytest.mark.parametrize("token", ["ghs_canary 1", "ghs_canary\r\nHost: example.com", "ghs_canarÿ"])
def test_a_token_that_cannot_be_one_is_refused_unseen(hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", token)

    wrong = comment(hub)

    assert wrong.output == "GITHUB_TOKEN: holds a space, a line break or a character that no token has\n"
    assert hub.asked == []


def test_the_token_shows_nowhere_whatever_goes_wrong(hub: Hub) -> None:
    statuses = (0, 401, 403, 404, 422, 429, 500)
    hub.troubles.extend(Trouble(method="GET", status=status, message=f"token {TOKEN}") for status in statuses)

    said = [comment(hub).output for _ in statuses]

    assert "***" in "".join(said)
    assert TOKEN not in "".join(said)
