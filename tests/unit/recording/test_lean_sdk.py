"""The replaced functions of Pulumi's SDK: equal recordings, the same refusals, and nothing left behind."""

import sys
from contextlib import nullcontext

import pulumi
import pytest
from pulumi.output import Unknown
from pulumi.runtime import resource, rpc
from pulumi_aws.kms import Key
from pulumi_aws.sns import Topic

from ebbtide.recording import record as recorder
from ebbtide.recording.lean_sdk import lean_sdk
from ebbtide.recording.record import record, record_program
from ebbtide.recording.resources import Resource
from ebbtide.settings import load_stack
from tests.paths import DATA


class _Box(pulumi.ComponentResource):
    def __init__(self, name: str) -> None:
        super().__init__("ebbtide:components:Box", name)
        Key(f"{name}-key", opts=pulumi.ResourceOptions(parent=self))


@pytest.mark.parametrize("name", ["demo", "example-berlin", "example-lisbon"])
def test_a_stack_is_recorded_as_with_the_sdks_own_functions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_stack(name, DATA)
    lean = record(settings)

    monkeypatch.setattr(recorder, "lean_sdk", nullcontext)
    own = record(settings)

    assert _by_urn(lean) == _by_urn(own)
    assert len(lean) > 50


def _by_urn(resources: tuple[Resource, ...]) -> list[Resource]:
    return sorted(resources, key=lambda seen: seen.urn)


def test_a_circle_of_dependencies_is_refused() -> None:
    def program() -> None:
        box = _Box("box")
        first = Key("first", opts=pulumi.ResourceOptions(depends_on=[box]))
        Topic("second", opts=pulumi.ResourceOptions(parent=box, depends_on=[first]))

    with pytest.raises(RuntimeError, match="circular dependency"):
        record_program(program)


@pytest.mark.parametrize(
    "value",
    [1, "text", None, Unknown(), [], {}, [1, [Unknown()]], {"a": {"b": [Unknown()]}}, {"a": {"b": [1]}}, (Unknown(),)],
)
def test_an_unknown_is_seen_as_deep_as_the_sdk_looks(value: object) -> None:
    expected = rpc.contains_unknowns(value)

    with lean_sdk():
        assert rpc.contains_unknowns(value) == expected


def test_a_value_that_contains_itself_has_an_end() -> None:
    circle: list[object] = []
    circle.append({"again": circle})

    with lean_sdk():
        assert not rpc.contains_unknowns(circle)


def test_the_sdk_has_its_own_functions_after_a_recording_even_a_failed_one() -> None:
    def names() -> tuple[object, ...]:
        types = vars(pulumi)["_types"]
        return rpc.contains_unknowns, vars(rpc)["declare_dependency"], resource.create_urn, types.unwrap_type

    def program() -> None:
        during.append(names())
        raise KeyError("mine")

    before, during = names(), list[tuple[object, ...]]()
    with pytest.raises(KeyError):
        record_program(program)

    assert names() == before
    assert all(lean is not own for lean, own in zip(during[0], before, strict=True))
    assert not hasattr(sys, "tracebacklimit")
