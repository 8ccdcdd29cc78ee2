"""The editors' schema accepts and refuses the same as the models."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from ebbtide.settings.json_schema import base_schema, base_schema_text, json_schema, schema_text
from tests.builders.settings import shortest
from tests.paths import ROOT, STACK_FILES

pytestmark = pytest.mark.whole

REGENERATE = "make schema"


@cache
def schemas() -> Mapping[str, Any]:
    return {"stack.schema.json": json_schema(), "base.schema.json": base_schema()}


@cache
def side_by_side() -> Any:
    contents = [(name, cast("Any", Resource).from_contents(schema)) for name, schema in schemas().items()]
    return cast("Any", Registry)().with_resources(contents)


def faults(text: str, schema: str = "stack.schema.json") -> list[str]:
    validator = Draft202012Validator(schemas()[schema], registry=side_by_side())
    return [error.json_path for error in validator.iter_errors(yaml.safe_load(text))]


def base_faults(*lines: str) -> list[str]:
    return faults("\n  ".join(("config:", *lines)), "base.schema.json")


@pytest.mark.parametrize(("name", "generated"), [("stack", schema_text), ("base", base_schema_text)])
def test_the_written_schema_is_the_generated_one(name: str, generated: Callable[[], str]) -> None:
    written = (ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8")

    assert written == generated(), f"out of date; run: {REGENERATE}"


@pytest.mark.parametrize("name", ["stack.schema.json", "base.schema.json"])
def test_the_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schemas()[name])


def test_a_base_and_a_stack_file_on_a_base_may_be_partial() -> None:
    pool = "ebbtide:workers: { train: { max: 9, source: { queues: [a] }, gpu: null }, night: null }"
    hours = "ebbtide:businessHours: { week: null }"

    assert base_faults(pool, hours, "ebbtide:base: [bases/other.yaml]", "ebbtide:monitoring: null") == []
    assert faults(f"config: {{ ebbtide:base: bases/a.yaml, ebbtide:customer: acme, {pool}, aws:region: x }}") == []


@pytest.mark.parametrize(
    "line",
    [
        "ebbtide:customer: acme",
        "ebbtide:secrets: {}",
        "ebbtide:exceptions: []",
        "aws:region: us-east-1",
        "ebbtide:base: 3",
        "ebbtide:workers: { train: { maxx: 3 } }",
        "ebbtide:workers: { train: { max: many } }",
        "ebbtide:businessHours: { overnight: [{ pool: train }] }",  # a list replaces the base's, so an item is complete
    ],
)
def test_a_wrong_key_or_value_of_a_base_is_a_fault(line: str) -> None:
    assert len(base_faults(line)) == 1


def test_a_stack_file_on_a_base_has_its_customer_and_no_wrong_value() -> None:
    assert faults("config: { ebbtide:base: bases/a.yaml }") == ["$.config"]
    assert len(faults("config: { ebbtide:base: bases/a.yaml, ebbtide:customer: acme, ebbtide:workers: 3 }")) == 1


@pytest.mark.parametrize("stack", ["demo", "example-berlin"])
def test_the_example_stacks_pass_and_name_it_in_their_first_line(stack: str) -> None:
    file = (STACK_FILES / f"Pulumi.{stack}.yaml").resolve()
    text = file.read_text(encoding="utf-8")
    schema = text.splitlines()[0].removeprefix("# yaml-language-server: $schema=")

    assert faults(text) == []
    assert (file.parent / schema).resolve() == ROOT / "docs/stack.schema.json"


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
