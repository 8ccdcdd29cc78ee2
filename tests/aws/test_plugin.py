"""The plugin over its own protocol, without an engine: what HashiCorp's provider makes of each call."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2 as rpc
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderStub, add_ResourceProviderServicer_to_server
from pulumi.runtime.rpc import UNKNOWN

from ebbtide.recording.record import SECRET_SIGNATURE, SIGNATURE
from tests.aws.plugin.refreshed import refreshed
from tests.aws.plugin.resources import Plugin
from tests.aws.plugin.wire import STATE, state_of, struct_of
from tests.aws.support.imitation import Imitation, config_of
from tests.aws.support.provider import Provider, State, found

Json = dict[str, Any]

REAL = [pytest.mark.aws, pytest.mark.imitation]
VPC, ROLE, SUBNET = "aws:ec2/vpc:Vpc", "aws:iam/role:Role", "aws:ec2/subnet:Subnet"
NETWORK: Json = {"cidrBlock": "10.0.0.0/16", "tags": {"team": "ml"}}
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


def struct(values: Json) -> Struct:
    message = Struct()
    message.update(values)
    return message


def urn(type_: str) -> str:
    return f"urn:pulumi:acme::ebbtide::ebbtide:components:Network${type_}::it"


class Engine:
    """Asks as the engine does: it keeps secrets, and sends them open to a plugin that knows none."""

    def __init__(self, stub: ResourceProviderStub) -> None:
        self._stub: Any = stub  # whose answers have no types of their own
        self._stub.Configure(rpc.ConfigureRequest(args=struct({"region": "eu-west-1"})))

    def check(self, type_: str, inputs: Json, olds: Json | None = None) -> tuple[Json, dict[str, str]]:
        request = rpc.CheckRequest(urn=urn(type_), news=struct(inputs), olds=struct(olds or {}), randomSeed=b"seed")
        answer: rpc.CheckResponse = self._stub.Check(request)
        return MessageToDict(answer.inputs), {each.property: each.reason for each in answer.failures}

    def create(self, type_: str, inputs: Json, *, preview: bool = False) -> tuple[str, Json]:
        request = rpc.CreateRequest(urn=urn(type_), properties=struct(inputs), preview=preview)
        answer: rpc.CreateResponse = self._stub.Create(request)
        return answer.id, _opened(answer.properties)

    def diff(self, type_: str, olds: Json, old_inputs: Json, news: Json) -> rpc.DiffResponse:
        request = rpc.DiffRequest(urn=urn(type_), olds=struct(olds), old_inputs=struct(old_inputs), news=struct(news))
        answer: rpc.DiffResponse = self._stub.Diff(request)
        return answer

    def update(self, type_: str, olds: Json, news: Json) -> Json:
        request = rpc.UpdateRequest(urn=urn(type_), id=olds["id"], olds=struct(olds), news=struct(news))
        return _opened(self._stub.Update(request).properties)

    def read(self, type_: str, made: Json, inputs: Json) -> tuple[Json, Json]:
        """What is there, and the inputs that would say so; nothing where it is gone."""
        request = rpc.ReadRequest(urn=urn(type_), id=made["id"], properties=struct(made), inputs=struct(inputs))
        answer: rpc.ReadResponse = self._stub.Read(request)
        return (_opened(answer.properties), MessageToDict(answer.inputs)) if answer.id else ({}, {})

    def delete(self, type_: str, made: Json) -> None:
        self._stub.Delete(rpc.DeleteRequest(urn=urn(type_), id=made["id"], properties=struct(made)))


def _opened(properties: Struct) -> Json:
    told: Json = MessageToDict(properties)
    if STATE in told:
        assert told[STATE][SIGNATURE] == SECRET_SIGNATURE
        told[STATE] = told[STATE]["value"]
    return told


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    program = found(os.environ, Path.home())
    assert program is not None
    with ExitStack() as ending, Imitation() as imitation:

        def start(region: str) -> Provider:
            return ending.enter_context(Provider(program, config_of(imitation.url, region)))

        plugin = Plugin("1.2.3", start)
        server = grpc.server(ThreadPoolExecutor(8))
        add_ResourceProviderServicer_to_server(plugin, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Engine(ResourceProviderStub(channel))
        server.stop(grace=1).wait()


class TestCheck:
    pytestmark = REAL

    def test_what_the_validators_refuse_is_told_with_its_path(self, engine: Engine) -> None:
        _, faults = engine.check(VPC, {"cidrBlock": "10.0.0.0/8", "colour": "blue"})

        assert list(faults) == ["colour"]
        assert list(engine.check(VPC, {"cidrBlock": "10.0.0.0/8"})[1]) == ["cidr_block"]
        assert engine.check(VPC, {**NETWORK, "cidrBlock": UNKNOWN})[1] == {}

    def test_a_name_that_is_left_out_is_made_once_and_marked_as_made(self, engine: Engine) -> None:
        first, _ = engine.check(ROLE, {"assumeRolePolicy": TRUST})
        again, _ = engine.check(ROLE, {"assumeRolePolicy": TRUST}, first)
        given, _ = engine.check(ROLE, {"assumeRolePolicy": TRUST, "name": "mine"}, first)

        assert first["name"].startswith("it-")
        assert first["__defaults"] == ["name"]
        assert again == first
        assert (given["name"], given["__defaults"]) == ("mine", [])

    def test_what_this_provider_is_too_old_to_know_passes(self, engine: Engine) -> None:
        cluster = {
            "name": "acme",
            "roleArn": "arn:aws:iam::111122223333:role/c",
            "vpcConfig": {"subnetIds": ["subnet-1"]},
        }

        assert engine.check("aws:eks/cluster:Cluster", {**cluster, "deletionProtection": True})[1] == {}
        assert list(engine.check("aws:eks/cluster:Cluster", {**cluster, "protection": True})[1]) == ["protection"]


class TestLife:
    pytestmark = REAL

    def test_a_preview_makes_nothing_and_knows_nothing_that_only_aws_can_say(self, engine: Engine) -> None:
        id_, told = engine.create(VPC, NETWORK, preview=True)

        assert (id_, told["arn"], told["cidrBlock"]) == ("", UNKNOWN, "10.0.0.0/16")
        assert STATE not in told

    def test_what_was_made_is_found_again_changed_in_place_and_deleted(self, engine: Engine) -> None:
        id_, made = engine.create(VPC, NETWORK)
        other = {**NETWORK, "tags": {"team": "search"}}

        assert made["id"] == id_
        assert engine.read(VPC, made, NETWORK)[1] == NETWORK
        assert engine.diff(VPC, made, NETWORK, NETWORK).changes == rpc.DiffResponse.DIFF_NONE
        in_place = engine.diff(VPC, made, NETWORK, other)
        assert (in_place.changes, list(in_place.replaces)) == (rpc.DiffResponse.DIFF_SOME, [])
        assert "tags" in in_place.diffs
        changed = engine.update(VPC, made, other)
        assert changed["tags"] == {"team": "search"}
        assert engine.diff(VPC, changed, other, other).changes == rpc.DiffResponse.DIFF_NONE
        engine.delete(VPC, changed)
        assert engine.read(VPC, changed, other) == ({}, {})

    def test_what_somebody_else_changed_is_found_as_an_input(self, engine: Engine) -> None:
        _, made = engine.create(VPC, NETWORK)
        engine.update(VPC, made, {**NETWORK, "tags": {"team": "ml", "owner": "somebody"}})

        told, inputs = engine.read(VPC, made, NETWORK)

        assert inputs == {**NETWORK, "tags": {"team": "ml", "owner": "somebody"}}
        assert engine.diff(VPC, told, inputs, NETWORK).changes == rpc.DiffResponse.DIFF_SOME
        engine.delete(VPC, told)

    def test_what_cannot_change_is_replaced_and_a_name_by_hand_goes_first(self, engine: Engine) -> None:
        mine, _ = engine.check(ROLE, {"assumeRolePolicy": TRUST, "name": "by-hand"})
        made_up, _ = engine.check(ROLE, {"assumeRolePolicy": TRUST})
        results: list[tuple[list[str], bool]] = []
        for inputs in (mine, made_up):
            _, made = engine.create(ROLE, inputs)
            told = engine.diff(ROLE, made, inputs, {**inputs, "path": "/other/"})
            results.append((list(told.replaces), told.deleteBeforeReplace))
            engine.delete(ROLE, made)

        assert results == [(["path"], True), (["path"], False)]

    def test_what_aws_refuses_is_told_in_its_words(self, engine: Engine) -> None:
        with pytest.raises(grpc.RpcError, match=r"InvalidVpcID\.NotFound"):
            engine.create(SUBNET, {"vpcId": "vpc-0123456789abcdef0", "cidrBlock": "10.0.0.0/24"})


def test_a_refresh_takes_what_differs_and_leaves_the_rest_as_it_was_written() -> None:
    inputs = {"scalingConfig": {"desiredSize": 1, "maxSize": 4}, "policy": '{ "a": 1 }', "labels": {"a": "b"}}
    before = {"scalingConfig": {"desiredSize": 1, "maxSize": 4}, "policy": '{"a":1}', "labels": {"a": "b"}, "arn": "x"}
    now = {**before, "scalingConfig": {"desiredSize": 5, "maxSize": 4}, "labels": {"c": "d"}, "arn": "y"}

    assert refreshed(inputs, before, before) == inputs
    assert refreshed(inputs, before, now) == {
        "scalingConfig": {"desiredSize": 5, "maxSize": 4},
        "policy": '{ "a": 1 }',
        "labels": {"c": "d"},
    }


def test_a_state_goes_to_the_engine_as_a_secret_and_comes_back_whole() -> None:
    state = State({"id": "vpc-1", "count": 3, "tags": None}, b"\0private")
    sent = struct_of({"id": "vpc-1", "gone": None}, state)
    told = MessageToDict(sent)

    assert told.keys() == {"id", STATE}
    assert told[STATE][SIGNATURE] == SECRET_SIGNATURE
    assert state_of(struct({STATE: told[STATE]["value"]})) == state


def test_what_the_plugin_has_not_made_it_does_not_take_over() -> None:
    with pytest.raises(LookupError, match="takes over nothing"):
        state_of(struct({"id": "vpc-1"}))
