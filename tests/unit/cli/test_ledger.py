"""`ebbtide ledger` on a committed month, so that no Prometheus takes part: the bill, FOCUS, the file, all stacks."""

import json
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.lab.ledger.month import Month, plain
from ebbtide.lab.ledger.month_file import add_entry, month_path
from ebbtide.lab.ledger.reading import RecordedNodes
from tests.builders.cur import ACCOUNT, COLUMNS, SECRETS, apart, hours, known_month, node, write_csv
from tests.builders.monitoring.month import KnownMonth, stack
from tests.unit.lab.ledger.test_bill_documents import LEDGER

DAY = datetime(2026, 10, 2, tzinfo=UTC)
MONTH = month_path(Path(), "acme", "2026-10")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Pulumi.yaml").write_text("name: platform\n")
    Path("stacks").mkdir()
    Path("stacks/Pulumi.acme.yaml").write_text(stack())
    october = replace(LEDGER, month=Month(year=2026, month=10, zone="Europe/Berlin"))
    add_entry(MONTH, {"ledger": plain(october)}, datetime(2026, 11, 4, tzinfo=UTC))
    write_csv(Path("cur.csv.gz"), known_month(DAY))


def ledger(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["ledger", *arguments], catch_exceptions=False)


def test_a_bill_is_shown_exported_and_kept_without_a_secret() -> None:
    outputs = ["--report", "ledger.html", "--json", "ledger.json", "--focus", "focus.csv"]

    done = ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write", *outputs)

    assert done.exit_code == 0, done.output
    assert "the bill's nodes less the ledger's" in done.output
    assert [entry["bill"] is None for entry in json.loads(MONTH.read_text())["entries"]] == [True, False]
    files = [Path(name).read_text() for name in ("ledger.html", "ledger.json", "focus.csv", MONTH)]
    assert not [secret for secret in SECRETS for text in (done.output, *files) if secret in text]


def test_a_committed_bill_is_also_in_the_json_of_the_month() -> None:
    ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write", "--json", "with.json")
    ledger("acme", "--month", "2026-10", "--json", "without.json")
    with_bill, without = (json.loads(Path(name).read_text()) for name in ("with.json", "without.json"))

    assert without["difference"]["nodes_usd"] == pytest.approx(34.80)
    assert (without["bill"], without["difference"]) == (with_bill["bill"], with_bill["difference"])


def test_late_credits_are_one_more_entry_and_no_news_is_none() -> None:
    ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write")
    again = ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write")
    write_csv(Path("cur.csv.gz"), [*known_month(DAY), apart(DAY, "Credit", -1.0)])
    late = ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write")

    assert f"unchanged: {MONTH}" in again.output
    assert f"written: {MONTH}" in late.output
    assert len(json.loads(MONTH.read_text())["entries"]) == 3


def test_a_bad_bill_is_one_message_without_the_account_in_its_name() -> None:
    columns = [name for name in COLUMNS if name != "line_item_resource_id"]
    write_csv(Path(f"{ACCOUNT}-cur.csv"), known_month(DAY), columns)

    done = ledger("acme", "--month", "2026-10", "--bill", f"{ACCOUNT}-cur.csv")

    wanted = "wanted CUR 2.0 of Data Exports with INCLUDE_RESOURCES (table COST_AND_USAGE_REPORT)"
    message = f"no column line_item_resource_id: {wanted}"
    assert (done.exit_code, done.output) == (1, f"…-cur.csv:1: {message}\n")


NOWHERE = ["--prometheus", "http://127.0.0.1:1"]
SEPTEMBER = ["acme", "--month", "2026-09", "--bill", "september.csv"]


@pytest.fixture
def september() -> None:
    """A bill of a month that is in no file."""
    write_csv(Path("september.csv"), known_month(DAY.replace(month=9)))


