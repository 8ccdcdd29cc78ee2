"""The engine's plan: the output of `pulumi preview --json`, read as the changes of a page.

Only the engine knows the current state of the cloud, so a matching plan replaces the changes found offline. It must
come from the same stack, project, program and settings, and from a successful preview. The format is
`ShowPreviewDigest` in pulumi/pulumi, pkg/backend/display/json.go: the config, and steps with op, urn, oldState,
newState, replaceReasons and detailedDiff. Unchanged resources have no steps, except the stack itself.

Traps: a replacement may have up to three steps of one URN, whose order says whether the old one goes first; usually the
CLI writes one step, and the provider's rule decides. The CLI masks secrets, but older state may hold them as marked
objects: those are masked here too. A value that is unknown before the update is a special text.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from ebbtide.preview.changes import FOLLOWS, GOES_WITH, changes_between
from ebbtide.preview.document import ChangeKind, FieldChange, ResourceChange
from ebbtide.preview.fields import inputs_differ_at
from ebbtide.preview.replacing import goes_first
from ebbtide.recording.record import PROJECT, SECRET, SECRET_SIGNATURE, SIGNATURE
from ebbtide.recording.resources import Resource, short_type
from ebbtide.recording.values import mapping
from ebbtide.settings import StackInvalid, StackSettings
from ebbtide.settings.file.contents import FileReader
from ebbtide.settings.load import settings_of_texts
from ebbtide.text.counts import verb
from ebbtide.text.files import MOST_OF_A_DOCUMENT, read_file
from ebbtide.text.one_line import printable

Step: TypeAlias = Mapping[str, Any]

_REPLACING = {"replace", "create-replacement", "delete-replaced"}
_KINDS = {
    "create": ChangeKind.CREATE,
    "import": ChangeKind.CREATE,
    "update": ChangeKind.UPDATE,
    "delete": ChangeKind.DELETE,
    "discard": ChangeKind.DELETE,
}
_STACK_TYPE = "pulumi:pulumi:Stack"
_NOT_KNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # source: pulumi/pulumi, pkg/resource/stack/deployment.go
_KNOWN_LATER = "(known after the update)"
_WANTED = "wanted the output of `pulumi preview --json`"


class PlanUnusable(ValueError):
    """The file is not a plan, or not this stack's. The message is one line, even if a name in the file has several."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """`steps` of one stack in the engine's order; `config` of the run, values as texts."""

    file: str
    stack: str
    project: str
    steps: tuple[Step, ...]
    config: Mapping[str, object]

    @property
    def stack_exists(self) -> bool:
        """True if the engine updated the stack before."""
        return any(step["op"] != "create" and _type(str(step["urn"])) == _STACK_TYPE for step in self.steps)


def read_plan(path: Path) -> EnginePlan:
    """Raises: `PlanUnusable`."""
    try:
        document: object = json.loads(read_file(path, MOST_OF_A_DOCUMENT).decode("utf-8"))
    except OSError as error:
        raise PlanUnusable(f"{path}: {error.strerror or error}; {_WANTED}") from None
    except (ValueError, RecursionError):  # of JSON and of UTF-8
        raise PlanUnusable(f"{path}: found something that is not one JSON document; {_WANTED}") from None
    return plan_of(document, str(path))


def plan_of(document: object, file: str) -> EnginePlan:
    """Raises: `PlanUnusable`."""
    steps = mapping(document).get("steps")
    if not isinstance(steps, list):
        raise PlanUnusable(f"{file}: steps: found no list of steps; {_WANTED}")
    step_maps = [mapping(step) for step in cast("list[object]", steps)]
    parts = [str(step.get("urn", "")).split("::") for step in step_maps]
    places = {(part[0].removeprefix("urn:pulumi:"), part[1]) for part in parts if len(part) >= 4}
    states = [mapping(step.get(key)) for step in step_maps for key in ("oldState", "newState")]
    parts_of_states = [str(state["urn"]).split("::") for state in states if "urn" in state]
    complete = all(len(part) >= 4 for part in (*parts, *parts_of_states))
    if not complete or not all(isinstance(step.get("op"), str) for step in step_maps):
        raise PlanUnusable(f"{file}: steps: found a step without an op or a URN; {_WANTED}")
    if len(places) != 1:
        raise PlanUnusable(f"{file}: steps: found {len(places)} stacks, wanted the steps of one; {_WANTED}")
    stack, project = next(iter(places))
    diagnostics = map(mapping, _list(mapping(document).get("diagnostics")))
    failed = any(diagnostic.get("severity") == "error" for diagnostic in diagnostics)
    if failed or not mapping(mapping(document).get("changeSummary")):
        raise PlanUnusable(f"{file}: the preview that wrote it failed, so it holds half of a plan; ignored")
    config = mapping(mapping(document).get("config"))
    return EnginePlan(file=file, stack=stack, project=project, steps=tuple(step_maps), config=config)


def planned_changes(
    plan: EnginePlan, settings: StackSettings, registered: Sequence[Resource], reader: FileReader
) -> tuple[ResourceChange, ...]:
    """The changes that the engine plans. `registered` are the resources that this program registers for the stack.

    Raises: `PlanUnusable` for a plan of another stack, project or version.
    """
    _require_same_program(plan, settings.stack, registered)
    _require_same_settings(plan, settings, reader)
    by_urn: dict[str, list[Step]] = defaultdict(list)
    for step in plan.steps:
        by_urn[str(step["urn"])].append(step)
    going = [state for steps in by_urn.values() if (state := _state(steps, "oldState")) is not None]
    components = {resource.urn: resource for resource in (*going, *registered) if not resource.custom}
    changes = [_change(steps, components) for urn, steps in by_urn.items() if not _is_stack_or_provider(urn)]
    return tuple(change for change in changes if change is not None)


def _require_same_program(plan: EnginePlan, stack: str, registered: Sequence[Resource]) -> None:
    if plan.project != PROJECT:
        raise PlanUnusable(f"{plan.file}: a plan of project {plan.project}, wanted {PROJECT}; ignored")
    if plan.stack != stack:
        raise PlanUnusable(f"{plan.file}: a plan of stack {plan.stack}, wanted {stack}; ignored")
    known_urns = {resource.urn for resource in registered}
    unknown_urns = [
        str(step["urn"])
        for step in plan.steps
        if step["op"] in {"same", "create", "update", "replace"}
        and not _is_stack_or_provider(str(step["urn"]))
        and str(step["urn"]).split("::")[2].startswith("ebbtide:components:")  # others belong to the team's own program
        and step["urn"] not in known_urns
    ]
    if unknown_urns:
        raise PlanUnusable(
            f"{plan.file}: a plan of another version: {_name(unknown_urns[0])} is in it and not in this program; "
            "ignored"
        )


def _require_same_settings(plan: EnginePlan, settings: StackSettings, reader: FileReader) -> None:
    """A plan without config is accepted."""
    if not plan.config:
        return
    try:
        planned = settings_of_texts(plan.config, stack=settings.stack, file=plan.file, reader=reader)
    except StackInvalid:
        raise PlanUnusable(
            f"{plan.file}: a plan of another version: its settings are not valid here; ignored"
        ) from None
    compared = [name for name in StackSettings.model_fields if name != "region_set"]  # the region itself is
    differing = [name for name in compared if getattr(planned, name) != getattr(settings, name)]
    if differing:
        raise PlanUnusable(
            f"{plan.file}: a plan of another version: {', '.join(map(_key, differing))} "
            f"{verb(len(differing), 'is', 'are')} not as the stack file says; ignored"
        )


def _key(field: str) -> str:
    """The field's key in the stack file."""
    return "redisPassword" if field == "redis_password_set" else StackSettings.model_fields[field].alias or field


