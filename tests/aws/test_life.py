"""A stack's AWS resources made, seen again and deleted by the provider, against an imitation of AWS' API."""

import pytest

from tests.aws.support.differences import FORGOTTEN
from tests.aws.support.lived import Lives
from tests.aws.support.page import life_row, requests_of_life
from tests.counts import count
from tests.paths import ROOT

pytestmark = [pytest.mark.aws, pytest.mark.imitation, pytest.mark.timeout(900)]

SHORT = ("demo", "example-berlin", "ElastiCache with a standby", "a given VPC", "public access")
LONG = (
    "the longest names and the most tags",
    "example-lisbon",
    "a closed network",
    "pods with rights in AWS",
    "GPUs on spot nodes, the longest names",
)
PAGE = ROOT / "docs" / "evidence" / "aws-provider.md"


@pytest.mark.parametrize(
    "stack", [*SHORT, *(pytest.param(name, marks=pytest.mark.long) for name in LONG[: count(5, 1)])]
)
def test_all_of_a_stack_is_made_and_found_again_and_deleted(stack: str, lives: Lives) -> None:
    lived = lives.of(stack)

    assert lived.applied == lived.destroyed == lived.resources
    assert [str(each) for each in lived.changes if (each.type, each.path) not in _forgotten()] == []
    assert lived.left == {}
    assert lived.malformed == ()
    page = PAGE.read_text(encoding="utf-8")
    told = requests_of_life(stack, page)
    assert life_row(stack, lived, told) in page
    # The provider asks until a thing is there, so a slow machine is asked more often.
    assert lived.requests == pytest.approx(told, rel=0.1)


def test_what_the_page_says_is_forgotten_is_forgotten(lives: Lives) -> None:
    seen = {(each.type, each.path) for name in SHORT for each in lives.of(name).changes}

    assert seen == _forgotten()


def _forgotten() -> set[tuple[str, str]]:
    return {(each.type, each.path) for each in FORGOTTEN}
