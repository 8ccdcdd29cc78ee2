"""Pulumi's protocol for the provider of a package, answered by Terraform's: each of its calls is one of the other's.

Check is ValidateResourceTypeConfig, Diff is PlanResourceChange, Read is ReadResource, and Create, Update and Delete are
ApplyResourceChange. Functions are answered by the recorder.
"""
# ruff: noqa: ARG002, N802 - the methods are the protocol's

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2
from pulumi.runtime.proto import provider_pb2 as rpc
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderServicer
from pulumi.runtime.proto.status_pb2 import Status

from ebbtide.recording.answers import answer_call
from ebbtide.recording.record import plain
from ebbtide.recording.resources import Resource
from tests.aws.plugin.refreshed import refreshed
from tests.aws.plugin.wire import state_of, struct_of
from tests.aws.support.differences import EXCUSED
from tests.aws.support.life import differences
from tests.aws.support.outputs import outputs_of_pulumi
from tests.aws.support.provider import Planned, Provider, Refused, State
from tests.aws.support.schema import Block
from tests.aws.support.translation import Translated, names_of_inputs, terraform_type, translated

DEFAULTS = "__defaults"
"""The names of inputs that were filled in: the names of such resources may differ, of two there can be two."""
_RANDOM = 7
_INPUTS = {"name": "name", "replication_group_id": "replicationGroupId"}


