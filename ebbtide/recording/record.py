"""Run the program against a recorder of its registrations, without engine, cloud or network.

Pulumi's mocks show only a resource's inputs. This monitor answers the requests, so it also sees protection,
dependencies, ignored fields, parents and providers, and refuses a name used twice as the engine does.

Traps:

- Pulumi passes each request to a thread pool, so the order of registration would differ between runs. Here the pool
  runs each call immediately on the calling thread.
- Pulumi keeps its state in context variables and in the current event loop. Each recording has its own context and
  loop, so recordings do not affect each other or a program under test.
- Secrets reach a monitor in the clear. They are replaced as the request is read, and never kept.
"""

import asyncio
import gc
import runpy
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import mocks, rpc, settings
from pulumi.runtime.proto import resource_pb2

from ebbtide.recording.answers import answer_call, identifier, outputs_of
from ebbtide.recording.lean_sdk import constant_of, lean_sdk
from ebbtide.recording.resources import Resource
from ebbtide.settings.model import StackSettings

PROJECT = "ebbtide"
SECRET = "[secret]"
UNKNOWN = "[unknown]"
_STACK_TYPE = "pulumi:pulumi:Stack"
SIGNATURE = "4dabf18193072939515e22adb298388d"  # the key that marks special values in Pulumi's wire format
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"
_RESOURCE_SIGNATURE = "5cf8f73096256a8f31e491e813e4eb8e"
_TURNS = 50  # of the event loop; more than lie between two requests that wait for each other

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DuplicateResource(ValueError):
    """Two resources of one type share a name and a parent type, so the engine could not tell them apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Registered resources, each after what it depends on, and exported outputs (secrets replaced)."""

    resources: tuple[Resource, ...]
    outputs: Mapping[str, Any]


def record(settings: StackSettings) -> tuple[Resource, ...]:
    """The resources of a customer's stack, each after what it depends on."""
    with without_garbage_collection():
        compose = _imported_program(settings)
        return record_program(lambda: compose(settings), stack=settings.stack).resources


def _imported_program(settings: StackSettings) -> Callable[[StackSettings], object]:
    """Import the program with its providers, which takes half a second, and freeze the imported objects: a garbage
    collection of them takes as long as the import.
    """
    is_first = "infra.stack" not in sys.modules
    from infra.stack import compose

    if settings.cluster.context is None:
        # Otherwise `compose` imports it, after the freeze.
        import infra.eks  # noqa: F401 # pyright: ignore[reportUnusedImport] - for what it loads
    if is_first:
        gc.freeze()
    return compose


@contextmanager
def without_garbage_collection() -> Generator[None]:
    """Turn garbage collection off: the SDKs' half a million live objects would cost a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def record_program(
    program: Callable[[], object], *, stack: str = "dev", monitor: "RecordingMonitor | None" = None
) -> Recording:
    """Run `program` as the body of a Pulumi program, and raise what it raises. Another monitor may answer more."""
    with lean_sdk():
        return copy_context().run(_run, program, stack, monitor or RecordingMonitor())


def record_directory(
    directory: Path, config: Mapping[str, str], *, secret_keys: Sequence[str] = (), stack: str = "dev"
) -> Recording:
    """Run a program's directory by path, as the engine does: only that directory is added to the module path.

    `config` has full keys ("ebbtide:customer") and texts; objects are JSON, as the engine passes them.
    """

    def program() -> None:
        pulumi.runtime.set_all_config(dict(config), list(secret_keys))
        runpy.run_path(str(directory), run_name="__main__")

    with without_garbage_collection():  # the program turns it off for its process, and this process continues
        return record_program(program, stack=stack)


def _run(program: Callable[[], object], stack: str, monitor: "RecordingMonitor") -> Recording:
    settings.ROOT.set(None)
    settings.configure(
        settings.Settings(project=PROJECT, stack=stack, monitor=monitor, engine=mocks.MockEngine(None), dry_run=False)
    )
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_AtOnce())
    # After a failure asyncio would print a page about each pending part of the graph.
    loop.set_exception_handler(lambda _loop, _context: None)
    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(lambda: _run_dry(program, monitor)))
    finally:
        _abandon_tasks(loop)
        loop.close()
    return Recording(resources=_dependencies_first(monitor.recorded), outputs=monitor.outputs)


def _dependencies_first(resources: Sequence[Resource]) -> tuple[Resource, ...]:
    """Return the resources sorted by URN, except that each follows its parent, provider and dependencies.

    The order of registration depends on the addresses of the SDK's futures.
    """
    by_urn = {resource.urn: resource for resource in sorted(resources, key=lambda resource: resource.urn)}
    earlier = {
        urn: [other for other in (resource.parent, resource.provider, *resource.depends_on) if other in by_urn]
        for urn, resource in by_urn.items()
    }
    return tuple(by_urn[urn] for urn in TopologicalSorter(earlier).static_order())


async def _run_dry(program: Callable[[], object], monitor: "RecordingMonitor") -> None:
    """Run the program, then keep the loop turning as long as requests arrive.

    Pulumi's own wait walks all pending outputs for each one that ends, which takes a third of the total time.
    """
    program()
    requests = -1
    while requests != monitor.requests:
        requests = monitor.requests
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def _abandon_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """After a failure, cancel registrations that wait for outputs which never come, so that asyncio does not warn."""
    for task in asyncio.all_tasks(loop):
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))


class _AtOnce(ThreadPoolExecutor):
    """A thread pool, as the event loop requires, that runs each call immediately on the caller's thread."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # the caller waits for it and raises it
            future.set_exception(error)
        return future


