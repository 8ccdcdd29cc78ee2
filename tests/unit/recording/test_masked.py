"""Resources as JSON: with options, without secrets, and reproducible."""

import json
from typing import Any

from ebbtide.recording.resources import Resource, as_json
from tests.builders.components import demo_stack


def resource(name: str = "one", **inputs: Any) -> Resource:
    return Resource(
        urn=f"urn:{name}",
        type="kubernetes:core/v1:Secret",
        name=name,
        parent="",
        custom=True,
        inputs=inputs,
        ignore_changes=("spec.replicas",),
        protect=True,
    )


def test_options_are_part_of_a_resource() -> None:
    (shown,) = as_json([resource()])

    assert (shown["ignore_changes"], shown["protect"], shown["provider"]) == (["spec.replicas"], True, "")


def test_values_of_a_secret_are_masked_and_their_names_kept() -> None:
    (shown,) = as_json([resource(kind="Secret", stringData={"url": "redis://:hush-hush@cache"}, data="hush-hush")])

    assert shown["inputs"] == {"kind": "Secret", "stringData": {"url": "[secret]"}, "data": "[secret]"}


def test_inputs_named_like_secrets_are_masked_at_any_depth() -> None:
    (shown,) = as_json([resource(settings=[{"masterPassword": "hush-hush", "port": 6379, "passwordEnv": "NAME"}])])

    assert shown["inputs"] == {"settings": [{"masterPassword": "[secret]", "port": 6379, "passwordEnv": "NAME"}]}


def test_the_order_of_registration_does_not_show() -> None:
    first, second = resource("one", b=1, a={"d": 1, "c": 2}), resource("two")
    again = resource("one", a={"c": 2, "d": 1}, b=1)

    assert json.dumps(as_json([first, second])) == json.dumps(as_json([second, again]))


def test_a_whole_stack_is_json() -> None:
    shown = json.loads(json.dumps(as_json(demo_stack())))

    assert len(shown) == len(demo_stack())
