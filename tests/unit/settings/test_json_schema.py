"""The editors' schema accepts and refuses the same as the models."""

import pytest
import yaml
from jsonschema import Draft202012Validator

from ebbtide.settings import json_schema
from ebbtide.settings.json_schema import schema_text
from tests.builders.settings import shortest
from tests.paths import ROOT

pytestmark = pytest.mark.whole

REGENERATE = "make schema"


def faults(text: str) -> list[str]:
    validator = Draft202012Validator(json_schema())
    return [error.json_path for error in validator.iter_errors(yaml.safe_load(text))]


def test_the_written_schema_is_the_generated_one() -> None:
    written = (ROOT / "docs" / "stack.schema.json").read_text(encoding="utf-8")

    assert written == schema_text(), f"out of date; run: {REGENERATE}"


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("stack", ["demo", "example-berlin"])
def test_the_example_stacks_pass_and_name_it_in_their_first_line(stack: str) -> None:
    text = (ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")

    assert faults(text) == []
    assert text.startswith("# yaml-language-server: $schema=../docs/stack.schema.json\n")


def test_a_key_that_only_begins_like_a_taken_one_passes() -> None:
    assert faults(shortest(more="ebbtide:costs: { tags: { names: ml, team/name: ml } }")) == []


def test_the_shortest_file_and_pulumis_own_keys_pass() -> None:
    more = "aws:region: us-east-1\nregistry:token: { secure: AAA }\nebbtide:redisPassword: { secure: AAA }"
    more += "\nebbtide:digestKey: { secure: AAA }\nebbtide:secrets: { api: { tls.crt: { secure: AAA } } }"

    assert faults("encryptionsalt: v1:abc\n" + shortest(more=more)) == []


@pytest.mark.parametrize(
    "broken",
    [
        shortest(train="maxx: 3"),
        shortest(train="stabilizationWindow: -5m"),
        shortest(train='gpu: "1"'),
        shortest(more="ebbtide:redis: { kind: elasticsearch }"),
        shortest(more="ebbtide:redis: { replicas: 6 }"),
        shortest(more="ebbtide:redisPassword: clear"),
        shortest(more="ebbtide:digestKey: clear"),
        shortest(more="ebbtide:secrets: { api: { TOKEN: clear } }"),
        shortest(more="ebbtide:secrets: { api: { a/b: { secure: AAA } } }"),
        shortest(more="ebbtide:secrets: { Api: { TOKEN: { secure: AAA } } }"),
        shortest(more="ebbtide:secrets: { api: {} }"),
        shortest(more='ebbtide:cluster: { version: "1.29" }'),
        shortest(more="ebbtide:cluster: { zones: [a, i] }"),
        shortest(more="ebbtide:costs: { tags: { AWS:team: ml } }"),
        shortest(more="ebbtide:costs: { tags: { ebbtide.dev/pool: ml } }"),
        shortest(more="ebbtide:costs: { tags: { owner!: ml } }"),
        shortest(more="ebbtide:costs: { tags: { name: ml } }"),
        shortest(more='ebbtide:costs: { tags: { "kubernetes.io/role/elb": "1" } }'),
        shortest(more="ebbtide:costs: { tags: { note: 50% } }"),
        shortest(more="ebbtide:nodeGroups: { Big: { kind: flexible } }"),
        shortest().replace("08:00-18:00", "8-18"),
        shortest().replace("mon-fri", "weekdays"),
        shortest().replace(" longestJob: 12h", ""),
        "config: {}",
    ],
)
def test_what_a_single_value_shows_to_be_wrong_the_schema_refuses(broken: str) -> None:
    assert faults(broken)