def _is_stack_or_provider(urn: str) -> bool:
    type_ = _type(urn)
    return type_ == _STACK_TYPE or type_.startswith("pulumi:providers:")


def _change(steps: Sequence[Step], components: Mapping[str, Resource]) -> ResourceChange | None:
    ops = [str(step["op"]) for step in steps]
    replacing = bool(_REPLACING.intersection(ops))
    kind = ChangeKind.REPLACE if replacing else next((_KINDS[op] for op in ops if op in _KINDS), None)
    if kind is None:
        return None
    before = _state(steps, "oldState")
    after = _state(steps, "newState")
    urn = str(steps[0]["urn"])
    offline = _offline_view(before, after, kind, components)
    named = dict.fromkeys(str(key) for step in steps for key in _list(step.get("replaceReasons")))
    reasons = tuple(_reason(key, steps) for key in named)
    return ResourceChange(
        kind=kind,
        type=short_type(urn.split("::")[2]),
        name=_name(urn),
        component="" if offline is None else offline.component,
        fields=_fields(offline, before, after, steps) if kind in {ChangeKind.UPDATE, ChangeKind.REPLACE} else (),
        reasons=reasons,
        lowers=replacing and _old_goes_first(ops, before, after),
        urn=urn,
        protected=before is not None and before.protect,
    )


