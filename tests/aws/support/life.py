"""The life of a stack's AWS resources: made by the provider as the program registers them, seen again, deleted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ebbtide.recording.record import SECRET, RecordingMonitor, record_program
from ebbtide.recording.resources import Resource, short_type
from ebbtide.settings import StackSettings
from tests.aws.support.outputs import outputs_of_pulumi
from tests.aws.support.provider import Provider, State
from tests.aws.support.translation import terraform_type, translated

_PASSWORD = "a-password-of-32-letters-for-test"


@dataclass(frozen=True, slots=True)
class Thing:
    resource: Resource
    type: str  # Terraform's
    state: State


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """What a plan would do to a resource that is there."""

    type: str
    path: str
    resource: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.resource}, {self.path}: {self.before} -> {self.after}"


@dataclass
class World:
    """What is there, by URN, in the order of making, and what runs of the program after the first would change."""

    provider: Provider
    things: dict[str, Thing] = field(default_factory=dict[str, Thing])
    changes: list[Change] = field(default_factory=list[Change])
    runs: int = 0

    def run(self, settings: StackSettings) -> None:
        """The program, answered with what is there. Only the first run makes anything."""
        from infra.stack import compose  # pulls in both providers, which the table of lives does not need

        self.runs += 1
        record_program(lambda: compose(settings), stack=settings.stack, monitor=_Monitor(self))

    def destroy(self) -> int:
        """All of it, what the program protects and what would go with another resource too."""
        deleted = 0
        while self.things:
            _, thing = self.things.popitem()
            self.provider.delete(thing.type, thing.state)
            deleted += 1
        return deleted

    def answer(self, resource: Resource) -> Mapping[str, Any]:
        type_ = terraform_type(resource.type, self.provider.schemas)
        block = self.provider.schemas[type_]
        config = translated(_open(resource), block, {}).config
        if self.runs == 1:
            state = self.provider.make(type_, config, self.provider.plan(type_, config, None))
            self.things[resource.urn] = Thing(resource, type_, state)
        else:
            state = self._seen_again(self.things[resource.urn], config)
        return outputs_of_pulumi(state.values, block, resource.inputs)

    def _seen_again(self, thing: Thing, config: Mapping[str, Any]) -> State:
        shown = f"{short_type(thing.resource.type)} {thing.resource.name}"
        if (now := self.provider.read(thing.type, thing.state)) is None:
            self.changes.append(Change(thing.type, "", shown, "made", "gone"))
            return thing.state
        planned = self.provider.plan(thing.type, config, now)
        found = differences(now.values, planned.values)
        self.changes += [Change(thing.type, path, shown, repr(old), repr(new)) for path, old, new in found]
        return now


class _Monitor(RecordingMonitor):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        answer = super().RegisterResource(request)
        if request.custom and request.type.startswith("aws:"):
            outputs = self._world.answer(self.recorded[-1])
            answer.id = outputs["id"]
            answer.object.update(outputs)
        return answer


def _open(resource: Resource) -> Resource:
    """A recording keeps no secret; the provider wants one."""
    given = {key: _PASSWORD if value == SECRET else value for key, value in resource.inputs.items()}
    return replace(resource, inputs=given)


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """By the path, what is not equal; of lists that are as long as each other, what is not equal in its place."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", after)
        for name in sorted(old.keys() | new.keys()):
            yield from differences(old.get(name), new.get(name), f"{path}.{name}" if path else name)
    elif isinstance(before, list) and isinstance(after, list) and len(cast("Any", before)) == len(cast("Any", after)):
        for old, new in zip(cast("list[Any]", before), cast("list[Any]", after), strict=True):
            yield from differences(old, new, path)
    elif before != after:
        yield path, before, after
