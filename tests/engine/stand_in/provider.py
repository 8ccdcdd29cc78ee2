"""A provider's side of the engine's protocol: checks and refuses as the real one would, and otherwise gives back.

The trap is a preview: what only AWS can say must come back as not known yet. A plain value would take the program down
paths that the real preview never sees.
"""
# ruff: noqa: ARG002, N802 - the methods are the protocol's

import base64
import secrets
from functools import partial
from threading import Lock
from typing import Any

import grpc
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pulumi._types import input_type_types
from pulumi.runtime.proto import plugin_pb2
from pulumi.runtime.proto import provider_pb2 as rpc
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderServicer
from pulumi.runtime.rpc import UNKNOWN

from ebbtide.recording.answers import ACCOUNT, answer_call
from tests.engine.stand_in.cloud import NODE_GROUP, Cloud, Refused, Thing, at, refused_inputs, replacing
from tests.engine.stand_in.sdk import Json, believable, classes, problems

_SHORT = {"securityGroup": "sg", "launchTemplate": "lt", "routeTable": "rtb", "internetGateway": "igw"}


class StandIn(ResourceProviderServicer):
    def __init__(self, package: str, version: str, cloud: Cloud) -> None:
        self._kubernetes, self._version, self._cloud = package == "kubernetes", version, cloud
        self._told: Json = {}
        self._lock = Lock()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._version)

    def Configure(self, request: rpc.ConfigureRequest, context: grpc.ServicerContext) -> rpc.ConfigureResponse:
        self._told = _plain(request.args)
        return rpc.ConfigureResponse(supportsPreview=True)

    def Invoke(self, request: rpc.InvokeRequest, context: grpc.ServicerContext) -> rpc.InvokeResponse:
        answer: Any = {"return": _struct(answer_call(request.tok, _plain(request.args)))}  # a keyword of Python's
        return rpc.InvokeResponse(**answer)

    def Check(self, request: rpc.CheckRequest, context: grpc.ServicerContext) -> rpc.CheckResponse:
        type_, name = _type(request.urn), request.urn.rsplit("::", 1)[1]
        inputs, arguments = _plain(request.news), classes(type_)[1]
        wrong = [*problems(arguments, inputs), *refused_inputs(type_, inputs)]
        named = inputs.setdefault("metadata", {}) if self._kubernetes else inputs
        if {"name", "namePrefix"}.isdisjoint(named) and (self._kubernetes or "name" in input_type_types(arguments)):
            before = at(_plain(request.olds), "metadata.name" if self._kubernetes else "name")
            named["name"] = before or f"{name}-{secrets.token_hex(4)[:7]}"
        failures = [rpc.CheckFailure(property=path, reason=reason) for path, reason in wrong]
        return rpc.CheckResponse(inputs=_struct(inputs), failures=failures)

    def Diff(self, request: rpc.DiffRequest, context: grpc.ServicerContext) -> rpc.DiffResponse:
        olds, news, type_ = _plain(request.old_inputs), _plain(request.news), _type(request.urn)
        changed = sorted(key for key in {*olds, *news} if olds.get(key) != news.get(key) and key != "__defaults")
        replaces = [path for path in replacing(type_, self._told) if at(olds, path) != at(news, path)]
        return rpc.DiffResponse(
            changes=rpc.DiffResponse.DIFF_SOME if changed else rpc.DiffResponse.DIFF_NONE,
            diffs=changed,
            replaces=sorted({path.split(".")[0] for path in replaces}),
            deleteBeforeReplace=self._kubernetes and "metadata.name" not in replaces,  # one name, one object
        )

    def Create(self, request: rpc.CreateRequest, context: grpc.ServicerContext) -> rpc.CreateResponse:
        type_, inputs = _type(request.urn), _plain(request.properties)
        thing = Thing(type_, "" if request.preview else _id(type_, inputs), inputs, {})
        if self._kubernetes and not request.preview and self._told.get("upsertExistingObjects") not in (True, "true"):
            self._refuse_existing(thing, context)
        return rpc.CreateResponse(id=thing.id, properties=self._made(thing, 1, context, preview=request.preview))

    def _refuse_existing(self, thing: Thing, context: grpc.ServicerContext) -> None:
        """One name, one object: another resource of the stack may have it still, or it was left behind."""
        if self._cloud.find(thing.type, thing.id) is not None:
            kind = thing.type.rsplit(":", 1)[1].lower() + "s"
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f'{kind} "{thing.inputs["metadata"]["name"]}" already exists')

    def Update(self, request: rpc.UpdateRequest, context: grpc.ServicerContext) -> rpc.UpdateResponse:
        thing = Thing(_type(request.urn), request.id, _plain(request.news), {})
        version = UNKNOWN if request.preview else _plain(request.olds).get("latestVersion", 0) + 1
        return rpc.UpdateResponse(properties=self._made(thing, version, context, preview=request.preview))

    def Read(self, request: rpc.ReadRequest, context: grpc.ServicerContext) -> rpc.ReadResponse:
        found = self._cloud.find(_type(request.urn), request.id)
        if found is None:
            return rpc.ReadResponse()
        return rpc.ReadResponse(id=found.id, properties=_struct(found.outputs), inputs=_struct(found.inputs))

    def Delete(self, request: rpc.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        try:
            with self._lock:  # it looks at what others delete
                self._cloud.remove(_type(request.urn), request.id)
        except Refused as refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))
        return empty_pb2.Empty()

    def _made(self, thing: Thing, version: Any, context: grpc.ServicerContext, *, preview: bool) -> Struct:
        says = partial(_says, thing, version)
        outputs = thing.inputs if self._kubernetes else believable(*classes(thing.type), thing.inputs, says)
        try:
            if not preview:
                self._cloud.put(thing._replace(outputs=outputs))
        except Refused as refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))
        return _struct(outputs)


def _says(thing: Thing, version: Any, name: str, kind: type) -> Any:
    """What AWS says of one thing: always the same, but for the number of a template's versions."""
    service, region = thing.type.split(":")[1].split("/")[0], "" if ":iam/" in thing.type else "us-east-1"
    known = {
        "arn": f"arn:aws:{service}:{region}:{ACCOUNT}:{thing.type.rsplit(':', 1)[1].lower()}/{thing.id}",
        "data": base64.b64encode(b"not a certificate").decode(),
        "endpoint": f"https://{thing.id}.example.com",
        "latestVersion": version,
        "name": f"eks-{thing.id}" if thing.type == NODE_GROUP else thing.id,
        "region": "us-east-1",
    }
    numbers = {int: 1, bool: False, float: 1.0}
    return known.get(name, numbers.get(kind, f"{name}-{thing.id}")) if thing.id else UNKNOWN


def _type(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


def _id(type_: str, inputs: Json) -> str:
    if type_.startswith("kubernetes:"):
        return "/".join(filter(None, (at(inputs, "metadata.namespace"), inputs["metadata"]["name"])))
    kind = type_.split("/")[1].split(":")[0]
    return inputs.get("name") or f"{_SHORT.get(kind, kind)}-0{secrets.token_hex(8)}"


def _plain(message: Any) -> Any:
    """As JSON. A property that is null is a property that is not given."""
    value: Any = MessageToDict(message) if isinstance(message, Struct) else message
    kind: type[object] = value.__class__
    if kind is dict:
        return {key: _plain(value[key]) for key in value if value[key] is not None}
    return list(map(_plain, value)) if kind is list else value


def _struct(value: Json) -> Struct:
    struct = Struct()
    struct.update(value)
    return struct