def _reason(key: str, steps: Sequence[Step]) -> str:
    with_ = next((str(mapping(step.get("oldState")).get(GOES_WITH) or "") for step in steps), "")
    return f"{key}{FOLLOWS}{_name(with_)}" if key == GOES_WITH and with_.count("::") >= 3 else key


def _old_goes_first(ops: Sequence[str], before: Resource | None, after: Resource | None) -> bool:
    if "delete-replaced" not in ops:
        return before is not None and after is not None and goes_first(before, after)
    later = [ops.index(op) for op in ("create-replacement", "replace") if op in ops]
    return not later or ops.index("delete-replaced") < min(later)


def _offline_view(
    before: Resource | None, after: Resource | None, kind: ChangeKind, components: Mapping[str, Resource]
) -> ResourceChange | None:
    """The resource's change in the offline comparison: its component, and fields with masked values."""
    if before is not None and after is not None:  # a resource that matches by an alias may have had another URN
        before = replace(before, urn=after.urn, parent=after.parent)
    old = [] if before is None or kind is ChangeKind.CREATE else [before]
    new = [] if after is None or kind is ChangeKind.DELETE else [after]
    frame = list(components.values())
    changes = changes_between([*frame, *old], [*frame, *new])
    return changes[0] if changes else None


def _fields(
    offline: ResourceChange | None, before: Resource | None, after: Resource | None, steps: Sequence[Step]
) -> tuple[FieldChange, ...]:
    """Changed inputs, then paths that only the provider reports: drift changes no input."""
    shown = () if offline is None else offline.fields
    old, new = (mapping(side and side.inputs) for side in (before, after))
    paths = dict.fromkeys(path for step in steps for path in mapping(step.get("detailedDiff")))
    provider_paths = [path for path in paths if not inputs_differ_at(path, old, new)]
    return (*shown, *[FieldChange(path=path, before="", after="") for path in provider_paths])


def _state(steps: Sequence[Step], key: str) -> Resource | None:
    state = next((mapping(step[key]) for step in steps if step.get(key)), None)
    if state is None:
        return None
    urn = str(state.get("urn", steps[0]["urn"]))
    parent = str(state.get("parent", ""))
    return Resource(
        urn=urn,
        type=str(state.get("type", _type(urn))),
        name=_name(urn),
        parent="" if f"::{_STACK_TYPE}::" in parent else parent,
        custom=state.get("custom") is not False,
        inputs=mapping(_without_secrets(state.get("inputs"))),
        protect=state.get("protect") is True,
    )


def _without_secrets(value: Any) -> Any:
    if value == _NOT_KNOWN:
        return _KNOWN_LATER
    if isinstance(value, Mapping):
        properties = cast("Mapping[str, Any]", value)
        if properties.get(SIGNATURE) == SECRET_SIGNATURE:
            return SECRET
        return {key: _without_secrets(item) for key, item in properties.items()}
    return [_without_secrets(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def _type(urn: str) -> str:
    return urn.split("::")[2].rsplit("$", 1)[-1]


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