class RecordingMonitor(mocks.MockMonitor):
    """Answer the program's requests and keep them as `Resource`s."""

    def __init__(self) -> None:
        super().__init__(_NoMocks())
        self.recorded: list[Resource] = []
        self.outputs: Mapping[str, Any] = {}
        self.requests = 0
        self._urns: set[str] = set()

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        self.requests += 1
        urn = urn_of(request.parent, request.type, request.name)
        if request.type == _STACK_TYPE:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        if urn in self._urns:
            raise DuplicateResource(f"{request.type} {request.name!r} is registered twice")
        self._urns.add(urn)
        inputs = plain(request.object)
        self.recorded.append(_resource(urn, request, inputs))
        answer = struct_pb2.Struct()
        answer.CopyFrom(request.object)
        if not request.custom:
            return resource_pb2.RegisterResourceResponse(urn=urn, object=answer)
        _fill(answer, outputs_of(request.type, request.name, inputs))
        id_ = identifier(request.type, request.name)
        return resource_pb2.RegisterResourceResponse(urn=urn, id=id_, object=answer)

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Record an existing resource, of which only the id is known without a cluster."""
        self.requests += 1
        urn = urn_of(request.parent, request.type, request.name)
        self.recorded.append(
            Resource(
                urn=urn,
                type=request.type,
                name=request.name,
                parent="" if f"::{_STACK_TYPE}::" in request.parent else request.parent,
                custom=True,
                inputs={},
                provider=request.provider.rsplit("::", 1)[0],
                depends_on=tuple(sorted(request.dependencies)),
                read=True,
            )
        )
        answer = struct_pb2.Struct()
        answer.update(outputs_of(request.type, request.id, plain(request.properties)))
        return resource_pb2.ReadResourceResponse(urn=urn, id=request.id, properties=answer)

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        self.requests += 1
        if f"::{_STACK_TYPE}::" in request.urn:
            self.outputs = plain(request.outputs)
        return empty_pb2.Empty()

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        answer = struct_pb2.Struct()
        answer.update(answer_call(request.tok, plain(request.args)))
        response = resource_pb2.ResourceInvokeResponse()
        getattr(response, "return").CopyFrom(answer)  # the field is named as a keyword
        return response


class _NoMocks(mocks.Mocks):
    """Never called: the monitor answers every request."""

    def call(self, args: mocks.MockCallArgs) -> Any:
        raise AssertionError(f"the monitor answers {args.token} by itself")

    def new_resource(self, args: mocks.MockResourceArgs) -> Any:
        raise AssertionError(f"the monitor registers {args.typ} by itself")


def urn_of(parent: str, type_: str, name: str) -> str:
    """The engine's URN: the types of all parents except the stack, then the resource's own type."""
    lineage = parent.split("::")[2] if parent else _STACK_TYPE
    qualified = type_ if lineage == _STACK_TYPE else f"{lineage}${type_}"
    return f"urn:pulumi:{settings.get_stack()}::{settings.get_project()}::{qualified}::{name}"


def plain(message: struct_pb2.Struct) -> dict[str, Any]:
    """A request's properties as plain values, by name: whole numbers are ints, secrets and unknowns are replaced."""
    return {key: _plain_value(value) for key, value in sorted(message.fields.items())}


def _plain_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "string_value":
        text = value.string_value
        return UNKNOWN if text == rpc.UNKNOWN else constant_of(text) or text
    return value.bool_value if kind == "bool_value" else None


def _plain_struct(message: struct_pb2.Struct) -> Any:
    signature = message.fields[SIGNATURE].string_value if SIGNATURE in message.fields else ""
    if signature == SECRET_SIGNATURE:
        return SECRET
    if signature == _RESOURCE_SIGNATURE:
        return message.fields["urn"].string_value
    return plain(message)


def _fill(answer: struct_pb2.Struct, outputs: Mapping[str, Any]) -> None:
    """Add outputs; inputs of the program stay, secrets included, unless the output is an object."""
    for key, value in outputs.items():
        if key not in answer.fields or isinstance(value, dict):
            answer.update({key: cast("Any", value)})


def _resource(urn: str, request: Any, inputs: Mapping[str, Any]) -> Resource:
    top = f"::{_STACK_TYPE}::" in request.parent
    return Resource(
        urn=urn,
        type=request.type,
        name=request.name,
        parent="" if top else request.parent,
        custom=request.custom,
        inputs=inputs,
        provider=request.provider.rsplit("::", 1)[0],
        depends_on=tuple(sorted(request.dependencies)),
        ignore_changes=tuple(request.ignoreChanges),
        protect=request.protect,
        retain_on_delete=request.retainOnDelete,
        aliases=tuple(alias.urn for alias in request.aliases if alias.urn) or tuple(request.aliasURNs),
        deleted_with=request.deletedWith,
        secret_outputs=tuple(request.additionalSecretOutputs),
        delete_timeout=request.customTimeouts.delete,
    )
