"""What the provider's own code says of the AWS resources of every stack: nothing, but where it is older than ours."""

import pytest

from tests.aws.support.differences import DIFFERENCES, EXCUSED
from tests.aws.support.inputs import Objection, objections
from tests.aws.support.page import stacks_table
from tests.aws.support.provider import Provider
from tests.aws.support.stacks import of_aws, recorded, stacks
from tests.paths import ROOT

pytestmark = pytest.mark.aws


@pytest.fixture(scope="module")
def said(provider: Provider) -> dict[str, list[Objection]]:
    return {name: objections(provider, recorded(name)) for name in stacks()}


@pytest.mark.parametrize("name", stacks())
def test_the_provider_takes_every_aws_resource_of(name: str, said: dict[str, list[Objection]]) -> None:
    assert len(of_aws(recorded(name))) > 60
    assert [str(each) for each in said[name] if (each.type, each.path) not in EXCUSED] == []


def test_every_difference_that_is_listed_occurs(said: dict[str, list[Objection]]) -> None:
    seen = {(each.type, each.path) for each_stack in said.values() for each in each_stack}

    assert [each for each in DIFFERENCES if (each.type, each.path) not in seen] == []


def test_the_page_says_how_many_resources_of_each_stack_were_asked_about(said: dict[str, list[Objection]]) -> None:
    page = (ROOT / "docs" / "evidence" / "aws-provider.md").read_text(encoding="utf-8")

    assert stacks_table({name: len(of_aws(recorded(name))) for name in said}, said) in page
