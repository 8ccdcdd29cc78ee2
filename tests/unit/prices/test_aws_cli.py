"""The `aws` command as a source: pages, patience, and one line for each way to fail. A stand-in plays the command."""

from pathlib import Path

import pytest

from ebbtide.prices.aws_cli import AwsCommand, AwsRefused, NoAws, Question
from tests.unit.prices.aws_stand_in import Said, StandInAws, refused

pytestmark = pytest.mark.process

QUESTION = Question(
    command=("pricing", "get-products"),
    arguments=("--service-code", "AmazonEKS"),
    region="us-east-1",
    answers="PriceList",
    token="NextToken",
    right="pricing:GetProducts",
)


class Asked:
    """What came back, what was waited for, and what the command was called with."""

    def __init__(self, folder: Path, *answers: Said, rules: dict[str, tuple[Said, ...]] | None = None) -> None:
        self.aws = StandInAws(folder / "bin")
        for word, told in (rules or {}).items():
            self.aws.says(word, answers=told)
        self.aws.says(answers=answers)
        self.waits: list[float] = []
        self.command = AwsCommand(wait=self.waits.append, program=str(folder / "bin" / "aws"))

    def ask(self) -> list[object]:
        return self.command.ask(QUESTION)


def test_all_pages_are_one_answer(tmp_path: Path) -> None:
    first = Said({"PriceList": ["a", "b"], "NextToken": "page-2"})
    second = Said({"PriceList": ["c"], "NextToken": "page-3"})
    asked = Asked(tmp_path, first, rules={"page-2": (second,), "page-3": (Said({"PriceList": ["d"]}),)})

    assert asked.ask() == ["a", "b", "c", "d"]
    calls = asked.aws.calls()
    assert [call[-2:] for call in calls[1:]] == [["--next-token", "page-2"], ["--next-token", "page-3"]]
    assert all("--no-paginate" in call and call[:2] == ["pricing", "get-products"] for call in calls)


def test_pages_that_lead_back_to_themselves_end_with_one_line(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Said({"PriceList": ["a"], "NextToken": "again"}))

    with pytest.raises(AwsRefused, match="the pages of the answer do not end"):
        asked.ask()
    assert len(asked.aws.calls()) == 2


@pytest.mark.parametrize("code", ["ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException"])
def test_a_throttled_page_is_asked_for_again_with_longer_pauses(code: str, tmp_path: Path) -> None:
    asked = Asked(tmp_path, refused(code), refused(code), Said({"PriceList": ["a"]}))

    assert asked.ask() == ["a"]
    assert len(asked.waits) == 2
    assert asked.waits[0] < asked.waits[1]


def test_a_throttled_page_in_the_middle_does_not_ask_for_the_first_again(tmp_path: Path) -> None:
    first = Said({"PriceList": ["a"], "NextToken": "page-2"})
    second = (refused("ThrottlingException"), Said({"PriceList": ["b"]}))

    asked = Asked(tmp_path, first, rules={"page-2": second})

    assert asked.ask() == ["a", "b"]
    assert [call[-1] for call in asked.aws.calls()] == ["--no-paginate", "page-2", "page-2"]


def test_patience_ends(tmp_path: Path) -> None:
    asked = Asked(tmp_path, refused("ThrottlingException"))

    with pytest.raises(AwsRefused, match="AWS has too many questions at the moment; try again later"):
        asked.ask()
    assert len(asked.aws.calls()) == len(asked.waits) + 1 == 5


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnauthorizedOperation"])
def test_a_refusal_names_the_right_that_it_takes_and_is_not_repeated(code: str, tmp_path: Path) -> None:
    asked = Asked(tmp_path, refused(code))

    with pytest.raises(AwsRefused, match="get-products in us-east-1: refused; wanted the right pricing:GetProducts"):
        asked.ask()
    assert (len(asked.aws.calls()), asked.waits) == (1, [])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            'Unable to locate credentials. You can configure credentials by running "aws configure".',
            "has no credentials",
        ),
        ("The config profile (nobody) could not be found", "has no credentials"),
        ("Error loading SSO Token: Token for acme does not exist", "log in again, for example: aws sso login"),
        ("Error when retrieving token from sso: Token has expired and refresh failed", "log in again"),
        ("An error occurred (ExpiredTokenException) when calling the GetProducts operation: old", "log in again"),
        ("An error occurred (UnrecognizedClientException) when calling the GetProducts operation: no", "log in again"),
        ("aws: error: argument operation: Invalid choice, valid choices are:", "wanted AWS CLI version 2"),
    ],
)
def test_without_a_login_nothing_more_is_asked(said: str, told: str, tmp_path: Path) -> None:
    asked = Asked(tmp_path, Said(stderr=f"\n{said}\n", code=253))

    with pytest.raises(NoAws, match=told):
        asked.ask()
    assert len(asked.aws.calls()) == 1


def test_a_region_that_is_not_reached_is_tried_again_and_then_told(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Said(stderr='Could not connect to the endpoint URL: "https://ec2.eu-wst-1..."', code=255))

    with pytest.raises(AwsRefused, match="not reached; is the region's name right, and the network up"):
        asked.ask()
    assert len(asked.waits) == 4


def test_a_missing_command_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NoAws, match=r"aws is not on PATH; wanted the AWS CLI, version 2 \(https://docs.aws"):
        AwsCommand(wait=lambda _: None, program=str(tmp_path / "aws")).ask(QUESTION)


def test_a_command_that_may_not_be_run_says_so(tmp_path: Path) -> None:
    (tmp_path / "aws").write_text("no program")

    with pytest.raises(NoAws, match="cannot be run: Permission denied"):
        AwsCommand(wait=lambda _: None, program=str(tmp_path / "aws")).ask(QUESTION)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (Said(page={"Other": []}), "found no list PriceList in the answer"),
        (Said(page={"PriceList": "many"}), "found no list PriceList in the answer"),
        (Said(stderr="", code=0), "found no list PriceList in the answer"),
    ],
)
def test_an_answer_of_another_form_is_told(page: Said, told: str, tmp_path: Path) -> None:
    with pytest.raises(AwsRefused, match=told):
        Asked(tmp_path, page).ask()


def test_an_answer_that_is_no_json_is_told(tmp_path: Path) -> None:
    program = tmp_path / "aws"
    program.write_text("#!/bin/sh\necho '<html>log in</html>'\n")
    program.chmod(0o755)

    with pytest.raises(AwsRefused, match="found no JSON in the answer"):
        AwsCommand(wait=lambda _: None, program=str(program)).ask(QUESTION)


def test_a_long_refusal_is_cut(tmp_path: Path) -> None:
    asked = Asked(tmp_path, Said(stderr="An error occurred (AccessDenied): Encoded message: " + "x" * 5_000, code=254))

    with pytest.raises(AwsRefused) as refusal:
        asked.ask()
    assert len(str(refusal.value)) < 400
