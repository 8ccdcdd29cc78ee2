"""The list of commands, and former names of options."""

import pytest
from typer.testing import CliRunner

from ebbtide.cli import top
from ebbtide.cli.__main__ import COMMANDS, PANELS, app
from ebbtide.prices.tables import ENVIRONMENT
from tests.paths import STACK_FILES

DEMO, TRACE = str(STACK_FILES / "Pulumi.demo.yaml"), "no-such-trace"


def test_each_command_is_in_one_group_with_its_line() -> None:
    said = CliRunner().invoke(app, ["--help"], terminal_width=200).output

    assert sorted(name for names in PANELS.values() for name in names) == sorted(COMMANDS)
    for title, names in PANELS.items():
        _, _, group = said.partition(f"\n{title}:\n")
        listed = [line.split()[0] for line in group.partition("\n\n")[0].splitlines()]
        assert listed == list(names)
    assert all(command.help in said for command in COMMANDS.values())


def test_the_list_says_how_often_top_reads() -> None:
    assert f"every {vars(top)['_EVERY']:.0f} seconds" in COMMANDS["top"].help


@pytest.mark.parametrize(
    ("command", "former"), [(["preview", DEMO], "--simulate"), (["sweep", DEMO, "--vary", "x=1"], "--traces")]
)
def test_a_former_name_of_an_option_is_read_and_told_of(command: list[str], former: str) -> None:
    now, before = (CliRunner().invoke(app, [*command, f"{name}={TRACE}"]) for name in ("--trace", former))

    told = f"{former} is called --trace now; the next release no longer reads it\n"
    assert before.stderr.startswith(told)
    assert TRACE in now.output
    assert before.output.replace(told, "") == now.output
    assert before.exit_code == now.exit_code != 0


def test_a_directory_of_prices_may_be_called_like_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "")  # the command sets it for its process, and this one goes on

    ran = CliRunner().invoke(app, ["--prices", "preview", "sweep", "demo", "--traces", TRACE, "--vary", "x=1"])

    assert ran.stderr.startswith("--traces is called --trace now")


def test_behind_two_hyphens_nothing_is_an_option() -> None:
    assert "is called" not in CliRunner().invoke(app, ["preview", "--", "--simulate"]).stderr