@pytest.mark.usefixtures("september")
@pytest.mark.parametrize(
    ("source", "why"),
    [
        (NOWHERE, "Connection refused"),
        ([], "acme has no Prometheus: wanted monitoring.prometheus in its file, or --prometheus URL"),
    ],
)
def test_a_bill_without_prometheus_is_shown_with_what_is_missing(source: list[str], why: str) -> None:
    done = ledger(*SEPTEMBER, *source, "--report", "bill.html", "--json", "bill.json")

    assert done.exit_code == 0, done.output
    assert done.output.startswith(
        "acme, 2026-09: AWS' bill has $34.80 for nodes, $40.02 for all lines.\nRows of nodes exist for 24 "
    )
    missing = "24 of the 720 hours of 2026-09 in UTC, and for none of 2026-09-01, 2026-09-03 to 2026-09-30: no node ran"
    assert "Not shown: nodes by group and day, " in done.output
    document, page = json.loads(Path("bill.json").read_text()), Path("bill.html").read_text()
    assert why in document["missing"]["why"]
    assert sum(document["bill"]["parts"].values()) == pytest.approx(40.02)
    assert document["bill"]["coverage"] == 0.5
    assert document["nodes"] == {
        "public on-demand prices": pytest.approx(24 * (0.80 + 0.80 + 0.17)),
        "Savings Plans and reservations": pytest.approx(24 * (0.55 - 0.80)),
        "negotiated discounts": 0.0,
        "spot prices": pytest.approx(24 * (0.10 - 0.17)),
    }
    for text in (done.output, page):
        assert "Savings Plans and reservations" in text
        assert "Commitments cover 50" in text
        assert not [secret for secret in SECRETS if secret in text]
        assert why in " ".join(text.split())
        assert missing in " ".join(text.split())


def test_a_bill_alone_with_nodes_in_each_hour_lacks_no_day() -> None:
    """Without tax, credits and plans: nodes only."""
    first = datetime(2026, 9, 1, tzinfo=UTC)
    write_csv(Path("september.csv"), (node(hour, 0.8) for hour in hours(first, 720)))
    whole = ledger(*SEPTEMBER, *NOWHERE)
    write_csv(Path("september.csv"), (node(hour, 0.8) for hour in hours(first, 719)))
    less = ledger(*SEPTEMBER, *NOWHERE)

    assert "Rows of nodes exist" not in whole.output
    assert "Rows of nodes exist for 719 of the 720 hours of 2026-09 in UTC: no node ran" in " ".join(
        less.output.split()
    )


@pytest.mark.usefixtures("september")
@pytest.mark.parametrize("option", [["--write"], ["--focus", "focus.csv"]])
def test_what_needs_the_recording_is_refused_with_a_bill_alone(option: list[str]) -> None:
    done = ledger(*SEPTEMBER, *NOWHERE, *option)

    assert done.exit_code == 1
    assert done.output.startswith(f"{option[0]}: wanted the month's recording in Prometheus, found: ")
    assert "Connection refused" in done.output
    assert not Path("focus.csv").exists()


@pytest.mark.usefixtures("september")
def test_an_address_that_is_none_is_refused_also_with_a_bill() -> None:
    done = ledger(*SEPTEMBER, "--prometheus", "nonsense")

    assert done.exit_code != 0
    assert "--prometheus" in done.output


def test_without_a_bill_prometheus_is_needed() -> None:
    done = ledger("acme", "--month", "2026-09", *NOWHERE)

    assert (done.exit_code, "Connection refused" in done.output) == (1, True)


def test_all_committed_months_are_one_table() -> None:
    done = ledger("--all", "--json", "-")

    assert (done.exit_code, [entry["stack"] for entry in json.loads(done.output)["stacks"]]) == (0, ["acme"])
    assert ledger("--all", "--month", "2026-09").output.startswith("found no 2026-09 in stacks/ledger")