@dataclass(frozen=True, slots=True)
class Kind:
    type: str  # Terraform's
    block: Block

    def outputs(self, state: State, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """What this provider is too old to know is answered as it was given."""
        return {**_public(inputs), **outputs_of_pulumi(state.values, self.block, inputs)}


class Plugin(ResourceProviderServicer):
    """`start` brings the provider up for a region."""

    def __init__(self, version: str, start: Callable[[str], Provider]) -> None:
        self._version, self._start = version, start
        self._running: Provider | None = None

    @property
    def _provider(self) -> Provider:
        assert self._running is not None, "the engine configures a provider before it asks for resources"
        return self._running

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._version)

    def Configure(self, request: rpc.ConfigureRequest, context: grpc.ServicerContext) -> rpc.ConfigureResponse:
        self._running = self._start(plain(request.args)["region"])
        return rpc.ConfigureResponse(supportsPreview=True)

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """What has begun comes to its end."""
        return empty_pb2.Empty()

    def Invoke(self, request: rpc.InvokeRequest, context: grpc.ServicerContext) -> rpc.InvokeResponse:
        answer: Any = {"return": struct_of(answer_call(request.tok, plain(request.args)))}  # a keyword of Python's
        return rpc.InvokeResponse(**answer)

    def Check(self, request: rpc.CheckRequest, context: grpc.ServicerContext) -> rpc.CheckResponse:
        kind, inputs, olds = self._kind(request.urn), plain(request.news), plain(request.olds)
        told = _translated(request.urn, inputs, kind)
        made = [_INPUTS[name] for name in told.unnamed]
        random = request.randomSeed or secrets.token_bytes(16)
        for key in made:
            digits = hashlib.sha256(random + request.urn.encode()).hexdigest()[:_RANDOM]
            inputs[key] = olds.get(key) or f"{request.urn.rsplit('::', 1)[1]}-{digits}"
        told = _translated(request.urn, inputs, kind)
        wrong = [each for each in told.complaints if (kind.type, each.path) not in EXCUSED]
        wrong = wrong or self._provider.invalid(kind.type, told.config)
        failures = [rpc.CheckFailure(property=each.path, reason=each.text) for each in wrong]
        return rpc.CheckResponse(inputs=struct_of({**inputs, DEFAULTS: made}), failures=failures)

    def Diff(self, request: rpc.DiffRequest, context: grpc.ServicerContext) -> rpc.DiffResponse:
        kind, news, olds = self._kind(request.urn), plain(request.news), plain(request.old_inputs)
        prior = state_of(request.olds)
        config = _config(request.urn, news, kind)
        planned: Planned = self._asked(context, self._provider.plan, kind.type, config, prior)
        changed = {path.split(".")[0] for path, _, _ in differences(prior.values, planned.values)}
        keys = names_of_inputs({**olds, **news}, kind.block)
        named = {name: key for key, name in keys.items()}
        newer = {key for key in _public({**olds, **news}) if key not in keys and olds.get(key) != news.get(key)}
        replaces = sorted(named.get(each, each) for each in changed & planned.replacing)
        by_hand = "name" in news and "name" not in news.get(DEFAULTS, []) and "name" in kind.block.attributes
        return rpc.DiffResponse(
            changes=rpc.DiffResponse.DIFF_SOME if changed or newer else rpc.DiffResponse.DIFF_NONE,
            diffs=sorted({named.get(each, each) for each in changed} | newer),
            replaces=replaces,
            # As Pulumi's bridge does it: a name that somebody chose can be there once.
            deleteBeforeReplace=bool(replaces) and by_hand,
        )

    def Create(self, request: rpc.CreateRequest, context: grpc.ServicerContext) -> rpc.CreateResponse:
        kind, inputs = self._kind(request.urn), plain(request.properties)
        config = _config(request.urn, inputs, kind)
        planned = self._asked(context, self._provider.plan, kind.type, config, None)
        if request.preview:
            return rpc.CreateResponse(properties=struct_of(kind.outputs(planned, inputs)))
        try:
            made = self._provider.make(kind.type, config, planned)
        except Refused as refused:
            _half_done(context, refused, kind, inputs)
        return rpc.CreateResponse(id=made.values["id"], properties=struct_of(kind.outputs(made, inputs), made))

    def Update(self, request: rpc.UpdateRequest, context: grpc.ServicerContext) -> rpc.UpdateResponse:
        kind, inputs, prior = self._kind(request.urn), plain(request.news), state_of(request.olds)
        config = _config(request.urn, inputs, kind)
        state = planned = self._asked(context, self._provider.plan, kind.type, config, prior)
        if request.preview:
            return rpc.UpdateResponse(properties=struct_of(kind.outputs(planned, inputs)))
        if any(differences(prior.values, planned.values)):
            try:
                state = self._provider.change(kind.type, config, prior, planned)
            except Refused as refused:
                _half_done(context, refused, kind, inputs)
        return rpc.UpdateResponse(properties=struct_of(kind.outputs(state, inputs), state))

    def Read(self, request: rpc.ReadRequest, context: grpc.ServicerContext) -> rpc.ReadResponse:
        kind, inputs, before = self._kind(request.urn), plain(request.inputs), state_of(request.properties)
        now = self._asked(context, self._provider.read, kind.type, before)
        if now is None:
            return rpc.ReadResponse()
        outputs = kind.outputs(now, inputs)
        again = {**inputs, **refreshed(_public(inputs), kind.outputs(before, inputs), outputs)}
        return rpc.ReadResponse(id=request.id, properties=struct_of(outputs, now), inputs=struct_of(again))

    def Delete(self, request: rpc.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        kind = self._kind(request.urn)
        self._asked(context, self._provider.delete, kind.type, state_of(request.properties))
        return empty_pb2.Empty()

    def _kind(self, urn: str) -> Kind:
        type_ = terraform_type(_type(urn), self._provider.schemas)
        return Kind(type_, self._provider.schemas[type_])

    def _asked(self, context: grpc.ServicerContext, ask: Callable[..., Any], *about: Any) -> Any:
        try:
            return ask(*about)
        except Refused as refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))


def _half_done(context: grpc.ServicerContext, refused: Refused, kind: Kind, inputs: Mapping[str, Any]) -> NoReturn:
    """What is there nevertheless goes into the state, so that the next run looks at it again."""
    if refused.left is not None and refused.left.values.get("id"):
        there = rpc.ErrorResourceInitFailed(
            id=refused.left.values["id"],
            properties=struct_of(kind.outputs(refused.left, inputs), refused.left),
            inputs=struct_of(inputs),
            reasons=[str(refused)],
        )
        status = Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(refused))
        status.details.add().Pack(there)
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, str(refused))
    raise AssertionError("abort does not return")


def _translated(urn: str, inputs: Mapping[str, Any], kind: Kind) -> Translated:
    type_, name = _type(urn), urn.rsplit("::", 1)[1]
    resource = Resource(urn=urn, type=type_, name=name, parent="", custom=True, inputs=_public(inputs))
    return translated(resource, kind.block, {})


def _config(urn: str, inputs: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    return _translated(urn, inputs, kind).config


def _public(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in inputs.items() if not key.startswith("__")}


def _type(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]
