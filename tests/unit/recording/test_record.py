"""The recorder: recorded options, refused programs, and no side effects."""

import asyncio

import pulumi
import pytest
from pulumi_aws.kms import Key
from pulumi_aws.provider import Provider
from pulumi_aws.sns import Topic

from ebbtide.recording.answers import answer_call
from ebbtide.recording.record import SECRET, DuplicateResource, record, record_program
from tests.builders.stack import run, stack_settings


class Box(pulumi.ComponentResource):
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Box", name, None, opts)
        self.key = Key(f"{name}-key", opts=pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


def test_options_are_seen() -> None:
    def program() -> None:
        aws = Provider("aws", region="us-east-1")
        first = Box("box", pulumi.ResourceOptions(providers=[aws]))
        Topic(
            "topic",
            opts=pulumi.ResourceOptions(
                provider=aws,
                depends_on=[first],
                ignore_changes=["displayName"],
                protect=True,
                retain_on_delete=True,
                custom_timeouts=pulumi.CustomTimeouts(delete="90s"),
            ),
        )

    seen = run(program)
    box, key, topic = seen.named("box"), seen.named("box-key"), seen.named("topic")

    assert (box.custom, box.parent, key.parent) == (False, "", box.urn)
    assert key.urn == "urn:pulumi:dev::ebbtide::ebbtide:components:Box$aws:kms/key:Key::box-key"
    assert key.provider == topic.provider == seen.named("aws").urn
    assert topic.depends_on == (key.urn,)
    assert topic.ignore_changes == ("displayName",)
    assert topic.protect
    assert topic.retain_on_delete
    assert (topic.delete_timeout, key.delete_timeout) == ("90s", "")
    assert not key.protect


def test_nested_components_have_the_engines_urns() -> None:
    class Outer(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("ebbtide:components:Outer", "outer", None, None)
            Box("box", pulumi.ResourceOptions(parent=self))
            self.register_outputs({})

    lineage = "ebbtide:components:Outer$ebbtide:components:Box$aws:kms/key:Key"
    assert run(Outer).named("box-key").urn == f"urn:pulumi:dev::ebbtide::{lineage}::box-key"


def test_a_name_used_twice_is_refused() -> None:
    with pytest.raises(DuplicateResource, match=r"aws:kms/key:Key 'key' is registered twice"):
        record_program(lambda: (Key("key"), Key("key")))


def test_one_name_under_two_kinds_of_parent_is_no_duplicate() -> None:
    seen = run(lambda: (Key("box-key"), Box("box")))

    assert len(seen.of("Key")) == 2


def test_secrets_are_seen_as_such_and_never_kept() -> None:
    def program() -> None:
        Topic("topic", tags={"token": pulumi.Output.secret("hunter2"), "plain": "yes"})
        pulumi.export("token", pulumi.Output.secret({"deep": "hunter2"}))

    recording = record_program(program)

    assert "hunter2" not in repr(recording)
    assert recording.resources[0].inputs["tags"] == {"token": SECRET, "plain": "yes"}
    assert recording.outputs == {"token": SECRET}


def test_what_the_program_raises_comes_out_as_it_is() -> None:
    def program() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        record_program(program)


def test_an_error_inside_an_apply_comes_out_too() -> None:
    def refuse(_: str) -> str:
        raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        record_program(lambda: Topic("topic", display_name=Key("key").arn.apply(refuse)))


def test_after_a_failure_the_next_recording_is_whole() -> None:
    with pytest.raises(DuplicateResource):
        record_program(lambda: (Key("key"), Key("key")))

    assert [resource.name for resource in run(lambda: Key("key")).all] == ["key"]


def test_numbers_and_absent_values_keep_their_kind() -> None:
    inputs = run(lambda: Key("key", deletion_window_in_days=7, is_enabled=False)).named("key").inputs

    assert inputs == {"deletionWindowInDays": 7, "isEnabled": False}
    assert isinstance(inputs["deletionWindowInDays"], int)


def test_a_function_without_an_answer_is_named() -> None:
    with pytest.raises(LookupError, match="aws:index/getRegion:getRegion"):
        answer_call("aws:index/getRegion:getRegion", {})


def test_a_recording_leaves_no_event_loop_and_no_stack_behind() -> None:
    record_program(lambda: Key("key"))

    assert pulumi.runtime.get_root_resource() is None
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_equal_settings_give_equal_recordings() -> None:
    one = record(stack_settings())
    other = record(stack_settings(customer="other", stack="other"))
    again = record(stack_settings())

    assert again == one
    assert other != one