def test_all_damaged_months_are_named_at_once_and_no_table_hides_them() -> None:
    torn, empty = (month_path(Path(), stack, "2026-10") for stack in ("basin", "cove"))
    for path, text in ((torn, MONTH.read_text()[:400]), (empty, '{"entries": []}')):
        path.parent.mkdir()
        path.write_text(text)
    month_path(Path(), "delta", "2026-10").mkdir(parents=True)
    MONTH.write_text(MONTH.read_text().replace("train", "serve"))

    done = ledger("--all", "--json", "-")

    assert (done.exit_code, done.stdout) == (1, "")
    made = "wanted a file that ebbtide ledger --write made, found"
    assert [line.partition("2026-10.json: ")[2] for line in done.stderr.splitlines()] == [
        "entry 1: wanted the checksum of its content, found another: entries are never changed (git log shows who did)",
        f"{made} other content",
        f"{made} other content",
        f"{made} Is a directory",
    ]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--bill", ""], "'--bill': wanted a path, found an empty text (for example .)"),
        (["--bill", "cur.csv.gz", "--focus", "-"], "'--focus': wanted a file to write, found '-'"),
        (["--report", "-"], "'--report': wanted a file to write, found '-'"),
        (["--report", "stacks"], "'--report': wanted a file to write, found the folder stacks"),
    ],
)
def test_paths_that_name_no_file_are_refused(arguments: list[str], fault: str) -> None:
    result = ledger("acme", "--month", "2026-10", *arguments)

    assert result.exit_code == 2
    assert fault in result.stderr
    assert not Path("-").exists()


@pytest.mark.parametrize(
    "arguments", [[], ["acme", "--all"], ["acme", "--focus", "x.csv"], ["--all", "--write"], ["--all", "--report", "x"]]
)
def test_options_that_contradict_each_other_are_refused(arguments: list[str]) -> None:
    assert ledger(*arguments).exit_code == 2


def test_a_month_that_was_changed_by_hand_is_refused() -> None:
    MONTH.write_text(MONTH.read_text().replace("train", "serve"))

    done = ledger("acme", "--month", "2026-10")

    assert (done.exit_code, "entry 1: wanted the checksum of its content" in done.output) == (1, True)


