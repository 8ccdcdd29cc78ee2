"""`ebbtide new`: the written file is valid and explained, and never replaces another one."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from typer.core import TyperOption
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import app
from ebbtide.cli.new import command
from ebbtide.settings import load_stack
from ebbtide.settings.first_file import Answers, file_text, pool_name, problems_of, week_of
from ebbtide.settings.sections.types import Name
from tests.builders.based import BASE, PRODUCTION, BasedProject
from tests.builders.generated import IMAGES, QUEUES, REGIONS, TIMEZONES
from tests.counts import examples

ENOUGH = ("--timezone", "Europe/Berlin", "--image", "registry.example.com/ml/train:1", "--longest-job", "12h")
HOURS = (
    "mon-fri 08:00-18:00",
    "mon-thu 07:30-20:00, fri 07:30-12:00, 13:00-16:00",
    "mon 08:00-12:00, mon 13:00-17:00, sat 22:00-06:00+1",
    "mon-sun 00:00-24:00",
)
answers = st.builds(
    Answers,
    customer=st.sampled_from(("acme", "on", "c" * 24, "e1", "n", "null")),
    timezone=st.sampled_from(TIMEZONES),
    hours=st.sampled_from(HOURS),
    region=st.sampled_from(REGIONS),
    image=st.sampled_from(IMAGES),
    queue=st.sampled_from(QUEUES)
    | st.text(min_size=1, max_size=60).filter(lambda it: it.isprintable() and " " not in it and not it.startswith("-")),
    longest_job=st.sampled_from(("90s", "15m", "12h", "168h")),
    gpu=st.booleans(),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.cli.new.on_terminal", lambda: True)


def new(*arguments: str, typed: str = "") -> Result:
    return CliRunner().invoke(app, ["new", *arguments], input=typed)


@settings(max_examples=examples(30))
@given(answers)
def test_whatever_is_answered_rightly_makes_a_sound_file(given: Answers) -> None:
    assert problems_of(given, "any") == ()


@settings(max_examples=examples(60))
@given(
    st.text(max_size=30), st.sampled_from(("customer", "timezone", "hours", "region", "image", "queue", "longest_job"))
)
def test_whatever_is_answered_wrongly_is_told_in_words(text: str, field: str) -> None:
    sound = dict.fromkeys(("customer", "queue"), "acme") | {"timezone": "UTC", "hours": HOURS[0], "region": REGIONS[0]}
    whole = Answers(**{**sound, "image": "train", "longest_job": "1h", "gpu": False, field: text})  # pyright: ignore[reportArgumentType] - by name

    assert all("wanted" in str(problem) for problem in problems_of(whole, "--flag"))


def test_the_file_says_what_was_answered_and_why_each_key_is_there(folder: Path) -> None:
    result = new("acme", *ENOUGH, "--hours", HOURS[1], "--queue", "mail:high", "--gpu", "--yes")
    text = (folder / "stacks" / "Pulumi.acme.yaml").read_text()
    stack = load_stack("acme")

    assert result.exit_code == 0
    assert text.startswith("# yaml-language-server: $schema=../docs/stack.schema.json\n")
    assert (stack.customer, stack.region, stack.business_hours.timezone) == ("acme", "eu-central-1", "Europe/Berlin")
    assert stack.workers["mail-high"].source.queues == ("mail:high",)
    assert stack.workers["mail-high"].node_group == "gpu"
    lines = [line.strip() for line in text.splitlines()]
    sections = [index for index, line in enumerate(lines) if line.startswith(("ebbtide:", "aws:"))]
    assert len(sections) > 5
    assert [lines[index] for index in sections if not lines[index - 1].startswith("#")] == []


def test_defaults_that_nobody_was_asked_about_are_named() -> None:
    result = new("acme", *ENOUGH, "--queue", "train", "--yes")

    assert result.exit_code == 0
    assert 'not given, so: --hours "mon-fri 08:00-18:00", --region eu-central-1 (near Europe/Berlin' in result.output
    assert "it cannot be changed later" in result.output
    assert "--queue" not in result.output.partition("written:")[0]
    assert load_stack("acme").cluster.version == "1.36"


def test_in_tokyo_the_region_is_tokyos_with_zones_that_new_accounts_have() -> None:
    tokyo = ["Asia/Tokyo" if word == "Europe/Berlin" else word for word in ENOUGH]

    assert new("acme", *tokyo, "--queue", "train", "--yes").exit_code == 0

    stack = load_stack("acme")
    assert (stack.region, stack.cluster.zones) == ("ap-northeast-1", ("a", "c"))


def test_usual_days_that_a_country_s_list_leaves_out_are_named_once() -> None:
    swedish = new("acme", "--timezone", "Europe/Stockholm", *ENOUGH[2:], "--yes").stdout
    german = new("other", *ENOUGH, "--yes").stdout

    assert swedish.count("note:") == 1
    assert "SE leave out Midsummer Eve, Christmas Eve, New Year's Eve" in swedish
    assert "holidays: { country: SE }" in swedish
    assert "note:" not in german


def test_without_guesses_nothing_is_said_of_them() -> None:
    result = new("acme", *ENOUGH, "--queue", "q", "--hours", HOURS[0], "--region", "us-east-1", "--yes")

    assert result.exit_code == 0
    assert "not given" not in result.output


def test_the_help_of_yes_names_what_has_no_default() -> None:
    (yes,) = [each for each in typer.main.get_command(command).params if each.name == "yes"]
    refused = new("acme", "--yes")
    lacking = re.findall(r"--[a-z-]+", refused.output.partition("have no default")[0])

    assert refused.exit_code == 2
    assert set(lacking) == {"--timezone", "--image", "--longest-job"}
    assert isinstance(yes, TyperOption)
    assert all(option in str(yes.help) for option in lacking)


def test_a_file_that_exists_is_left_as_it_is(folder: Path) -> None:
    mine = folder / "stacks" / "Pulumi.acme.yaml"
    mine.parent.mkdir()
    mine.write_text("mine")

    result = new("acme", *ENOUGH, "--yes")

    assert (result.exit_code, mine.read_text()) == (1, "mine")
    assert (
        result.output == "stacks/Pulumi.acme.yaml: already exists and is not changed; edit it, or choose another name\n"
    )


def test_without_a_terminal_all_that_is_missing_or_wrong_is_told_at_once(folder: Path) -> None:
    result = new("acme", "--timezone", "Berlin", "--hours", "mon-fri 18:00-08:00")

    assert result.exit_code == 2
    assert "did you mean Europe/Berlin?" in result.output
    assert 'if it ends on the next day write "18:00-08:00+1"' in result.output
    assert "wanted --image, --longest-job too: they have no default" in result.output
    assert not (folder / "stacks").exists()


def test_a_customer_is_never_a_path(folder: Path) -> None:
    result = new("../acme", *ENOUGH, "--yes")

    assert result.exit_code == 2
    assert "CUSTOMER: ebbtide:customer: wanted the customer's short name" in result.output
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_a_wrong_answer_is_refused_and_asked_again() -> None:
    typed = ["Berlin", "Europe/Berlin", "", "", "", "train", "12", "12h", "y"]

    result = new("acme", typed="\n".join(typed) + "\n")
    stack = load_stack("acme")

    assert result.exit_code == 0
    assert result.output.count("Time zone") == result.output.count("Longest job;") == 2
    assert "a duration: a whole number and s, m or h" in result.output
    assert (stack.region, stack.workers["train"].gpu.count) == ("eu-central-1", 1)


@pytest.mark.usefixtures("terminal")
def test_what_the_flags_say_is_not_asked_unless_it_is_wrong() -> None:
    result = new(
        "acme", *ENOUGH, "--hours", "someday", "--region", "eu-north-1", "--no-gpu", typed=f"{HOURS[0]}\ntrain\n"
    )

    assert result.exit_code == 0
    assert "Time zone" not in result.output
    assert "Business hours" in result.output


@pytest.mark.usefixtures("terminal")
def test_an_answer_that_never_comes_writes_nothing(folder: Path) -> None:
    result = new("acme", typed="Europe/Berlin\n")

    assert result.exit_code == 130
    assert "interrupted; nothing was written" in result.output
    assert not (folder / "stacks").exists()


@pytest.mark.usefixtures("terminal")
def test_a_file_that_appears_meanwhile_is_left_as_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = folder / "stacks" / "Pulumi.acme.yaml"

    def somebody_else_is_quicker(*_: object, **__: object) -> bool:
        mine.parent.mkdir()
        mine.write_text("theirs")
        return False

    monkeypatch.setattr(typer, "confirm", somebody_else_is_quicker)

    result = new("acme", *ENOUGH, "--region", "eu-north-1", typed="\n\n")

    assert (result.exit_code, mine.read_text()) == (1, "theirs")


@given(st.text(min_size=1, max_size=60))
def test_a_pool_has_a_name_that_kubernetes_takes(queue: str) -> None:
    assert TypeAdapter(Name).validate_python(pool_name(queue))


@pytest.mark.parametrize(("queue", "name"), [("train", "train"), ("mail:high", "mail-high"), ("1e3", "queue-1e3")])
def test_a_pool_is_called_after_its_queue(queue: str, name: str) -> None:
    assert pool_name(queue) == name


def test_hours_are_typed_as_a_week_is_shown() -> None:
    assert week_of(HOURS[1]) == {"mon-thu": "07:30-20:00", "fri": "07:30-12:00, 13:00-16:00"}
    assert week_of("mon 08:00-12:00, mon 13:00-17:00") == {"mon": "08:00-12:00, 13:00-17:00"}


def test_a_name_of_the_default_groups_is_never_without_words() -> None:
    sound = Answers(
        customer="acme",
        timezone="UTC",
        hours=HOURS[0],
        region=REGIONS[0],
        image="train",
        queue="q",
        longest_job="1h",
        gpu=True,
    )

    assert file_text(sound).count("# from zero and back to zero") == 2


def test_the_service_that_a_new_file_shows_runs_once_its_marks_are_gone(tmp_path: Path) -> None:
    new("acme", *ENOUGH)
    lines = (tmp_path / "stacks" / "Pulumi.acme.yaml").read_text(encoding="utf-8").splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("  # ebbtide:workloads:"))
    shown = [f"  {line.removeprefix('  # ')}" for line in lines[first : first + 11]]
    path = tmp_path / "Pulumi.acme.yaml"
    path.write_text("\n".join([*lines[:first], *shown, *lines[first + 11 :]]), encoding="utf-8")

    api = load_stack(str(path)).workloads["api"]

    assert api.ports
    assert api.env["DB_PASSWORD"].secret == "db-login"
    assert api.volumes["cache"].scratch == 10 * 1024


@pytest.fixture
def base(folder: Path) -> BasedProject:
    project = BasedProject(folder)
    project.write(BASE, PRODUCTION)
    return project


def written(name: str = "acme") -> dict[str, Any]:
    return yaml.safe_load(Path(f"stacks/Pulumi.{name}.yaml").read_text())["config"]


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_what_a_base_has_is_neither_asked_nor_written(
    base: BasedProject, monkeypatch: pytest.MonkeyPatch, on_a_terminal: bool
) -> None:
    monkeypatch.setattr("ebbtide.cli.new.on_terminal", lambda: on_a_terminal)

    result = new("acme", "--base", "bases/production.yaml", typed="\n")

    assert result.exit_code == 0, result.output
    assert written().keys() == {
        *("aws:region", "ebbtide:base", "ebbtide:customer", "ebbtide:cluster", "ebbtide:nodeGroups", "ebbtide:costs")
    }
    assert written()["aws:region"] == "eu-central-1"  # near the base's time zone
    assert list(load_stack("acme").workers) == ["train"]


def test_an_answer_overrides_the_base(base: BasedProject) -> None:
    pool = ("--queue", "night", "--image", "registry.example.com/night:1", "--longest-job", "2h")

    new("acme", "--base", "bases/production.yaml", "--timezone", "Asia/Tokyo", "--gpu", *pool, "--yes")

    assert written()["ebbtide:businessHours"] == {"timezone": "Asia/Tokyo"}
    assert load_stack("acme").workers.keys() == {"train", "night"}


def test_a_flag_for_a_further_pool_wants_the_other_ones(base: BasedProject) -> None:
    result = new("acme", "--base", "bases/production.yaml", "--queue", "night", "--yes")

    assert result.exit_code == 2
    assert "wanted --image, --longest-job too" in result.output


def test_a_base_with_everything_leaves_the_customers_own_lines(base: BasedProject) -> None:
    more = "  ebbtide:cluster: { version: '1.35' }\n  ebbtide:nodeGroups: {}\n"
    base.write(BASE, f"{PRODUCTION}{more}  ebbtide:costs: {{ tags: {{ cost-center: shared }} }}\n")

    new("acme", "--base", "bases/production.yaml", "--yes")

    assert written().keys() == {"aws:region", "ebbtide:base", "ebbtide:customer"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "no such file"),
        ("config: { ebbtide:customer: x }", "a key of one stack"),
        (PRODUCTION.replace("max: 4", "max: -4"), f"{BASE}:7"),
    ],
)
def test_a_base_with_faults_ends_it_and_nothing_is_written(base: BasedProject, text: str | None, told: str) -> None:
    (base.root / BASE).unlink()
    if text is not None:
        base.write(BASE, text)

    result = new("acme", "--base", "bases/production.yaml", "--yes", "--region", "eu-central-1")

    assert result.exit_code != 0
    assert told in result.output
    assert not Path("stacks/Pulumi.acme.yaml").exists()