def git(*arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


@pytest.mark.process
def test_a_file_that_lacks_an_entry_of_a_commit_is_refused_also_if_the_cut_was_committed() -> None:
    """The chain of checksums of the remaining entries is whole."""
    once = MONTH.read_text()
    ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write")
    git("init")
    git("add", "stacks")
    git("commit", "-m", "two entries")
    complete = ledger("acme", "--month", "2026-10")
    MONTH.write_text(once)
    cut = ledger("acme", "--month", "2026-10")
    git("commit", "-a", "-m", "cut")
    committed = [ledger("acme", "--month", "2026-10"), ledger("--all")]
    MONTH.unlink()
    removed = ledger("acme", "--month", "2026-10", "--write", *NOWHERE)

    assert complete.exit_code == 0
    assert "Not compared with" not in complete.output
    for done, kept in ((cut, 1), *((done, 1) for done in committed), (removed, 0)):
        assert done.exit_code == 1
        (line,) = done.output.splitlines()
        assert re.fullmatch(
            rf"{MONTH}: wanted the entries of commit \w+ \(2\), found {kept} of them: git checkout \w+ -- {MONTH}", line
        )


@pytest.mark.process
def test_commits_that_git_cannot_read_and_files_without_a_commit_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partial clone has the names of earlier versions, and not their content."""
    git("init")
    unborn = ledger("acme", "--month", "2026-10")
    git("commit", "--allow-empty", "-m", "empty")
    never = ledger("acme", "--month", "2026-10")
    git("add", "Pulumi.yaml", "stacks")
    git("commit", "-m", "one entry")
    ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write")
    git("commit", "-a", "-m", "two entries")
    git("config", "uploadpack.allowFilter", "true")
    git("clone", "--filter=blob:none", tmp_path.as_uri(), "partial")
    monkeypatch.chdir("partial")
    partial = ledger("acme", "--month", "2026-10")

    for done, why in (
        (unborn, "earlier commits of the month's file: git log failed: "),
        (never, "earlier commits of the month's file: no commit has it."),
        (partial, "1 commit of the month's file: git show failed: "),  # the checkout has the newest one
    ):
        assert f"Not compared with {why}" in " ".join(done.output.split())


def test_without_a_repository_the_page_says_that_nothing_was_compared() -> None:
    done = ledger("acme", "--month", "2026-10")

    assert "Not compared with earlier commits of the month's file" in " ".join(done.output.split())


@pytest.mark.parametrize("month", ["2999-01", "october"])
def test_a_month_that_has_not_begun_or_is_none_is_refused(month: str) -> None:
    done = ledger("acme", "--month", month)

    assert done.exit_code == 2
    assert "wanted a month" in done.output
    assert month in done.output


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--write"], "--write"),
        (["--bill", "cur.csv.gz", "--write"], "--bill and --write"),
        (["--bill", "cur.csv.gz", "--focus", "focus.csv"], "--bill and --focus"),
    ],
)
def test_a_running_month_is_neither_written_nor_billed(options: list[str], named: str) -> None:
    month = f"{datetime.now(UTC).astimezone(ZoneInfo('Europe/Berlin')):%Y-%m}"

    done = ledger("acme", "--month", month, *options)

    assert (done.exit_code, done.output) == (
        1,
        f"{named}: wanted a month that has ended, found {month}, which is not over\n",
    )


@pytest.mark.parametrize("day", [12, 1])
def test_the_running_month_is_shown_to_date_beside_the_last_one(day: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In November, whose eleventh day has passed; October is in its file."""
    november = Month(year=2026, month=11, zone="Europe/Berlin")
    now = datetime(2026, 11, day, 9, 20, tzinfo=UTC)
    known = KnownMonth(month=november, holes=[((now - november.begin).total_seconds() / 3600, 800)], every=120)
    asked: list[tuple[object, ...]] = []

    def read(_: object, *arguments: object) -> RecordedNodes:
        asked.append(arguments)
        return known.recording()

    monkeypatch.setattr("ebbtide.lab.ledger.reading.read_nodes", read)
    for module in ("ledger", "options"):
        monkeypatch.setattr(f"ebbtide.cli.{module}.datetime", at_instant(now))

    done = ledger("acme", "--month", "2026-11", *NOWHERE, "--json", "month.json", "--report", "month.html")

    assert done.exit_code == 0, done.output
    assert asked == [("acme", november, now.replace(minute=0))]
    document = json.loads(Path("month.json").read_text())
    usd = sum(group["usd"] for group in document["last_month"].values())
    assert usd == pytest.approx(sum(row.usd for row in LEDGER.paid), abs=0.01)
    until = f"2026-11-{day:02} 09:00 UTC"
    assert done.output.startswith(f"acme, 2026-11 until {until}: nodes cost $")
    assert ("not enough data" in done.output) == (document["at_end_usd"] is None) == (day == 1)
    assert until in Path("month.html").read_text()


@pytest.mark.process
def test_a_cut_file_of_the_last_month_is_not_shown_beside_a_running_one(monkeypatch: pytest.MonkeyPatch) -> None:
    once = MONTH.read_text()
    ledger("acme", "--month", "2026-10", "--bill", "cur.csv.gz", "--write")
    git("init")
    git("add", "stacks")
    git("commit", "-m", "two entries")
    MONTH.write_text(once)
    now = datetime(2026, 11, 12, 9, tzinfo=UTC)
    recording = KnownMonth(month=Month(year=2026, month=11, zone="Europe/Berlin"), scale=0.1, every=240).recording()

    def read(*_: object) -> RecordedNodes:
        return recording

    monkeypatch.setattr("ebbtide.lab.ledger.reading.read_nodes", read)
    for module in ("ledger", "options"):
        monkeypatch.setattr(f"ebbtide.cli.{module}.datetime", at_instant(now))

    cut = ledger("acme", "--month", "2026-11", *NOWHERE, "--json", "cut.json")
    git("checkout", "HEAD", "--", "stacks")
    ledger("acme", "--month", "2026-11", *NOWHERE, "--json", "complete.json")

    assert re.search(rf"Last month is not known: {MONTH}: wanted the entries of commit", " ".join(cut.output.split()))
    assert json.loads(Path("cut.json").read_text())["last_month"] is None
    assert json.loads(Path("complete.json").read_text())["last_month"] is not None


def test_a_month_in_its_first_hour_has_nothing_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ledger", "options"):
        monkeypatch.setattr(f"ebbtide.cli.{module}.datetime", at_instant(datetime(2026, 10, 31, 23, 20, tzinfo=UTC)))

    done = ledger("acme", "--month", "2026-11", *NOWHERE)

    message = "--month: wanted a month that began an hour ago or more, found 2026-11 (for example 2026-10)\n"
    assert (done.exit_code, done.output) == (1, message)


def at_instant(now: datetime) -> type[datetime]:
    class Fixed(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # pyright: ignore[reportIncompatibleMethodOverride]
            return now.astimezone(tz)

    return Fixed
